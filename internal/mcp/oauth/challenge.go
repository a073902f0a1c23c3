package oauth

import (
	"net/http"
	"strings"
)

// challenge is what a server says in a refusal.
type challenge struct {
	bearer            bool     // it asks for a bearer token
	insufficientScope bool     // the token lacks scopes
	metadata          string   // address of the resource's metadata (RFC 9728, 5.1); "": not given
	scopes            []string // that the server names; empty: none
}

// readChallenge reads a refusal. It returns nil if the response is none. A 403 is a refusal only if the server says
// that more scopes would help.
func readChallenge(resp *http.Response) *challenge {
	if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
		return nil
	}
	c := &challenge{}
	for _, header := range resp.Header.Values("WWW-Authenticate") {
		for _, ch := range parseChallenges(header) {
			if !strings.EqualFold(ch.scheme, "bearer") {
				continue
			}
			c.bearer = true
			c.insufficientScope = c.insufficientScope || ch.params["error"] == "insufficient_scope"
			if c.metadata == "" {
				c.metadata = ch.params["resource_metadata"]
			}
			c.scopes = union(c.scopes, scopesOf(ch.params["scope"]))
		}
	}
	// A plain 403 is a decision about this person, which another token would not change.
	if resp.StatusCode == http.StatusForbidden && !c.insufficientScope {
		return nil
	}
	return c
}

// authChallenge is one challenge of a WWW-Authenticate header (RFC 9110, 11.6.1).
type authChallenge struct {
	scheme string
	params map[string]string // by lower-case name; the first of a name counts
}

// parseChallenges reads as much of a header as is well formed. What follows a mistake is left out,
// as it cannot be told where the next challenge begins.
func parseChallenges(header string) []authChallenge {
	var list []authChallenge
	p := headerParser{header}
	for {
		p.skip(" \t,")
		name := p.token()
		if name == "" {
			return list
		}
		if p.equals() { // a parameter, also where its challenge is missing
			value, ok := p.value()
			if !ok {
				return list
			}
			// A repeated parameter must not override the one that was read first.
			if n := len(list); n > 0 {
				key := strings.ToLower(name)
				if _, given := list[n-1].params[key]; !given {
					list[n-1].params[key] = value
				}
			}
			continue
		}
		list = append(list, authChallenge{name, map[string]string{}})
	}
}

// headerParser holds the rest of a header.
type headerParser struct{ rest string }

// skip leaves out the characters of a set.
func (w *headerParser) skip(set string) { w.rest = strings.TrimLeft(w.rest, set) }

// token reads a token, or the padded text that some schemes have instead.
func (w *headerParser) token() string {
	n := strings.IndexFunc(w.rest, func(c rune) bool { return !isTokenChar(c) })
	if n < 0 {
		n = len(w.rest)
	}
	t := w.rest[:n]
	w.rest = w.rest[n:]
	return t
}

// isTokenChar reports whether a character may stand in a token (RFC 9110, 5.6.2).
func isTokenChar(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		strings.ContainsRune("!#$%&'*+-.^_`|~", c)
}

// equals consumes an equals sign and reports whether there was one.
func (w *headerParser) equals() bool {
	rest, ok := strings.CutPrefix(strings.TrimLeft(w.rest, " \t"), "=")
	if ok {
		w.rest = strings.TrimLeft(rest, " \t")
	}
	return ok
}

// value reads a token or a quoted string, without its quotes and escapes. It returns false where
// the closing quote is missing.
func (w *headerParser) value() (string, bool) {
	quoted, ok := strings.CutPrefix(w.rest, `"`)
	if !ok {
		n := strings.IndexAny(w.rest, " \t,")
		if n < 0 {
			n = len(w.rest)
		}
		v := w.rest[:n]
		w.rest = w.rest[n:]
		return v, true
	}
	var b strings.Builder
	for i := 0; i < len(quoted); i++ {
		switch quoted[i] {
		case '"':
			w.rest = quoted[i+1:]
			return b.String(), true
		case '\\':
			if i++; i == len(quoted) {
				return "", false
			}
		}
		b.WriteByte(quoted[i])
	}
	return "", false
}

// scopesOf splits a scope parameter. It leaves out words with characters that no scope may have (RFC 6749, 3.3).
func scopesOf(s string) []string {
	var list []string
	for _, word := range strings.Fields(s) {
		bad := strings.ContainsFunc(word, func(c rune) bool { return c < 0x21 || c > 0x7e || c == '"' || c == '\\' })
		if !bad {
			list = union(list, []string{word})
		}
	}
	return list
}

// union returns a and the elements of b that are not in a, in order.
func union(a, b []string) []string {
	list := append([]string(nil), a...)
	for _, s := range b {
		if !covers(list, []string{s}) {
			list = append(list, s)
		}
	}
	return list
}

// covers reports whether every element of b is in a.
func covers(a, b []string) bool {
	have := map[string]bool{}
	for _, s := range a {
		have[s] = true
	}
	for _, s := range b {
		if !have[s] {
			return false
		}
	}
	return true
}
