package mcp

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// object gives the members of a JSON object by their exact keys, where the standard
// decoder would take any case; nil for what is none. Of a key that is given twice
// the last counts. The values are parts of raw.
func object(raw json.RawMessage) map[string]json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if len(raw) < 2 || raw[0] != '{' || !json.Valid(raw) {
		return nil
	}
	o := map[string]json.RawMessage{}
	for at := next(raw, 1); raw[at] != '}'; {
		end := skip(raw, at)
		key := text(raw[at:end])
		at = next(raw, next(raw, end)+1) // over the colon
		end = skip(raw, at)
		o[key] = raw[at:end:end]
		if at = next(raw, end); raw[at] == ',' {
			at = next(raw, at+1)
		}
	}
	return o
}

// next gives the first place at or behind one that is no blank.
func next(raw []byte, at int) int {
	for raw[at] == ' ' || raw[at] == '\n' || raw[at] == '\r' || raw[at] == '\t' {
		at++
	}
	return at
}

// skip gives the place behind the value that begins at one; raw is valid.
func skip(raw []byte, at int) int {
	switch raw[at] {
	case '"':
		return skipText(raw, at)
	case '{', '[':
		for depth := 0; ; at++ {
			switch raw[at] {
			case '"':
				at = skipText(raw, at) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return at + 1
				}
			}
		}
	}
	for at < len(raw) && bytes.IndexByte([]byte(" \n\r\t,]}"), raw[at]) < 0 {
		at++
	}
	return at
}

func skipText(raw []byte, at int) int {
	for at++; raw[at] != '"'; at++ {
		if raw[at] == '\\' {
			at++
		}
	}
	return at + 1
}

// text gives a JSON string; "" for what is none.
func text(raw json.RawMessage) string {
	if n := len(raw) - 1; n > 0 && raw[0] == '"' && raw[n] == '"' && !bytes.ContainsFunc(raw[1:n], special) {
		return string(raw[1:n])
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// special reports whether a character of a JSON string may not stand for itself.
func special(c rune) bool { return c == '"' || c == '\\' || c < ' ' || c == utf8.RuneError }

// flag gives a JSON boolean; nil for what is none.
func flag(raw json.RawMessage) *bool {
	var b *bool
	if json.Unmarshal(raw, &b) != nil {
		return nil
	}
	return b
}

// items gives the members of a JSON list; none for what is none.
func items(raw json.RawMessage) []json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if len(raw) < 2 || raw[0] != '[' || !json.Valid(raw) {
		return nil
	}
	var list []json.RawMessage
	for at := next(raw, 1); raw[at] != ']'; {
		end := skip(raw, at)
		list = append(list, raw[at:end:end])
		if at = next(raw, end); raw[at] == ',' {
			at = next(raw, at+1)
		}
	}
	return list
}
