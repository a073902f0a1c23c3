package oauth

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"ravenbot/internal/core/text"
)

type challenge struct {
	bearer            bool     // it asks for a bearer token
	insufficientScope bool     // the token lacks scopes
	metadata          string   // address of the resource's metadata (RFC 9728, 5.1), or ""
	scopes            []string // scopes that the server names
}

// readChallenge reads a refusal. It returns nil for other responses, including a 403 that more scopes would not help.
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
			c.metadata = cmp.Or(c.metadata, ch.params["resource_metadata"])
			c.scopes = union(c.scopes, scopesOf(ch.params["scope"]))
		}
	}
	// A plain 403 is a decision about the person. Another token would not change it.
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

// headerWord matches the next word of a header: a scheme, or a parameter with a quoted or plain value.
var headerWord = text.Pattern(`^[ \t,]*([\w!#$%&'*+.^` + "`" + `|~-]+)` +
	`(?:[ \t]*(=)[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^ \t,"][^ \t,]*)?))?`)

// parseChallenges reads a header up to its first mistake.
func parseChallenges(header string) []authChallenge {
	var list []authChallenge
	for {
		word := headerWord().FindStringSubmatch(header)
		if word == nil {
			return list
		}
		header = header[len(word[0]):]
		name, value := word[1], cmp.Or(quotedPair().ReplaceAllString(word[3], "$1"), word[4])
		switch last := len(list) - 1; {
		case word[2] == "":
			list = append(list, authChallenge{name, map[string]string{}})
		case strings.HasPrefix(header, `"`): // its closing quote is missing
			return list
		case last >= 0:
			// The first parameter of a name counts.
			if _, given := list[last].params[strings.ToLower(name)]; !given {
				list[last].params[strings.ToLower(name)] = value
			}
		}
	}
}

var quotedPair = text.Pattern(`(?s)\\(.)`)

// scopesOf splits a scope parameter. It drops words with characters that no scope may have (RFC 6749, 3.3).
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

func union(a, b []string) []string {
	list := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

func covers(a, b []string) bool {
	return !slices.ContainsFunc(b, func(s string) bool { return !slices.Contains(a, s) })
}
