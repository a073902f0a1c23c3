package storetest

import (
	"encoding/json"
	"errors"
	"strconv"
	"testing"
	"time"

	"ravenbot/internal/core/conversation"
	"ravenbot/internal/store"
)

// Calls are listed newest first, whether a turn saves them or nobody; a whole result goes with its
// conversation, and of many results the oldest goes.
func callsListed(t *testing.T, s store.Store, now *time.Time) {
	ctx := t.Context()
	call := func(n int) store.ToolCall {
		return store.ToolCall{
			ID:           strconv.Itoa(n),
			Turn:         "web/1",
			Conversation: general,
			Server:       "s",
			Tool:         "s_do",
			Began:        noon,
		}
	}
	large := call(1)
	large.ResultID, large.Whole = "r1", "all of it"
	turn := &conversation.Turn{ID: "web/1", Of: []string{"web/1"}, Began: noon}
	must(t, s.SaveTurn(ctx, general, turn, large, call(2)))
	must(t, s.SaveCalls(ctx, []store.ToolCall{call(3)}))
	ids := func(list []store.ToolCall, err error) (ids []string) {
		must(t, err)
		for _, c := range list {
			ids = append(ids, c.ID)
		}
		return ids
	}
	same(t, "all", []string{"3", "2", "1"}, ids(s.ToolCalls(ctx, 0, 9, nil)))
	page, err := s.ToolCalls(ctx, 0, 1, nil)
	same(t, "a page", []string{"3"}, ids(page, err))
	same(t, "the next page", []string{"2"}, ids(s.ToolCalls(ctx, page[0].Seq, 1, nil)))
	same(
		t,
		"those asked for",
		[]string{"1"},
		ids(s.ToolCalls(ctx, 0, 9, func(c store.ToolCall) bool { return c.ResultID != "" })),
	)
	kept, err := s.ToolResult(ctx, "r1")
	must(t, err)
	same(t, "result", store.ToolResult{ID: "r1", Conversation: general, At: large.Began, Text: "all of it"}, kept)
	must(t, s.DeleteConversation(ctx, general))
	if _, err := s.ToolResult(ctx, "r1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the result of a conversation that was removed: %v", err)
	}
	var many []store.ToolCall
	var newest []string
	for n := range 1200 {
		c := call(n)
		c.ResultID, c.Whole = "x"+strconv.Itoa(1000+n), "text"
		many, newest = append(many, c), append(newest, strconv.Itoa(1199-n))
	}
	must(t, s.SaveCalls(ctx, many))
	same(t, "many", newest, ids(s.ToolCalls(ctx, 0, 1200, nil)))
	same(t, "one of many", []string{"0"}, ids(s.ToolCalls(ctx, 0, 1, func(c store.ToolCall) bool { return c.ID == "0" })))
	for id, isKept := range map[string]bool{"x1943": false, "x1944": true, "x2199": true} {
		if _, err := s.ToolResult(ctx, id); isKept != (err == nil) || !isKept && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("of 256 results that are kept, %s: %v", id, err)
		}
	}
	*now = noon.Add(100 * 24 * time.Hour)
	prune(t, s)
	same(t, "calls of last year", 0, len(ids(s.ToolCalls(ctx, 0, 9, nil))))
}

// An approval is replaced by a later one of the same call, and decided once; one that is a month
// old goes.
func approvalKept(t *testing.T, s store.Store, now *time.Time) {
	ctx := t.Context()
	a := store.Approval{
		ID:           "a1",
		Turn:         "web/1",
		Call:         "c1",
		Tool:         "s_do",
		Args:         json.RawMessage(`{"x":1}`),
		Conversation: general,
		At:           noon,
		Expires:      noon.Add(time.Minute),
	}
	must(t, s.SaveApproval(ctx, a))
	open := a
	a.Decision, a.By = store.Approved, "anna"
	must(t, s.SaveApproval(ctx, a))
	list, err := s.Approvals(ctx, time.Time{})
	must(t, err)
	same(t, "approvals", []store.Approval{a}, list)
	list, err = s.Approvals(ctx, noon.Add(time.Second))
	must(t, err)
	same(t, "approvals asked for later", 0, len(list))
	// Whoever decides first decides.
	open.ID, open.Turn = "a2", "web/2"
	must(t, s.SaveApproval(ctx, open))
	other := open
	other.ID, other.Decision = "a3", store.Approved
	denied, late := open, open
	denied.Decision, late.Decision = store.Denied, store.Approved
	for _, one := range []struct {
		decision store.Approval
		want     bool
	}{{other, false}, {denied, true}, {late, false}} {
		decided, err := s.DecideApproval(ctx, one.decision)
		must(t, err)
		same(t, "decision "+string(one.decision.Decision)+" on "+one.decision.ID, one.want, decided)
	}
	list, err = s.Approvals(ctx, noon)
	must(t, err)
	same(t, "approvals with decisions", []store.Approval{a, denied}, list)
	*now = noon.Add(31 * 24 * time.Hour)
	prune(t, s)
	list, err = s.Approvals(ctx, time.Time{})
	must(t, err)
	same(t, "approvals a month later", 0, len(list))
}

// Names of items are unique in their kind, and one that is taken is replaced only on demand.
func itemsKept(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	must(t, s.SaveItem(ctx, "server", "one", json.RawMessage(`{"a":1}`), false))
	must(t, s.SaveItem(ctx, "agent", "one", json.RawMessage(`{"b":1}`), false))
	if err := s.SaveItem(ctx, "server", "one", json.RawMessage(`{"a":2}`), false); !errors.Is(err, store.ErrExists) {
		t.Errorf("a name that is taken: %v", err)
	}
	must(t, s.SaveItem(ctx, "server", "one", json.RawMessage(`{"a":3}`), true))
	items, err := s.Items(ctx, "server")
	must(t, err)
	same(t, "servers", map[string]json.RawMessage{"one": json.RawMessage(`{"a":3}`)}, items)
	one, err := s.Item(ctx, "server", "one")
	must(t, err)
	same(t, "the server", `{"a":3}`, string(one))
	for _, kind := range []string{"server", "nothing"} {
		if _, err := s.Item(ctx, kind, "two"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s two, which was never there: %v", kind, err)
		}
	}
	must(t, s.DeleteItem(ctx, "server", "one"))
	if err := s.DeleteItem(ctx, "server", "one"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("one that is gone: %v", err)
	}
	items, err = s.Items(ctx, "agent")
	must(t, err)
	same(t, "agents", 1, len(items))
}

// itemsSwapped replaces items only where they are what somebody thinks, and posts with them or not at all.
func itemsSwapped(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	one, two := json.RawMessage(`{"a":1}`), json.RawMessage(`{"a":2}`)
	for _, step := range []struct {
		was, now json.RawMessage
		want     bool
	}{
		{one, two, false}, {nil, one, true}, {nil, one, false}, {two, nil, false},
		{one, two, true}, {two, nil, true}, {two, nil, false}, {nil, one, true},
	} {
		posts := []store.Post{{Key: string(step.was) + ">" + string(step.now), To: general, At: noon}}
		got, err := s.SwapItem(ctx, "job", "one", step.was, step.now, posts)
		must(t, err)
		same(t, "swapped "+posts[0].Key, step.want, got)
	}
	items, err := s.Items(ctx, "job")
	must(t, err)
	same(t, "the item", map[string]json.RawMessage{"one": one}, items)
	pending, err := s.PendingPosts(ctx)
	must(t, err)
	var keys []string
	for _, p := range pending {
		keys = append(keys, p.Key)
	}
	// The first step that made the item has the same key as the last: each post is stored once.
	same(t, "posts", []string{`>{"a":1}`, `{"a":1}>{"a":2}`, `{"a":2}>`}, keys)
}
