package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/feature"
	"ravenbot/internal/store"
)

// First words of the buttons below an answer.
var (
	wordRetry = strings.TrimSpace(chat.PressRetry)
	wordGood  = strings.TrimSpace(chat.PressGood)
	wordBad   = strings.TrimSpace(chat.PressBad)
	wordTools = strings.TrimSpace(chat.PressTools)
)

// Conversation is the feature of asking the agent, with the buttons below an answer.
type Conversation struct{ *Engine }

// Control is the feature of stopping the agent, and of making it forget.
type Control struct{ *Engine }

// Tools is the feature that lists the tools which may be used.
type Tools struct{ *Engine }

// Module returns the ability to ask the agent, to stop it and to make it forget.
func (e *Engine) Module() feature.Module {
	return feature.Module{
		Features: []feature.Feature{Conversation{e}, Tools{e}, Control{e}},
		Shared:   []store.Shared{e},
		Tasks:    []feature.Task{{Name: "agent", Run: e.Run}},
		Purge:    e.Purge,
		About:    e.Describe,
	}
}

// Commands returns the commands of the conversation.
func (Conversation) Commands() []chat.CommandSpec {
	return []chat.CommandSpec{
		{
			Name:    chat.CommandAsk,
			Summary: "Ask the bot something",
			Help:    "the same as a command",
			Public:  true,
			Options: []chat.CommandOption{
				{Name: "text", Summary: "What you want to know", Required: true},
				{Name: "feed", Summary: "A feed that it is about", Complete: true, Label: "Feed"},
				{Name: "zone", Summary: "A time zone that it is about", Complete: true, Label: "Time zone"},
				{Name: "thread", Summary: "Answer in a new thread", Kind: chat.OptionThread},
			},
		},
	}
}

// Buttons returns the buttons below an answer.
func (Conversation) Buttons() []feature.Button {
	return []feature.Button{
		{Word: chat.PressStop, Who: "the asker or an administrator", Does: "stops the answer that is being written"},
		{Word: wordRetry, Who: "the asker or an administrator", Does: "answers the same question again"},
		{Word: wordGood, Who: "everybody in the conversation", Does: "notes that the answer was helpful"},
		{Word: wordBad, Who: "everybody in the conversation", Does: "notes that the answer was not helpful"},
		{Word: wordTools, Who: "everybody in the conversation", Does: "shows the tool calls behind an answer"},
	}
}

// formAsk is the command in the menu of a message, and the first word of the id of its form; the message's id follows.
const formAsk = "ask-about"

const fieldQuestion = "question"

// MessageCommands returns the entry in the menu of a message.
func (Conversation) MessageCommands() []chat.MessageCommand {
	return []chat.MessageCommand{{Name: formAsk, Title: "Ask about this", Summary: "Asks the bot about this message"}}
}

// Forms returns the form in which somebody asks about a message.
func (Conversation) Forms() []string { return []string{formAsk} }

// OpenForm returns the form for a question about a message, or nil if m opens no form.
func (Conversation) OpenForm(_ context.Context, m chat.Message) (*chat.Form, error) {
	if m.Command != formAsk || m.Target == nil {
		return nil, nil
	}
	return &chat.Form{
		ID:     formAsk + " " + m.Target.ID,
		Title:  "Ask about this",
		Submit: "Ask",
		Fields: []chat.Field{{
			Name:     fieldQuestion,
			Label:    "Your question",
			Help:     "The bot reads the message with it.",
			Kind:     chat.Text,
			Required: true,
		}},
	}, nil
}

// Question turns a submitted form into a question that links the message. The reader of the context resolves the link.
func (c Conversation) Question(m chat.Message) (chat.Message, bool) {
	// The form's ID holds the ID of the message, so no state is kept between the two.
	id, ok := strings.CutPrefix(m.Text, formAsk+" ")
	if m.Kind() != chat.EventForm || !ok {
		return m, false
	}
	words := strings.TrimSpace(m.Values[fieldQuestion])
	if c.o.Places != nil {
		words = strings.TrimSpace(words + "\n\n" + c.o.Places.Link(m.Conversation, id))
	}
	m.Command, m.Text, m.Values = chat.CommandAsk, words, nil
	return m, true
}

// Handle carries out a press. It returns nil for an allowed retry, which passes to the agent, and for other buttons.
func (c Conversation) Handle(ctx context.Context, m chat.Message) (*chat.Draft, error) {
	if m.Command == formAsk {
		return answerPrivately("I could not open the form. Reply to the message and mention me with your question."), nil
	}
	word, turn := m.Press()
	switch word {
	case chat.PressRetry:
		return c.Engine.refuseRetry(ctx, m, turn)
	case chat.PressTools:
		return c.showCalls(ctx, m, turn)
	case chat.PressGood, chat.PressBad:
		f := store.Feedback{Turn: turn, User: m.Author.ID, Good: word == chat.PressGood, At: c.o.Now()}
		if err := c.o.Store.SaveFeedback(ctx, f); err != nil {
			return nil, fmt.Errorf("save the feedback on turn %s: %w", turn, err)
		}
		return answerPrivately("Thank you, noted."), nil
	}
	return nil, nil
}

// answerPrivately returns an answer that only the asker can see, if the platform supports that.
func answerPrivately(text string) *chat.Draft { return &chat.Draft{Ephemeral: true, Text: text} }

// Commands returns the commands that stop and forget.
func (Control) Commands() []chat.CommandSpec {
	return []chat.CommandSpec{
		{
			Name:    "forget",
			Summary: "Forget this conversation",
			Help:    "I forget this conversation, but not the notes",
		},
		{
			Name:    chat.CommandStop,
			Summary: "Stop what the bot is working on",
			Help:    "or just `stop`: I stop what I am working on",
		},
	}
}

// Handle carries out a command. A stop has been carried out by delivery before it comes here.
func (c Control) Handle(ctx context.Context, m chat.Message) (*chat.Draft, error) {
	if m.Command == "forget" {
		return c.forget(ctx, m)
	}
	return nil, nil
}

// forget deletes a conversation. Where several people talk that takes an administrator.
func (c Control) forget(ctx context.Context, m chat.Message) (*chat.Draft, error) {
	if !m.AuthorManages() {
		return &chat.Draft{Ephemeral: true, Failed: true, Text: "Several people talk here, " +
			"so an administrator has to say this. To make me forget one of your own messages, delete it."}, nil
	}
	err := c.o.Store.DeleteConversation(ctx, m.Conversation)
	// The history in memory goes even if the store failed: nothing of it may be used again.
	c.Forget(m.Conversation)
	if errors.Is(err, store.ErrNotFound) {
		return answerPrivately("There is nothing here that I remember."), nil
	}
	if err != nil {
		return nil, fmt.Errorf("forget conversation %s: %w", m.Conversation, err)
	}
	return answerPrivately("Forgotten: I no longer know the earlier messages here. " +
		"The notes stay: `/raven memory` shows and removes them."), nil
}

// Describe returns a line on which agent and model answer a message, for the help.
func (e *Engine) Describe(m chat.Message) string {
	p := e.o.Roster.Route(m)
	model := "no language model is switched on"
	for _, name := range p.Models {
		if m, ok := e.o.Roster.Model(name); ok {
			model = m.ID()
			break
		}
	}
	return "I answer with the agent `" + p.Agent + "` (" + model + ")"
}

// Commands returns the command that lists tools.
func (Tools) Commands() []chat.CommandSpec {
	return []chat.CommandSpec{{
		Name:    "tools",
		Summary: "Which tools the bot may use here",
		Help:    "what I can use here",
		Options: []chat.CommandOption{{Name: "text", Summary: "The name of a server, to see only its tools"}},
	}}
}

// Limits of what /raven tools shows. Of more than maxToolsInFull tools it shows only the
// names, by server.
const (
	maxToolsInFull      = 30
	maxServersListed    = 40
	maxNamesOfServer    = 6
	maxToolsOfServer    = 60
	maxDescriptionChars = 80
)

// Handle lists the tools that can be used in the message's place, or the tools of the named server.
func (t Tools) Handle(_ context.Context, m chat.Message) (*chat.Draft, error) {
	profile := t.o.Roster.Route(m)
	servers := map[string][]tool.Named{}
	var all []tool.Named
	for _, n := range t.o.Tools.List() {
		if profile.Uses(n) {
			server := n.Tool.Spec().Server
			servers[server] = append(servers[server], n)
			all = append(all, n)
		}
	}
	name := strings.TrimSpace(m.Text)
	switch list := servers[name]; {
	case name != "" && len(list) == 0:
		return &chat.Draft{Ephemeral: true, Failed: true,
			Text: fmt.Sprintf("No tool of %q may be used here; `/raven tools` lists the servers whose tools may.",
				name)}, nil
	case name != "":
		return answerPrivately("**Tools of " + name + "**\n\n" + listTools(list, maxToolsOfServer)), nil
	case len(all) == 0:
		return answerPrivately("No tools are switched on here."), nil
	case len(all) <= maxToolsInFull:
		return answerPrivately("**Tools I can use here**\n\n" + listTools(all, maxToolsInFull)), nil
	}
	return answerPrivately(fmt.Sprintf("**%d tools can be used here**; "+
		"`/raven tools NAME` lists those of one server.\n\n%s", len(all), listServers(servers))), nil
}

// listServers returns a Markdown list of servers with the names of their first tools.
func listServers(servers map[string][]tool.Named) string {
	var lines []string
	for n, server := range slices.Sorted(maps.Keys(servers)) {
		if n == maxServersListed {
			lines = append(lines, fmt.Sprintf("- and %d more", len(servers)-n))
			break
		}
		list := servers[server]
		var names []string
		for _, t := range list[:min(len(list), maxNamesOfServer)] {
			names = append(names, "`"+t.Name+"`")
		}
		line := fmt.Sprintf("- **%s** (%d): %s", server, len(list), strings.Join(names, ", "))
		if more := len(list) - len(names); more > 0 {
			line += fmt.Sprintf(" and %d more", more)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// listTools returns a Markdown list of tools, each with the first line of its description.
func listTools(list []tool.Named, limit int) string {
	var lines []string
	for n, t := range list {
		if n == limit {
			lines = append(lines, fmt.Sprintf("- and %d more", len(list)-n))
			break
		}
		words, _, _ := strings.Cut(strings.TrimSpace(t.Tool.Spec().Description), "\n")
		words = text.Shorten(words, maxDescriptionChars)
		lines = append(lines, "- `"+t.Name+"`: "+text.EscapeMarkdown(words))
	}
	return strings.Join(lines, "\n")
}

// Limits of the display of an answer's calls.
const (
	maxCallsShown = 12
	maxCallText   = 300 // bytes of arguments, and of a result
)

// showCalls shows the tool calls of a turn to people in the place of the turn.
func (c Conversation) showCalls(ctx context.Context, m chat.Message, turn string) (*chat.Draft, error) {
	at, t, err := c.o.Store.TurnOf(ctx, turn)
	// A channel's messages stay in the channel, even if somebody knows the ID of a turn.
	if errors.Is(err, store.ErrNotFound) || err == nil && at.Base() != m.Conversation.Base() {
		return answerPrivately("I no longer know how I came to this answer."), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the calls of turn %s: %w", turn, err)
	}
	runs := toolRuns(t)
	lines := []string{fmt.Sprintf("**What I did for this answer** (%d calls)", len(runs))}
	if read := t.Origin.Sources(); read != "" {
		lines = append(lines, "Text of others that I read: "+text.EscapeMarkdown(read))
	}
	for n, r := range runs {
		if n == maxCallsShown {
			lines = append(lines, fmt.Sprintf("and %d more", len(runs)-n))
			break
		}
		lines = append(lines, fmt.Sprintf("`%s`: %s", r.Name, r.State), fenceText(string(r.Args)), fenceText(r.Result))
	}
	return answerPrivately(strings.Join(lines, "\n\n")), nil
}

// fenceText returns the beginning of a text in a code block that the text cannot close.
func fenceText(s string) string {
	s = conversation.Cut(strings.TrimSpace(s), maxCallText)
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + "\n" + s + "\n" + fence
}
