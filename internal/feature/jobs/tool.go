package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
)

// Tool returns the tool remind, which does the same as /raven remind.
func (s *Service) Tool() tool.Tool {
	no := false
	return tool.Func{
		Described: tool.Spec{
			Server:      "jobs",
			Name:        "remind",
			As:          "remind",
			Native:      true,
			Hints:       tool.Hints{ReadOnly: &no, Destructive: &no, OpenWorld: &no},
			ShowResult:  true,
			Description: "Reminds the asker here.",
			Schema: json.RawMessage(`{"type":"object","properties":{` +
				`"when":{"type":"string","description":"in 20 minutes, every monday at 9"},` +
				`"text":{"type":"string"}},"required":["when","text"]}`),
		},
		Do: func(ctx context.Context, raw json.RawMessage) (tool.Result, error) {
			var in struct{ When, Text string }
			if err := json.Unmarshal(raw, &in); err != nil {
				return tool.Failure(`remind wants {"when": a time, "text": what to say then}.`), nil
			}
			c := tool.CallerFrom(ctx)
			m := chat.Message{Conversation: c.Conversation, Author: c.User}
			w, err := parseWhen(strings.TrimSpace(in.When), s.Zone(ctx, m), s.o.Now())
			if err != nil {
				return tool.Failure("No reminder was made: " + err.Error() + ". Ask which time is meant if it is not clear."), nil
			}
			words, err := s.addReminder(ctx, m, w, Job{Text: strings.TrimSpace(in.Text), Origin: c.Origin()})
			if bad := (BadJob{}); errors.As(err, &bad) {
				return tool.Failure("No reminder was made: " + bad.Error() + "."), nil
			}
			return tool.Text(words), err
		},
	}
}
