package conversation_test

import (
	"strings"
	"testing"

	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
)

// Newest returns the turns that fit together, and none if the newest turn is too large by itself.
func TestNewest_Fits_UpToTheLimit(t *testing.T) {
	said := func(text string) conversation.Turn {
		return conversation.Turn{Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: text}}}}}
	}
	turns := []conversation.Turn{said("one"), said("three"), said("seven")}
	last, two := turns[2].Size(), turns[2].Size()+turns[1].Size()
	for limit, want := range map[int]int{last - 1: 0, last: 1, two - 1: 1, two: 2, two + 1000: 3} {
		if got := conversation.Newest(turns, limit); len(got) != want {
			t.Errorf("%d turns of at most %d bytes, want %d", len(got), limit, want)
		}
	}
}

// The last results are complete, and earlier results are short.
func TestWithShortResults_SeveralCalls_KeepsTheLast(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	result := func(id string) llm.Message {
		return llm.Message{Role: llm.ToolRole, Parts: []llm.Part{{Result: &llm.Result{ID: id, Content: long}}}}
	}
	turn := conversation.Turn{Messages: []llm.Message{result("a"), {Role: llm.Assistant}, result("b"), {Role: llm.Assistant}}}
	short := turn.WithShortResults()
	if n := len(short.Messages[0].Parts[0].Result.Content); n >= len(long) {
		t.Errorf("the first result has %d bytes still", n)
	}
	if n := len(short.Messages[2].Parts[0].Result.Content); n != len(long) {
		t.Errorf("the last result has %d bytes of %d", n, len(long))
	}
	if n := len(turn.Messages[0].Parts[0].Result.Content); n != len(long) {
		t.Error("the turn itself was changed")
	}
}
