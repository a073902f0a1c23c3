package policy

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"ravenbot/internal/tool"
)

// Reasons for which safe mode asks.
const (
	reasonWrite       = "safe mode asks before a tool that changes something"
	reasonDestructive = "safe mode asks before a tool that may delete or overwrite something"
	reasonUnknown     = "safe mode asks before a tool of which it is not known that it only reads"
)

// decideWithoutRule decides about a call that no rule is about.
func (p *Policy) decideWithoutRule(in call) tool.Verdict {
	spec, c := in.Tool.Tool.Spec(), in.Caller
	class := p.Class(spec)
	switch {
	case p.o.Open:
		return tool.Verdict{Decision: tool.Allow}
	case c.Unattended && matchesNames(c.Granted, in.names):
		// What the task was given it may use, but a text that it read must not choose where to.
		if unnamed := unnamedAddresses(in); len(c.Taint) > 0 && len(unnamed) > 0 {
			return p.ask(c, "nobody named the address "+unnamed[0])
		}
		return tool.Verdict{Decision: tool.Allow}
	case class != "readOnly":
		if len(c.Taint) == 0 && !spec.Native && p.o.AlwaysAllowed(spec) && !c.Unattended {
			return tool.Verdict{Decision: tool.Allow}
		}
		// People decide beforehand about calls of their own alone: not about what foreign text may cause.
		grantable := len(c.Taint) == 0 && !c.Unattended && !c.Conversation.IsZero()
		if grantable && p.o.Granted != nil && p.o.Granted(in.Intent) {
			return tool.Verdict{Decision: tool.Allow}
		}
		v := p.ask(c, map[string]string{"write": reasonWrite, "destructive": reasonDestructive,
			"unknown": reasonUnknown}[class])
		v.Grantable = grantable
		return v
	case !leavesBot(spec), len(c.Taint) == 0 && !c.Unattended, p.goesToNamedAddresses(in):
		return tool.Verdict{Decision: tool.Allow}
	}
	target := "to another service"
	if hosts := hostsIn(in.texts()); len(hosts) > 0 {
		target = "to " + strings.Join(hosts, ", ")
	}
	return p.ask(c, "it could carry what was said here "+target)
}

// ask returns a question, with what foreign text the turn has read.
func (p *Policy) ask(c tool.Caller, reason string) tool.Verdict {
	if len(c.Taint) > 0 {
		reason += "; " + describeTaint(c.Taint)
	}
	return tool.Verdict{Decision: tool.Ask, Reason: reason}
}

// taint returns what foreign text a caller's turn has read. How an MCP server describes its own
// tools is such a text, unless the server is trusted.
func (p *Policy) taint(c tool.Caller) []string {
	list := slices.Clone(c.Taint)
	for _, server := range c.Described {
		if !p.o.Trusts(server) {
			list = append(list, "descriptions of the tools of MCP server "+server)
		}
	}
	return list
}

// maxTaint is how many sources of foreign text a reason names.
const maxTaint = 3

// describeTaint returns for people which foreign text a turn has read, up to maxTaint sources.
func describeTaint(taint []string) string {
	named := strings.Join(taint[:min(len(taint), maxTaint)], ", ")
	if n := len(taint) - maxTaint; n > 0 {
		named += fmt.Sprintf(" and %d more", n)
	}
	return "text of others was read before: " + named
}

// leavesBot reports whether a call of a tool reaches anything outside of the bot. An MCP tool
// that does not say so does: that is the default of openWorldHint.
func leavesBot(s tool.Spec) bool {
	if s.Hints.OpenWorld == nil {
		return !s.Native
	}
	return *s.Hints.OpenWorld
}

// goesToNamedAddresses reports whether a call of a native tool names addresses alone that a
// person, a search or a page that was read named, to the letter: then its address tells nothing
// that was not known there.
func (p *Policy) goesToNamedAddresses(in call) bool {
	if !in.Tool.Tool.Spec().Native || in.Caller.IsNamed == nil {
		return false
	}
	texts := in.texts()
	named := 0
	for _, s := range texts {
		switch {
		case strings.HasPrefix(s, "bundled:"): // feeds that come with the program: nothing leaves it
		case !isAddress(s):
			return false // a text beside the address could carry data as well
		case !in.Caller.IsNamed(s):
			return false
		}
		named++
	}
	return named > 0
}

// unnamedAddresses returns the addresses in the arguments of a call that nobody named to the letter.
func unnamedAddresses(in call) []string {
	return slices.DeleteFunc(slices.Clone(in.texts()), func(s string) bool {
		return !isAddress(s) || in.Caller.IsNamed != nil && in.Caller.IsNamed(s)
	})
}

// isAddress reports whether a whole text is a web address.
func isAddress(s string) bool {
	if !strings.Contains(s, "://") {
		return false
	}
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// hostsIn returns the hosts of the addresses in the texts of a call, in lower case.
func hostsIn(texts []string) []string {
	var hosts []string
	for _, s := range texts {
		if !strings.Contains(s, "://") {
			continue
		}
		for _, word := range strings.Fields(s) {
			if !isAddress(word) {
				continue
			}
			u, _ := url.Parse(word)
			if host := strings.ToLower(u.Hostname()); !slices.Contains(hosts, host) {
				hosts = append(hosts, host)
			}
		}
	}
	return hosts
}

// textsIn returns all texts in the arguments of a call, at any depth.
func textsIn(args json.RawMessage) []string {
	var value any
	if json.Unmarshal(args, &value) != nil {
		return nil
	}
	var texts []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			texts = append(texts, v)
		case []any:
			for _, one := range v {
				walk(one)
			}
		case map[string]any:
			for _, one := range v {
				walk(one)
			}
		}
	}
	walk(value)
	return texts
}
