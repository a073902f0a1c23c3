package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tailscale/hujson"
)

const (
	// maxFileBytes and maxDepth limit what the recursive parser sees: too deep a nesting would overflow its stack and
	// end the process.
	maxFileBytes = 4 << 20
	maxDepth     = 64
)

// node is a value of the file with its place. kind is the first byte of its grammar: { [ " 0 t f n. offset counts bytes
// of the text, and path is its key as Fault has it.
type node struct {
	kind    byte
	offset  int
	path    string
	text    string // a string's value as written, otherwise the literal
	members []member
	elems   []*node
}

// member is a name in an object, where it stands, and its value.
type member struct {
	name   string
	offset int
	value  *node
}

// get returns a member's value, or nil.
func (n *node) get(name string) *node {
	for _, m := range n.members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// remove removes a member and returns its value, or nil.
func (n *node) remove(name string) *node {
	for i, m := range n.members {
		if m.name == name {
			n.members = append(n.members[:i:i], n.members[i+1:]...)
			return m.value
		}
	}
	return nil
}

// kindName returns the kind of a node for use in a sentence.
func (n *node) kindName() string {
	switch n.kind {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 'n':
		return "null"
	}
	return "true or false"
}

// parseNode parses the text of a file. It adds a fault and returns nil where the text is not JSON.
func (d *decoder) parseNode(text []byte) *node {
	// Before parsing: the parser recurses and cannot be stopped.
	if offset, key, deep := scanOutline(text, len(text)); deep {
		d.addFaultAt(offset, key, fmt.Sprintf("nested more than %d levels deep", maxDepth), "remove the surplus brackets")
		return nil
	}
	v, err := hujson.Parse(text)
	if err != nil {
		d.syntaxFault(text, err)
		return nil
	}
	return d.newNode(&v, "")
}

// syntaxFault reports in our own words where parsing stopped: the parser's message may quote half a secret.
func (d *decoder) syntaxFault(text []byte, err error) {
	var line, column int
	// hujson has no error type with a position, so it is read from the text.
	fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &line, &column)
	atEnd := len(bytes.TrimRight(text, " \t\r\n"))
	reason, remedy := "a value is not JSON", `strings stand in double quotes, and a backslash in them is written \\`
	switch said := err.Error(); {
	case bytes.HasPrefix(text, []byte{0xff, 0xfe}), bytes.HasPrefix(text, []byte{0xfe, 0xff}):
		reason, remedy = "the file is in UTF-16", "save it as UTF-8"
	case len(bytes.TrimSpace(text)) == 0:
		line, column = 1, 1
		reason, remedy = "the file is empty", "write {} for all defaults"
	case errors.Is(err, io.ErrUnexpectedEOF):
		line, column = d.position(atEnd)
		reason, remedy = "the file ends in the middle of a value", "look for a missing bracket, brace or quote"
	case strings.Contains(said, "invalid character"):
		_, what, _ := strings.Cut(said, "invalid character")
		reason = fmt.Sprintf("unexpected character%s in column %d", what, column)
		remedy = "look for a missing comma, colon, quote or bracket just before"
	case strings.Contains(said, "UTF-8"):
		reason, remedy = "a comment is not in UTF-8", "save the file as UTF-8"
	}
	_, key, _ := scanOutline(text, offsetOf(text, line, column))
	d.appendFault(Fault{File: d.file, Line: line, Column: column, Key: key, Reason: reason, Remedy: remedy})
}

// newNode converts hujson's value. A name that an object uses twice is a fault, and its first value counts.
func (d *decoder) newNode(v *hujson.Value, path string) *node {
	n := &node{kind: byte(v.Value.Kind()), offset: v.StartOffset, path: path}
	switch value := v.Value.(type) {
	case hujson.Literal:
		n.text = value.String()
	case *hujson.Array:
		for i := range value.Elements {
			n.elems = append(n.elems, d.newNode(&value.Elements[i], fmt.Sprintf("%s[%d]", path, i)))
		}
	case *hujson.Object:
		seen := make(map[string]int, len(value.Members))
		for i := range value.Members {
			m := &value.Members[i]
			name := m.Name.Value.(hujson.Literal).String()
			key := joinKey(path, name)
			// encoding/json would silently take the last one.
			if first, ok := seen[name]; ok {
				line, _ := d.position(first)
				d.addFaultAt(m.Name.StartOffset, key, fmt.Sprintf("given twice, first on line %d", line), "keep one of them")
				continue
			}
			seen[name] = m.Name.StartOffset
			n.members = append(n.members, member{name, m.Name.StartOffset, d.newNode(&m.Value, key)})
		}
	}
	return n
}

// position returns the line and column of a byte offset, counted from 1.
func (d *decoder) position(offset int) (line, column int) {
	before := d.text[:offset]
	return 1 + bytes.Count(before, []byte("\n")), offset - bytes.LastIndexByte(before, '\n')
}
