package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"ravenbot/internal/core/text"
	"ravenbot/internal/ops/egress"
)

// decode reads an entry of mcpServers as ravenbot or another host writes it.
func (s *MCPServer) decode(d *decoder, n *node, _ reflect.StructTag) {
	if !d.expect(n, '{', "an object") {
		return
	}
	// Known before anything else is decoded: in a disabled entry variables may be unset.
	off := isLiteral(n.get("disabled"), 't') || isLiteral(n.get("enabled"), 'f')
	if e := n.get("enabled"); e != nil && (e.kind == 't' || e.kind == 'f') {
		n.remove("enabled")
	}
	d.inServer, d.disabled = true, off
	// The decoder goes on to other parts of the file.
	defer func() { d.inServer, d.disabled = false, false }()

	flattenTransport(n)
	preferHTTPURL(n)
	d.normalizeType(n)
	d.decodeStruct(n, reflect.ValueOf(s).Elem())
	s.Disabled = off
	if off {
		return
	}
	s.check(d, n)
	if s.EnvFile != "" && n.get("envFile") != nil {
		d.addEnvFile(n.get("envFile"), s)
	}
	s.Command = d.expandHome(s.Command)
	if s.Cwd == "" {
		s.Cwd = d.dir
	}
}

// isLiteral reports whether a node is there and of a kind.
func isLiteral(n *node, kind byte) bool { return n != nil && n.kind == kind }

// flattenTransport turns "transport": {"type", …} or "transport": "sse" into members of the entry itself.
func flattenTransport(n *node) {
	t := n.get("transport")
	switch {
	case t == nil:
	case t.kind == '"':
		n.remove("transport")
		if n.get("type") == nil {
			n.members = append(n.members, member{"type", t.offset, t})
		}
	case t.kind == '{':
		n.remove("transport")
		for _, m := range t.members {
			// What the entry itself says wins.
			if n.get(m.name) == nil {
				n.members = append(n.members, m)
			}
		}
	}
}

// preferHTTPURL reads httpUrl, the name that Gemini CLI gives the Streamable HTTP address beside an older SSE url.
func preferHTTPURL(n *node) {
	if h := n.remove("httpUrl"); h != nil {
		n.remove("url")
		n.members = append(n.members, member{"url", h.offset, h})
		if n.get("type") == nil {
			n.members = append(
				n.members,
				member{"type", h.offset, &node{kind: '"', offset: h.offset, path: h.path, text: "http"}},
			)
		}
	}
}

// normalizeType turns other hosts' names for a transport into stdio, http and sse.
func (d *decoder) normalizeType(n *node) {
	t := n.get("type")
	if t == nil || t.kind != '"' {
		return
	}
	switch strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(t.text)) {
	case "stdio", "local", "command":
		t.text = "stdio"
	case "http", "streamablehttp", "streamable", "https":
		t.text = "http"
	case "sse", "httpsse":
		t.text = "sse"
	case "remote":
		n.remove("type")
	}
}

// check checks that an entry is either a command or a URL.
func (s *MCPServer) check(d *decoder, n *node) {
	if d.hasFault(n.path) {
		return
	}
	const both = "keep one of them; two servers need two entries"
	switch {
	case s.Command == "" && s.URL.value == "":
		d.addFault(
			n,
			"neither command nor url"+d.misspellingHint(n.path, "command", "url"),
			`give "command" for a program to start or "url" for a server to call`,
		)
	case s.Command != "" && s.URL.value != "":
		d.addFault(n, "both command and url", both)
	case s.Command == "" && s.Type == "stdio":
		d.addFault(n, "type is stdio, but there is no command", `give "command", or leave type out`)
	case s.URL.value == "" && (s.Type == "http" || s.Type == "sse"):
		d.addFault(n, "type is "+s.Type+", but there is no url", `give "url", or leave type out`)
	}
}

// misspellingHint names an ignored key of an entry that is close to one of the known names.
func (d *decoder) misspellingHint(path string, known ...string) string {
	if path != "" {
		path += "."
	}
	for _, m := range d.foreign {
		name, inside := strings.CutPrefix(m.name, path)
		if near := text.Nearest(name, known); inside && near != "" {
			return fmt.Sprintf("; %q is not known: did you mean %q?", name, near)
		}
	}
	return ""
}

// decode reads a list of arguments.
func (a *Args) decode(d *decoder, n *node, _ reflect.StructTag) {
	if !d.expect(n, '[', "a list") {
		return
	}
	for _, e := range n.elems {
		if !d.expect(e, '"', "a string") {
			continue
		}
		if value, ok := d.expand(e); ok {
			*a = append(*a, Masked{value, egress.RedactURL(e.text)})
		}
	}
	a.maskFlags()
}

// decode reads variables; numbers and booleans count as their text, as in other hosts.
func (v *Env) decode(d *decoder, n *node, _ reflect.StructTag) {
	if !d.expect(n, '{', "an object") {
		return
	}
	*v = make(Env, len(n.members))
	for _, m := range n.members {
		switch m.value.kind {
		case '"':
			if value, ok := d.expandEnv(m.value); ok {
				(*v)[m.name] = Secret(value)
			}
		case '0', 't', 'f':
			(*v)[m.name] = Secret(m.value.text)
		case '{', '[':
			d.expect(m.value, '"', "a string")
		}
	}
}

// decode reads headers as an object, or as the list of "Name: value" that some hosts write.
func (h *Headers) decode(d *decoder, n *node, _ reflect.StructTag) {
	*h = make(Headers)
	switch n.kind {
	case '{':
		for _, m := range n.members {
			if d.expect(m.value, '"', "a string") {
				h.add(d, m.value, m.name, m.value)
			}
		}
	case '[':
		for _, e := range n.elems {
			if !d.expect(e, '"', "a string") {
				continue
			}
			name, value, ok := strings.Cut(e.text, ":")
			if !ok {
				d.addFault(e, "a header without a colon", `write "Name: value"`)
				continue
			}
			// A copy: faults still quote the whole line.
			plain := *e
			plain.text = strings.TrimSpace(value)
			h.add(d, e, strings.TrimSpace(name), &plain)
		}
	default:
		d.expect(n, '{', "an object")
	}
}

// add adds a header whose name and value are valid.
func (h *Headers) add(d *decoder, place *node, name string, text *node) {
	value, ok := d.expand(text)
	if !ok {
		return
	}
	// A line break would let a value add headers of its own.
	switch {
	case name == "" || strings.ContainsFunc(name, isNotHeaderRune):
		d.addFault(place, quote(name)+" is not the name of a header", "write letters, digits and hyphens")
	case strings.ContainsAny(value, "\r\n\x00"):
		d.addFault(place, "the header's value holds a line break", "remove it; a file's last one is dropped for you")
	default:
		(*h)[name] = Secret(value)
	}
}

// isNotHeaderRune reports whether a character is not allowed in the name of a header (RFC 9110, 5.6.2).
func isNotHeaderRune(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

// decode reads how to sign in. true and false, by which some hosts turn it on and off, mean nothing here.
func (o *ServerOAuth) decode(d *decoder, n *node, _ reflect.StructTag) {
	if n.kind != 't' && n.kind != 'f' && d.expect(n, '{', "an object") {
		d.decodeStruct(n, reflect.ValueOf(o).Elem())
	}
}

// decode reads what a server may reach as "none" or as {"allowPrivateHosts"}.
func (e *ServerEgress) decode(d *decoder, n *node, _ reflect.StructTag) {
	switch {
	case n.kind == '{':
		d.decodeStruct(n, reflect.ValueOf(&e.Egress).Elem())
	case !d.expect(n, '"', `"none" or {"allowPrivateHosts"}`):
	case n.text == egressNone:
		e.None = true
	default:
		d.addFault(n, quote(n.text)+" is not a value of egress", `write "none", or leave it out`)
	}
}

// egressNone is the word for a server that reaches nothing outside of itself.
const egressNone = "none"

// MarshalJSON returns the value as the file has it.
func (e ServerEgress) MarshalJSON() ([]byte, error) {
	if e.None {
		return json.Marshal(egressNone)
	}
	return json.Marshal(e.Egress)
}

// decode reads a link as a name or as {"name", "enabled"}.
func (l *ServerLink) decode(d *decoder, n *node, _ reflect.StructTag) {
	if n.kind == '{' {
		d.decodeStruct(n, reflect.ValueOf(l).Elem())
		return
	}
	if d.expect(n, '"', `a name or {"name", "enabled"}`) {
		l.Name, _ = d.expand(n)
	}
}

// decode reads a root as a path or as {"path", "name", "write"}.
func (r *FileRoot) decode(d *decoder, n *node, _ reflect.StructTag) {
	if n.kind == '{' {
		d.decodeStruct(n, reflect.ValueOf(r).Elem())
	} else if d.expect(n, '"', `a path or {"path", "name", "write"}`) {
		path, ok := d.expand(n)
		if ok && path == "" {
			d.addFault(n, "an empty path", "name a folder, or remove it")
		}
		if path != "" {
			r.Path = d.absPath(path)
		}
	}
	if r.Name == "" && r.Path != "" {
		r.Name = filepath.Base(r.Path)
	}
}

// decode reads a feed as an address or as {"url", "mergeDuplicates", "weight", …}.
func (f *DigestFeed) decode(d *decoder, n *node, tag reflect.StructTag) {
	if n.kind == '{' {
		d.decodeStruct(n, reflect.ValueOf(f).Elem())
	} else if d.expect(n, '"', `an address or {"url", "weight", "pin", "mute"}`) {
		f.URL.decode(d, n, tag)
	}
}

// warnForeignKeys adds one warning for all ignored keys of other hosts.
func (d *decoder) warnForeignKeys(top []member) {
	all := append(slices.Clone(d.foreign), top...)
	if len(all) == 0 {
		return
	}
	names := make([]string, len(all))
	for i, m := range all {
		names[i] = m.name
	}
	line, column := d.position(all[0].offset)
	d.warnings = append(d.warnings, Fault{File: d.file, Line: line, Column: column, Key: "mcpServers",
		Reason: fmt.Sprintf("keys that ravenbot does not know are ignored: %s", clipList(strings.Join(names, ", "))),
		Remedy: "remove them, or leave them for the other host"})
}
