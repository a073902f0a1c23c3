package toolschema

import (
	"net/url"
	"strconv"
	"strings"

	"ravenbot/internal/core/text"
)

// maxChain is how many references may follow one another without a keyword between them.
const maxChain = 32

// plainRef matches references that mean the same to every provider and in every dialect.
var plainRef = text.Pattern(`^#(?:/(?:\$defs|definitions)/[A-Za-z0-9._-]{1,64})?$`)

// resolveRefs removes the references that lead nowhere, outside or to themselves, so that their schemas allow anything.
// References to other places than definitions get a definition, because those places may change and not all providers
// look there.
func (doc *document) resolveRefs() {
	for _, s := range doc.schemas {
		if ref, ok := s.get("$ref").(string); ok {
			if t := doc.find(ref); t != nil {
				doc.targets[s] = t
			} else {
				s.delete("$ref")
			}
		}
	}
	names := map[*object]string{doc.top: "#"}
	for _, s := range doc.schemas {
		if !s.has("$ref") {
			continue
		}
		if !doc.ends(s) {
			delete(doc.targets, s)
			s.delete("$ref")
		} else if ref, _ := s.get("$ref").(string); !plainRef().MatchString(ref) {
			t := doc.targets[s]
			if names[t] == "" {
				names[t] = doc.define(t)
			}
			s.set("$ref", names[t])
		}
	}
}

// ends reports whether a reference leads to a schema in the end, not in a circle.
func (doc *document) ends(s *object) bool {
	for range maxChain {
		if s = doc.targets[s]; s == nil {
			return true
		}
	}
	return false
}

// define adds a schema to the definitions and returns the reference to it.
func (doc *document) define(s *object) string {
	defs := doc.top.object("$defs")
	if defs == nil {
		defs = newObject()
		doc.top.set("$defs", defs)
	}
	name := ""
	for n := len(defs.keys) + 1; name == "" || defs.has(name); n++ {
		name = "ref" + strconv.Itoa(n)
	}
	defs.set(name, s)
	return "#/$defs/" + name
}

// find returns the schema that a reference leads to, or nil if it leads to none in the document.
func (doc *document) find(ref string) *object {
	pointer, err := url.PathUnescape(strings.TrimPrefix(ref, "#"))
	if err != nil || !strings.HasPrefix(ref, "#") {
		return nil
	}
	if pointer != "" && pointer[0] != '/' { // an anchor
		return nil
	}
	var at any = doc.top
	for _, key := range strings.Split(pointer, "/")[1:] {
		switch outer := at.(type) {
		case *object:
			at = outer.get(strings.NewReplacer("~1", "/", "~0", "~").Replace(key))
		case []any:
			n, err := strconv.ParseUint(key, 10, 16)
			if err != nil || n >= uint64(len(outer)) {
				return nil
			}
			at = outer[n]
		default:
			return nil
		}
	}
	if s, ok := at.(*object); ok && doc.known[s] {
		return s
	}
	return nil
}
