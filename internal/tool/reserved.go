package tool

import (
	"cmp"
	"slices"
)

// PackNames returns which names belong to packs of native tools.
func PackNames(native func() []Tool) func(name string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(native(), func(t Tool) bool { return t.Spec().Server == name })
	}
}

// ReservedNames returns which names no MCP server's tool may have: those of native tools, and more.
func ReservedNames(native func() []Tool, more []string) func(name string) bool {
	return func(name string) bool {
		return slices.Contains(more, name) || slices.ContainsFunc(native(), func(t Tool) bool {
			spec := t.Spec()
			return cmp.Or(spec.As, SafeName(spec.Server, spec.Name)) == name
		})
	}
}
