package mcp

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// jsonObject gives the members of a JSON object by their exact keys, where the standard
// decoder would take any case; nil for what is none. Of a key that is given twice
// the last counts. The values are parts of raw.
func jsonObject(raw json.RawMessage) map[string]json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if len(raw) < 2 || raw[0] != '{' || !json.Valid(raw) {
		return nil
	}
	o := map[string]json.RawMessage{}
	for at := skipBlanks(raw, 1); raw[at] != '}'; {
		end := skipValue(raw, at)
		key := jsonString(raw[at:end])
		at = skipBlanks(raw, skipBlanks(raw, end)+1) // over the colon
		end = skipValue(raw, at)
		o[key] = raw[at:end:end]
		if at = skipBlanks(raw, end); raw[at] == ',' {
			at = skipBlanks(raw, at+1)
		}
	}
	return o
}

// skipBlanks gives the first place at or behind one that is no blank.
func skipBlanks(raw []byte, at int) int {
	for raw[at] == ' ' || raw[at] == '\n' || raw[at] == '\r' || raw[at] == '\t' {
		at++
	}
	return at
}

// skipValue gives the place behind the value that begins at one; raw is valid.
func skipValue(raw []byte, at int) int {
	switch raw[at] {
	case '"':
		return skipString(raw, at)
	case '{', '[':
		for depth := 0; ; at++ {
			switch raw[at] {
			case '"':
				at = skipString(raw, at) - 1
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

func skipString(raw []byte, at int) int {
	for at++; raw[at] != '"'; at++ {
		if raw[at] == '\\' {
			at++
		}
	}
	return at + 1
}

// jsonString gives a JSON string; "" for what is none.
func jsonString(raw json.RawMessage) string {
	if n := len(raw) - 1; n > 0 && raw[0] == '"' && raw[n] == '"' && !bytes.ContainsFunc(raw[1:n], needsDecoding) {
		return string(raw[1:n])
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// needsDecoding reports whether a character of a JSON string may not stand for itself.
func needsDecoding(c rune) bool { return c == '"' || c == '\\' || c < ' ' || c == utf8.RuneError }

// jsonBool gives a JSON boolean; nil for what is none.
func jsonBool(raw json.RawMessage) *bool {
	var b *bool
	if json.Unmarshal(raw, &b) != nil {
		return nil
	}
	return b
}

// jsonList gives the members of a JSON list; none for what is none.
func jsonList(raw json.RawMessage) []json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if len(raw) < 2 || raw[0] != '[' || !json.Valid(raw) {
		return nil
	}
	var list []json.RawMessage
	for at := skipBlanks(raw, 1); raw[at] != ']'; {
		end := skipValue(raw, at)
		list = append(list, raw[at:end:end])
		if at = skipBlanks(raw, end); raw[at] == ',' {
			at = skipBlanks(raw, at+1)
		}
	}
	return list
}
