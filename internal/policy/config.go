package policy

import (
	"slices"
	"strings"

	"ravenbot/internal/config"
	"ravenbot/internal/tool"
)

// FromConfig returns the policy of a configuration: tools.policy, tools.mode, and what is said of
// servers. granted reports the calls that people approved beforehand.
func FromConfig(c *config.Config, granted func(in tool.Intent) bool) *Policy {
	o := Options{
		Granted:       granted,
		Open:          c.Tools.Mode == "open",
		Trusts:        func(server string) bool { return c.MCPServers[server].Trust },
		AlwaysAllowed: func(s tool.Spec) bool { return slices.Contains(c.MCPServers[s.Server].AlwaysAllow, s.Name) },
	}
	for _, r := range c.Tools.Policy {
		o.Rules = append(o.Rules, Rule{
			Tools:     r.Tools,
			Hint:      r.Hint,
			Channels:  r.Channels,
			Users:     r.Users,
			Roles:     r.Roles,
			Tainted:   r.Tainted,
			Hosts:     r.Hosts,
			Decision:  tool.Decision(r.Decision),
			Approvers: r.Approvers,
		})
	}
	return New(o)
}

// UsesRoles reports whether a rule of tools.policy names roles, of those that it is about or of its approvers.
func UsesRoles(c *config.Config) bool {
	return slices.ContainsFunc(c.Tools.Policy, func(r config.Policy) bool {
		return len(r.Roles) > 0 ||
			slices.ContainsFunc(r.Approvers, func(who string) bool { return strings.HasPrefix(who, "roles:") })
	})
}
