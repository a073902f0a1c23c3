package invoke

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ravenbot/internal/core/text"
)

// Limits of the description of JSON.
const (
	maxShapeDepth = 6
	maxPaths      = 400 // that are counted; fewer may be shown
	maxRows       = 20
)

// shapeNode describes all values of a JSON text that have the same path of keys.
type shapeNode struct {
	path   string
	types  map[string]int
	minLen int // length of the arrays here
	maxLen int
	rows   [][2]int // byte ranges of the first elements
}

// shape describes a JSON text; its nodes are in the order in which their paths first occur.
type shape struct {
	text   string
	d      *json.Decoder
	nodes  []*shapeNode
	byPath map[string]*shapeNode
}

// jsonHead returns the shape of valid JSON and the first rows of its longest array.
func jsonHead(s, id string, size int) string {
	note := fmt.Sprintf("\n[JSON of %d bytes, of which this is the shape and a part; "+
		"result_read with id %q reads all of it, and searches it]", len(s), id)
	room := size - len(note)
	if room < 4*minHead {
		return headAndTail(s, id, size)
	}
	o := shape{text: s, d: json.NewDecoder(strings.NewReader(s)), byPath: map[string]*shapeNode{}}
	o.d.UseNumber()
	o.readValue("", 0)
	shape := o.describe(room / 2)
	return shape + o.sample(room-len(shape)) + note
}

// readValue reads one value from the decoder and counts it, with all that it contains.
func (o *shape) readValue(path string, depth int) {
	token, err := o.d.Token()
	if err != nil {
		return // cannot happen: the text is valid JSON
	}
	s := o.node(path, depth)
	if depth > maxShapeDepth {
		path = "" // nested values are skipped, not described
	}
	switch token {
	case json.Delim('{'):
		s.countType("object")
		for o.d.More() {
			key, err := o.d.Token()
			if err != nil {
				return
			}
			name, _ := key.(string)
			o.readValue(path+"."+keyName(name), depth+1)
		}
		_, _ = o.d.Token()
	case json.Delim('['):
		s.countType("array")
		n := 0
		for o.d.More() {
			// The offset is after the previous token: compactRow removes comma and blanks.
			begin := int(o.d.InputOffset())
			o.readValue(path+"[]", depth+1)
			if n++; len(s.rows) < maxRows && s.types["array"] == 1 {
				s.rows = append(s.rows, [2]int{begin, int(o.d.InputOffset())})
			}
		}
		_, _ = o.d.Token()
		if s.types["array"] == 1 {
			s.minLen = n
		}
		s.minLen, s.maxLen = min(s.minLen, n), max(s.maxLen, n)
	default:
		s.countType(scalarType(token))
	}
}

// node returns the node of a path. For one too deep, or one too many, it returns a node that
// is not kept.
func (o *shape) node(path string, depth int) *shapeNode {
	if s := o.byPath[path]; s != nil && depth <= maxShapeDepth {
		return s
	}
	s := &shapeNode{path: path, types: map[string]int{}}
	if depth <= maxShapeDepth && len(o.nodes) < maxPaths {
		o.byPath[path] = s
		o.nodes = append(o.nodes, s)
	}
	return s
}

// countType counts a value of a JSON type.
func (s *shapeNode) countType(kind string) { s.types[kind]++ }

// scalarType returns the JSON Schema type of a token.
func scalarType(token json.Token) string {
	switch v := token.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return "number"
		}
		return "integer"
	}
	return "null"
}

// keyName returns a key as part of a path; one with special characters is quoted.
func keyName(key string) string {
	if key != "" && !strings.ContainsFunc(key, func(c rune) bool {
		return c <= ' ' || strings.ContainsRune(`."[]:,`, c)
	}) && len(key) <= 60 {
		return key
	}
	return strconv.Quote(text.Shorten(text.OneLine(key), maxNameChars))
}

// describe returns the shape in words, in at most room bytes.
func (o *shape) describe(room int) string {
	var b strings.Builder
	for n, s := range o.nodes {
		line := s.describe() + "\n"
		more := fmt.Sprintf("- and %d other keys\n", len(o.nodes)-n)
		if b.Len()+len(line)+len(more) > room {
			if b.Len()+len(more) <= room {
				b.WriteString(more)
			}
			break
		}
		b.WriteString(line)
	}
	return b.String()
}

// describe returns one line on the node: its path, and the types of its values.
func (s *shapeNode) describe() string {
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(s.types)) {
		n := s.types[kind]
		word := kind
		switch {
		case kind == "array" && s.minLen == s.maxLen:
			word = fmt.Sprintf("array of %d", s.maxLen)
		case kind == "array":
			word = fmt.Sprintf("array of %d to %d", s.minLen, s.maxLen)
		}
		if n > 1 {
			word += fmt.Sprintf(" (%d times)", n)
		}
		kinds = append(kinds, word)
	}
	path := strings.TrimPrefix(s.path, ".")
	if path == "" {
		path = "all of it"
	}
	return "- " + path + ": " + strings.Join(kinds, " or ")
}

// sample returns the first elements of the longest array or, without arrays, the beginning
// of the text, in at most room bytes.
func (o *shape) sample(room int) string {
	var best *shapeNode
	for _, s := range o.nodes {
		if len(s.rows) > 0 && (best == nil || s.maxLen > best.maxLen) {
			best = s
		}
	}
	if best == nil { // no arrays: the whole text is the only row
		best = &shapeNode{rows: [][2]int{{0, len(o.text)}}}
	}
	title := "First of " + strings.TrimPrefix(best.path+"[]", ".") + ":\n"
	if best.maxLen == 0 {
		title = "It begins:\n"
	}
	if len(title)+minHead > room {
		return ""
	}
	var b strings.Builder
	b.WriteString(title)
	for n, at := range best.rows {
		row := compactRow(o.text[at[0]:at[1]])
		left := room - b.Len() - len("…\n")
		// Only the first row may be cut: half a row behind whole ones says little.
		if len(row) > left {
			if n > 0 || left < 1 {
				break
			}
			row = text.Cut(row, left) + "…"
		}
		b.WriteString(row + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// compactRow returns an element without white space and without the comma before it.
func compactRow(raw string) string {
	raw = strings.TrimLeft(raw, " \t\r\n,")
	var b bytes.Buffer
	if json.Compact(&b, []byte(raw)) != nil {
		return strings.TrimSpace(raw)
	}
	return b.String()
}
