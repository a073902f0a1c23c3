package memory

import (
	"context"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/feature"
)

// Module returns the ability to remember what people say.
func (p *Pack) Module() feature.Module {
	return feature.Module{Features: []feature.Feature{p}, Tools: p.Tools}
}

// Commands returns the command that shows and deletes notes.
func (*Pack) Commands() []chat.CommandSpec {
	return []chat.CommandSpec{{
		Name:    "memory",
		Summary: "See or delete what the bot remembers of you",
		Help:    "my notes about you and this channel",
		Options: []chat.CommandOption{{
			Name:    "text",
			Summary: "For example: search flights; edit 3 new text; delete 3; channel list",
		}},
	}}
}

// Handle carries out the command.
func (p *Pack) Handle(ctx context.Context, m chat.Message) (*chat.Draft, error) {
	d := p.Command(ctx, m)
	return &d, nil
}
