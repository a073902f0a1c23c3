package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"ravenbot/internal/core/address"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/news/bundled"
)

// Reasons for which safe mode asks.
const (
	reasonWrite       = "safe mode asks before a tool that changes something"
	reasonDestructive = "safe mode asks before a tool that may delete or overwrite something"
	reasonUnknown     = "safe mode asks before a tool of which it is not known that it only reads"
)

// decideWithoutRule decides about a call that no rule is about.
func (p *Policy) decideWithoutRule(in call) tool.Verdict {
	c, r := in.Caller, p.read(in)
	switch {
	case p.o.Open:
		return tool.Verdict{Decision: tool.Allow}
	case c.Unattended && matchesNames(c.Granted, in.names):
		// What the task was given it may use, but a text that it read must not choose where to.
		if to := in.destination(); len(c.Taint) > 0 && to != "" {
			return p.ask(in, r, "nobody named the address "+to)
		}
		return tool.Verdict{Decision: tool.Allow}
	case p.runs(in, r):
		return tool.Verdict{Decision: tool.Allow}
	case r.class != readOnly:
		return p.ask(in, r, map[string]string{"write": reasonWrite, "destructive": reasonDestructive,
			unknown: reasonUnknown}[r.class])
	}
	target := "to another service"
	if hosts := in.hosts(); len(hosts) > 0 {
		target = "to " + strings.Join(hosts, ", ")
	}
	return p.ask(in, r, "it could carry what was said here "+target)
}

// reading describes the effects of a tool without a rule.
type reading struct {
	class  string // see Class
	trust  bool   // that it only reads is believed also after foreign text
	closed bool   // it reaches nothing outside of the bot or of its server
	within bool   // it does not say that it reaches more than its server or service
	server Server
}

// read returns the known effects of the called tool: from the operator, from people who approved its reading tools
// here, and from the server only if the operator trusts it.
func (p *Policy) read(in call) reading {
	spec := in.Tool.Tool.Spec()
	r := reading{class: p.Class(spec)}
	open, granted := spec.Hints.OpenWorld, p.o.Grants != nil && p.o.Grants.AllowReading(in.Intent)
	if spec.Native {
		// Those that reach out, such as a search, go to where the operator lets them, and so may be approved as well.
		r.trust, r.closed, r.within = granted, open == nil || !*open, true
		return r
	}
	r.server = p.o.Server(spec.Server)
	r.trust, r.within = r.server.Trust, open == nil || !*open
	// A tool without the hint reaches the outside, which is the default of openWorldHint.
	r.closed = r.server.Closed || r.trust && open != nil && !*open
	if granted {
		r.class, r.trust = readOnly, true
	}
	return r
}

// runs reports whether a call runs without a question.
func (p *Policy) runs(in call, r reading) bool {
	spec, c := in.Tool.Tool.Spec(), in.Caller
	foreign := len(c.Taint) > 0
	switch {
	case r.class != readOnly:
		// People decide beforehand about calls of their own alone: not about what foreign text may cause.
		return !foreign && !c.Unattended && (slices.Contains(r.server.AlwaysAllow, spec.Name) ||
			isPlace(c) && p.o.Grants != nil && p.o.Grants.Allow(in.intent()))
	case r.closed, !foreign && !c.Unattended, spec.Native && goesToNamedAddresses(in):
		return true
	}
	return r.trust && r.within && !c.Unattended && !in.namesAnother()
}

// intent returns the call as if the person whose rights are asked for made it.
func (c call) intent() tool.Intent {
	in := c.Intent
	if c.author != nil {
		in.Caller.User = *c.author
	}
	return in
}

// isPlace reports whether people can decide on more than one call in the call's place.
func isPlace(c tool.Caller) bool { return !c.Unattended && !c.Conversation.IsZero() }

// ask returns a question with the foreign text that the turn has read, and a way to avoid it permanently.
func (p *Policy) ask(in call, r reading, reason string) tool.Verdict {
	spec, c := in.Tool.Tool.Spec(), in.Caller
	foreign := len(c.Taint) > 0
	if foreign {
		reason += readBefore + c.Origin().Sources()
	}
	claimed := spec.Hints.Class()
	mayRead := claimed == readOnly || claimed == unknown && !spec.Native
	return tool.Verdict{
		Decision:         tool.Ask,
		Reason:           reason,
		Grantable:        r.class != readOnly && !foreign && isPlace(c),
		ReadingGrantable: mayRead && isPlace(c) && !r.trust && (!foreign || r.within && !in.namesAnother()),
		Line:             configLine(in, r),
	}
}

// configLine returns the line of config.json that ends questions like this one and allows as little else as possible.
func configLine(in call, r reading) string {
	spec, c := in.Tool.Tool.Spec(), in.Caller
	foreign, claimed := len(c.Taint) > 0, spec.Hints.Class()
	entry := func(keys string) string { return fmt.Sprintf(`"mcpServers": {%q: {%s}}`, spec.Server, keys) }
	switch {
	case c.Unattended:
		return fmt.Sprintf(`"tools": [%q] of the digest or webhook`, in.Tool.Name)
	case spec.Native || !r.server.Known: // a rule
	case (claimed == readOnly || r.class == readOnly) && !r.trust && (!foreign || r.within && !in.namesAnother()):
		return entry(`"trust": true`)
	case claimed == unknown && r.class == unknown && foreign && !r.trust:
		return entry(fmt.Sprintf(`"reads": [%q], "trust": true`, spec.Name))
	case claimed == unknown && r.class == unknown:
		return entry(fmt.Sprintf(`"reads": [%q]`, spec.Name))
	case r.class == readOnly && len(in.hosts()) == 0:
		return entry(`"egress": "none"`)
	case r.class != readOnly && !foreign:
		return entry(fmt.Sprintf(`"alwaysAllow": [%q]`, spec.Name))
	}
	keys := fmt.Sprintf(`"tools": [%q]`, in.Tool.Name)
	if !c.Conversation.IsZero() {
		keys += fmt.Sprintf(`, "channels": [%q]`, c.Conversation.Base())
	}
	if hosts := in.hosts(); r.class == readOnly && len(hosts) > 0 {
		list, _ := json.Marshal(hosts) // strings always can
		keys += `, "hosts": ` + string(list)
	}
	return fmt.Sprintf(`"tools": {"policy": [{%s, "tainted": %v, "decision": "allow"}]}`, keys, foreign)
}

// readBefore begins the part of a reason that names what foreign text a turn has read.
const readBefore = "; text of others was read before: "

// goesToNamedAddresses reports whether all addresses in a call of a native tool were literally named by a person, a
// search or a page that was read. Such an address reveals nothing new.
func goesToNamedAddresses(in call) bool {
	named := 0
	for _, s := range in.texts() {
		// Another text could carry data as well as an address. Bundled feeds lead nowhere.
		if !isBundled(in, s) && (address.Web(s) == nil || !in.isNamed(s)) {
			return false
		}
		named++
	}
	return named > 0
}

// isBundled reports whether a text of a call is the exact name of a feed that comes with the program.
func isBundled(in call, s string) bool {
	name, ok := strings.CutPrefix(s, "bundled:")
	return ok && in.Tool.Name == "feeds_fetch" && slices.Contains(bundled.Names(), name)
}

// isNamed reports whether somebody named an address to the letter.
func (c call) isNamed(a string) bool { return c.Caller.IsNamed != nil && c.Caller.IsNamed(a) }

// namesAnother reports whether the arguments of a call name an address that nobody named before.
func (c call) namesAnother() bool {
	return slices.ContainsFunc(c.addresses(), func(a string) bool { return !c.isNamed(a) })
}

// destination returns a text of a call that is an address as a whole and that nobody named; empty: there is none.
func (c call) destination() string {
	for _, s := range c.texts() {
		if in := address.In(s); len(in) == 1 && in[0] == s && !c.isNamed(s) {
			return s
		}
	}
	return ""
}

// hosts returns the hosts of the web addresses in the arguments of a call.
func (c call) hosts() []string {
	var hosts []string
	for _, a := range c.addresses() {
		if u := address.Web(a); u != nil && !slices.Contains(hosts, strings.ToLower(u.Hostname())) {
			hosts = append(hosts, strings.ToLower(u.Hostname()))
		}
	}
	return hosts
}
