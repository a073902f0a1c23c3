package approval

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"ravenbot/internal/chat"
	"ravenbot/internal/feature"
	"ravenbot/internal/store"
	"ravenbot/internal/text"
)

// maxShownArgs is how many bytes of arguments the post shows; longer ones are attached as a
// file, never cut: people decide about the exact call.
const maxShownArgs = 1500

// postKey is the key of the post that asks, by which the decision replaces it.
func postKey(a store.Approval) string { return "approval/" + a.ID }

// questionDraft returns the post that asks.
func (q *Queue) questionDraft(a store.Approval) chat.Draft {
	args := showExactly(a.Args)
	d := chat.Draft{Key: postKey(a), Buttons: []chat.Button{{Label: "Approve", Value: pressYes + " " + a.ID,
		Style: chat.Primary}}}
	if a.Grantable && a.Asker.ID != "" {
		d.Buttons = append(d.Buttons, chat.Button{Label: "In this conversation", Value: pressHere + " " + a.ID})
	}
	if a.Grantable {
		d.Buttons = append(d.Buttons, chat.Button{Label: "Always here", Value: pressAlways + " " + a.ID})
	}
	d.Buttons = append(d.Buttons, chat.Button{Label: "Deny", Value: pressNo + " " + a.ID, Style: chat.Danger})
	text := fmt.Sprintf("**May I run `%s`?**\n\n", a.Tool)
	if len(args) <= maxShownArgs {
		fence := fenceFor(args)
		text += fence + "json\n" + args + "\n" + fence + "\n\n"
	} else {
		d.Files = []chat.File{{
			Name: "arguments.json",
			Type: "application/json",
			Size: int64(len(args)),
			Data: []byte(args),
		}}
		text += fmt.Sprintf("Its arguments are in the file (%d bytes).\n\n", len(args))
	}
	who := "Only an administrator"
	switch {
	case len(a.Approvers) > 0:
		who = "Only " + describeApprovers(a.Approvers)
	case a.Asker.ID != "":
		who = "Only whoever asked" + nameOf(a.Asker) + " or an administrator"
	}
	d.Text = text + reasonSentence(a.Reason) + who + " can decide: press a button, or write `approve` or `deny`."
	if a.Grantable {
		d.Text += " *In this conversation* and *Always here* also let me run this tool with other arguments, as long as I " +
			"have read nothing that others wrote; *Always here* is for administrators. `/raven approvals` lists and ends that."
	}
	d.Footer = fmt.Sprintf("denied if nobody decides by %s UTC · %s", a.Expires.UTC().Format("15:04"), a.ID)
	return d
}

// decidedDraft returns the post that replaces the question once it is decided.
func decidedDraft(a store.Approval) chat.Draft {
	d := chat.Draft{Key: postKey(a) + "/" + string(a.Decision)}
	args := showExactly(a.Args)
	if len(args) > maxShownArgs {
		args = fmt.Sprintf("%d bytes of arguments", len(args))
	}
	fence := fenceFor(args)
	what := "**Denied**"
	switch a.Decision {
	case store.Approved:
		what = "**Approved**"
	case store.Expired:
		what = "**Denied**, because nobody decided in time"
	}
	if a.By != "" {
		what += " by " + plainName(a.By)
	}
	d.Text = fmt.Sprintf("%s: `%s`\n\n%sjson\n%s\n%s", what, a.Tool, fence, args, fence)
	return d
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

// reasonSentence says why a call needs an approval; empty where no reason is known.
func reasonSentence(s string) string {
	if s == "" {
		return ""
	}
	return "Why I ask: " + s + ". "
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

// showExactly returns arguments for people to read; invisible characters are written as
// their code, so that nothing is hidden.
func showExactly(args json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, args, "", "  ") != nil {
		b.Reset()
		b.Write(args)
	}
	var out strings.Builder
	for _, c := range b.String() {
		if c == '\n' || c == ' ' || unicode.IsGraphic(c) && !unicode.Is(unicode.Zs, c) && !text.IsInvisible(c) {
			out.WriteRune(c)
		} else if c > 0xFFFF {
			fmt.Fprintf(&out, "\\U%08x", c)
		} else {
			fmt.Fprintf(&out, "\\u%04x", c)
		}
	}
	return out.String()
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
		{Word: pressNo, Who: who, Does: "refuses a tool call that waits for an approval"},
	}
}

// Urgent reports whether a message decides about a call, and so must not wait behind the
// turn that makes the call. Any press of a button of ours does; a word does where a
// question is open in its conversation that its author may answer.
func (q *Queue) Urgent(m chat.Message) bool {
	if m.Change != "" {
		return false
	}
	if what, id := q.parseDecision(m); what == "" || id != "" {
		return what != ""
	}
	for _, a := range q.Open() {
		if a.Conversation == m.Conversation && mayDecide(a, m.Author, m.Conversation.Platform) {
			return true
		}
	}
	return false
}

// parseDecision returns the decision that a message makes, as in "approve ID" or "deny",
// pressed or written; empty if it makes none.
func (q *Queue) parseDecision(m chat.Message) (what, id string) {
	if !m.IsQuestion() && m.Kind() != chat.EventPress {
		return "", ""
	}
	what, id, _ = strings.Cut(strings.Trim(strings.TrimSpace(m.Text), ".!`"), " ")
	switch what = strings.ToLower(what); what {
	case pressYes, pressHere, pressAlways, pressNo:
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
	return q.find(id) != nil
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
		var open []string
		for _, a := range q.Open() {
			if a.Conversation == m.Conversation && mayDecide(a, m.Author, m.Conversation.Platform) {
				open = append(open, a.ID)
			}
		}
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
	var a store.Approval
	var err error
	if scope, yes := scopes[what]; yes {
		a, err = q.Approve(ctx, id, scope, m.Author, m.Conversation.Platform)
	} else {
		a, err = q.Decide(ctx, id, false, m.Author, m.Conversation.Platform)
	}
	if err != nil {
		return refusalDraft(strings.ToUpper(err.Error()[:1]) + err.Error()[1:] + "."), nil
	}
	return &chat.Draft{Ephemeral: true, Text: fmt.Sprintf("`%s` is %s.", a.Tool, a.Decision)}, nil
}

// refusalDraft returns an answer, for its reader alone, that nothing was done.
func refusalDraft(s string) *chat.Draft { return &chat.Draft{Ephemeral: true, Failed: true, Text: s} }
