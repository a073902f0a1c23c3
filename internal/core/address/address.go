// Package address finds the parts of a text that may lead somewhere: web addresses, addresses of other schemes, hosts
// and e-mail addresses. In doubt it reports an address, because its callers use it to decide which data leaves the
// bot. Package policy decides whether an address is allowed.
package address

import (
	"encoding/json"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/net/publicsuffix"

	"ravenbot/internal/core/text"
)

// webPattern matches web addresses in a text. Brackets of Markdown end them; a pair of parentheses belongs to them.
var webPattern = text.Pattern(`(?i:https?)://[^\s<>"'` + "`" + `\\\[\](){}|^]+` +
	`(?:\([^\s()]*\)[^\s<>"'` + "`" + `\\\[\](){}|^]*)*`)

// punctuation may follow an address without belonging to it.
const punctuation = ".,;:!?"

// In returns the addresses in a text, web addresses first, without trailing punctuation.
func In(s string) []string {
	if !strings.ContainsAny(s, ".:/。．｡") && !strings.Contains(strings.ToLower(s), localhost) {
		return nil
	}
	var list []string
	rest := webPattern().ReplaceAllStringFunc(s, func(u string) string {
		list = append(list, strings.TrimRight(u, punctuation))
		return " "
	})
	for _, word := range strings.FieldsFunc(rest, endsWord) {
		if word = strings.TrimRight(word, punctuation); leads(word) {
			list = append(list, word)
		}
	}
	return list
}

// Named returns the literal addresses of a text, with and without trailing punctuation, which may belong to them, and
// the hosts of its web addresses.
func Named(s string) []string {
	list := append(In(s), webPattern().FindAllString(s, -1)...)
	for _, a := range slices.Clone(list) {
		if u := Web(a); u != nil {
			list = append(list, u.Host, u.Hostname())
		}
	}
	return list
}

// Web returns the URL of a text that is exactly one web address, or nil.
func Web(s string) *url.URL {
	if webPattern().FindString(s) != s || s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" {
		return nil
	}
	return u
}

// Hosts returns the hosts that an address of In leads to, in lower case.
func Hosts(a string) []string {
	if u := Web(a); u != nil {
		return []string{strings.ToLower(u.Hostname())}
	}
	return slices.DeleteFunc(pieces(strings.ToLower(withPlainDots(a))), func(p string) bool { return !isHost(p) })
}

// Texts returns all texts in a JSON value, at any depth, and the names of fields that hold an address. It returns none
// for invalid JSON.
func Texts(raw json.RawMessage) []string {
	var value any
	if json.Unmarshal(raw, &value) != nil {
		return nil
	}
	var texts []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			texts = append(texts, v)
		case []any:
			for _, one := range v {
				walk(one)
			}
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				if len(In(name)) > 0 {
					texts = append(texts, name)
				}
				walk(v[name])
			}
		}
	}
	walk(value)
	return texts
}

// endsWord reports whether a character ends a word that may be an address.
func endsWord(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune("<>\"'`\\[](){}|^,;", r)
}

// leads reports whether a word could lead somewhere. A file path does not, because its first part is no host.
func leads(word string) bool {
	low := strings.ToLower(withPlainDots(word))
	if strings.Contains(low, "//") || strings.Contains(low, "http:") || strings.Contains(low, "https:") {
		return true
	}
	if ip, err := netip.ParseAddr(low); err == nil && ip.IsValid() {
		return true
	}
	before, _, _ := strings.Cut(low, "/")
	return slices.ContainsFunc(pieces(before), isHost)
}

// withPlainDots returns a text in which dots replace the characters that browsers treat as dots in a host (UTS 46).
func withPlainDots(s string) string {
	return strings.NewReplacer("。", ".", "．", ".", "｡", ".").Replace(s)
}

// pieces returns the parts of a word that may be hosts.
func pieces(word string) []string {
	return strings.FieldsFunc(word, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) && r != '.' && r != '-' && r != '_'
	})
}

const localhost = "localhost"

// reserved are top-level domains that are not public (RFC 6761, RFC 7686, and ICANN's internal of 2024).
var reserved = []string{"example", "internal", "invalid", "local", localhost, "onion", "test"}

// isHost reports whether a lower-case text is the name or the IP address of a host. Its last part must be a top-level
// domain, which excludes names of files and methods.
func isHost(s string) bool {
	s = strings.Trim(s, ".")
	at := strings.LastIndexByte(s, '.')
	if at < 0 {
		return s == localhost
	}
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	last := s[at+1:]
	if slices.Contains(reserved, last) || strings.ContainsFunc(last, func(r rune) bool { return r > unicode.MaxASCII }) {
		return true
	}
	suffix, isPublic := publicsuffix.PublicSuffix(s)
	return isPublic || strings.Contains(suffix, ".") // the latter are hosts of providers, such as github.io
}
