package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/store"
)

// pages lists what is kept in pages of each size: all of it, once, in the same order.
func pages(t *testing.T, s store.Store, now *time.Time) {
	ctx := t.Context()
	for i := range 7 {
		a := chat.Address{Platform: "web", Channel: fmt.Sprint("room", i)}
		// Some have turns, some messages outside of turns, some both.
		if i%3 != 1 {
			must(t, s.SaveTurn(ctx, a, &conversation.Turn{ID: fmt.Sprint(i), Began: noon}))
		}
		if i%3 != 0 {
			_, err := s.SaveMessages(ctx, []store.Message{{Conversation: a, ID: "m", At: noon.Add(time.Hour)}})
			must(t, err)
		}
		must(t, s.CountUsage(ctx, store.Usage{Model: "m", Channel: a, Turns: 1, Tokens: llm.Usage{Input: 1}}))
		*now = now.Add(24 * time.Hour)
	}
	var all []store.ConversationInfo
	for n := 1; n <= 8; n++ {
		list := readPages(
			t,
			n,
			func(cursor string) ([]store.ConversationInfo, string, error) { return s.Conversations(ctx, cursor, n) },
		)
		if all == nil {
			all = list
		}
		same(t, fmt.Sprintf("conversations in pages of %d", n), all, list)
		usage := readPages(
			t,
			n,
			func(cursor string) ([]store.Usage, string, error) { return s.Usage(ctx, "2026-03-06", cursor, n) },
		)
		same(t, fmt.Sprintf("days in pages of %d", n), 5, len(usage))
		same(t, "the first day", "2026-03-06", usage[0].Day)
	}
	same(t, "conversations", 7, len(all))
	same(t, "they are in order", true, slices.IsSortedFunc(all, func(a, b store.ConversationInfo) int {
		return slices.Compare([]string{a.Address.String()}, []string{b.Address.String()})
	}))
	same(t, "one with turns alone", store.ConversationInfo{Address: all[0].Address, Turns: 1, Last: noon}, all[0])
	same(t, "one with messages alone", store.ConversationInfo{Address: all[1].Address, Last: noon.Add(time.Hour)}, all[1])
	same(t, "one with both", store.ConversationInfo{Address: all[2].Address, Turns: 1, Last: noon.Add(time.Hour)}, all[2])

	var wrong store.CursorError
	if _, _, err := s.Conversations(ctx, "!", 1); !errors.As(err, &wrong) {
		t.Errorf("a cursor that no list gave: %v", err)
	}
	for _, cursor := range []string{"!", "zzz", "not-a-cursor"} {
		if _, _, err := s.Usage(ctx, "", cursor, 1); !errors.As(err, &wrong) {
			t.Errorf("the cursor %q, which no list gave: %v", cursor, err)
		}
	}
}

// readPages returns all items of a list, and fails where a page has more than n, or the last none.
func readPages[T any](t *testing.T, n int, read func(cursor string) ([]T, string, error)) []T {
	t.Helper()
	var all []T
	for cursor := ""; ; {
		page, next, err := read(cursor)
		must(t, err)
		if len(page) > n || len(page) == 0 {
			t.Fatalf("a page of %d items, want 1 to %d", len(page), n)
		}
		all = append(all, page...)
		if cursor = next; cursor == "" {
			return all
		}
	}
}
