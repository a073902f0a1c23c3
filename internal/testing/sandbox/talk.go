package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	simdiscord "ravenbot/internal/testing/sim/discord"
	simslack "ravenbot/internal/testing/sim/slack"
)

// Help says what can be typed.
const Help = `Say something:  hello                          in #general of the simulated Discord
                slack> hello                   in #general of the simulated Slack, and so from then on; discord> goes back
                /raven digest run morning      a command, as people type it there
                press LABEL                    the newest button of that label
                web_fetch ADDRESS              the name of a tool has the simulated model call it
`

// window is the terminal.
type window struct {
	mu     sync.Mutex
	out    io.Writer
	prompt bool
	at     string // the platform that typed lines go to
}

// show prints a message.
func (w *window) show(where, who, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	begin := ""
	if w.prompt {
		begin = "\n" // the prompt is on the current line
	}
	fmt.Fprintf(w.out, "%s[%s] %s: %s\n", begin, where, who, strings.TrimSpace(text))
	w.showPrompt()
}

// showPrompt prints the prompt. The caller holds mu.
func (w *window) showPrompt() {
	if w.prompt {
		fmt.Fprint(w.out, w.at+"> ")
	}
}

// setPlatform sets the platform that lines go to, and prints the prompt.
func (w *window) setPlatform(at string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = at
	w.showPrompt()
}

// Talk sends each line of in as a message of a person on the simulated platforms, and prints what the bot posts
// there, until ctx ends. The end of in does not end it. prompt says whether to show where the next line goes.
func (w *World) Talk(ctx context.Context, in io.Reader, out io.Writer, prompt bool) {
	win := &window{out: out, prompt: prompt, at: "discord"}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { w.watchDiscord(ctx, win) })
	wg.Go(func() { w.watchSlack(ctx, win) })
	wg.Go(func() { w.watchForms(ctx, win) })
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<10)
	at := "discord"
	for win.setPlatform(at); lines.Scan(); win.setPlatform(at) {
		text := strings.TrimSpace(lines.Text())
		// The prefix also switches the platform for the lines that follow.
		for _, platform := range []string{"discord", "slack"} {
			if rest, ok := strings.CutPrefix(text, platform+">"); ok {
				at, text = platform, strings.TrimSpace(rest)
			}
		}
		switch {
		case text == "":
		case strings.HasPrefix(text, "press "):
			w.press(ctx, &wg, win, at, strings.TrimSpace(text[len("press "):]))
		case at == "slack":
			w.saySlack(ctx, &wg, win, text)
		default:
			w.sayDiscord(ctx, &wg, win, text)
		}
	}
	if err := lines.Err(); err != nil {
		win.show("sandbox", "sandbox", "no more is read: "+err.Error())
	}
	<-ctx.Done()
}

// sayDiscord says a line in the channel of the simulated Discord, or makes a command of "/raven …".
func (w *World) sayDiscord(ctx context.Context, wg *sync.WaitGroup, win *window, text string) {
	command, ok := strings.CutPrefix(text, "/raven")
	if !ok {
		w.discord.Say(w.discordChannel.ID, w.discordUser, text)
		return
	}
	sub, options := splitCommand(strings.TrimSpace(command))
	in, err := w.discord.Slash(w.discordChannel.ID, w.discordUser, "raven", sub, options)
	if err != nil {
		win.show("discord", "sandbox", err.Error())
		return
	}
	w.awaitDiscord(ctx, wg, win, in)
}

// awaitDiscord reports a form that answers a command or button; other answers are posts.
func (w *World) awaitDiscord(ctx context.Context, wg *sync.WaitGroup, win *window, in simdiscord.Interaction) {
	wg.Go(func() {
		if back, err := w.discord.WaitCallback(ctx, in.ID); err == nil && back.Type == simdiscord.CallbackModal {
			win.show("discord #general", "raven", describeForm(back.Data))
		}
	})
}

// splitCommand returns the subcommand and the options of a command as Discord's client sends them.
func splitCommand(command string) (sub string, options map[string]any) {
	sub, rest, _ := strings.Cut(command, " ")
	rest, options = strings.TrimSpace(rest), map[string]any{}
	switch {
	case sub == "":
		return "help", nil
	case sub != "digest":
		if rest != "" {
			options["text"] = rest
		}
		return sub, options
	}
	action, rest, _ := strings.Cut(rest, " ")
	options["action"] = action
	name, more, _ := strings.Cut(strings.TrimSpace(rest), " ")
	// A new digest has no name yet; the whole text describes it.
	if action == "create" {
		name, more = "", rest
	}
	for option, value := range map[string]string{"name": name, "more": strings.TrimSpace(more)} {
		if value != "" {
			options[option] = value
		}
	}
	return sub, options
}

// describeForm returns a text for a form that was opened. Its title is a string on Discord and an object on Slack.
func describeForm(raw json.RawMessage) string {
	var m struct{ Title json.RawMessage }
	var text string
	var object struct{ Text string }
	if json.Unmarshal(raw, &m) == nil && json.Unmarshal(m.Title, &text) != nil && json.Unmarshal(m.Title, &object) == nil {
		text = object.Text
	}
	return "(opened a form, which this window does not show: " + text + ")"
}

// answerTimeout is how long to wait for answers to a command.
const answerTimeout = 10 * time.Minute

// saySlack says a line in the channel of the simulated Slack, or makes a command of "/raven …".
func (w *World) saySlack(ctx context.Context, wg *sync.WaitGroup, win *window, text string) {
	command, ok := strings.CutPrefix(text, "/raven")
	if !ok {
		w.slack.Say(w.slackChannel.ID, w.slackUser, text)
		return
	}
	w.awaitSlack(ctx, wg, win, w.slack.Slash(w.slackChannel.ID, w.slackUser, "/raven", strings.TrimSpace(command)))
}

// awaitSlack shows answers to a command or button that are not posted to the channel.
func (w *World) awaitSlack(ctx context.Context, wg *sync.WaitGroup, win *window, call simslack.Call) {
	wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		var last time.Time
		for {
			a, err := w.slack.WaitAnswer(ctx, call, func(a simslack.Answer) bool { return a.At.After(last) })
			if err != nil {
				return
			}
			if last = a.At; !a.InChannel && a.Text != "" { // watchSlack shows those that are
				win.show("slack #general, to you alone", "raven", a.Text)
			}
		}
	})
}

// watchDiscord shows the bot's posts on the simulated Discord until ctx ends.
func (w *World) watchDiscord(ctx context.Context, win *window) {
	shown := map[string]string{}
	for {
		// Posts are shown when they appear and again whenever their text changes.
		p, err := w.discord.WaitAnyPost(ctx, func(p simdiscord.Post) bool {
			return !p.Loading() && !p.Deleted && shown[p.ID] != discordText(p)
		})
		if err != nil {
			return
		}
		where := "discord #general"
		switch {
		case p.Ephemeral():
			where += ", to you alone"
		case p.ChannelID != w.discordChannel.ID:
			where = "discord, a thread"
		}
		if _, before := shown[p.ID]; before {
			where += ", edited"
		}
		shown[p.ID] = discordText(p)
		win.show(where, "raven", shown[p.ID])
	}
}

// discordText returns what a reader sees of a post, without pictures.
func discordText(p simdiscord.Post) string {
	text := []string{p.Content}
	for _, raw := range p.Embeds {
		var e struct {
			Title, URL, Description string
			Footer                  struct{ Text string }
		}
		if json.Unmarshal(raw, &e) == nil {
			text = append(text, e.Title, e.URL, e.Description, e.Footer.Text)
		}
	}
	for _, f := range p.Files {
		text = append(text, "(file "+f.Name+")")
	}
	text = slices.DeleteFunc(text, func(line string) bool { return line == "" })
	return withLabels(strings.Join(text, "\n"), findButtons(p.ChannelID, p.ID, p.Components...))
}

// watchSlack shows the bot's posts on the simulated Slack until ctx ends.
func (w *World) watchSlack(ctx context.Context, win *window) {
	shown := map[string]string{}
	for {
		// A post that is still streamed would be shown with every piece.
		p, err := w.slack.WaitAnyPost(ctx, func(p simslack.Post) bool {
			return !p.Streaming && !p.Deleted && slackText(p) != "" && shown[p.TS] != slackText(p)
		})
		if err != nil {
			return
		}
		where := "slack #general"
		switch {
		case p.EphemeralTo != "":
			where += ", to you alone"
		case p.ThreadTS != "":
			where += ", in the thread"
		}
		if _, before := shown[p.TS]; before {
			where += ", edited"
		}
		shown[p.TS] = slackText(p)
		win.show(where, "raven", shown[p.TS])
	}
}

// watchForms reports the forms that the bot opens on Slack.
func (w *World) watchForms(ctx context.Context, win *window) {
	seen := map[string]bool{}
	for {
		v, err := w.slack.WaitView(ctx, func(v simslack.View) bool { return v.User == "" && !seen[v.ID] })
		if err != nil {
			return
		}
		seen[v.ID] = true
		win.show("slack #general", "raven", describeForm(v.Raw))
	}
}

// slackText returns a post as the window shows it, with the labels of its buttons.
func slackText(p simslack.Post) string {
	if p.EphemeralTo != "" {
		return p.Shown() // its buttons cannot be pressed here
	}
	return withLabels(p.Shown(), findButtons(p.Channel, p.TS, p.Blocks))
}
