package history

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// manyMessages is a store with so many imported messages, which are named by their numbers.
type manyMessages struct {
	Store
	n int
}

func (s manyMessages) Messages(
	_ context.Context,
	a chat.Address,
	cursor string,
	n int,
) ([]store.Message, string, error) {
	first := 0
	if cursor != "" {
		first, _ = strconv.Atoi(cursor)
	}
	var list []store.Message
	for i := first; i < min(first+n, s.n); i++ {
		list = append(list, store.Message{Conversation: a, ID: fmt.Sprint(i), Text: "balloon"})
	}
	return list, fmt.Sprint(first + len(list)), nil
}

func TestRefresh_MoreImportedMessagesThanAreHeld_KeepsTheNewest(t *testing.T) {
	const many = maxOfPlace + 2*readBatch + 1
	s, p := New(Options{Store: manyMessages{n: many}}), newPlace()
	if err := s.refreshMessages(t.Context(), p, store.ConversationVersion{Messages: 1}); err != nil {
		t.Fatal(err)
	}
	if p.known[key(Message{ID: fmt.Sprint(many - 1)})] == nil {
		t.Error("the newest message cannot be found")
	}
	if n := len(p.known); n > maxOfPlace || n < maxOfPlace-readBatch {
		t.Errorf("%d messages are held, want at most %d", n, maxOfPlace)
	}
}
