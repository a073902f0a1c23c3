package agent

import (
	"context"

	"ravenbot/internal/chat"
)

// Compact does at once what Run would do later.
func (e *Engine) Compact(ctx context.Context, a chat.Address) error {
	return e.compactConversation(ctx, a)
}
