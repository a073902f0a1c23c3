package digest

import (
	"context"
	"errors"
	"fmt"

	"ravenbot/internal/core/tool"
	"ravenbot/internal/tools/feeds"
)

// tools returns the tools by which a model subscribes a channel to feeds and proposes digests.
func (s *Service) tools() []tool.Tool {
	return []tool.Tool{feeds.SubscribeTool(s, s.o.Platforms.CanPost), feeds.CreateTool(proposer{s})}
}

// proposer lets a tool propose digests.
type proposer struct{ digests *Service }

// Propose returns what is said of the plan to whoever has to confirm it. A plan that cannot be carried out is a
// feeds.ProposalError, in words for the model.
func (p proposer) Propose(ctx context.Context, w feeds.Proposal) (string, error) {
	plan := Plan{Name: w.Name, Channels: w.Channels, Schedule: w.Schedule, Timezone: w.Timezone, Style: w.Style,
		Language: w.Language, Prompt: w.Prompt, MaxItems: w.MaxItems, Filters: w.Filters}
	for _, address := range w.Feeds {
		plan.Feeds = append(plan.Feeds, Feed{URL: address})
	}
	text, err := p.digests.Propose(ctx, w.Caller, plan)
	var bad BadPlan
	if errors.As(err, &bad) || errors.Is(err, ErrExists) {
		return "", feeds.ProposalError{Reason: fmt.Sprintf("The digest cannot be made so: %v.", err)}
	}
	return text, err
}
