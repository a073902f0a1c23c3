package llmtest

import (
	"encoding/json"
	"fmt"
	"slices"

	"ravenbot/internal/core/llm"
)

// Malformed returns the rule of providers that the messages of a request break, or "".
func Malformed(messages []llm.Message) string {
	if len(messages) == 0 || messages[0].Role != llm.User {
		return "no user message first"
	}
	for i, m := range messages {
		if len(m.Parts) == 0 {
			return "an empty message"
		}
		if i > 0 && messages[i-1].Role == m.Role {
			return "two neighbours of one role"
		}
		var want []string
		for _, c := range m.Calls() {
			if m.Role != llm.Assistant || !json.Valid(c.Args) {
				return "a call that is not a model's, or with malformed arguments"
			}
			want = append(want, c.ID)
		}
		var have []string
		if i+1 < len(messages) && messages[i+1].Role == llm.ToolRole {
			for _, p := range messages[i+1].Parts {
				have = append(have, p.Result.ID)
			}
		}
		if !slices.Equal(want, have) {
			return fmt.Sprintf("calls %v answered by %v", want, have)
		}
	}
	return ""
}
