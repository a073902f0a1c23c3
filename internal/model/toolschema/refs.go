package toolschema

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"ravenbot/internal/core/text"
)

// maxChain bounds direct chains of references.
const maxChain = 32

// plainRef matches references that every provider and dialect supports.
var plainRef = text.Pattern(`^#(?:/(?:\$defs|definitions)/[A-Za-z0-9._-]{1,64})?$`)

// resolveRefs removes references to nothing, to the outside and to themselves, so that their schemas allow anything.
// References to other places than definitions get a definition, because those places may change.
func (doc *document) resolveRefs() {
	for _, s := range doc.schemas {
		if doc.target(s) == nil {
			delete(s, "$ref")
		}
	}
	names := map[string]string{}
	for _, s := range doc.schemas {
		ref, isRef := s["$ref"].(string)
		if !isRef {
			continue
		}
		if !doc.ends(s) {
			delete(s, "$ref")
		} else if !plainRef().MatchString(ref) {
			if names[ref] == "" {
				names[ref] = doc.define(doc.target(s))
			}
			s["$ref"] = names[ref]
		}
	}
}

// ends reports whether a chain of references ends.
func (doc *document) ends(s object) bool {
	for range maxChain {
		if s = doc.target(s); s == nil {
			return true
		}
	}
	return false
}

func (doc *document) define(s object) string {
	defs := objectAt(doc.top, "$defs")
	if defs == nil {
		defs = object{}
		doc.top["$defs"] = defs
	}
	name := ""
	for n := len(defs) + 1; name == "" || has(defs, name); n++ {
		name = "ref" + strconv.Itoa(n)
	}
	defs[name] = s
	return "#/$defs/" + name
}

// target returns the schema that a reference leads to, or nil if it is not in the document.
func (doc *document) target(s object) object {
	ref, _ := s["$ref"].(string)
	pointer, err := url.PathUnescape(strings.TrimPrefix(ref, "#"))
	if err != nil || !strings.HasPrefix(ref, "#") || pointer != "" && pointer[0] != '/' { // elsewhere, or an anchor
		return nil
	}
	keys := strings.Split(pointer, "/")[1:]
	for s = doc.top; len(keys) > 0 && s != nil; {
		key := keys[0]
		if slices.Contains(oneSchema, key) {
			s, keys = objectAt(s, key), keys[1:]
			continue
		}
		if len(keys) == 1 {
			return nil
		}
		name := strings.NewReplacer("~1", "/", "~0", "~").Replace(keys[1])
		n, err := strconv.Atoi(name)
		list := listAt(s, key)
		switch {
		case slices.Contains(schemaMaps, key):
			s = objectAt(objectAt(s, key), name)
		case slices.Contains(schemaLists, key) && err == nil && n >= 0 && n < len(list):
			s, _ = list[n].(object)
		default:
			return nil
		}
		keys = keys[2:]
	}
	return s
}
