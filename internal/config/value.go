package config

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"time"
)

const mask = "***"

// Secret is a value that prints as *** wherever it is printed, logged or marshalled. Only Reveal gives it away.
type Secret string

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String returns ***, or nothing for an empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return mask
}

// GoString is String, for %#v.
func (s Secret) GoString() string { return s.String() }

// Format prints String for every verb: fmt would show the bytes to a verb that does not suit strings.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// MarshalJSON marshals String.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// LogValue logs String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// URL is an address that may carry a password or a key: both print as ***. Only Reveal gives them away.
type URL string

// Reveal returns the address as it is to be used.
func (u URL) Reveal() string { return string(u) }

var (
	userinfo = regexp.MustCompile(`://[^/?#]*@`)
	keyName  = regexp.MustCompile(`(?i)(key|token|secret|passw|pwd|auth|sig|credential|session|^code$)`)
)

// String returns the address without its password and without the values of query keys that look like secrets.
// It works on text, since what is no valid URL must not leak either.
func (u URL) String() string {
	s := userinfo.ReplaceAllString(string(u), "://"+mask+"@")
	head, query, ok := strings.Cut(s, "?")
	if !ok {
		return s
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if value != "" && keyName.MatchString(name) {
			pairs[i] = name + "=" + mask
		}
	}
	return head + "?" + strings.Join(pairs, "&")
}

// GoString is String, for %#v.
func (u URL) GoString() string { return u.String() }

// Format prints String for every verb.
func (u URL) Format(f fmt.State, _ rune) { io.WriteString(f, u.String()) }

// MarshalJSON marshals String.
func (u URL) MarshalJSON() ([]byte, error) { return marshalPlain(u.String()) }

// LogValue logs String.
func (u URL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// Duration is a time.Duration written like "90s" or "1h30m".
type Duration time.Duration

// Std returns the duration as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String writes the duration without parts that are zero: 15m rather than 15m0s.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalJSON marshals String.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// Arg is one argument of a command. It prints as it was written, so that ${TOKEN} stays a name, and as *** where it
// was written out behind a flag such as --api-key.
type Arg struct{ value, shown string }

// PlainArg is an argument that holds no secret, for callers that build commands themselves.
func PlainArg(s string) Arg { return Arg{s, s} }

// Reveal returns the argument as it is to be used.
func (a Arg) Reveal() string { return a.value }

// String returns the argument as it may be shown.
func (a Arg) String() string { return a.shown }

// GoString is String, for %#v.
func (a Arg) GoString() string { return a.shown }

// Format prints String for every verb.
func (a Arg) Format(f fmt.State, _ rune) { io.WriteString(f, a.shown) }

// MarshalJSON marshals String.
func (a Arg) MarshalJSON() ([]byte, error) { return marshalPlain(a.shown) }

// Args is a list of arguments.
type Args []Arg

// Reveal returns the arguments as they are to be used.
func (a Args) Reveal() []string {
	out := make([]string, len(a))
	for i, arg := range a {
		out[i] = arg.value
	}
	return out
}

// maskFlags hides what was written out behind a flag that looks like it takes a secret, and passwords in URLs.
func (a Args) maskFlags() {
	for i, arg := range a {
		flag, value, joined := strings.Cut(arg.shown, "=")
		switch secret := strings.HasPrefix(flag, "-") && keyName.MatchString(flag); {
		case strings.Contains(arg.shown, "${"):
		case secret && joined && value != "":
			a[i].shown = flag + "=" + mask
		case i > 0 && flagTakesSecret(a[i-1].value) && !strings.HasPrefix(arg.shown, "-"):
			a[i].shown = mask
		case strings.Contains(arg.shown, "://"):
			a[i].shown = URL(arg.shown).String()
		case strings.HasPrefix(strings.ToLower(arg.shown), "authorization:"):
			a[i].shown = "Authorization: " + mask
		}
	}
}

func flagTakesSecret(flag string) bool {
	return strings.HasPrefix(flag, "-") && !strings.Contains(flag, "=") && keyName.MatchString(flag)
}

// Env is the environment of an MCP server, by variable name.
type Env map[string]Secret

// Headers are the headers sent to an MCP server, by name.
type Headers map[string]Secret

// marshalPlain leaves <, > and & readable: these texts go to terminals, not into pages.
func marshalPlain(s string) ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return nil, err
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), nil
}
