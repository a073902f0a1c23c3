package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/store/postgres/pgtest"
	"ravenbot/internal/store/storetest"
)

// The connection is lost at any byte of an answer: what Prune looks through in pages is looked at all the same, and
// nothing of it twice.
func TestPrune_ConnectionLostInAPage_LooksAtEachConversation(t *testing.T) {
	t.Parallel()
	address := pgtest.Start(t)
	p, behind := newProxy(t, address)
	db := open(t, behind, time.Now)
	storetest.Fill(t, db, time.Now())
	before := p.sent.Load()
	want, err := db.ListInPages(t.Context())
	if err != nil || len(want) != 3 {
		t.Fatalf("%d conversations (%v), want 3", len(want), err)
	}
	for at := range p.sent.Load() - before {
		p.cutAt.Store(p.sent.Load() + at + 1)
		got, err := db.ListInPages(t.Context())
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("cut at byte %d: %v (-want +got):\n%s", at, err, diff)
		}
	}
}

// listed returns a call that reads a list of a page, without its cursor.
func listed[T any](read func(ctx context.Context, cursor string, n int) ([]T, string, error)) func(
	context.Context) (any, error) {
	return func(ctx context.Context) (any, error) {
		list, _, err := read(ctx, "", 9)
		return list, err
	}
}

// whole returns a call that reads a list at once.
func whole[T any](read func(context.Context) (T, error)) func(context.Context) (any, error) {
	return func(ctx context.Context) (any, error) { return read(ctx) }
}

// The connection is lost when all of an answer has come but its end: what is read again is there once.
func TestRead_ConnectionLostBehindTheRows_ReturnsEachOnce(t *testing.T) {
	t.Parallel()
	address := pgtest.Start(t)
	p, behind := newProxy(t, address)
	now := time.Now()
	db, other := joinReplica(t, behind), open(t, address, time.Now)
	storetest.Fill(t, db, now)
	if err := other.CountUsage(t.Context(), store.Usage{User: "u", Tokens: llm.Usage{Input: 1}}); err != nil {
		t.Fatal(err)
	}
	day := now.UTC().Format("2006-01-02")
	for name, read := range map[string]func(context.Context) (any, error){
		"Unanswered":    whole(db.Unanswered),
		"PendingPosts":  whole(db.PendingPosts),
		"Feedback":      whole(db.Feedback),
		"Subscriptions": whole(db.Subscriptions),
		"MemoryScopes":  whole(db.MemoryScopes),
		"Rooms":         whole(db.Rooms),
		"Settings":      whole(db.Settings),
		"Conversations": listed(db.Conversations),
		"Usage": listed(func(ctx context.Context, cursor string, n int) ([]store.Usage, string, error) {
			return db.Usage(ctx, "", cursor, n)
		}),
		"Versions": func(ctx context.Context) (any, error) { return db.Versions(ctx, general) },
		"Turns": func(ctx context.Context) (any, error) {
			return db.Turns(ctx, general, store.Range{Newest: 9})
		},
		"TurnsQuoting": func(ctx context.Context) (any, error) { return db.TurnsQuoting(ctx, "quoted said0") },
		"Replicas":     whole(db.Replicas),
		"ToolCalls":    func(ctx context.Context) (any, error) { return db.ToolCalls(ctx, 0, 9, nil) },
		"UsageOfOthers": func(ctx context.Context) (any, error) {
			return db.UsageOfOthers(ctx, day)
		},
	} {
		var want, got any
		var err error
		// A connection that has been idle for a second is asked whether it works, and the answer counts as well.
		for tries, isCut := 0, false; !isCut && err == nil; tries++ {
			if tries == 20 {
				t.Fatalf("%s: the connection was not lost", name)
			}
			before := p.sent.Load()
			if want, err = read(t.Context()); err != nil {
				break
			}
			now := p.sent.Load()
			p.cutAt.Store(now + (now - before) - 1)
			got, err = read(t.Context())
			isCut = p.cutAt.Swap(0) == 0
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Who asks for the newest few calls is sent no more: a page of the dashboard would read hundreds each time.
func TestToolCalls_Few_AreReadAlone(t *testing.T) {
	t.Parallel()
	p, address := newProxy(t, pgtest.Start(t))
	db := open(t, address, time.Now)
	var calls []store.ToolCall
	for n := range 200 {
		calls = append(calls, store.ToolCall{ID: fmt.Sprint(n), Began: time.Now()})
	}
	if err := db.SaveCalls(t.Context(), calls); err != nil {
		t.Fatal(err)
	}
	sent := func(n int) int64 {
		t.Helper()
		before := p.sent.Load()
		list, err := db.ToolCalls(t.Context(), 0, n, nil)
		if err != nil || len(list) != n {
			t.Fatalf("%d calls (%v), want %d", len(list), err, n)
		}
		return p.sent.Load() - before
	}
	if all, few := sent(200), sent(2); few > all/10 {
		t.Errorf("for 2 calls %d bytes were sent, for 200 of them %d", few, all)
	}
}
