package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/store"
)

// Messages are stored in any order and read by time; each change of a conversation changes its
// version, and none other.
func messagesOutsideTurns(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	inThread := general
	inThread.Thread = "7"
	other := chat.Address{Platform: "web", Channel: "generally"}
	said := func(at chat.Address, id string, minute int) store.Message {
		return store.Message{Conversation: at, ID: id, Author: chat.User{ID: "u", Name: "anna"},
			At: noon.Add(time.Duration(minute) * time.Minute), Text: "text of " + id}
	}
	save := func(want int, list ...store.Message) {
		t.Helper()
		added, err := s.SaveMessages(ctx, list)
		must(t, err)
		same(t, "messages that were new", want, added)
	}
	// Stored in any order, read by time.
	save(3, said(general, "c", 3), said(general, "a", 1), said(general, "b", 2))
	save(2, said(inThread, "a", 1), said(other, "a", 1))
	changed := said(general, "b", 9)
	changed.Text = "changed"
	save(0, changed)

	first, cursor, err := s.Messages(ctx, general, "", 2)
	must(t, err)
	same(t, "the oldest two", []store.Message{said(general, "a", 1), said(general, "b", 2)}, first)
	rest, cursor, err := s.Messages(ctx, general, cursor, 2)
	must(t, err)
	same(t, "the rest", []store.Message{said(general, "c", 3)}, rest)
	rest, _, err = s.Messages(ctx, general, cursor, 2)
	must(t, err)
	same(t, "behind the last", []store.Message(nil), rest)
	if _, _, err := s.Messages(ctx, general, "!", 2); err == nil {
		t.Error("a damaged cursor is accepted")
	}
	newestMessages(t, s, general, said(general, "a", 1), said(general, "b", 2), said(general, "c", 3))

	versions := func() map[chat.Address]string {
		t.Helper()
		list, err := s.Versions(ctx, general)
		must(t, err)
		all := map[chat.Address]string{}
		for _, v := range list {
			all[v.Address] = fmt.Sprint(v.Turns, v.Messages)
		}
		return all
	}
	before := versions()
	same(t, "conversations with a version", 2, len(before))
	same(t, "the versions when nothing changed", before, versions())
	must(t, s.DeleteMessage(ctx, "slack", "b"))
	same(t, "the versions after a deletion on another platform", before, versions())
	for range 2 { // the second time there is none
		must(t, s.DeleteMessage(ctx, "web", "b"))
	}
	after := versions()
	if after[general] == before[general] || after[inThread] != before[inThread] {
		t.Errorf("versions before a deletion %v, after it %v", before, after)
	}
	turn := conversation.Turn{ID: "t", Began: noon, State: conversation.Open}
	must(t, s.SaveTurn(ctx, general, &turn))
	withTurn := versions()
	turn.State = conversation.Answered
	must(t, s.SaveTurn(ctx, general, &turn))
	if answered := versions(); withTurn[general] == after[general] || answered[general] == withTurn[general] {
		t.Errorf("versions with a new turn %v, with its answer %v", withTurn, answered)
	}

	list, _, err := s.Conversations(ctx, "", 100)
	must(t, err)
	same(t, "conversations that are listed", 3, len(list))
	has, err := s.HasConversation(ctx, other)
	must(t, err)
	same(t, "a conversation of messages alone is there", true, has)
	must(t, s.DeleteConversation(ctx, other))
	must(t, s.DeleteConversation(ctx, general))
	if err := s.DeleteConversation(ctx, general); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deleting it again: %v", err)
	}
	for at, want := range map[chat.Address]int{general: 0, other: 0, inThread: 1} {
		list, _, err := s.Messages(ctx, at, "", 9)
		must(t, err)
		same(t, "messages left of "+at.String(), want, len(list))
	}
	save(1, said(general, "b", 2)) // it was deleted, so it is new again
}

// newestMessages reads the messages of a conversation, which are all of it, from the newest on in parts.
func newestMessages(t *testing.T, s store.Store, at chat.Address, all ...store.Message) {
	t.Helper()
	ctx := t.Context()
	for n := 1; n <= len(all)+1; n++ {
		var got []store.Message
		parts := 0
		for cursor, begun := "", false; !begun || cursor != ""; begun = true {
			list, next, err := s.NewestMessages(ctx, at, cursor, n)
			must(t, err)
			got, cursor = append(slices.Clone(list), got...), next
			parts++
		}
		same(t, fmt.Sprintf("the messages in parts of %d", n), all, got)
		same(t, fmt.Sprintf("how many parts of %d", n), (len(all)+n-1)/n, parts)
	}
	// What is newer than all that are left leads to the newest of them.
	_, cursor, err := s.NewestMessages(ctx, at, "", 1)
	must(t, err)
	list, next, err := s.NewestMessages(ctx, chat.Address{Platform: "web", Channel: "nobody"}, cursor, 9)
	must(t, err)
	same(t, "messages of another conversation", 0, len(list)+len(next))
	if _, _, err := s.NewestMessages(ctx, at, "!", 2); err == nil {
		t.Error("a damaged cursor is accepted")
	}
}
