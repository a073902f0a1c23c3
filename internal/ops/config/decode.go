package config

import (
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/ops/egress"
)

// decoder fills structs from nodes and collects every fault. Struct tags say what a field accepts: json (its name),
// alias (other names), default, enum (a|b), min, max, required and form (path, store, http, origin).
type decoder struct {
	file     string
	dir      string
	text     []byte
	env      func(string) (string, bool)
	faults   []Fault
	warnings []Fault
	// What other hosts know and ravenbot does not.
	foreign []member
	structs map[reflect.Type]structFields // that were read before

	// Inside an entry of mcpServers the syntax of other hosts is taken too; in a disabled one, unset variables pass.
	inServer bool
	disabled bool
}

func (d *decoder) appendFault(f Fault) { d.faults = append(d.faults, f) }

// addFaultAt adds a fault at an offset in the file, in bytes.
func (d *decoder) addFaultAt(offset int, key, reason, remedy string) {
	line, column := d.position(offset)
	d.appendFault(Fault{File: d.file, Line: line, Column: column, Key: key, Reason: reason, Remedy: remedy})
}

// addFault adds a fault of a value, addFaultAt one of a place, and addWarning what does not keep the file from loading.
func (d *decoder) addFault(n *node, reason, remedy string) {
	d.addFaultAt(n.offset, n.path, reason, remedy)
}

// addWarning adds a fault of a value that does not keep the file from loading.
func (d *decoder) addWarning(n *node, reason, remedy string) {
	line, column := d.position(n.offset)
	d.warnings = append(
		d.warnings,
		Fault{File: d.file, Line: line, Column: column, Key: n.path, Reason: reason, Remedy: remedy},
	)
}

// hasFault reports whether a fault of a key, or of something inside it, is known already. Later checks then stay
// silent about the key.
func (d *decoder) hasFault(key string) bool {
	return slices.ContainsFunc(d.faults, func(f Fault) bool {
		return f.Key == key || strings.HasPrefix(f.Key, key+"[") || strings.HasPrefix(f.Key, key+".")
	})
}

// nodeDecoder is implemented by types that read a node themselves.
type nodeDecoder interface {
	decode(*decoder, *node, reflect.StructTag)
}

// decode fills v from n. null keeps the default.
func (d *decoder) decode(n *node, v reflect.Value, tag reflect.StructTag) {
	if n.kind == 'n' {
		return
	}
	if own, ok := v.Addr().Interface().(nodeDecoder); ok {
		own.decode(d, n, tag)
		return
	}
	// Duration is an integer to reflect, and bare numbers are mostly refused.
	if v.Type() == reflect.TypeFor[Duration]() {
		d.decodeDuration(n, v, tag)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		target := reflect.New(v.Type().Elem())
		d.decode(n, target.Elem(), tag)
		v.Set(target)
	case reflect.Struct:
		if d.expect(n, '{', "an object") {
			d.decodeStruct(n, v)
		}
	case reflect.Map:
		if d.expect(n, '{', "an object") {
			d.decodeMap(n, v)
		}
	case reflect.Slice:
		if d.expect(n, '[', "a list") {
			d.decodeSlice(n, v, tag)
		}
	case reflect.String:
		if d.expect(n, '"', "a string") {
			v.SetString(d.decodeString(n, tag))
		}
	case reflect.Bool:
		if n.kind != 't' && n.kind != 'f' {
			d.addFault(n, "expected true or false, found "+n.kindName(), "write true or false without quotes")
			return
		}
		v.SetBool(n.kind == 't')
	case reflect.Int:
		if d.expect(n, '0', "a whole number") {
			d.decodeInt(n, v, tag)
		}
	case reflect.Float64:
		if d.expect(n, '0', "a number") {
			d.decodeFloat(n, v, tag)
		}
	}
}

// expect reports whether a node is of a kind, and adds a fault where it is not.
func (d *decoder) expect(n *node, kind byte, want string) bool {
	if n.kind == kind {
		return true
	}
	d.addFault(n, "expected "+want+", found "+n.kindName(), remedyFor(kind, n.kind))
	return false
}

// remedyFor returns what to do about a value of the wrong kind.
func remedyFor(want, have byte) string {
	switch {
	case want == '[' && have == '"':
		return `put it in brackets: ["…"]`
	case want == '"' && have != '{' && have != '[':
		return "put it in double quotes"
	case want == '0' && have == '"':
		return "write it without quotes"
	case want == '[':
		return "write [ value, … ]"
	case want == '{':
		return `write { "name": value, … }`
	}
	return "see deploy/config.schema.json for what goes here"
}

// decodeStruct fills a struct from an object. Unknown keys, names of one field that are given twice, and required ones
// that are missing are faults.
func (d *decoder) decodeStruct(n *node, v reflect.Value) {
	known := d.fieldsOf(v.Type())
	fields, given := known.byName, make(map[string]string)
	for _, m := range n.members {
		f, ok := fields[m.name]
		if !ok {
			d.addUnknownKey(n, m, v.Type())
			continue
		}
		// Two aliases of one field would overwrite each other in the order of the file.
		if first := given[f.name]; first != "" {
			d.addFaultAt(
				m.offset,
				joinKey(n.path, m.name),
				"means the same as "+first+", which is given too",
				"keep one of them",
			)
			continue
		}
		given[f.name] = m.name
		d.decode(m.value, v.FieldByIndex(f.index), f.tag)
	}
	// Checked after all members, so that a required key that is present and wrong is reported once.
	for _, name := range known.names {
		f := fields[name]
		if f.tag.Get("required") == "" || !v.FieldByIndex(f.index).IsZero() && !isEmptyList(v.FieldByIndex(f.index)) {
			continue
		}
		// A required key with a fault of its own is present, only wrong.
		if key := joinKey(n.path, name); !d.hasFault(key) {
			d.addFaultAt(n.offset, key, "missing or empty", "add it; every "+typeNoun(v.Type())+" needs it")
		}
	}
}

// isEmptyList reports whether v is a list without entries.
func isEmptyList(v reflect.Value) bool { return v.Kind() == reflect.Slice && v.Len() == 0 }

// typeNoun returns a type's name for use in a sentence.
func typeNoun(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[ServerLink]():
		return "link"
	case reflect.TypeFor[FileRoot]():
		return "root"
	case reflect.TypeFor[DigestFeed]():
		return "feed"
	}
	return strings.ToLower(t.Name())
}

// addUnknownKey adds a fault for an unknown key. In entries of mcpServers such keys belong to other hosts and are
// only collected for a warning.
func (d *decoder) addUnknownKey(n *node, m member, t reflect.Type) {
	if d.inServer {
		d.foreign = append(d.foreign, member{joinKey(n.path, m.name), m.offset, m.value})
		return
	}
	key := joinKey(n.path, m.name)
	if slices.Contains(retiredKeys[t], m.name) {
		line, column := d.position(m.offset)
		d.warnings = append(d.warnings, Fault{File: d.file, Line: line, Column: column, Key: key,
			Reason: "has no effect any more", Remedy: "remove it"})
		return
	}
	remedy := suggest(m.name, d.fieldsOf(t).names)
	if key == "mcp.servers" { // as some other hosts write it
		remedy = `MCP servers stand at the top of the file, under "mcpServers"`
	}
	d.addFaultAt(m.offset, key, "unknown key", remedy)
}

// retiredKeys are the keys of earlier versions, which are no faults: a configuration that has them still loads.
var retiredKeys = map[reflect.Type][]string{reflect.TypeFor[Digest](): {"template", "why"}}

// decodeMap reads the members of an object into a new map, each over the defaults of its type. One without a name is
// left out with a fault.
func (d *decoder) decodeMap(n *node, v reflect.Value) {
	v.Set(reflect.MakeMapWithSize(v.Type(), len(n.members)))
	for _, m := range n.members {
		item := reflect.New(v.Type().Elem()).Elem()
		// Map values have no place of their own to hold defaults, so they are set for each entry.
		d.setDefaults(item)
		if m.name == "" {
			d.addFaultAt(m.offset, joinKey(n.path, ""), "an empty name", "give it a name")
			continue
		}
		d.decode(m.value, item, "")
		v.SetMapIndex(reflect.ValueOf(m.name), item)
	}
}

// decodeSlice reads the elements of a list into a new slice, which has as many, also where one of them has a fault. tag
// is that of the list and holds for each element.
func (d *decoder) decodeSlice(n *node, v reflect.Value, tag reflect.StructTag) {
	list := reflect.MakeSlice(v.Type(), len(n.elems), len(n.elems))
	for i, e := range n.elems {
		item := list.Index(i)
		d.setDefaults(item)
		// In a list null has no default to fall back to.
		if e.kind == 'n' {
			d.addFault(e, "null in a list", "remove it")
			continue
		}
		d.decode(e, item, tag)
	}
	v.Set(list)
}

// decodeString returns a string with its variables replaced, checked against the field's enum and form.
func (d *decoder) decodeString(n *node, tag reflect.StructTag) string {
	s, ok := d.expand(n)
	if !ok {
		return ""
	}
	if enum := tag.Get("enum"); enum != "" {
		// An empty variable means the default, so that ${MODE:-} can leave a choice open.
		if s == "" {
			return tag.Get("default")
		}
		if allowed := strings.Split(enum, "|"); !slices.Contains(allowed, s) {
			d.addFault(n, quote(n.text)+" is not one of "+strings.Join(allowed, ", "), suggestOneOf(s, allowed))
			return ""
		}
	}
	if s == "" || d.disabled {
		return s
	}
	return d.checkForm(n, s, tag.Get("form"))
}

// decode reads a text and keeps, for display, what the file itself says: a variable keeps its name.
func (m *Masked) decode(d *decoder, n *node, tag reflect.StructTag) {
	if !d.expect(n, '"', "a string") {
		return
	}
	*m = Masked{d.decodeString(n, tag), egress.RedactURL(n.text)}
	if tag.Get("form") == "store" && !strings.Contains(m.value, "://") {
		m.display = m.value // a path is not an address and holds no secret
	}
	if m.value == "" {
		m.display = ""
		if text, ok := tag.Lookup("default"); ok {
			m.decode(d, defaultNode(reflect.String, text), tag)
		}
	}
}

// checkForm checks a path or an address and returns it in the form that the rest of the program relies on.
func (d *decoder) checkForm(n *node, s, form string) string {
	switch form {
	case "path":
		return d.absPath(s)
	case "store":
		if strings.Contains(s, "://") {
			d.checkDatabaseAddress(n, s)
			return s
		}
		return d.absPath(s)
	case "http", "origin":
		u, ok := parseHTTPURL(s)
		if !ok {
			d.addFault(n, "not an http:// or https:// address", "write it with scheme and host, such as https://example.org")
			return s
		}
		// Discord's library appends /api/v9/… itself; a path would appear twice.
		if form == "origin" && (strings.Trim(u.Path, "/") != "" || u.RawQuery != "") {
			d.addFault(n, "holds a path", "write scheme and host alone; the paths follow it")
		}
	}
	return s
}

// sslModes are the values of sslmode in the address of a database.
var sslModes = []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}

// checkDatabaseAddress reports what is wrong with the address of a database, without any part of it: it may hold a
// password.
func (d *decoder) checkDatabaseAddress(n *node, s string) {
	if !strings.HasPrefix(s, "postgres://") && !strings.HasPrefix(s, "postgresql://") {
		d.addFault(
			n,
			"neither a path nor a postgres:// address",
			`write "data/ravenbot.db" or "postgres://user@host/database"`,
		)
		return
	}
	u, err := url.Parse(s)
	// Several hosts with ports, divided by commas, are more than url knows.
	if err != nil && !strings.Contains(s, ",") {
		d.addFault(n, "this postgres:// address cannot be read", "write postgres://USER:PASSWORD@HOST/DATABASE; in a "+
			"password, characters such as / @ : # are written as %2F %40 %3A %23")
	}
	if err != nil {
		return
	}
	if mode := u.Query().Get("sslmode"); mode != "" && !slices.Contains(sslModes, mode) {
		d.addFault(n, "sslmode has an unknown value", "write one of "+strings.Join(sslModes, ", "))
	}
}

// expandHome returns a path with the home folder in place of a leading ~, as shells read it.
func (d *decoder) expandHome(path string) string {
	rest, ok := strings.CutPrefix(path, "~")
	if home, known := d.home(); ok && known && (rest == "" || os.IsPathSeparator(rest[0])) {
		return home + rest
	}
	return path
}

// absPath returns a path as an absolute one, counted from the folder of the file.
func (d *decoder) absPath(path string) string {
	path = d.expandHome(path)
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(d.dir, path)
}

// decodeInt reads a whole number. Where it has a fault, v keeps its default.
func (d *decoder) decodeInt(n *node, v reflect.Value, tag reflect.StructTag) {
	// Parsed as a float, because JSON allows 1e3 and 10.0 for whole numbers.
	x, err := strconv.ParseFloat(n.text, 64)
	if err != nil || x != math.Trunc(x) || math.Abs(x) > math.MaxInt32 {
		d.addFault(n, "expected a whole number, found "+clip(n.text), "write it without a fraction, below 2 billion")
		return
	}
	if d.inRange(n, x, tag) {
		v.SetInt(int64(x))
	}
}

// decodeFloat reads a number. Where it has a fault, v keeps its default.
func (d *decoder) decodeFloat(n *node, v reflect.Value, tag reflect.StructTag) {
	x, err := strconv.ParseFloat(n.text, 64)
	if err != nil {
		d.addFault(n, "too large a number", "write a smaller one")
		return
	}
	if d.inRange(n, x, tag) {
		v.SetFloat(x)
	}
}

// inRange reports whether a number is within the field's min and max, and adds a fault where it is not.
func (d *decoder) inRange(n *node, x float64, tag reflect.StructTag) bool {
	if text := tag.Get("min"); text != "" {
		if limit, _ := strconv.ParseFloat(text, 64); x < limit {
			d.addFault(n, clip(n.text)+" is below "+text, "write "+text+" or more")
			return false
		}
	}
	if text := tag.Get("max"); text != "" {
		if limit, _ := strconv.ParseFloat(text, 64); x > limit {
			d.addFault(n, clip(n.text)+" is above "+text, "write "+text+" or less")
			return false
		}
	}
	return true
}

// decodeDuration reads "90s". In an MCP server's entry a bare number counts milliseconds, as in other hosts.
func (d *decoder) decodeDuration(n *node, v reflect.Value, tag reflect.StructTag) {
	var got time.Duration
	switch {
	case n.kind == '0' && d.inServer:
		ms, err := strconv.ParseFloat(n.text, 64)
		if err != nil || ms > math.MaxInt32 {
			d.addFault(n, "too long a time", `write it like "30s"`)
			return
		}
		// Somebody who writes 30 most likely means seconds.
		if got = time.Duration(ms * float64(time.Millisecond)); got > 0 && got < time.Second {
			d.addWarning(
				n,
				fmt.Sprintf("a bare number counts milliseconds: this is %v", got),
				`write it with a unit, such as "30s"`,
			)
		}
	case n.kind != '"':
		d.addFault(n, `expected a time such as "30s" or "15m", found `+n.kindName(), "put number and unit in double quotes")
		return
	default:
		s, ok := d.expand(n)
		if !ok {
			return
		}
		var err error
		if got, err = time.ParseDuration(s); err != nil {
			if d.disabled && s == "" {
				return
			}
			d.addFault(n, quote(n.text)+" is not a time", `write number and unit: "500ms", "30s", "15m", "24h"`)
			return
		}
	}
	shortest, _ := time.ParseDuration(tag.Get("min"))
	if got < shortest {
		d.addFault(n, fmt.Sprintf("%v is too short", Duration(got)), fmt.Sprintf("write %v or more", Duration(shortest)))
		return
	}
	v.SetInt(int64(got))
}

// setDefaults fills v, and everything inside it, from its default tags.
func (d *decoder) setDefaults(v reflect.Value) {
	if v.Kind() != reflect.Struct || v.Type() == reflect.TypeFor[Masked]() {
		return
	}
	for _, f := range d.fieldsOf(v.Type()).all {
		field := v.FieldByIndex(f.Index)
		if text, ok := f.Tag.Lookup("default"); ok {
			// Defaults take the same way as values of the file, so that they are expanded and checked alike.
			d.decode(defaultNode(field.Kind(), text), field, f.Tag)
		} else {
			d.setDefaults(field)
		}
	}
}

// defaultNode returns the node that the file would hold to give a field its default.
func defaultNode(kind reflect.Kind, text string) *node {
	switch {
	case kind == reflect.Slice:
		return &node{kind: '[', elems: []*node{{kind: '"', text: text}}}
	case text == "true":
		return &node{kind: 't', text: text}
	case kind == reflect.Int || kind == reflect.Float64:
		return &node{kind: '0', text: text}
	}
	return &node{kind: '"', text: text}
}
