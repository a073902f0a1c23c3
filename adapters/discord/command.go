package discord

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
)

// commandName is the one command of the bot; what it can do are subcommands.
const commandName = "raven"

// Option types.
const (
	optSubcommand = 1
	optString     = 3
	optBoolean    = 5
)

// command is an application command as Discord takes it (Application Commands, Object).
type command struct {
	ID          string   `json:"id,omitempty"`
	Type        int      `json:"type"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Options     []option `json:"options,omitempty"`
}

// option is a parameter or a subcommand of a command; only a subcommand has options of its own.
type option struct {
	Type        int      `json:"type"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Required    bool     `json:"required,omitempty"`
	Completed   bool     `json:"autocomplete,omitempty"` // while it is typed
	Choices     []choice `json:"choices,omitempty"`
	Options     []option `json:"options,omitempty"`
}

// choice is a value that an option may have.
type choice struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// newCommand writes the bot's commands as one application command of Discord, with a subcommand each.
func newCommand(specs []chat.CommandSpec) command {
	c := command{Type: slashCommand, Name: commandName, Description: "Ask the bot, run a digest, see what it can do"}
	for _, spec := range specs {
		sub := option{Type: optSubcommand, Name: spec.Name, Description: spec.Summary}
		for _, o := range spec.Options {
			sub.Options = append(sub.Options, newOption(o))
		}
		c.Options = append(c.Options, sub)
	}
	return c
}

// Types of application commands.
const (
	slashCommand   = 1
	messageCommand = 3
)

// newCommands returns all application commands of the bot.
func (d *Discord) newCommands() []command {
	list := []command{newCommand(d.o.Commands)}
	for _, c := range d.o.MessageCommands {
		list = append(list, command{Type: messageCommand, Name: c.Title})
	}
	return list
}

// newOption writes an option of a subcommand. All but the one that asks for a thread are texts, of which the feature
// makes what it needs.
func newOption(o chat.CommandOption) option {
	opt := option{
		Type:        optString,
		Name:        o.Name,
		Description: o.Summary,
		Required:    o.Required,
		Completed:   o.Complete,
	}
	if o.Kind == chat.OptionThread {
		opt.Type = optBoolean
	}
	for _, value := range o.Choices {
		opt.Choices = append(opt.Choices, choice{value, value})
	}
	return opt
}

// commandText reads the options of a command as the words of its text, in the order of the specification: "/raven
// digest run morning" is digest with the text "run morning". An option with a label becomes a line of its own, "Label:
// value"; without a subcommand it is help.
func commandText(specs []chat.CommandSpec, options []wireOption) (command, text string) {
	command = chat.CommandHelp
	switch {
	case len(options) > 0 && options[0].Value == nil:
		command, options = options[0].Name, options[0].Options
	case len(options) > 0: // a form of the command that somebody else registered
		command = chat.CommandAsk
	}
	spec, _ := chat.FindCommand(specs, command)
	place := func(w wireOption) int {
		return slices.IndexFunc(spec.Options, func(o chat.CommandOption) bool { return o.Name == w.Name })
	}
	slices.SortStableFunc(options, func(a, b wireOption) int { return place(a) - place(b) })
	var words []string
	labelled := ""
	for _, w := range options {
		value, isText := w.Value.(string)
		i := place(w)
		switch {
		case !isText:
		case i >= 0 && spec.Options[i].Label != "":
			labelled += "\n" + spec.Options[i].Label + ": " + value
		default:
			words = append(words, value)
		}
	}
	return command, strings.TrimSpace(strings.Join(words, " ") + labelled)
}

// wantsThread reports whether the answer to a command is to have its own thread.
func wantsThread(specs []chat.CommandSpec, options []wireOption) bool {
	for _, sub := range options {
		spec, _ := chat.FindCommand(specs, sub.Name)
		for _, o := range spec.Options {
			asked := func(w wireOption) bool { return w.Name == o.Name && w.Value == true }
			if o.Kind == chat.OptionThread && slices.ContainsFunc(sub.Options, asked) {
				return true
			}
		}
	}
	return false
}

// registerOnce begins to register the command unless this process has done so.
func (d *Discord) registerOnce(ctx context.Context, app string) {
	d.mu.Lock()
	begun := d.registered
	d.registered = true
	d.mu.Unlock()
	if begun || app == "" {
		return
	}
	d.startWork(func() {
		for pause := firstPause; ; pause = min(2*pause, maxPause) {
			err := d.register(ctx, app)
			if err == nil || ctx.Err() != nil {
				return
			}
			d.o.Log.Error("failed to register a discord command", "platform", "discord", "error", err)
			if !isRetryable(err) || !kit.Sleep(ctx, pause) {
				return
			}
		}
	})
}

// register makes the application's commands those above, with as few requests as it takes: Discord limits how often a
// day commands may be made. Commands of other names are not ours to touch. It fails with the first command that cannot
// be made.
func (d *Discord) register(ctx context.Context, app string) error {
	path := "/applications/" + app + "/commands"
	var have []command
	// Where the list is refused for good, each command is made without a look at what there is.
	if err := d.api.do(ctx, request{method: "GET", path: path}, &have); err != nil && isRetryable(err) {
		return fmt.Errorf("list the application's commands: %w", err)
	}
	for _, want := range d.newCommands() {
		if err := d.registerOne(ctx, path, have, want); err != nil {
			return err
		}
	}
	return nil
}

// registerOne makes one command, unless it is among those that there are.
func (d *Discord) registerOne(ctx context.Context, path string, have []command, want command) error {
	put := request{method: "POST", path: path, body: want} // in the place of one with that name, if there is
	for _, c := range have {
		if c.Type != want.Type || c.Name != want.Name {
			continue
		}
		if same(c, want) {
			return nil
		}
		put = request{method: "PATCH", path: path + "/" + c.ID, route: path, body: want}
	}
	if err := d.api.do(ctx, put, nil); err != nil {
		return fmt.Errorf("register the application's command %s: %w", want.Name, err)
	}
	return nil
}

// same compares what people see of two commands.
func same(a, b command) bool {
	a.ID, b.ID = "", ""
	left, errA := json.Marshal(a)
	right, errB := json.Marshal(b)
	return errA == nil && errB == nil && string(left) == string(right)
}
