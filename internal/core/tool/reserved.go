package tool

import (
	"cmp"
	"slices"
	"strings"
)

// PackNames returns the set of names of native tool packs.
func PackNames(native func() []Tool) func(name string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(native(), func(t Tool) bool { return t.Spec().Server == name })
	}
}

// ReservedNames returns the set of names that MCP servers' tools must not have: the names of native tools, and others.
func ReservedNames(native func() []Tool, more []string) func(name string) bool {
	return func(name string) bool {
		return slices.Contains(more, name) || slices.ContainsFunc(native(), func(t Tool) bool {
			spec := t.Spec()
			return cmp.Or(spec.As, SafeName(spec.Server, spec.Name)) == name
		})
	}
}

// NativeNames returns the names of all native tools, including disabled ones: the names for models, the names of
// packs, and both joined by a dot.
func NativeNames() []string {
	var list []string
	for pack, names := range map[string][]string{
		"billing":   {"calculate_solar_impact", "tnb_bill_kwh_to_rm", "tnb_bill_rm_to_kwh"},
		"channel":   {"channel_history"},
		"digest":    {"digest_create"},
		"discovery": {"browse_tool_domain", "discover_tools", "execute_tool", "get_tool_schema", "list_tool_domains"},
		"feeds":     {"feeds_fetch", "feeds_search", "feeds_subscribe"},
		"files":     {"files_edit", "files_list", "files_read", "files_search", "files_write"},
		"history":   {"history_search"},
		"jobs":      {"remind"},
		"knowledge": {"knowledge_search"},
		"mcp":       {"mcp_prompt_get", "mcp_prompts_list", "mcp_resource_read", "mcp_resources_list"},
		"memory":    {"memory_save", "memory_search", "memory_update"},
		"result":    {"result_read"},
		"skill":     {"skill_read"},
		"web":       {"web_fetch", "web_search"},
	} {
		list = append(list, pack)
		for _, name := range names {
			list = append(list, name, pack+"."+strings.TrimPrefix(name, pack+"_"))
		}
	}
	slices.Sort(list)
	return list
}
