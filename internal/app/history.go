package app

import (
	"context"

	"ravenbot/internal/chat"
	"ravenbot/internal/tool"
)

// readBack reads what was said in a conversation.
func (a *App) readBack(ctx context.Context, at chat.Address, before string, most int) ([]chat.Said, error) {
	h, ok := a.platform(at.Platform).(chat.Historian)
	if !ok {
		return nil, &chat.SetupError{Reason: at.Platform + " cannot read back what was said", Remedy: "ask on another platform"}
	}
	return h.History(ctx, at, before, most)
}

// readable is the conversation that a caller may read back: its own, and for the task
// of a digest the channel it posts to, if there is but one.
func (a *App) readable(c tool.Caller) (chat.Address, bool) {
	at := c.Conversation
	if at.Platform == taskPlatform {
		p, ok := a.digests.Plan(at.Channel)
		if !ok || len(p.Post) != 1 {
			return chat.Address{}, false
		}
		at = writesTo(p)
	}
	return at, !at.IsZero() && a.platform(at.Platform) != nil
}
