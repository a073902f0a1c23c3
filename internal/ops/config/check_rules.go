package config

import (
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"

	"ravenbot/internal/core/text"
)

// checkRoles checks the names of roles outside of the rules about tools.
func (k checker) checkRoles() {
	for i, ch := range k.c.Channels {
		for n, name := range ch.AllowRoles {
			k.checkPerson("role", name, "channels", i, "allowRoles", n)
		}
	}
	for agent, a := range k.c.Agents {
		for n, name := range a.Roles {
			k.checkPerson("role", name, "agents", agent, "roles", n)
		}
	}
	for name := range k.c.Limits.Roles {
		k.checkPerson("role", name, "limits", "roles", name)
	}
}

// checkRules checks the rules about tools: what they name must be well-formed, and is warned of if it matches nothing.
func (k checker) checkRules() {
	for i, r := range k.c.Tools.Policy {
		at := func(key string, n int) []any { return []any{"tools", "policy", i, key, n} }
		k.checkToolPatterns(r.Tools, k.servers(), "tools", "policy", i, "tools")
		for n, pattern := range r.Channels {
			k.checkPlaces(pattern, at("channels", n)...)
		}
		for n, name := range r.Roles {
			k.checkPerson("role", name, at("roles", n)...)
		}
		for n, name := range r.Users {
			k.checkPerson("user", name, at("users", n)...)
		}
		for n, host := range r.Hosts {
			k.checkHostPattern(host, at("hosts", n)...)
		}
		for n, who := range r.Approvers {
			kind, name, _ := strings.Cut(who, ":")
			if kind != "roles" && kind != "users" {
				k.report(k.quote(who, at("approvers", n)...)+" names neither roles nor users",
					"write roles:NAME or users:ID", at("approvers", n)...)
				continue
			}
			k.checkPerson(strings.TrimSuffix(kind, "s"), name, at("approvers", n)...)
		}
		k.checkReachable(i)
	}
	for i, h := range k.c.Tools.Hooks {
		k.checkToolPatterns(h.Tools, k.servers(), "tools", "hooks", i, "tools")
	}
	for _, name := range slices.Sorted(maps.Keys(k.c.Agents)) {
		k.checkToolPatterns(k.c.Agents[name].Tools, nil, "agents", name, "tools")
	}
}

// servers returns the names of the MCP servers.
func (k checker) servers() []string { return slices.Sorted(maps.Keys(k.c.MCPServers)) }

// checkToolPatterns warns of names and patterns that match no tool of the bot, and can match none of some servers, whose
// tools are not known here.
func (k checker) checkToolPatterns(patterns, servers []string, path ...any) {
	if k.checks.Tools == nil {
		return
	}
	known := k.checks.Tools()
	for i, p := range patterns {
		near, isUnknown := UnknownTool(p, known, servers)
		if !isUnknown {
			continue
		}
		at := append(slices.Clone(path), i)
		reason := k.quote(p, at...) + " matches no tool of the bot"
		if servers != nil {
			reason += ", and none of a server in mcpServers"
		}
		remedy := "ravenbot tools list lists them"
		if near != "" {
			remedy = fmt.Sprintf("did you mean %q?", near)
		}
		k.addWarning(nodeAt(k.root, at...), reason, remedy)
	}
}

// UnknownTool reports whether a name or pattern matches none of the known names of tools and can match no tool of some MCP
// servers, and returns the nearest name or pattern that does; empty: none is near.
func UnknownTool(pattern string, known, servers []string) (near string, isUnknown bool) {
	if slices.ContainsFunc(known, func(name string) bool { return matchesTool(pattern, name) }) ||
		slices.ContainsFunc(servers, func(s string) bool { return mayMatchServer(pattern, s) }) {
		return "", false
	}
	// Names as models call them come first: of two that are as near, the first is returned.
	candidates := slices.Clone(known)
	slices.SortStableFunc(candidates, func(a, b string) int { return strings.Count(a, ".") - strings.Count(b, ".") })
	for _, name := range slices.Concat(known, servers) {
		pack, _, _ := strings.Cut(name, ".")
		candidates = append(candidates, pack+".*", pack+"_*")
	}
	return text.Nearest(pattern, candidates), true
}

// matchesTool reports whether a pattern matches a name of a tool.
func matchesTool(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

// mayMatchServer reports whether a pattern matches a server, or could match one of its tools.
func mayMatchServer(pattern, server string) bool {
	if matchesTool(pattern, server) {
		return true
	}
	special := strings.IndexAny(pattern, `*?[\`)
	begin := pattern
	if special >= 0 {
		begin = pattern[:special]
	}
	for _, prefix := range []string{plainName(server) + "_", server + "."} {
		if strings.HasPrefix(begin, prefix) || special >= 0 && strings.HasPrefix(prefix, begin) {
			return true
		}
	}
	return false
}

// plainName returns the name of a server as names of its tools begin.
func plainName(server string) string {
	name := strings.Map(func(c rune) rune {
		if c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
			return c
		}
		return '_'
	}, server)
	if name != "" && (name[0] == '-' || '0' <= name[0] && name[0] <= '9') {
		return "_" + name
	}
	return name
}

// checkPlaces checks a pattern of addresses, in which * stands for anything, slashes included.
func (k checker) checkPlaces(pattern string, path ...any) {
	platform, rest, ok := strings.Cut(pattern, ":")
	if pattern == "*" || ok && platform != "" && strings.HasSuffix(rest, "*") && !strings.ContainsAny(pattern, " \t\r\n") {
		return
	}
	k.checkMatch(pattern, path...)
}

// checkPerson checks the name or id of a role or user.
func (k checker) checkPerson(what, name string, path ...any) {
	switch kind, _, ok := strings.Cut(name, ":"); {
	case strings.TrimSpace(name) == "":
		k.report("an empty "+what, "name one, or remove it", path...)
	// The role of everybody on Discord is called @everyone.
	case strings.ContainsAny(name[:1], "@<#") && name != "@everyone",
		ok && slices.Contains([]string{"role", "roles", "user", "users"}, kind):
		k.report(k.quote(name, path...)+" is not a name or id of a "+what, "write the name or the id alone", path...)
	}
}

// checkHostPattern checks a pattern of hosts.
func (k checker) checkHostPattern(host string, path ...any) {
	if _, err := netip.ParseAddr(host); err == nil {
		return
	}
	if host == "" || strings.ContainsAny(host, "/:@? \t") {
		k.report(k.quote(host, path...)+" is not a host", "write the host alone, like *.example.com", path...)
	}
}

// checkReachable warns of a rule behind one that holds for every call.
func (k checker) checkReachable(i int) {
	for n, r := range k.c.Tools.Policy[:i] {
		if r.Hint == "" && r.Tainted == nil && len(r.Channels)+len(r.Users)+len(r.Roles)+len(r.Hosts) == 0 &&
			slices.Contains(r.Tools, "*") {
			k.addWarning(nodeAt(k.root, "tools", "policy", i),
				fmt.Sprintf("never counts: tools.policy[%d] holds for every call, and the first rule that holds decides", n),
				"put it before that rule, or remove it")
			return
		}
	}
}
