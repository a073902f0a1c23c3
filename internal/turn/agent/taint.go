package agent

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	"ravenbot/internal/core/address"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/store"
	"ravenbot/internal/turn/markdown"
)

// provenance is what a step of calls is judged by: what the model had read when it made them.
type provenance struct {
	origin  origin.Origin             // whose words
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
		origin: r.requestOrigin(turns),
		isNamed: func(a string) bool {
			by := named()[a]
			return by == namedByPerson || by == namedByPage && mayFollow()(a)
		},
	}
}

// requestOrigin returns whose words a request with turns holds: what the turns and those before them have read, and
// descriptions of tools that nobody has approved. What else is in a request, noteOrigin has noted with the turn.
func (r *run) requestOrigin(turns []conversation.Turn) origin.Origin {
	o := originOfTurns(r.history.summary, turns)
	for _, name := range slices.Sorted(maps.Keys(r.tools)) {
		if spec := r.tools[name].Tool.Spec(); spec.Unapproved {
			o = o.With(origin.Foreign("the description of " + name + ", which nobody has approved"))
		}
	}
	return o
}

// originOfTurns returns whose words turns and the summary before them hold.
func originOfTurns(before conversation.Summary, turns []conversation.Turn) origin.Origin {
	o := before.Origin
	for _, t := range turns {
		if t.User != "" {
			o = o.With(origin.Origin{Authors: []string{t.User}})
		}
		o = o.With(t.Origin)
	}
	return o
}

// noteOrigin records the origin of the turn: of the question, of everything that comes with it, and of the system prompt.
func (r *run) noteOrigin() {
	parts := slices.Clone(r.volatile)
	for _, m := range r.turn.UserMessages() {
		parts = append(parts, m.Parts...)
	}
	if r.standing != "" {
		parts = append(parts, llm.Part{Source: llm.SourceKnowledge})
	}
	for _, set := range [][2]string{{r.place.TopicBy, r.place.Topic}, {r.place.ThreadBy, r.place.Thread}} {
		if by := set[0]; by != "" && set[1] != "" {
			parts = append(parts, llm.Part{Origin: origin.User(r.message.Conversation.Platform, by)})
		}
	}
	for _, p := range parts {
		r.turn.Origin = r.turn.Origin.With(originOf(p))
	}
}

// originOf returns whose words a part of a request holds.
func originOf(p llm.Part) origin.Origin {
	switch {
	case p.Source == llm.SourceFile:
		return p.Origin.With(origin.Foreign("an attached file"))
	case p.Source == llm.SourceKnowledge:
		return p.Origin.With(origin.Foreign("files that the agent knows"))
	case p.Source == llm.SourceForeign && !p.Origin.IsForeign():
		return p.Origin.With(origin.Foreign(strangersWords))
	}
	return p.Origin
}

// strangersWords is the source of messages of people who must not use the bot.
const strangersWords = "a message of a bot, or of somebody who may not use me"

// markOrigins sets the origins of the messages that a question is about.
func (r *run) markOrigins(ctx context.Context, m chat.Message, c *chat.Context) {
	mayUse := r.usersAt(m.Conversation)
	mark := func(s *chat.Said) {
		switch {
		case s.Origin.IsForeign(): // set by the adapter
		case s.Self:
			s.Origin, s.News = r.originOfPost(ctx, m.Conversation, *s)
		case s.Bot || !mayUse(s.ByID):
			s.Origin = origin.Foreign(strangersWords)
		default:
			s.Origin = origin.User(m.Conversation.Platform, s.ByID)
		}
	}
	for _, s := range []*chat.Said{c.Reply, c.Root} {
		if s != nil {
			mark(s)
		}
	}
	for _, list := range [][]chat.Said{c.Linked, c.Recent} {
		for i := range list {
			mark(&list[i])
		}
	}
	// Every question includes topics and titles, which may come from somebody who must not use the bot.
	if !mayUse(c.Place.TopicBy) {
		c.Place.Topic = ""
	}
	if !mayUse(c.Place.ThreadBy) {
		c.Place.Thread = ""
	}
}

// usersAt returns a function that reports whether a user, by ID, may use the bot in a conversation. For an empty ID it
// reports whether everybody may.
func (r *run) usersAt(at chat.Address) func(userID string) bool {
	if r.engine.o.Access == nil {
		return func(string) bool { return true }
	}
	return r.engine.o.Access.UsersAt(at)
}

// originOfPost returns the stored origin of a post of the bot, or the origin of the turn that it shows. Any other post
// counts as foreign.
func (r *run) originOfPost(ctx context.Context, at chat.Address, s chat.Said) (o origin.Origin, isNews bool) {
	shown := r.lookUpPost(ctx, at, s)
	if shown.Origin != nil {
		return *shown.Origin, shown.News
	}
	if subject := cmp.Or(shown.Turn, s.Subject); subject != "" {
		_, t, err := r.engine.o.Store.TurnOf(context.WithoutCancel(ctx), subject)
		if err == nil {
			return originOfTurns(conversation.Summary{}, []conversation.Turn{t}), false
		} else if !errors.Is(err, store.ErrNotFound) {
			r.engine.o.Log.Error("failed to look up the origin of a message of the bot", "message", s.ID, "error", err)
		}
	}
	return origin.Foreign("a post of mine that is no answer"), false
}

// originOfResult returns whose words the result of a call holds.
func (r *run) originOfResult(c llm.Call, res tool.Result) origin.Origin {
	n, ok := r.tools[c.Name]
	switch {
	case !ok:
		return origin.Origin{}
	case !n.Tool.Spec().ReadsForeign():
		return res.Origin
	}
	source := "the result of " + n.Name
	if in := addressesOf(c); len(in) > 0 {
		source += " (" + text.Shorten(in[0], maxTaintURLChars) + ")"
	}
	return origin.Foreign(source)
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
	namedByPage         // or by a feed or search, or a post of the bot that holds words of others
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
				case m.Role == llm.User && p.Source == llm.SourceContext && p.Origin.IsForeign():
					add(p.Text, namedByPage) // such as a digest
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
		if address.Web(s) != nil { // complete, followed by possible punctuation
			list = append(list, s)
		} else {
			list = append(list, address.In(s)...)
		}
	}
	return list
}

// maxNotedHosts is how many hosts of links the line below an answer names.
const maxNotedHosts = 5

// unnamedLinks returns a note about the links of an answer that the turn has not read. After foreign text, such a link
// may carry private words to the author of that text, once somebody opens it. It is empty if there are none.
func (r *run) unnamedLinks(answer string) string {
	turns := append(slices.Clone(r.history.turns), *r.turn)
	if !originOfTurns(r.history.summary, turns).IsForeign() {
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
