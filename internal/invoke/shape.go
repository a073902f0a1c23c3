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
	shapeDepth = 6
	mostPaths  = 400 // that are counted; the first of them are shown
	mostRows   = 20
)

// spot is a place in JSON: all values that are reached by the same keys.
type spot struct {
	path  string
	types map[string]int
	least int // length of the arrays here
	most  int
	rows  [][2]int // where the first elements are in the text
}

// outline is the shape of JSON, in the order in which its places come first.
type outline struct {
	text  string
	d     *json.Decoder
	spots []*spot
	by    map[string]*spot
}

// jsonHead shows the shape of valid JSON and the first rows of its longest array.
func jsonHead(text, id string, size int) string {
	note := fmt.Sprintf("\n[JSON of %d bytes, of which this is the shape and a part; result_read with id %q reads all of it, and searches it]", len(text), id)
	room := size - len(note)
	if room < 4*leastHead {
		return ends(text, id, size)
	}
	o := outline{text: text, d: json.NewDecoder(strings.NewReader(text)), by: map[string]*spot{}}
	o.d.UseNumber()
	o.value("", 0)
	shape := o.words(room / 2)
	return shape + o.sample(room-len(shape)) + note
}

// value reads one value.
func (o *outline) value(path string, depth int) {
	token, err := o.d.Token()
	if err != nil {
		return // it was valid, so there is always one
	}
	s := o.at(path, depth)
	if depth > shapeDepth {
		path = "" // nobody is told of what is below
	}
	switch token {
	case json.Delim('{'):
		s.is("object")
		for o.d.More() {
			key, err := o.d.Token()
			if err != nil {
				return
			}
			name, _ := key.(string)
			o.value(path+"."+keyName(name), depth+1)
		}
		_, _ = o.d.Token()
	case json.Delim('['):
		s.is("array")
		n := 0
		for o.d.More() {
			begin := int(o.d.InputOffset())
			o.value(path+"[]", depth+1)
			if n++; len(s.rows) < mostRows && s.types["array"] == 1 {
				s.rows = append(s.rows, [2]int{begin, int(o.d.InputOffset())})
			}
		}
		_, _ = o.d.Token()
		if s.types["array"] == 1 {
			s.least = n
		}
		s.least, s.most = min(s.least, n), max(s.most, n)
	default:
		s.is(scalar(token))
	}
}

// at finds the place of a path. What is too deep, or one too many, is counted nowhere.
func (o *outline) at(path string, depth int) *spot {
	if s := o.by[path]; s != nil && depth <= shapeDepth {
		return s
	}
	s := &spot{path: path, types: map[string]int{}}
	if depth <= shapeDepth && len(o.spots) < mostPaths {
		o.by[path] = s
		o.spots = append(o.spots, s)
	}
	return s
}

func (s *spot) is(kind string) { s.types[kind]++ }

func scalar(token json.Token) string {
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

// words tells the shape in so many bytes.
func (o *outline) words(room int) string {
	var b strings.Builder
	for n, s := range o.spots {
		line := s.words() + "\n"
		more := fmt.Sprintf("- and %d other keys\n", len(o.spots)-n)
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

func (s *spot) words() string {
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(s.types)) {
		n := s.types[kind]
		word := kind
		switch {
		case kind == "array" && s.least == s.most:
			word = fmt.Sprintf("array of %d", s.most)
		case kind == "array":
			word = fmt.Sprintf("array of %d to %d", s.least, s.most)
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
func (o *outline) sample(room int) string {
	var best *spot
	for _, s := range o.spots {
		if len(s.rows) > 0 && (best == nil || s.most > best.most) {
			best = s
		}
	}
	if best == nil {
		best = &spot{rows: [][2]int{{0, len(o.text)}}}
	}
	title := "First of " + strings.TrimPrefix(best.path+"[]", ".") + ":\n"
	if best.most == 0 {
		title = "It begins:\n"
	}
	if len(title)+leastHead > room {
		return ""
	}
	var b strings.Builder
	b.WriteString(title)
	for n, at := range best.rows {
		row := compact(o.text[at[0]:at[1]])
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

// compact writes an element without blanks and the comma before it.
func compact(raw string) string {
	raw = strings.TrimLeft(raw, " \t\r\n,")
	var b bytes.Buffer
	if json.Compact(&b, []byte(raw)) != nil {
		return strings.TrimSpace(raw)
	}
	return b.String()
}
