package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/store"
)

// taskWorkspace tells the conversations of jobs from those of digests.
const taskWorkspace = "job"

// Agent is the bot's agent.
type Agent interface {
	Answer(ctx context.Context, q chat.Asked, show func(chat.Progress)) (*conversation.Turn, *chat.Draft)
}

// Turns keeps turns, as in store.Store.
type Turns interface {
	SaveTurn(ctx context.Context, a chat.Address, turn *conversation.Turn, calls ...store.ToolCall) error
	DeleteConversation(ctx context.Context, a chat.Address) error
}

// taskAddress returns the conversation in which a job's task is carried out. What the tasks of a webhook cost counts
// for the webhook together, while each delivery is a conversation of its own.
func (j Job) taskAddress() chat.Address {
	a := chat.Address{Platform: chat.TaskPlatform, Workspace: taskWorkspace, Channel: j.ID}
	if j.Hook != "" {
		a.Channel, a.Thread = "hook-"+j.Hook, j.ID
	}
	return a
}

// AgentTask returns a Task that asks the agent in a turn, which resumes after an interruption. The function that the
// Task returns deletes the conversation of a one-time job. It can be retried.
func AgentTask(a Agent, turns Turns, now func() time.Time) Task {
	return func(ctx context.Context, j Job, due time.Time) (chat.Draft, func(context.Context) error, error) {
		at := j.taskAddress()
		m := chat.Message{
			ID:           fmt.Sprintf("job/%s/%s", j.ID, due.UTC().Format(time.RFC3339Nano)),
			Conversation: at,
			Author:       chat.User{ID: j.By.ID, Name: j.By.Name},
			Text:         j.Prompt,
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
		}
		if turn != nil {
			d.Origin = &turn.Origin
		}
		return *d, func(ctx context.Context) error {
			if j.IsOnce() {
				err := turns.DeleteConversation(ctx, at)
				if errors.Is(err, store.ErrNotFound) {
					err = nil
				}
				return err
			}
			if turn == nil {
				return nil
			}
			return turns.SaveTurn(ctx, at, turn)
		}, nil
	}
}

// Find returns the job and the target channel of a task's conversation, or false.
func (s *Service) Find(at chat.Address) (j Job, channel chat.Address, ok bool) {
	if at.Platform != chat.TaskPlatform || at.Workspace != taskWorkspace {
		return Job{}, chat.Address{}, false
	}
	id := at.Channel
	if at.Thread != "" {
		id = at.Thread
	}
	found, ok := s.find(id)
	if places := found.places(); len(places) > 0 {
		channel = places[0]
	}
	return found.Job, channel, ok
}

// MaxTokens is what one task may use of a language model.
const MaxTokens = 30_000

// Readable returns the conversation that a task can read back: its job's target channel, if there is only one. A
// webhook's task can read none, because its payload controls it. It returns false if the conversation is no task's.
func (s *Service) Readable(task chat.Address) (chat.Address, bool) {
	j, channel, ok := s.Find(task)
	if !ok || len(j.Post) != 1 || j.Hook != "" {
		return chat.Address{}, false
	}
	return channel, true
}

// Context returns a task's context in addition to its prompt: a webhook's payload, as foreign text. It returns false
// for a message that is no task of a job.
func (s *Service) Context(m chat.Message) (about chat.Context, ok bool) {
	j, _, ok := s.Find(m.Conversation)
	if ok && j.Foreign != "" {
		about.Linked = []chat.Said{{By: "webhook " + j.Hook, Bot: true, Text: j.Foreign, At: j.Created,
			Origin: origin.Foreign("the webhook " + j.Hook)}}
	}
	return about, ok
}

// AgentPlaces tell an agent what messages are about, as agent.Places does.
type AgentPlaces interface {
	Context(ctx context.Context, m chat.Message, q chat.ContextQuery) chat.Context
	Formatting(platform string) string
	Link(at chat.Address, id string) string
}

// TaskPlaces extends places by the tasks of jobs, which belong to no platform.
type TaskPlaces struct {
	AgentPlaces
	Jobs func() *Service
}

// Context returns what a message is about.
func (p TaskPlaces) Context(ctx context.Context, m chat.Message, q chat.ContextQuery) chat.Context {
	if about, ok := p.Jobs().Context(m); ok {
		return about
	}
	return p.AgentPlaces.Context(ctx, m, q)
}
