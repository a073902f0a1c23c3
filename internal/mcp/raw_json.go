package mcp

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// jsonObject returns the members of a JSON object by their exact keys; nil if raw is not
// an object. The standard decoder accepts keys of any case, so that a server could smuggle
// a second value past whoever checks the first (the class of CVE-2026-27896). The last of
// duplicate keys counts. The values share the memory of raw.
func jsonObject(raw json.RawMessage) map[string]json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if !bytes.HasPrefix(raw, []byte("{")) || !json.Valid(raw) {
		return nil
	}
	o := map[string]json.RawMessage{}
	for at := skipBlanks(raw, 1); raw[at] != '}'; {
		end := skipValue(raw, at)
		key := jsonString(raw[at:end])
		at = skipBlanks(raw, skipBlanks(raw, end)+1) // behind the colon
		end = skipValue(raw, at)
		o[key] = raw[at:end:end]
		if at = skipBlanks(raw, end); raw[at] == ',' {
			at = skipBlanks(raw, at+1)
		}
	}
	return o
}

// skipBlanks returns the index of the first byte from at on that is not white space; raw is
// valid JSON, and so never ends there.
func skipBlanks(raw []byte, at int) int {
	for raw[at] == ' ' || raw[at] == '\n' || raw[at] == '\r' || raw[at] == '\t' {
		at++
	}
	return at
}

// skipValue returns the index behind the value that begins at one; raw is valid JSON.
func skipValue(raw []byte, at int) int {
	switch raw[at] {
	case '"':
		return skipString(raw, at)
	case '{', '[':
		// Strings are skipped as a whole: brackets in them do not count.
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

// skipString returns the index behind the string that begins at one.
func skipString(raw []byte, at int) int {
	for at++; raw[at] != '"'; at++ {
		if raw[at] == '\\' {
			at++
		}
	}
	return at + 1
}

// jsonString returns the value of a JSON string; "" if raw is not one.
func jsonString(raw json.RawMessage) string {
	// Most strings contain nothing to decode; the decoder would allocate several times.
	if n := len(raw) - 1; n > 0 && raw[0] == '"' && raw[n] == '"' && !bytes.ContainsFunc(raw[1:n], needsDecoding) {
		return string(raw[1:n])
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// needsDecoding reports whether a character of a JSON string may stand for another one.
func needsDecoding(c rune) bool { return c == '"' || c == '\\' || c < ' ' || c == utf8.RuneError }

// jsonBool returns the value of a JSON boolean; nil if raw is not one.
func jsonBool(raw json.RawMessage) *bool {
	var b *bool
	if json.Unmarshal(raw, &b) != nil {
		return nil
	}
	return b
}

// jsonList returns the members of a JSON array; nil if raw is not one. They share the
// memory of raw.
func jsonList(raw json.RawMessage) []json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if !bytes.HasPrefix(raw, []byte("[")) || !json.Valid(raw) {
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
