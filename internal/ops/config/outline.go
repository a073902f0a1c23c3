package config

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// scope is an open object or list, and the position in it.
type scope struct {
	list     bool
	wantName bool
	name     string
	index    int
}

// scanOutline scans text up to an offset and returns the key that it ends in. It stops early, with tooDeep set, at
// the bracket that opens one level too many. It does not validate: it serves texts that cannot be parsed, or must not
// be parsed yet.
func scanOutline(text []byte, upTo int) (offset int, key string, tooDeep bool) {
	var open []scope
	for i := 0; i < upTo; i++ {
		switch text[i] {
		case '"':
			end := stringEnd(text, i)
			// In an object, the first string after "{" or "," is a name.
			if n := len(open); n > 0 && open[n-1].wantName && end <= upTo {
				open[n-1].name, open[n-1].wantName = unquote(text[i:end]), false
			}
			i = end - 1
		case '/':
			i += commentLength(text[i:])
		case '[', '{':
			if len(open) == maxDepth {
				return i, scopePath(open), true
			}
			open = append(open, scope{list: text[i] == '[', wantName: text[i] == '{'})
		case ']', '}':
			open = open[:max(len(open)-1, 0)]
		case ',':
			if n := len(open); n > 0 {
				open[n-1].wantName = !open[n-1].list
				open[n-1].index++
			}
		}
	}
	return upTo, scopePath(open), false
}

// scopePath returns the key path of the open scopes.
func scopePath(open []scope) string {
	path := ""
	for _, l := range open {
		switch {
		case l.list:
			path += fmt.Sprintf("[%d]", l.index)
		case l.name != "":
			path = joinKey(path, l.name)
		}
	}
	return path
}

// stringEnd returns the offset behind the string that starts at an offset; the end of the text where it is not closed.
func stringEnd(text []byte, start int) int {
	for i := start + 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// unquote returns the value of a string literal, or "" where it is malformed.
func unquote(literal []byte) string {
	var s string
	if json.Unmarshal(literal, &s) != nil {
		return ""
	}
	return s
}

// offsetOf returns the byte offset of a line and column. It is the inverse of position.
func offsetOf(text []byte, line, column int) int {
	offset := 0
	for ; line > 1; line-- {
		next := bytes.IndexByte(text[offset:], '\n')
		if next < 0 {
			break
		}
		offset += next + 1
	}
	return min(offset+max(column-1, 0), len(text))
}

// commentLength returns how many bytes to skip at a slash so that the loop's next step is behind the comment.
func commentLength(text []byte) int {
	end := -1
	switch {
	case bytes.HasPrefix(text, []byte("//")):
		end = bytes.IndexByte(text, '\n')
	case bytes.HasPrefix(text, []byte("/*")):
		if end = bytes.Index(text[2:], []byte("*/")); end >= 0 {
			end += 3
		}
	default:
		return 0
	}
	if end < 0 {
		return len(text)
	}
	return end
}
