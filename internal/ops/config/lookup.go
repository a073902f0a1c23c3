package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// EmbeddingsModel returns the name of the model that gives embeddings, or "".
func (c *Config) EmbeddingsModel() string { return cmp.Or(c.Embeddings, c.Tools.Discovery.Embeddings) }

// DiscordEnabled reports whether there is a token for Discord.
func (c *Config) DiscordEnabled() bool { return c.Platforms.Discord.Token != "" }

// AskedModels returns the models that are asked over the network, as name (provider/model), sorted.
func (c *Config) AskedModels() []string {
	var list []string
	for name, m := range c.Models {
		if m.Provider != "offline" && !m.KeyMissing {
			list = append(list, fmt.Sprintf("%s (%s/%s)", name, m.Provider, m.Model))
		}
	}
	slices.Sort(list)
	return list
}

// Proxies returns the networks of trustedProxies.
func (h HTTP) Proxies() []netip.Prefix {
	var list []netip.Prefix
	for _, text := range h.TrustedProxies {
		if p, err := parseProxy(text); err == nil { // checked when it was loaded
			list = append(list, p)
		}
	}
	return list
}

// SlackEnabled reports whether there is a bot token for Slack.
func (c *Config) SlackEnabled() bool { return c.Platforms.Slack.BotToken != "" }

// ChannelFor returns the first rule whose match covers an address; a channel's rule covers its threads. Where none
// does it returns the default: agent default, mentions, everyone.
func (c *Config) ChannelFor(address string) Channel {
	if ch, ok := c.ChannelRule(address); ok {
		return ch
	}
	return Channel{Match: address, Agent: "default", AllowUsers: []string{"*"}, RespondTo: "mentions"}
}

// ChannelRule returns the first rule whose match covers an address, and false where there is none.
func (c *Config) ChannelRule(address string) (Channel, bool) {
	for _, ch := range c.Channels {
		if Covers(ch.Match, address) {
			return ch, true
		}
	}
	return Channel{}, false
}

// Covers reports whether a pattern such as slack:T123/* matches an address, or the channel that the address is a
// thread of.
func Covers(pattern, address string) bool {
	want, err := splitAddress(pattern)
	if err != nil {
		return false
	}
	have, err := splitAddress(address)
	if err != nil || len(have) < len(want) {
		return false
	}
	// Only the pattern's parts are compared, so that a channel's pattern covers its threads.
	for i, p := range want {
		if !Glob(p, have[i]) {
			return false
		}
	}
	return true
}

// Glob reports whether a pattern matches s. * stands for any text.
func Glob(pattern, s string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == s
	}
	if !strings.HasPrefix(s, head) {
		return false
	}
	s = s[len(head):]
	// Taking the first occurrence of each piece is enough: a later one would leave less text for the rest.
	for {
		piece, behind, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(s, piece)
		}
		i := strings.Index(s, piece)
		if i < 0 {
			return false
		}
		s, rest = s[i+len(piece):], behind
	}
}

// AllowsUser reports whether a user is answered. id is the platform's permanent id; name is the unique user name,
// never a display name, which anybody can choose; roles are ids and names.
func (ch Channel) AllowsUser(id, name string, roles []string) bool {
	if len(ch.AllowRoles) > 0 {
		if HasRole(roles, ch.AllowRoles) {
			return true
		}
		if slices.Equal(ch.AllowUsers, []string{"*"}) { // the default
			return false
		}
	}
	return slices.ContainsFunc(ch.AllowUsers, func(allowed string) bool {
		// Platforms treat user names as case-insensitive, ids are not.
		byName := Glob(strings.ToLower(strings.TrimPrefix(allowed, "@")), strings.ToLower(name))
		return Glob(allowed, id) || name != "" && byName
	})
}

// HasRole reports whether roles and wanted have one in common.
func HasRole(roles, wanted []string) bool {
	return slices.ContainsFunc(wanted, func(role string) bool { return slices.Contains(roles, role) })
}

// UsesRoles reports whether anything depends on the roles of people.
func (c *Config) UsesRoles() bool {
	namesRole := func(who string) bool { return strings.HasPrefix(who, "roles:") }
	return len(c.Limits.Roles) > 0 ||
		slices.ContainsFunc(c.Channels, func(ch Channel) bool { return len(ch.AllowRoles) > 0 }) ||
		slices.ContainsFunc(c.Tools.Policy, func(r Policy) bool {
			return len(r.Roles) > 0 || slices.ContainsFunc(r.Approvers, namesRole)
		}) ||
		slices.ContainsFunc(slices.Collect(maps.Values(c.Agents)), func(a Agent) bool { return len(a.Roles) > 0 })
}

// EnabledServers returns the names of the MCP servers that are not disabled, sorted.
func (c *Config) EnabledServers() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(c.MCPServers)) {
		if !c.MCPServers[name].Disabled {
			names = append(names, name)
		}
	}
	return names
}

// ModelChain returns the models to try, in order: the named one ("" is default), its fallbacks and theirs, each once,
// without those whose key is missing. It is never empty: offline answers when no other can.
func (c *Config) ModelChain(name string) []string {
	if name == "" {
		name = "default"
	}
	var chain []string
	seen := make(map[string]bool)
	var visit func(string)
	visit = func(name string) {
		m, ok := c.Models[name]
		if !ok || seen[name] {
			return
		}
		// The file may hold a cycle of fallbacks when it is used despite its faults.
		seen[name] = true
		if !m.KeyMissing {
			chain = append(chain, name)
		}
		for _, next := range m.Fallback {
			visit(next)
		}
	}
	visit(name)
	if len(chain) == 0 {
		return []string{"offline"}
	}
	return chain
}

// AnswersAll reports whether some channel of a platform is answered without a mention.
func (c *Config) AnswersAll(platform string) bool {
	return slices.ContainsFunc(c.Channels, func(r Channel) bool {
		name, _, _ := strings.Cut(r.Match, ":")
		return r.RespondTo == "all" && (name == platform || name == "*")
	})
}

// WebRooms returns the rooms that the page always shows: general, and those that digests are
// posted to.
func (c *Config) WebRooms() []string {
	rooms := []string{"general"}
	for _, d := range c.Digests {
		for _, to := range d.Post {
			if room, ok := strings.CutPrefix(to, "web:/"); ok && room != "general" {
				rooms = append(rooms, room)
			}
		}
	}
	return rooms
}
