package approval

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"ravenbot/internal/core/address"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/feature"
	"ravenbot/internal/store"
)

// maxShownArgs is how many bytes of arguments a question in the chat shows. Longer ones are never cut, since people
// decide about the exact call: they are shown on the page, or the call is refused.
const maxShownArgs = 12 << 10

// maxKeptArgs is how many bytes of arguments are still shown when a call is decided.
const maxKeptArgs = 1500

// postKey is the key of the post that asks, by which the decision replaces it.
func postKey(a store.Approval) string { return cmp.Or(a.Post, "approval/"+a.ID) }

// questionDraft returns the post that asks about calls, of which some may be decided.
func (q *Queue) questionDraft(list []store.Approval) chat.Draft {
	var parts []string
	var open []store.Approval
	for _, a := range list {
		if a.Decision == "" {
			open = append(open, a)
		} else {
			parts = append(parts, describeDecided(a))
		}
	}
	first := list[0]
	from := first.Origin // of one turn, like the others
	d := chat.Draft{Key: postKey(first), Origin: &from}
	if len(open) == 0 {
		d.Text = strings.Join(parts, "\n\n")
		return d
	}
	if len(open) == 1 {
		first = open[0]
		parts = append(parts, fmt.Sprintf("**May I run `%s`?**", first.Tool), q.shownArgs(first),
			describeHosts(first.Args), describeReason(first), q.whoDecides(first))
	} else {
		parts = append(parts, fmt.Sprintf("**May I run these %d calls?**", len(open)))
		for i, a := range open {
			parts = append(parts, fmt.Sprintf("%d. `%s` (`%s`)", i+1, a.Tool, a.ID), q.shownArgs(a), describeHosts(a.Args),
				describeReason(a))
		}
		parts = append(parts, q.whoDecides(open...)+fmt.Sprintf(" That counts for all of them; write `approve %s` or "+
			"`deny %s` for one alone.", open[0].ID, open[0].ID))
	}
	d.Text = strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "\n\n")
	d.Buttons = buttons(open)
	d.Footer = fmt.Sprintf("denied if nobody decides by %s UTC · %s", first.Expires.UTC().Format("15:04"), first.ID)
	return d
}

// buttons returns the buttons below a question about open calls: each choice that would hold for all of them.
func buttons(open []store.Approval) []chat.Button {
	id := open[0].ID
	if len(open) > 1 {
		id += wholeQuestion
	}
	all := func(may func(store.Approval) bool) bool {
		return !slices.ContainsFunc(open, func(a store.Approval) bool { return !may(a) })
	}
	var list []chat.Button
	if all(func(a store.Approval) bool { return len(a.Args) <= maxShownArgs }) {
		list = append(list, chat.Button{Label: "Approve", Value: pressYes + " " + id, Style: chat.Primary})
		if all(mayGrantHere) {
			list = append(list, chat.Button{Label: "In this conversation", Value: pressHere + " " + id})
		}
		if all(func(a store.Approval) bool { return a.Grantable }) {
			list = append(list, chat.Button{Label: "Always here", Value: pressAlways + " " + id})
		}
		if all(func(a store.Approval) bool { return a.Reading }) {
			list = append(list, chat.Button{Label: "Reading tools here", Value: pressReading + " " + id})
		}
	}
	return append(list, chat.Button{Label: "Deny", Value: pressNo + " " + id, Style: chat.Danger})
}

// mayGrantHere reports whether an approval of a call may count for more calls of its asker.
func mayGrantHere(a store.Approval) bool { return a.Grantable && !a.Shared && a.Asker.ID != "" }

// shownArgs returns the arguments of a call as people see them before they decide.
func (q *Queue) shownArgs(a store.Approval) string {
	if len(a.Args) > maxShownArgs {
		return fmt.Sprintf("Its arguments are too long to be shown here (%d bytes). An administrator can read and approve "+
			"it on the page Calls: %s", len(a.Args), q.o.Page)
	}
	return fenced(showExactly(a.Args))
}

// fenced returns a text as a block of code.
func fenced(s string) string {
	fence := fenceFor(s)
	return fence + "json\n" + s + "\n" + fence
}

// whoDecides names the approvers of calls, and explains the buttons other than Approve and Deny.
func (q *Queue) whoDecides(open ...store.Approval) string {
	a := open[0]
	who := "Only an administrator"
	switch {
	case len(a.Approvers) > 0:
		who = "Only " + describeApprovers(a.Approvers)
	case a.Asker.ID != "":
		who = "Only the asker" + nameOf(a.Asker) + " or an administrator"
	}
	words := who + " can decide: press a button, or write `approve` or `deny`."
	has := func(word string) bool {
		return slices.ContainsFunc(buttons(open), func(b chat.Button) bool { return strings.HasPrefix(b.Value, word+" ") })
	}
	if has(pressAlways) {
		which := "*Always here*, for administrators, also lets"
		if has(pressHere) {
			which = "*In this conversation* (while I have read only your words) and *Always here* (for administrators) also let"
		}
		words += " " + which + " me run this tool with other arguments, if I have read nothing from outside."
	}
	if has(pressReading) {
		var servers []string
		for _, a := range open {
			servers = append(servers, "`"+plainName(a.Server)+"`")
		}
		slices.Sort(servers)
		words += fmt.Sprintf(" *Reading tools here*, for administrators, lets me run the tools of %s that only read, in this "+
			"channel, also after I have read what others wrote.", strings.Join(slices.Compact(servers), " and "))
	}
	return words
}

// describeDecided returns what became of a call.
func describeDecided(a store.Approval) string {
	args := fmt.Sprintf("%d bytes of arguments", len(a.Args))
	if len(a.Args) <= maxKeptArgs {
		args = showExactly(a.Args)
	}
	what := "**Denied**"
	switch a.Decision {
	case store.Approved:
		what = "**Approved**"
	case store.Expired:
		what = "**Not run**, because nobody decided in time"
	}
	if a.By != "" {
		what += " by " + plainName(a.By)
	}
	return fmt.Sprintf("%s: `%s`\n\n%s", what, a.Tool, fenced(args))
}

// describeApprovers returns who may approve, in words.
func describeApprovers(list []string) string {
	var words []string
	for _, who := range list {
		kind, name, _ := strings.Cut(who, ":")
		if kind == "roles" {
			words = append(words, "members with the role "+plainName(name))
		} else {
			words = append(words, "the user "+plainName(name))
		}
	}
	return strings.Join(words, " or ")
}

// describeReason returns the reason why a call needs an approval, and the line of config.json that would avoid such
// questions. It is empty if neither is known.
func describeReason(a store.Approval) string {
	if a.Reason == "" {
		return ""
	}
	words := "Why I ask: " + a.Reason + "."
	if a.Line != "" {
		// A server may have put a backtick into the name of its tool, which would end the code.
		words += " In `config.json`, this ends such questions: `" + strings.ReplaceAll(a.Line, "`", "'") + "`."
	}
	return words
}

// nameOf returns a user's name in parentheses; empty if the platform gave none.
func nameOf(u chat.User) string {
	if u.Name == "" {
		return ""
	}
	return " (" + plainName(u.Name) + ")"
}

// plainName returns a name without the characters that Markdown or a platform interprets.
func plainName(s string) string {
	return strings.Map(func(c rune) rune {
		if strings.ContainsRune("*_`~[]()<>@#|\\\n\r", c) || unicode.IsControl(c) {
			return -1
		}
		return c
	}, s)
}

// showExactly returns arguments for people to read, without escapes of characters that can be seen. Those that cannot be
// seen, or strike out others, are written as their code, so that nothing is hidden.
func showExactly(args json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, args, "", "  ") != nil {
		b.Reset()
		b.Write(args)
	}
	plain := escaped().ReplaceAllStringFunc(b.String(), func(s string) string {
		var c string
		if json.Unmarshal([]byte(`"`+s+`"`), &c) != nil || c == `"` || c == `\` || c < " " {
			return s
		}
		return c
	})
	var out strings.Builder
	for _, c := range plain {
		strikes := c >= 0x0334 && c <= 0x0338
		switch {
		case c == '\n' || c == ' ' || unicode.IsGraphic(c) && !unicode.Is(unicode.Zs, c) && !text.IsInvisible(c) && !strikes:
			out.WriteRune(c)
		case c > 0xFFFF:
			fmt.Fprintf(&out, "\\U%08x", c)
		default:
			fmt.Fprintf(&out, "\\u%04x", c)
		}
	}
	return out.String()
}

// escaped matches escapes in JSON: \uXXXX, two of them for characters beyond the basic plane, or a backslash with
// another character.
var escaped = text.Pattern(`\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.`)

// describeHosts names the hosts in arguments with non-English letters, which may look the same. It is empty if there
// are none.
func describeHosts(args json.RawMessage) string {
	var odd []string
	for _, s := range address.Texts(args) {
		for _, a := range address.In(s) {
			for _, host := range address.Hosts(a) {
				if code := strings.Trim(strconv.QuoteToASCII(host), `"`); code != host && !slices.Contains(odd, "`"+code+"`") {
					odd = append(odd, "`"+code+"`")
				}
			}
		}
	}
	if len(odd) == 0 {
		return ""
	}
	return "Not only English letters are in " + strings.Join(odd, ", ") + ": look whether that is the host you know."
}

// fenceFor returns a code fence longer than every run of backticks in a text, so that the
// text cannot close it.
func fenceFor(s string) string {
	longest, run := 2, 0
	for _, c := range s {
		if run++; c != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	return strings.Repeat("`", longest+1)
}

// Buttons returns the buttons below a question.
func (*Queue) Buttons() []feature.Button {
	const who = "the asker or an administrator"
	return []feature.Button{
		{Word: pressYes, Who: who, Does: "lets a tool call be made that waits for an approval"},
		{
			Word: pressHere,
			Who:  who,
			Does: "lets it be made, and the tool be used by the asker in this conversation for a day",
		},
		{
			Word: pressAlways,
			Who:  "an administrator",
			Does: "lets it be made, and the tool be used in this channel until that is revoked",
		},
		{
			Word: pressReading,
			Who:  "an administrator",
			Does: "lets it be made, and the reading tools of its server be used in this channel, also after foreign text, " +
				"until that is revoked",
		},
		{Word: pressNo, Who: who, Does: "refuses a tool call that waits for an approval"},
	}
}

// Urgent reports whether a message decides about a call, and so must not wait behind the turn that makes the call.
// Every press of an approval button does. A word does if its author may answer an open question in its conversation.
func (q *Queue) Urgent(m chat.Message) bool {
	if m.Change != "" {
		return false
	}
	if what, id := q.parseDecision(m); what == "" || id != "" {
		return what != ""
	}
	return len(q.answerable(m)) > 0
}

// answerable returns the IDs of the open questions in the conversation of a message that its author may answer.
func (q *Queue) answerable(m chat.Message) []string {
	var ids []string
	asked := map[string]bool{}
	for _, a := range q.Open() {
		if a.Conversation != m.Conversation || !mayDecide(a, m.Author, m.Conversation) || asked[a.Post] {
			continue
		}
		id := a.ID
		if a.Post != "" {
			asked[a.Post], id = true, a.ID+wholeQuestion
		}
		ids = append(ids, id)
	}
	return ids
}

// parseDecision returns the decision that a message makes, as in "approve ID" or "deny",
// pressed or written; empty if it makes none.
func (q *Queue) parseDecision(m chat.Message) (what, id string) {
	if !m.IsQuestion() && m.Kind() != chat.EventPress {
		return "", ""
	}
	what, id, _ = strings.Cut(strings.Trim(strings.TrimSpace(m.Text), ".!`"), " ")
	switch what = strings.ToLower(what); what {
	case pressYes, pressHere, pressAlways, pressReading, pressNo:
		// Written words count only with a known ID: "approve the budget" is a question.
		if id = strings.TrimSpace(id); id == "" || q.hasID(id) || m.Kind() == chat.EventPress {
			return what, id
		}
	}
	return "", ""
}

// hasID reports whether an approval of an ID is known, decided or not.
func (q *Queue) hasID(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.find(strings.TrimSuffix(id, wholeQuestion)) != nil
}

// Handle makes the decision of a message, and returns what became of it. The draft is nil
// where the message decides nothing.
func (q *Queue) Handle(ctx context.Context, m chat.Message) (*chat.Draft, error) {
	if m.Command == commandName {
		return q.handleCommand(ctx, m)
	}
	if !q.Urgent(m) {
		return nil, nil
	}
	what, id := q.parseDecision(m)
	// Without an ID the word means the only open question here that its author may answer.
	if id == "" {
		open := q.answerable(m)
		switch len(open) {
		case 0: // Urgent saw one, but somebody else was quicker
			return refusalDraft("This was decided just now."), nil
		case 1:
		default:
			return refusalDraft("Several calls wait for a decision here; press the button below the one you mean, " +
				"or write `" + what + "` with its id: " + strings.Join(open, ", ") + "."), nil
		}
		id = open[0]
	}
	a, err := q.Decide(ctx, id, scopes[what], m.Author, m.Conversation)
	if err != nil {
		return refusalDraft(strings.ToUpper(err.Error()[:1]) + err.Error()[1:] + "."), nil
	}
	return &chat.Draft{Ephemeral: true, Text: fmt.Sprintf("`%s` is %s.", a.Tool, a.Decision)}, nil
}

// refusalDraft returns an answer, for its reader alone, that nothing was done.
func refusalDraft(s string) *chat.Draft { return &chat.Draft{Ephemeral: true, Failed: true, Text: s} }
