package postgres_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/store/postgres/pgtest"
)

// Where the tables are gone, every method says so in words for the operator: none takes what it cannot read for
// nothing, or says that it has written.
func TestStore_SchemaIsMissing_EveryMethodSaysSo(t *testing.T) {
	url := pgtest.Start(t)
	db := open(t, url, time.Now)
	if _, err := connect(t, url).Exec(t.Context(), `alter schema ravenbot rename to elsewhere`); err != nil {
		t.Fatal(err)
	}
	// Those that look at no table.
	needNone := map[string]bool{"LocalAddr": true, "Membership": true}
	methods := reflect.ValueOf(db)
	for i := range methods.NumMethod() {
		name, method := methods.Type().Method(i).Name, methods.Method(i)
		args, ok := argumentsOf(t.Context(), method.Type())
		if !ok || needNone[name] {
			continue
		}
		results := method.Call(args)
		err, _ := results[len(results)-1].Interface().(error)
		if explained := (*store.SystemError)(nil); !errors.As(err, &explained) {
			t.Errorf("%s returned %v", name, err)
		}
	}
}

// A prune that cannot read one of its tables says so, whichever it is.
func TestPrune_TableIsMissing_SaysSo(t *testing.T) {
	url := pgtest.Start(t)
	db, conn := open(t, url, time.Now), connect(t, url)
	day := func(string) time.Duration { return 24 * time.Hour }
	keep := store.Retention{Conversations: func(chat.Address) time.Duration { return day("") }, Rooms: day, Calls: day(""),
		Usage: day(""), Feedback: day("")}
	for _, table := range []string{"deleted_conversations", "inbox", "posts", "streams", "seen_items", "usage", "feedback",
		"last_seen", "shown_turns", "approvals", "calls", "results", "conversations", "turns", "summaries", "message_turns",
		"quotes", "messages", "rooms"} {
		if _, err := conn.Exec(t.Context(), "alter table ravenbot."+table+" rename to elsewhere"); err != nil {
			t.Fatal(err)
		}
		_, err := db.Prune(t.Context(), keep)
		if explained := (*store.SystemError)(nil); !errors.As(err, &explained) {
			t.Errorf("without %s it returned %v", table, err)
		}
		if _, err := conn.Exec(t.Context(), "alter table ravenbot.elsewhere rename to "+table); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Prune(t.Context(), keep); err != nil {
		t.Errorf("with all tables: %v", err)
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
