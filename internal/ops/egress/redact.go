package egress

import (
	"net/url"
	"strings"

	"ravenbot/internal/core/text"
)

const mask = "***"

var (
	userinfo    = text.Pattern(`://[^/?#]*@`)
	anyUserinfo = text.Pattern(`://.*@`)
	secretName  = text.Pattern(SecretNamePattern)
)

// SecretNamePattern matches names of parameters whose values are secrets.
const SecretNamePattern = `(?i)(key|token|secret|passw|pwd|auth|sig|credential|session|^code$)`

// RedactURL returns an address as it may be shown: without its user and password, and without the values of query
// keys that look like secrets. It works on text, because an address that cannot be parsed must not leak secrets
// either.
func RedactURL(s string) string {
	if !strings.Contains(s, "://") {
		return s
	}
	users := userinfo()
	// A password with a slash or a question mark does not end where userinfo expects it to.
	if _, err := url.Parse(s); err != nil || strings.HasPrefix(s, "postgres") {
		users = anyUserinfo()
	}
	head, query, ok := strings.Cut(users.ReplaceAllString(s, "://"+mask+"@"), "?")
	if !ok {
		return head
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		// A percent-encoded key is a key all the same.
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if value != "" && secretName().MatchString(name) {
			pairs[i] = name + "=" + mask
		}
	}
	return head + "?" + strings.Join(pairs, "&")
}

// RedactArg returns an argument of a command, behind another one, as it may be shown: without the value of a flag such as
// --api-key. A reference such as ${TOKEN} is safe to show.
func RedactArg(before, arg string) string {
	flag, value, joined := strings.Cut(arg, "=")
	switch {
	case strings.Contains(arg, "${"):
	case isSecretFlag(flag) && joined && value != "":
		return flag + "=" + mask
	case isSecretFlag(before) && !strings.Contains(before, "=") && !strings.HasPrefix(arg, "-"):
		return mask
	case strings.HasPrefix(strings.ToLower(arg), "authorization:"):
		return "Authorization: " + mask
	}
	return arg
}

// isSecretFlag reports whether a flag is named like one that takes a secret.
func isSecretFlag(flag string) bool {
	return strings.HasPrefix(flag, "-") && secretName().MatchString(flag)
}
