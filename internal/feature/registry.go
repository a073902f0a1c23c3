package feature

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
)

// Registry holds the modules of the bot. It is safe for concurrent use once Register has returned.
type Registry struct {
	modules  []Module
	features []Feature
	tools    []tool.Tool
	commands map[string]Feature
	buttons  map[string]Feature
	forms    map[string]Feature
	log      *slog.Logger
}

// New returns a Registry without modules.
func New(log *slog.Logger) *Registry {
	return &Registry{commands: map[string]Feature{}, buttons: map[string]Feature{}, forms: map[string]Feature{}, log: log}
}

// Register adds modules, in the order in which menus and help list them. It is called once. The error names a command,
// button or form that two features declare.
func (r *Registry) Register(modules ...Module) error {
	r.modules, r.features = modules, allFeatures(modules)
	for _, f := range r.features {
		for _, c := range f.Commands() {
			if err := claim("command", r.commands, c.Name, f); err != nil {
				return err
			}
		}
		for _, c := range messageCommands(f) {
			if err := claim("message command", r.commands, c.Name, f); err != nil {
				return err
			}
		}
		for _, b := range buttonsOf(f) {
			if err := claim("button", r.buttons, b.Word, f); err != nil {
				return err
			}
		}
		for _, form := range formsOf(f) {
			if err := claim("form", r.forms, form, f); err != nil {
				return err
			}
		}
	}
	for _, m := range modules {
		if m.Tools != nil {
			r.tools = append(r.tools, m.Tools()...)
		}
	}
	return nil
}

// claim makes a feature the handler of a name.
func claim(kind string, names map[string]Feature, name string, f Feature) error {
	if _, taken := names[name]; taken || name == "" || strings.Contains(name, " ") {
		return fmt.Errorf("register feature %T: its %s %q is empty, contains a space, or belongs to another feature",
			f, kind, name)
	}
	names[name] = f
	return nil
}

// Commands returns every word behind /raven that modules declare, help last.
func Commands(modules ...Module) []chat.CommandSpec {
	var list []chat.CommandSpec
	for _, f := range allFeatures(modules) {
		list = append(list, f.Commands()...)
	}
	return append(list, chat.CommandSpec{
		Name:    chat.CommandHelp,
		Summary: "What you can say to the bot",
		Help:    "this page",
	})
}

// Commands returns every word behind /raven, help last.
func (r *Registry) Commands() []chat.CommandSpec { return Commands(r.modules...) }

// MessageCommands returns the entries in the menus of messages that modules declare.
func MessageCommands(modules ...Module) []chat.MessageCommand {
	var list []chat.MessageCommand
	for _, f := range allFeatures(modules) {
		list = append(list, messageCommands(f)...)
	}
	return list
}

// messageCommands returns the entries of one feature.
func messageCommands(f Feature) []chat.MessageCommand {
	if c, ok := f.(MessageCommander); ok {
		return c.MessageCommands()
	}
	return nil
}

// Buttons returns the buttons of all features.
func (r *Registry) Buttons() []Button {
	var list []Button
	for _, f := range r.features {
		list = append(list, buttonsOf(f)...)
	}
	return list
}

// buttonsOf returns the buttons of a feature; none where it handles none.
func buttonsOf(f Feature) []Button {
	if h, ok := f.(ButtonHandler); ok {
		return h.Buttons()
	}
	return nil
}

// formsOf returns the ids of a feature's forms; none where it handles none.
func formsOf(f Feature) []string {
	if h, ok := f.(FormHandler); ok {
		return h.Forms()
	}
	return nil
}

// isUrgent reports whether a message is for a feature and must not wait in the queue.
func isUrgent(f Feature, m chat.Message) bool {
	h, ok := f.(UrgentHandler)
	return ok && h.Urgent(m)
}

// Urgent reports whether a message must be handled immediately, outside the queue of its conversation.
func (r *Registry) Urgent(m chat.Message) bool {
	for _, f := range r.features {
		if isUrgent(f, m) {
			return true
		}
	}
	return false
}

// OpenForm returns the form for a message, or nil. An error is a sentence for the asker.
func (r *Registry) OpenForm(ctx context.Context, m chat.Message) (*chat.Form, error) {
	if opener, ok := r.owner(m).(FormOpener); ok {
		return opener.OpenForm(ctx, m)
	}
	return nil, nil
}

// CheckForm returns the errors of a submitted form, by the names of its fields.
func (r *Registry) CheckForm(ctx context.Context, m chat.Message) map[string]string {
	if checker, ok := r.owner(m).(FormChecker); ok {
		return checker.CheckForm(ctx, m)
	}
	return nil
}

// Complete returns the completions of a partly typed option of a command, best first.
func (r *Registry) Complete(ctx context.Context, at chat.Address, command, option, typed string) []string {
	// An option means the same in every command, so any feature may know its values.
	for _, f := range r.features {
		if c, ok := f.(Completer); ok {
			if values := c.Complete(ctx, at, command, option, typed); values != nil {
				return values
			}
		}
	}
	return nil
}

// owner returns the feature that declared the command, button or form of a message, or that calls it urgent. It
// returns nil if there is none.
func (r *Registry) owner(m chat.Message) Feature {
	word, _, _ := strings.Cut(m.Text, " ")
	switch m.Kind() {
	case chat.EventCommand:
		if f := r.commands[m.Command]; f != nil && m.Command != chat.CommandAsk {
			return f
		}
	case chat.EventPress:
		return r.buttons[word]
	case chat.EventForm:
		return r.forms[word]
	}
	if m.IsQuestion() {
		for _, f := range r.features {
			if isUrgent(f, m) {
				return f
			}
		}
	}
	return nil
}

// Handle has the feature that a message is for carry it out. A nil draft passes the message
// to the agent.
func (r *Registry) Handle(ctx context.Context, m chat.Message) *chat.Draft {
	kind := m.Kind()
	if kind == chat.EventCommand && m.Command == chat.CommandHelp {
		d := r.Help(m)
		return &d
	}
	f := r.owner(m)
	if f == nil {
		return r.unknown(m)
	}
	d, err := f.Handle(chat.WithAuthor(ctx, m), m)
	if err != nil {
		ref := reference()
		r.log.Error("failed to handle a message", "reference", ref, "message", m.Key(), "conversation",
			m.Conversation.String(), "error", err)
		return refuse("That failed (reference " + ref + "). Try again; the bot's log has the reason.")
	}
	// The command alone says who sees its answer: some platforms show an empty answer before there is a draft.
	if spec, ok := chat.FindCommand(r.Commands(), m.Command); ok && d != nil && kind == chat.EventCommand {
		d.Ephemeral = d.Ephemeral || !spec.IsPublic(m.Text)
	}
	return d
}

// unknown answers what no feature has declared; nil: the message is for the agent.
func (r *Registry) unknown(m chat.Message) *chat.Draft {
	switch m.Kind() {
	case chat.EventPress:
		return refuse("This button no longer does anything.")
	case chat.EventForm:
		return refuse("This form is no longer known; please open it again.")
	case chat.EventCommand:
		if m.Command != chat.CommandAsk {
			var names []string
			for _, c := range r.Commands() {
				names = append(names, c.Name)
			}
			words := "I do not know the command `" + m.Command + "`. "
			if near := text.Nearest(m.Command, names); near != "" {
				words += "Did you mean `/raven " + near + "`? "
			}
			return refuse(words + "`/raven help` lists what I know.")
		}
	}
	return nil
}

// refuse returns an answer, visible only to the asker, with the reason of the refusal.
func refuse(words string) *chat.Draft {
	return &chat.Draft{Ephemeral: true, Failed: true, Text: words}
}

// reference returns a number that is short enough to be read out, and long enough to be
// found in a log.
func reference() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Help returns the list of commands and phrases.
func (r *Registry) Help(m chat.Message) chat.Draft {
	lines := []string{"**What you can say**", "", "- mention me, reply to me or write me directly" + r.about(m)}
	for _, c := range r.Commands() {
		usage := "`/raven " + c.Name
		if len(c.Options) > 0 {
			usage += " …"
		}
		lines = append(lines, "- "+usage+"`: "+c.Help)
	}
	var titles []string
	for _, c := range MessageCommands(r.modules...) {
		titles = append(titles, c.Title)
	}
	if len(titles) > 0 {
		lines = append(lines, "- in the menu of a message, on Discord and Slack: "+strings.Join(titles, ", "))
	}
	// This also applies to the terminal, because it shows a room of the chat page.
	lines = append(lines, "- edit your message and I answer it again; delete it and I forget it")
	return chat.Draft{Ephemeral: true, Text: strings.Join(lines, "\n")}
}

// about returns who answers a message, behind a colon; nothing if no module tells it.
func (r *Registry) about(m chat.Message) string {
	for _, module := range r.modules {
		if module.About != nil {
			return ": " + module.About(m)
		}
	}
	return ""
}

// Answerer makes the answers of the agent, as delivery asks for them.
type Answerer interface {
	Answer(ctx context.Context, q chat.Asked, show func(chat.Progress)) (*conversation.Turn, *chat.Draft)
}

// Router answers messages: features first, then the agent.
type Router struct {
	*Registry
	Agent Answerer
}

// Answer has a feature or the agent answer.
func (r Router) Answer(ctx context.Context, q chat.Asked, show func(chat.Progress)) (*conversation.Turn, *chat.Draft) {
	m := q.Last()
	if asker, ok := r.owner(m).(Asker); ok {
		if question, ok := asker.Question(m); ok {
			q.Messages = []chat.Message{question}
			return r.Agent.Answer(ctx, q, show)
		}
	}
	// A mention and nothing more asks what the bot can do.
	if m.IsQuestion() && len(q.Messages) == 1 && strings.TrimSpace(m.Text) == "" && len(m.Files) == 0 {
		d := r.Help(m)
		return nil, &d
	}
	if d := r.Handle(ctx, m); d != nil {
		return nil, d
	}
	if m.Kind() == chat.EventCommand && m.Command != chat.CommandAsk { // a text that only looked like a Spoken command
		m.Command, m.Text = "", m.Command+" "+m.Text
		q.Messages = []chat.Message{m}
	}
	return r.Agent.Answer(ctx, q, show)
}
