package feeds

import (
	"context"
	"encoding/json"
	"errors"

	"ravenbot/internal/core/tool"
)

// Proposal is a digest that somebody asked for, posted to the conversation of the caller.
type Proposal struct {
	Caller   tool.Caller `json:"-"`
	Name     string      `json:"name"`
	Feeds    []string    `json:"feeds"`    // addresses, or words that name a feed the bot knows
	Channels []string    `json:"channels"` // addresses, or "here"
	Schedule string      `json:"schedule"`
	Timezone string      `json:"timezone"`
	Style    string      `json:"style"`
	Language string      `json:"language"`
	Prompt   string      `json:"prompt"`
	MaxItems int         `json:"maxItems"`
	Filters  []string    `json:"filters"`
}

// ProposalError is the error for a proposal that cannot be accepted as it is; Reason is for the model.
type ProposalError struct{ Reason string }

func (e ProposalError) Error() string { return e.Reason }

// Planner shows a proposal to people, who decide about it, and returns what the model is told.
type Planner interface {
	Propose(ctx context.Context, w Proposal) (string, error)
}

// CreateTool returns the tool digest_create.
func CreateTool(p Planner) tool.Tool {
	no := false
	return tool.Func{
		Described: tool.Spec{
			Server: "digest",
			Name:   "create",
			Native: true,
			Hints:  tool.Hints{ReadOnly: &no, Destructive: &no},
			Description: "Plans a digest for this channel: what is new in feeds or was said in channels, or an agent's task, " +
				"on a schedule. People are shown the plan and confirm it.",
			Schema: json.RawMessage(`{"type":"object","properties":{` +
				`"name":{"type":"string"},` +
				`"feeds":{"type":"array","items":{"type":"string"},"description":"addresses, or titles of known feeds"},` +
				`"channels":{"type":"array","items":{"type":"string"},"description":"what was said there: here, or addresses"},` +
				`"schedule":{"type":"string","description":"weekdays at 8:30, cron, or on-new: items as they come"},` +
				`"timezone":{"type":"string","description":"IANA zone, Europe/Oslo; ask if not known"},` +
				`"style":{"type":"string","enum":["brief","bullets","topics","titles","deep"]},` +
				`"language":{"type":"string"},` +
				`"prompt":{"type":"string","description":"for the writer; alone: the task"},` +
				`"maxItems":{"type":"integer","minimum":1,"maximum":100},` +
				`"filters":{"type":"array","items":{"type":"string"},"description":"words of which an item must have one; ` +
				`-word: none"}},"required":["schedule"]}`),
		},
		Do: func(ctx context.Context, args json.RawMessage) (tool.Result, error) {
			var w Proposal
			if err := json.Unmarshal(args, &w); err != nil {
				return tool.Failure(err.Error()), nil
			}
			w.Caller = tool.CallerFrom(ctx)
			text, err := p.Propose(ctx, w)
			var unfit ProposalError
			if errors.As(err, &unfit) {
				return tool.Failure(unfit.Reason), nil
			}
			return tool.Text(text), err
		},
	}
}
