package invoke

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Limits of what is told of the shape of JSON.
const (
	maxShapeDepth = 6
	maxPaths      = 400 // that are counted; the first of them are shown
	maxRows       = 20
)

// shapeNode is a place in JSON: all values that are reached by the same keys.
type shapeNode struct {
	path   string
	types  map[string]int
	minLen int // length of the arrays here
	maxLen int
	rows   [][2]int // where the first elements are in the text
}

// shape is the shape of JSON, in the order in which its places come first.
type shape struct {
	text   string
	d      *json.Decoder
	nodes  []*shapeNode
	byPath map[string]*shapeNode
}

// jsonHead shows the shape of valid JSON and the first rows of its longest array.
func jsonHead(text, id string, size int) string {
	note := fmt.Sprintf("\n[JSON of %d bytes, of which this is the shape and a part; result_read with id %q reads all of it, and searches it]", len(text), id)
	room := size - len(note)
	if room < 4*minHead {
		return headAndTail(text, id, size)
	}
	o := shape{text: text, d: json.NewDecoder(strings.NewReader(text)), byPath: map[string]*shapeNode{}}
	o.d.UseNumber()
	o.readValue("", 0)
	shape := o.describe(room / 2)
	return shape + o.sample(room-len(shape)) + note
}

// readValue reads one value.
func (o *shape) readValue(path string, depth int) {
	token, err := o.d.Token()
	if err != nil {
		return // it was valid, so there is always one
	}
	s := o.node(path, depth)
	if depth > maxShapeDepth {
		path = "" // nobody is told of what is below
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

// node finds the place of a path. What is too deep, or one too many, is counted nowhere.
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

func (s *shapeNode) countType(kind string) { s.types[kind]++ }

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

// keyName writes a key in a path: as it is where that is clear.
func keyName(key string) string {
	if key != "" && !strings.ContainsFunc(key, func(c rune) bool {
		return c <= ' ' || strings.ContainsRune(`."[]:,`, c)
	}) && len(key) <= 60 {
		return key
	}
	return strconv.Quote(oneLine(key, 60))
}

// describe tells the shape in so many bytes.
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

// sample shows the first elements of the longest array, or the beginning of it all, in
// so many bytes.
func (o *shape) sample(room int) string {
	var best *shapeNode
	for _, s := range o.nodes {
		if len(s.rows) > 0 && (best == nil || s.maxLen > best.maxLen) {
			best = s
		}
	}
	if best == nil {
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
		if len(row) > left {
			if n > 0 || left < 1 {
				break
			}
			row = cut(row, left) + "…"
		}
		b.WriteString(row + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// compactRow writes an element without blanks and the comma before it.
func compactRow(raw string) string {
	raw = strings.TrimLeft(raw, " \t\r\n,")
	var b bytes.Buffer
	if json.Compact(&b, []byte(raw)) != nil {
		return strings.TrimSpace(raw)
	}
	return b.String()
}
