package policy

import (
	"ravenbot/internal/core/tool"
	"ravenbot/internal/ops/config"
)

// Grants are the calls that people approved beforehand.
type Grants interface {
	// Allow reports whether a call may be made as long as no foreign text was read.
	Allow(in tool.Intent) bool
	// AllowReading reports whether a call is one of the reading tools that may run also after foreign text.
	AllowReading(in tool.Intent) bool
}

// FromConfig returns the policy of a configuration: tools.policy, tools.mode, and the settings of servers.
func FromConfig(c *config.Config, grants Grants) *Policy {
	o := Options{
		Grants: grants,
		Open:   c.Tools.Mode == "open",
		Server: func(name string) Server {
			s, known := c.MCPServers[name]
			return Server{
				Known:       known,
				Trust:       s.Trust,
				Closed:      s.Egress.None,
				Reads:       s.Reads,
				AlwaysAllow: s.AlwaysAllow,
			}
		},
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
