package agent

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	"ravenbot/internal/address"
	"ravenbot/internal/conversation"
	"ravenbot/internal/llm"
	"ravenbot/internal/markdown"
	"ravenbot/internal/text"
)

// maxTaint is how many sources of foreign text a turn or summary remembers: one is enough to be
// careful, and some tell people where the text came from.
const maxTaint = 8

// addTaint adds a source of foreign text to a list, and returns the list as it is where the source
// is in it or it is full. The given list is not changed: stored turns share it.
func addTaint(list []string, source string) []string {
	if len(list) >= maxTaint || slices.Contains(list, source) {
		return list
	}
	return append(slices.Clone(list), source)
}

// provenance is what a step of calls is judged by: what the model had read when it made them.
type provenance struct {
	taint   []string                  // sources of foreign text
	isNamed func(address string) bool // see tool.Caller.IsNamed
}

// beginStep notes what the model has read. It is called before the calls of a step run, because
// their results change the turn.
func (r *run) beginStep() {
	turns := append(slices.Clone(r.history.turns), *r.turn)
	turns[len(turns)-1].Messages = slices.Clone(r.turn.Messages)
	named := sync.OnceValue(func() map[string]namer { return r.namedAddresses(turns) })
	mayFollow := sync.OnceValue(func() func(string) bool { return followLinks(named(), turns[len(turns)-1]) })
	r.provenance = provenance{
		taint: r.foreignSources(turns),
		isNamed: func(a string) bool {
			by := named()[a]
			return by == namedByPerson || by == namedByPage && mayFollow()(a)
		},
	}
}

// taintTurn notes that the turn has read foreign text.
func (r *run) taintTurn(source string) { r.turn.Taint = addTaint(r.turn.Taint, source) }

// taintByQuestion notes the foreign text that a question brings along.
func (r *run) taintByQuestion() {
	for _, m := range r.turn.UserMessages() {
		for _, p := range m.Parts {
			switch p.Source {
			case llm.SourceFile:
				r.taintTurn("an attached file")
			case llm.SourceKnowledge:
				r.taintTurn("files that the agent knows")
			case llm.SourceForeign:
				r.taintTurn("a message of a bot, or of somebody who may not use me")
			}
		}
	}
	if r.standing != "" {
		r.taintTurn("files that the agent knows")
	}
}

// taintByResult notes the foreign text that the result of a call holds.
func (r *run) taintByResult(c llm.Call) {
	n, ok := r.tools[c.Name]
	if !ok || !n.Tool.Spec().ReadsForeign() {
		return
	}
	source := "the result of " + n.Name
	if in := addressesOf(c); len(in) > 0 {
		source += " (" + text.Shorten(in[0], maxTaintURLChars) + ")"
	}
	r.taintTurn(source)
}

// maxTaintURLChars is how much of an address the name of a source shows.
const maxTaintURLChars = 100

// namingTools are the native packs whose results name addresses that may be opened: pages,
// feeds and searches.
var namingTools = map[string]bool{"feeds": true, "web": true, "websearch": true}

// namer is who named an address.
type namer int

const (
	namedByNobody namer = iota
	namedByPage         // or by a feed or search
	namedByPerson
)

// namedAddresses returns the addresses that the words of a participant, or a page, feed or search
// that was read, hold to the letter. An address that the model has put together is in none of
// them.
func (r *run) namedAddresses(turns []conversation.Turn) map[string]namer {
	named := map[string]namer{}
	add := func(text string, by namer) {
		for _, a := range address.Named(text) {
			named[a] = max(named[a], by)
		}
	}
	for _, t := range turns {
		calls := map[string]llm.Call{}
		for _, m := range t.Messages {
			for _, c := range m.Calls() {
				calls[c.ID] = c
			}
			for _, p := range m.Parts {
				switch {
				case m.Role == llm.User && (p.Source == llm.SourceWords || p.Source == llm.SourceContext):
					add(p.Text, namedByPerson)
				case p.Result != nil && r.isNaming(calls[p.Result.ID]):
					add(p.Result.Content, namedByPage)
				}
			}
		}
	}
	return named
}

// maxFollowed is how many addresses of a host that only pages have named may be used in a turn: which of many links is
// opened can tell their author something.
const maxFollowed = 3

// followLinks returns a function that reports whether a call of a turn may use an address that only pages have named:
// the first ones of each host.
func followLinks(named map[string]namer, t conversation.Turn) func(a string) bool {
	followed, count := map[string]bool{}, map[string]int{}
	hostOf := func(a string) string { return strings.Join(address.Hosts(a), " ") }
	for _, m := range t.Messages {
		for _, c := range m.Calls() {
			for _, a := range addressesOf(c) {
				if host := hostOf(a); named[a] == namedByPage && !followed[a] && count[host] < maxFollowed {
					followed[a] = true
					count[host]++
				}
			}
		}
	}
	return func(a string) bool { return followed[a] || count[hostOf(a)] < maxFollowed }
}

// addressesOf returns the addresses in the arguments of a call.
func addressesOf(c llm.Call) []string {
	var list []string
	for _, s := range address.Texts(c.Args) {
		if address.Web(s) != nil { // as a whole, with what may look like punctuation behind it
			list = append(list, s)
		} else {
			list = append(list, address.In(s)...)
		}
	}
	return list
}

// maxNotedHosts is how many hosts of links the line below an answer names.
const maxNotedHosts = 5

// unnamedLinks returns a note about the links of an answer that stand in nothing that the turn has read: after foreign
// text, such a link may carry what was said here to whoever wrote that text, once somebody opens it. It is empty where
// there is none.
func (r *run) unnamedLinks(answer string) string {
	turns := append(slices.Clone(r.history.turns), *r.turn)
	if len(taintOf(r.history.summary, turns)) == 0 {
		return ""
	}
	read := map[string]bool{}
	for _, t := range turns {
		for _, m := range t.Messages {
			for _, p := range m.Parts {
				words := p.Text
				if p.Result != nil {
					words = p.Result.Content
				}
				// A link that only the model has written before is the one to be noted.
				if m.Role == llm.Assistant {
					continue
				}
				for _, u := range address.Named(words) {
					read[u] = true
				}
			}
		}
	}
	var hosts []string
	for _, link := range markdown.HiddenLinks(answer) {
		u, err := url.Parse(link)
		if err == nil && u.Host != "" && !read[link] && !slices.Contains(hosts, u.Hostname()) {
			hosts = append(hosts, u.Hostname())
		}
	}
	if len(hosts) == 0 {
		return ""
	}
	return "links that nobody gave lead to " + strings.Join(hosts[:min(len(hosts), maxNotedHosts)], ", ") +
		": look before you open one"
}

// isNaming reports whether addresses in the result of a call may be opened.
func (r *run) isNaming(c llm.Call) bool {
	inner, err := r.unwrap(c)
	n, ok := r.tools[inner.Name]
	return err == nil && ok && n.Tool.Spec().Native && namingTools[n.Tool.Spec().Server]
}

// foreignSources returns the sources of foreign text in a request: what turns have read, and descriptions of tools that
// nobody has approved.
func (r *run) foreignSources(turns []conversation.Turn) []string {
	list := taintOf(r.history.summary, turns)
	for _, name := range slices.Sorted(maps.Keys(r.tools)) {
		if spec := r.tools[name].Tool.Spec(); spec.Unapproved {
			list = addTaint(list, "the description of "+name+", which nobody has approved")
		}
	}
	return list
}

// taintOf returns the sources of foreign text in turns and in the summary before them.
func taintOf(before conversation.Summary, turns []conversation.Turn) []string {
	list := before.Taint
	for _, t := range turns {
		for _, s := range t.Taint {
			list = addTaint(list, s)
		}
	}
	return list
}
