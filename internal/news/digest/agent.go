package digest

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/store"
)

// Agent is the bot's agent, as digests use it.
type Agent interface {
	Answer(ctx context.Context, q chat.Asked, show func(chat.Progress)) (*conversation.Turn, *chat.Draft)
	CompleteJSON(
		ctx context.Context,
		on store.Usage,
		models []string,
		system, prompt string,
		schema json.RawMessage,
	) (text, served string, err error)
}

// Roster names the models that write for agents.
type Roster interface {
	// Writers returns the language models of an agent, or of the one that answers in a
	// channel where name is none of an agent; none: it has no language model.
	Writers(name string, channel chat.Address) []string
}

// Turns keeps turns, as in store.Store.
type Turns interface {
	SaveTurn(ctx context.Context, a chat.Address, turn *conversation.Turn, calls ...store.ToolCall) error
}

// taskAddress returns the conversation in which the tasks of a digest are carried out.
func taskAddress(p Plan) chat.Address {
	return chat.Address{Platform: chat.TaskPlatform, Workspace: "task", Channel: p.Name}
}

// channel returns the first place that a digest is posted to: its use of models counts for it, and its settings hold.
func (p Plan) channel() chat.Address {
	if len(p.Post) == 0 {
		return chat.Address{}
	}
	a, _ := chat.ParseAddress(p.Post[0]) // it was checked when the plan was made
	return a
}

// AgentWriter returns an Options.Writer that has the agent of a digest judge and write.
func AgentWriter(a Agent, r Roster) func(Plan) Writer {
	return func(p Plan) Writer {
		models := r.Writers(p.Agent, p.channel())
		if len(models) == 0 {
			return nil
		}
		return func(ctx context.Context, system, prompt string, schema json.RawMessage) (string, string, error) {
			return a.CompleteJSON(ctx, store.Usage{Channel: taskAddress(p)}, models, system, prompt, schema)
		}
	}
}

// AgentTask returns an Options.Task that has the agent of a digest carry out its prompt, in a
// turn that goes on where it stood when it is cut off.
func AgentTask(a Agent, turns Turns,
	now func() time.Time) func(context.Context, Task) (chat.Draft, func(context.Context) error, error) {
	return func(ctx context.Context, t Task) (chat.Draft, func(context.Context) error, error) {
		at := taskAddress(t.Plan)
		m := chat.Message{
			ID:           t.Key, // the same after a crash, so that the agent continues its turn
			Conversation: at,
			Author:       chat.User{ID: t.Plan.By.ID, Name: t.Plan.By.Name},
			Text:         t.Prompt,
			Origin:       t.Plan.Origin,
			Reach:        chat.Addressed,
			Command:      chat.CommandAsk,
			Time:         now(),
		}
		turn, d := a.Answer(ctx, chat.Asked{Turn: m.Key(), Messages: []chat.Message{m}}, func(chat.Progress) {})
		switch {
		case ctx.Err() != nil:
			return chat.Draft{}, nil, ctx.Err()
		case d == nil:
			return chat.Draft{}, nil, errors.New("the agent gave no answer")
		case turn == nil:
			return *d, nil, nil
		}
		return *d, func(ctx context.Context) error { return turns.SaveTurn(ctx, at, turn) }, nil
	}
}

// Task returns, for the conversation of a digest's task, the agent that the digest names, the channel that it is posted
// to, and the tokens that it may use; it returns false where it is no such conversation.
func (s *Service) Task(at chat.Address) (p Plan, channel chat.Address, ok bool) {
	if at.Platform != chat.TaskPlatform {
		return Plan{}, chat.Address{}, false
	}
	p, ok = s.Plan(at.Channel)
	return p, p.channel(), ok
}

// Readable returns the conversation that a task may read back: the channel that its digest is
// posted to, if there is but one.
func (s *Service) Readable(task chat.Address) (chat.Address, bool) {
	p, ok := s.Plan(task.Channel)
	if !ok || len(p.Post) != 1 {
		return chat.Address{}, false
	}
	return p.channel(), true
}
