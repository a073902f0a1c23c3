package postgres

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// quoted stands before a key that the server cannot hold as text.
const quoted = "\x01"

// keyText returns a key in a form that the server can hold as text: a key with a NUL or with bytes that are no UTF-8 is
// quoted. Two keys never have the same form.
func keyText(key string) string {
	if utf8.ValidString(key) && !strings.Contains(key, "\x00") && !strings.HasPrefix(key, quoted) {
		return key
	}
	return quoted + strconv.QuoteToASCII(key)
}

// parseKey returns the key of which keyText returned the form.
func parseKey(form string) string {
	if text, ok := strings.CutPrefix(form, quoted); ok {
		if key, err := strconv.Unquote(text); err == nil {
			return key
		}
	}
	return form
}

// keyTexts returns the forms of keys.
func keyTexts(keys []string) []string {
	forms := make([]string, len(keys))
	for i, k := range keys {
		forms[i] = keyText(k)
	}
	return forms
}
