package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/store"
	"ravenbot/internal/store/postgres/pgtest"
	"ravenbot/internal/store/storetest"
)

// Where the tables are gone, every method says so in words for the operator: none takes what it cannot read for
// nothing, or says that it has written.
func TestStore_SchemaIsMissing_EveryMethodSaysSo(t *testing.T) {
	url := pgtest.Start(t)
	r := joinReplica(t, url)
	if _, err := connect(t, url).Exec(t.Context(), `alter schema ravenbot rename to elsewhere`); err != nil {
		t.Fatal(err)
	}
	// Those that look at no table, and the beginning and the end of a membership.
	skipped := map[string]bool{"LocalAddr": true, "ID": true, "Membership": true, "Join": true, "Leave": true}
	for _, of := range []any{r.DB, r.Membership} {
		methods := reflect.ValueOf(of)
		for i := range methods.NumMethod() {
			name, method := methods.Type().Method(i).Name, methods.Method(i)
			args, ok := argumentsOf(t.Context(), method.Type())
			if !ok || skipped[name] {
				continue
			}
			results := method.Call(args)
			err, _ := results[len(results)-1].Interface().(error)
			if explained := (*store.SystemError)(nil); !errors.As(err, &explained) {
				t.Errorf("%s returned %v", name, err)
			}
		}
	}
}

// pruned are the tables that Prune reads, and dumped those that Records does.
var (
	pruned = []string{"deleted_conversations", "inbox", "posts", "streams", "seen_items", "usage", "feedback", "last_seen",
		"shown_turns", "approvals", "calls", "results", "conversations", "turns", "summaries", "message_turns", "quotes",
		"messages", "rooms"}
	dumped = []string{"inbox", "posts", "streams", "seen_items", "usage", "feedback", "last_seen", "shown_turns",
		"approvals", "calls", "results", "conversations", "turns", "summaries", "messages", "entries", "room_files",
		"memories", "settings", "blobs", "items", "feeds", "digests", "runs", "subscriptions"}
)

// aDay keeps everything for a day.
func aDay() store.Retention {
	const day = 24 * time.Hour
	return store.Retention{Conversations: func(chat.Address) time.Duration { return day },
		Rooms: func(string) time.Duration { return day }, Calls: day, Usage: day, Feedback: day}
}

// Whichever table cannot be read, neither a prune nor an export passes over it.
func TestStore_TableIsMissing_PruneAndRecordsSaySo(t *testing.T) {
	url := pgtest.Start(t)
	db, conn := open(t, url, time.Now), connect(t, url)
	// Calls are looked for by their conversation alone: a limit of their own would be looked at first.
	keep := aDay()
	keep.Calls = 0
	prune := func() error { _, err := db.Prune(t.Context(), keep); return err }
	records := func() error { return db.Records(t.Context(), func(store.Record) error { return nil }) }
	for _, table := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(pruned, dumped)))) {
		if _, err := conn.Exec(t.Context(), "alter table ravenbot."+table+" rename to elsewhere"); err != nil {
			t.Fatal(err)
		}
		explained := (*store.SystemError)(nil)
		if err := prune(); slices.Contains(pruned, table) && !errors.As(err, &explained) {
			t.Errorf("without %s Prune returned %v", table, err)
		}
		if err := records(); slices.Contains(dumped, table) && !errors.As(err, &explained) {
			t.Errorf("without %s Records returned %v", table, err)
		}
		if _, err := conn.Exec(t.Context(), "alter table ravenbot.elsewhere rename to "+table); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(prune(), records()); err != nil {
		t.Errorf("with all tables: %v", err)
	}
}

// A conversation under no address is not passed over in silence.
func TestPrune_AddressIsDamaged_SaysSo(t *testing.T) {
	url := pgtest.Start(t)
	db := open(t, url, time.Now)
	if err := db.SaveTurn(t.Context(), general, &conversation.Turn{ID: "a", Began: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, url).Exec(t.Context(), "update ravenbot.conversations set address = 'damaged'"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Prune(t.Context(), aDay()); err == nil {
		t.Error("it says nothing")
	}
}

// A turn whose time cannot be read is not passed over in silence, also behind an old one.
func TestPrune_TimeIsDamaged_SaysSo(t *testing.T) {
	url := pgtest.Start(t)
	db := open(t, url, time.Now)
	for _, id := range []string{"a", "b"} {
		turn := &conversation.Turn{ID: id, Began: time.Now().AddDate(-1, 0, 0)}
		if err := db.SaveTurn(t.Context(), general, turn); err != nil {
			t.Fatal(err)
		}
	}
	const damage = "update ravenbot.turns set began = 'infinity' where seq = 2"
	if _, err := connect(t, url).Exec(t.Context(), damage); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Prune(t.Context(), aDay()); err == nil {
		t.Error("it says nothing")
	}
}

// What is old and cannot be deleted is not passed over in silence.
func TestPrune_RowsCannotBeDeleted_SaysSo(t *testing.T) {
	url := pgtest.Start(t)
	now := time.Now()
	db, conn := open(t, url, func() time.Time { return now }), connect(t, url)
	run := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	run(`create function refuse() returns trigger language plpgsql as $$ begin raise exception 'refused'; end $$`)
	storetest.Fill(t, db, now)
	for i, table := range []string{"feedback", "inbox", "posts", "shown_turns", "approvals", "calls", "results",
		"conversations", "turns", "summaries", "message_turns", "quotes", "messages", "entries", "room_files"} {
		storetest.SayEverywhere(t, db, general, fmt.Sprint(i), "words", now)
		now = now.Add(400 * 24 * time.Hour)
		run(`create trigger refuse before delete or update on ravenbot.` + table + ` for each row execute function refuse()`)
		if _, err := db.Prune(t.Context(), aDay()); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("with rows of %s that stay: %v", table, err)
		}
		run(`drop trigger refuse on ravenbot.` + table)
		if _, err := db.Prune(t.Context(), aDay()); err != nil {
			t.Fatal(err)
		}
	}
}

// A post that was given up and sent again later is changed and not deleted, which may fail like everything else.
func TestPrune_PostCannotBeChanged_SaysSo(t *testing.T) {
	url := pgtest.Start(t)
	now := time.Now()
	db, ctx := open(t, url, func() time.Time { return now }), t.Context()
	old := now.Add(-8 * 24 * time.Hour)
	if err := errors.Join(
		db.SavePosts(ctx, []store.Post{{Key: "a", To: general, At: old}}),
		db.SaveOutcomes(ctx, []store.Outcome{{Key: "a", Error: "refused", At: old}}, 0),
		db.SavePosts(ctx, []store.Post{{Key: "b", To: general, Replaces: "a", At: now}}),
		db.SaveOutcomes(ctx, []store.Outcome{{Key: "b", Ref: chat.Ref{IDs: []string{"1"}}, At: now}}, 0),
	); err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, url).Exec(ctx, `
		create function refuse() returns trigger language plpgsql as $$ begin raise exception 'refused'; end $$;
		create trigger refuse before update on ravenbot.posts for each row execute function refuse()`); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Prune(ctx, store.Retention{}); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("pruning gave %v", err)
	}
}

// argumentsOf returns arguments for a method that takes a context and returns an error; false for all others. They are
// small values: numbers are 1, bytes an empty record, and lists have one element.
func argumentsOf(ctx context.Context, method reflect.Type) (args []reflect.Value, ok bool) {
	n := method.NumOut()
	if n == 0 || method.Out(n-1) != reflect.TypeFor[error]() || method.NumIn() == 0 ||
		method.In(0) != reflect.TypeFor[context.Context]() {
		return nil, false
	}
	args = []reflect.Value{reflect.ValueOf(ctx)}
	for i := 1; i < method.NumIn(); i++ {
		arg := reflect.New(method.In(i)).Elem()
		switch {
		case arg.Type() == reflect.TypeFor[[]store.Record]():
			arg = reflect.ValueOf([]store.Record{{Kind: "blob", Key: "a", Body: []byte(`{}`)}})
		case arg.Kind() == reflect.Slice && arg.Type().Elem().Kind() == reflect.Uint8:
			arg.SetBytes([]byte(`{}`))
		case arg.CanInt():
			arg.SetInt(1)
		case arg.Kind() == reflect.Slice && method.IsVariadic() && i == method.NumIn()-1:
			arg = reflect.New(method.In(i).Elem()).Elem()
		case arg.Kind() == reflect.Slice:
			arg = reflect.MakeSlice(arg.Type(), 1, 1)
		case arg.Kind() == reflect.Pointer:
			arg = reflect.New(arg.Type().Elem())
		}
		args = append(args, arg)
	}
	return args, true
}
