package discord

import (
	"context"
	"encoding/json"
	"fmt"
)

// The names of the command's parts.
const (
	commandName  = "raven"
	optionText   = "text"
	optionAction = "action"
	optionName   = "name"
	optionMore   = "more"
	optionFeed   = "feed"
	optionZone   = "zone"
	optionThread = "thread"
)

// Option types.
const (
	optSubcommand = 1
	optString     = 3
	optBoolean    = 5
)

type command struct {
	ID          string   `json:"id,omitempty"`
	Type        int      `json:"type"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Options     []option `json:"options"`
}

type option struct {
	Type        int      `json:"type"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Required    bool     `json:"required,omitempty"`
	Completed   bool     `json:"autocomplete,omitempty"` // while it is typed
	Choices     []choice `json:"choices,omitempty"`
	Options     []option `json:"options,omitempty"`
}

type choice struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// slash is the one command of the bot.
func slash() command {
	return command{Type: 1, Name: commandName, Description: "Ask the bot, run a digest, see what it can do", Options: []option{
		{Type: optSubcommand, Name: "ask", Description: "Ask the bot something", Options: []option{
			{Type: optString, Name: optionText, Description: "What you want to know", Required: true},
			{Type: optString, Name: optionFeed, Description: "A feed that it is about", Completed: true},
			{Type: optString, Name: optionZone, Description: "A time zone that it is about", Completed: true},
			{Type: optBoolean, Name: optionThread, Description: "Answer in a new thread"}}},
		{Type: optSubcommand, Name: "digest", Description: "Make, list, preview, explain, run and change digests", Options: []option{
			{Type: optString, Name: optionAction, Description: "What to do", Required: true,
				Choices: chosen("list", "preview", "explain", "run", "create", "pause", "resume", "edit", "mute", "unmerge", "remove", "unsubscribe")},
			{Type: optString, Name: optionName, Description: "The digest's name, but for list and create", Completed: true},
			{Type: optString, Name: optionMore, Description: "For edit, such as: style titles; for create: weekdays at 9 https://go.dev/blog/feed.atom"}}},
		{Type: optSubcommand, Name: "settings", Description: "See or change settings", Options: []option{
			{Type: optString, Name: optionText, Description: "Nothing opens a form; or, for example: language Norwegian; channel", Completed: true}}},
		{Type: optSubcommand, Name: "tools", Description: "Which tools the bot may use here", Options: []option{
			{Type: optString, Name: optionText, Description: "The name of a server, for its tools alone"}}},
		{Type: optSubcommand, Name: "usage", Description: "What was used by you and in this channel"},
		{Type: optSubcommand, Name: "memory", Description: "See or delete what the bot remembers of you", Options: []option{
			{Type: optString, Name: optionText, Description: "For example: delete 3; channel list"}}},
		{Type: optSubcommand, Name: "forget", Description: "Forget what was said here"},
		{Type: optSubcommand, Name: "stop", Description: "Stop what the bot is working on"},
		{Type: optSubcommand, Name: "help", Description: "What you can say to the bot"},
	}}
}

func chosen(words ...string) []choice {
	var list []choice
	for _, w := range words {
		list = append(list, choice{w, w})
	}
	return list
}

// registerOnce begins to register the command unless this process has done so.
func (d *Discord) registerOnce(ctx context.Context, app string) {
	d.mu.Lock()
	begun := d.commands
	d.commands = true
	d.mu.Unlock()
	if begun || app == "" {
		return
	}
	d.begin(func() {
		for pause := firstPause; ; pause = min(2*pause, longestPause) {
			err := d.register(ctx, app)
			if err == nil || ctx.Err() != nil {
				return
			}
			d.o.Log.Error("discord command not registered", "platform", "discord", "error", err)
			if !again(err) || !wait(ctx, pause) {
				return
			}
		}
	})
}

// register makes the application's command the one above, with as few requests as
// it takes: Discord limits how often a day commands may be made. Commands of other
// names are not ours to touch.
func (d *Discord) register(ctx context.Context, app string) error {
	path := "/applications/" + app + "/commands"
	want := slash()
	var have []command
	if err := d.api.do(ctx, request{method: "GET", path: path}, &have); err != nil && again(err) {
		return fmt.Errorf("list the application's commands: %w", err)
	}
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
