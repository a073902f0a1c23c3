package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/store"
)

// Help is the command that tells what the bot can do here.
func (e *Engine) Help(_ context.Context, m chat.Message) chat.Draft {
	p := e.o.Route(m)
	models := "no language model is switched on"
	for _, name := range p.Models {
		if model, ok := e.o.Model(name); ok {
			models = model.ID()
			break
		}
	}
	return chat.Draft{Ephemeral: true, Text: strings.Join([]string{
		"**What you can say**",
		"",
		"- mention me, reply to me or write me directly: I answer with the agent `" + p.Agent + "` (" + models + ")",
		"- `/raven ask …`: the same as a command",
		"- `/raven digest …`: news on a schedule; `list`, `create`, `preview`, `explain`, `run`, `pause`, `resume`, `edit`, `mute`, `unmerge`, `remove`, `unsubscribe`",
		"- `/raven tools`: what I can use here",
		"- `/raven settings`, `/raven usage`: your model, language and tools, and what was used",
		"- `/raven memory`: what I was told to remember of you and of this channel",
		"- `/raven forget`: I forget this conversation, not what I was told to remember",
		"- `stop`, or `/raven stop`: I stop what I am working on",
		"- edit your message and I answer it anew; delete it and I forget it",
		"- `/raven help`: this page",
	}, "\n")}
}

// Tools is the command that lists the tools that may be used here.
func (e *Engine) Tools(_ context.Context, m chat.Message) chat.Draft {
	p := e.o.Route(m)
	var lines []string
	for _, n := range e.o.Tools.List() {
		if p.Uses(n) {
			lines = append(lines, fmt.Sprintf("- `%s`: %s", n.Name, firstLine(n.Tool.Spec().Description)))
		}
	}
	if len(lines) == 0 {
		return chat.Draft{Ephemeral: true, Text: "No tools are switched on here."}
	}
	return chat.Draft{Ephemeral: true, Text: "**Tools I can use here**\n\n" + strings.Join(lines, "\n")}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// Limits of what is shown of the calls behind an answer.
const (
	shownCalls = 12
	shownText  = 300 // bytes of arguments, and of a result
)

// callsOf shows the tool calls of a turn to whoever asks where it took place.
func (e *Engine) callsOf(ctx context.Context, m chat.Message, turn string) *chat.Draft {
	at, t, err := e.o.Memory.TurnOf(ctx, turn)
	if errors.Is(err, store.ErrNotFound) || err == nil && at.Base() != m.Conversation.Base() {
		return &chat.Draft{Ephemeral: true, Text: "I no longer know how I came to this answer."}
	}
	if err != nil {
		return e.failure(ctx, m, err)
	}
	runs := shownRuns(t)
	lines := []string{fmt.Sprintf("**What I did for this answer** (%d calls)", len(runs))}
	for n, r := range runs {
		if n == shownCalls {
			lines = append(lines, fmt.Sprintf("and %d more", len(runs)-n))
			break
		}
		lines = append(lines, fmt.Sprintf("`%s`: %s", r.Name, r.State), fenced(string(r.Args)), fenced(r.Result))
	}
	return &chat.Draft{Ephemeral: true, Text: strings.Join(lines, "\n\n")}
}

// fenced shows the beginning of a text as it is.
func fenced(s string) string {
	s = conversation.Cut(strings.TrimSpace(s), shownText)
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + "\n" + s + "\n" + fence
}
