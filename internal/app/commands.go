package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/admin"
	"ravenbot/internal/chat"
	"ravenbot/internal/store"
)

// modelNames are the configured names of the models that are switched on.
func (a *App) modelNames() []string { return slices.Sorted(maps.Keys(a.setup.Load().models)) }

// form is the chat.Former of all platforms.
func (a *App) form(ctx context.Context, m chat.Message) (*chat.Form, error) {
	if !a.admit(ctx, m) {
		return nil, nil
	}
	if f, err := a.questions.Form(ctx, m); f != nil || err != nil {
		return f, err
	}
	return a.settings.Form(ctx, m)
}

// submitted answers the forms that were sent.
func (a *App) submitted(ctx context.Context, m chat.Message) chat.Draft {
	if d, ours := a.settings.HandleForm(ctx, m); ours {
		return d
	}
	return chat.Draft{Ephemeral: true, Failed: true, Text: "This form is no longer known; please open it again."}
}

// literal keeps what others say from being Markdown.
var literal = strings.NewReplacer("\\", "\\\\", "*", "\\*", "_", "\\_", "`", "\\`", "[", "\\[", "]", "\\]", "<", "\\<", "~", "\\~", "|", "\\|", "\n", " ")

// usageDays is how far back usage is told.
const usageDays = 30

// Usage is what was used in the last days, with what it cost at the configured
// prices.
func (a *App) Usage(ctx context.Context) ([]admin.Usage, error) {
	kept, err := a.store.Usage(ctx, a.o.Now().UTC().AddDate(0, 0, 1-usageDays).Format(time.DateOnly))
	if err != nil {
		return nil, err
	}
	list := []admin.Usage{}
	for _, u := range kept {
		list = append(list, admin.Usage{Usage: u, Channel: u.Channel.String(), USD: a.cost(u)})
	}
	return list, nil
}

func (a *App) cost(u store.Usage) float64 {
	p := a.conf().Models[u.Model].Price
	return (float64(u.Tokens.Input)*p.InputPerM + float64(u.Tokens.Output)*p.OutputPerM) / 1e6
}

// usageCommand tells what was used where it is asked, and by whoever asks.
func (a *App) usageCommand(ctx context.Context, m chat.Message) chat.Draft {
	list, err := a.Usage(ctx)
	if err != nil {
		a.o.Log.Error("usage not read", "error", err)
		return chat.Draft{Ephemeral: true, Failed: true, Text: "The usage could not be read; whoever runs the bot finds the reason in its log."}
	}
	today := a.o.Now().UTC().Format(time.DateOnly)
	user := m.Conversation.Platform + "/" + m.Author.ID
	line := func(what string, is func(admin.Usage) bool) string {
		var turns, in, out int
		var usd float64
		for _, u := range list {
			if is(u) {
				turns, in, out, usd = turns+u.Turns, in+u.Tokens.Input, out+u.Tokens.Output, usd+u.USD
			}
		}
		return fmt.Sprintf("- %s: %d answers, %d tokens in, %d out, $%.4f", what, turns, in, out, usd)
	}
	here := func(u admin.Usage) bool { return u.Usage.Channel == m.Conversation.Base() }
	mine := func(u admin.Usage) bool { return u.User == user }
	lines := []string{"**Usage** (days end at midnight UTC)", "",
		line("you, today", func(u admin.Usage) bool { return mine(u) && u.Day == today }),
		line(fmt.Sprintf("you, in %d days", usageDays), mine),
		line("this channel, today", func(u admin.Usage) bool { return here(u) && u.Day == today }),
		line(fmt.Sprintf("this channel, in %d days", usageDays), here)}
	return chat.Draft{Ephemeral: true, Text: strings.Join(append(lines, a.budgets(m.Conversation, user)...), "\n")}
}

// manages reports whether whoever sent a message decides about what is kept of its
// conversation: alone with the bot everybody, elsewhere an administrator.
func manages(m chat.Message) bool {
	a := m.Conversation
	return a.Platform == "web" || a.Workspace == "@me" || a.Platform == "slack" && strings.HasPrefix(a.Channel, "D") || m.Author.Admin
}

// forgetCommand makes the bot forget a conversation. Where several people talk
// that takes an administrator.
func (a *App) forgetCommand(ctx context.Context, m chat.Message) chat.Draft {
	if !manages(m) {
		return chat.Draft{Ephemeral: true, Failed: true, Text: "Several people talk here, so an administrator has to say this. To make me forget one of your own messages, delete it."}
	}
	err := a.store.DeleteConversation(ctx, m.Conversation)
	a.agent.Forget(m.Conversation)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return chat.Draft{Ephemeral: true, Text: "There is nothing here that I remember."}
	case err != nil:
		a.o.Log.Error("conversation not forgotten", "conversation", m.Conversation.String(), "error", err)
		return chat.Draft{Ephemeral: true, Failed: true, Text: "That failed; please try again."}
	}
	return chat.Draft{Ephemeral: true, Text: "Forgotten: I no longer know what was said here before. What I was told to remember stays: `/raven memory` shows and removes it."}
}
