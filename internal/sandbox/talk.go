package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	simdiscord "ravenbot/internal/sim/discord"
	simslack "ravenbot/internal/sim/slack"
)

// Help says what can be typed.
const Help = `Say something:  hello                          in #general of the simulated Discord
                slack> hello                   in #general of the simulated Slack, and so from then on; discord> goes back
                /raven digest run morning      a command, as people type it there
                web_fetch ADDRESS              the name of a tool has the simulated model call it
`

// window is the terminal.
type window struct {
	mu     sync.Mutex
	out    io.Writer
	prompt bool
	at     string // the platform that lines go to
}

func (w *window) show(where, who, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	begin := ""
	if w.prompt {
		begin = "\n" // behind the prompt
	}
	fmt.Fprintf(w.out, "%s[%s] %s: %s\n", begin, where, who, strings.TrimSpace(text))
	w.ask()
}

// ask shows the prompt; the lock is held.
func (w *window) ask() {
	if w.prompt {
		fmt.Fprint(w.out, w.at+"> ")
	}
}

func (w *window) turn(at string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = at
	w.ask()
}

// Talk says what is read, a line each, as a person on the simulated platforms, and shows
// what the bot posts there, until ctx ends. The end of the input does not end it. prompt
// shows where a line goes to before it is typed.
func (w *World) Talk(ctx context.Context, in io.Reader, out io.Writer, prompt bool) {
	win := &window{out: out, prompt: prompt, at: "discord"}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { w.watchDiscord(ctx, win) })
	wg.Go(func() { w.watchSlack(ctx, win) })
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<10)
	at := "discord"
	for win.turn(at); lines.Scan(); win.turn(at) {
		text := strings.TrimSpace(lines.Text())
		for _, platform := range []string{"discord", "slack"} {
			if rest, ok := strings.CutPrefix(text, platform+">"); ok {
				at, text = platform, strings.TrimSpace(rest)
			}
		}
		switch {
		case text == "":
		case at == "slack":
			w.saySlack(ctx, &wg, win, text)
		default:
			w.sayDiscord(ctx, &wg, win, text)
		}
	}
	<-ctx.Done()
}

func (w *World) sayDiscord(ctx context.Context, wg *sync.WaitGroup, win *window, text string) {
	command, ok := strings.CutPrefix(text, "/raven")
	if !ok {
		w.discord.Say(w.discordHas.ID, w.discordYou, text)
		return
	}
	sub, options := parts(strings.TrimSpace(command))
	in, err := w.discord.Slash(w.discordHas.ID, w.discordYou, "raven", sub, options)
	if err != nil {
		win.show("discord", "sandbox", err.Error())
		return
	}
	wg.Go(func() {
		if back, err := w.discord.WaitCallback(ctx, in.ID); err == nil && back.Type == simdiscord.CallbackModal {
			win.show("discord #general", "raven", "(opened a form, which this window does not show: "+title(back.Data)+")")
		}
	})
}

// parts are the subcommand and the options of a command as Discord's client sends them.
func parts(command string) (sub string, options map[string]any) {
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

func title(modal json.RawMessage) string {
	var m struct{ Title string }
	if err := json.Unmarshal(modal, &m); err != nil {
		return "without a title"
	}
	return m.Title
}

// answersWithin is how long answers to a command are waited for.
const answersWithin = 10 * time.Minute

func (w *World) saySlack(ctx context.Context, wg *sync.WaitGroup, win *window, text string) {
	command, ok := strings.CutPrefix(text, "/raven")
	if !ok {
		w.slack.Say(w.slackHas.ID, w.slackYou, text)
		return
	}
	call := w.slack.Slash(w.slackHas.ID, w.slackYou, "/raven", strings.TrimSpace(command))
	wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, answersWithin)
		defer cancel()
		var last time.Time
		for {
			a, err := w.slack.WaitAnswer(ctx, call, func(a simslack.Answer) bool { return a.At.After(last) })
			if err != nil {
				return
			}
			if last = a.At; !a.InChannel && a.Text != "" { // what is in the channel is seen there
				win.show("slack #general, to you alone", "raven", a.Text)
			}
		}
	})
}

func (w *World) watchDiscord(ctx context.Context, win *window) {
	shown := map[string]string{}
	for {
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
		case p.ChannelID != w.discordHas.ID:
			where = "discord, a thread"
		}
		if _, before := shown[p.ID]; before {
			where += ", edited"
		}
		shown[p.ID] = discordText(p)
		win.show(where, "raven", shown[p.ID])
	}
}

// discordText is what a reader sees of a post, but for pictures.
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
	kept := text[:0]
	for _, line := range text {
		if line != "" {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

func (w *World) watchSlack(ctx context.Context, win *window) {
	shown := map[string]string{}
	for {
		p, err := w.slack.WaitAnyPost(ctx, func(p simslack.Post) bool {
			return !p.Streaming && !p.Deleted && p.Shown() != "" && shown[p.TS] != p.Shown()
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
		shown[p.TS] = p.Shown()
		win.show(where, "raven", p.Shown())
	}
}
