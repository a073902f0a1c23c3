package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"ravenbot/internal/agent"
	"ravenbot/internal/chat"
	"ravenbot/internal/digest"
	"ravenbot/internal/egress"
	"ravenbot/internal/markdown"
	"ravenbot/internal/tool/web"
)

// taskPlatform is the platform of the conversations in which agents carry out the tasks
// of digests: nobody can be asked there, and what one digest says stays in its own.
const taskPlatform = "digest"

func taskAddress(p digest.Plan) chat.Address {
	return chat.Address{Platform: taskPlatform, Workspace: "task", Channel: p.Name}
}

// task has the agent of a digest carry out its prompt, in a turn that goes on where it
// stood when it is cut off.
func (a *App) task(ctx context.Context, t digest.Task) (chat.Draft, func(context.Context) error, error) {
	at := taskAddress(t.Plan)
	m := chat.Message{ID: t.Key, Conversation: at, Author: chat.User{ID: t.Plan.By.ID, Name: t.Plan.By.Name}, Text: t.Prompt,
		Reach: chat.Addressed, Command: "ask", Time: a.o.Now()}
	turn, d := a.agent.Answer(ctx, chat.Asked{Turn: m.Key(), Messages: []chat.Message{m}}, func(chat.Progress) {})
	switch {
	case ctx.Err() != nil:
		return chat.Draft{}, nil, ctx.Err()
	case d == nil:
		return chat.Draft{}, nil, errors.New("the agent gave no answer")
	case turn == nil:
		return *d, nil, nil
	}
	return *d, func(ctx context.Context) error { return a.store.SaveTurn(ctx, at, turn) }, nil
}

// taskProfile is the profile of a digest's task; false: the conversation is none.
func (a *App) taskProfile(m chat.Message) (agent.Profile, bool) {
	if m.Conversation.Platform != taskPlatform {
		return agent.Profile{}, false
	}
	p, ok := a.digests.Plan(m.Conversation.Channel)
	set := a.setup.Load()
	name := a.agentOf(p)
	profile := adjusted(set.config, set.profiles[name], set.agents[name], a.settings.Effective(writesTo(p), ""))
	profile.MaxTokens = p.MaxTokens
	profile.System += "\n\nThis is a task that is carried out on a schedule, with nobody there to answer questions. What you write is posted as it is."
	return profile, ok
}

// articles reads the main text of pages.
type articles struct{ get *egress.Client }

// mostArticle is the most that is read of a page, in bytes.
const mostArticle = 2 << 20

func (g articles) text(ctx context.Context, address string) (string, error) {
	res, err := g.get.Get(ctx, address, egress.GetOptions{MaxBytes: mostArticle, Accept: "text/html, application/xhtml+xml"})
	if err != nil {
		return "", err
	}
	kind := res.Header.Get("Content-Type")
	if res.Status < 200 || res.Status > 299 || kind != "" && !strings.Contains(kind, "html") {
		return "", fmt.Errorf("read %s: status %d, %s", res.URL, res.Status, kind)
	}
	_, body, _ := strings.Cut(web.Page(res.Body, kind, res.URL), "\n\n") // the title is known
	return markdown.Plain(body), nil
}
