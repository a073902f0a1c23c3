package postgres_test

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"ravenbot/internal/testing/pgtest"
)

// receive waits for a signal.
func receive(t *testing.T, of string, signal <-chan struct{}) {
	t.Helper()
	select {
	case <-signal:
	case <-time.After(time.Minute):
		t.Fatalf("no signal that another process has %s", of)
	}
}

func TestNotices_TellOthersAlone(t *testing.T) {
	url := pgtest.Start(t)
	here, there := joinReplica(t, url), joinReplica(t, url)
	// Each connection says that it listens, since it may have missed something before.
	receive(t, "waiting", there.Waiting())
	receive(t, "changed", there.Changed())
	if err := save(t.Context(), here.DB, "one"); err != nil {
		t.Fatal(err)
	}
	receive(t, "changed", there.Changed())
	// What it has changed itself comes before what another one does later.
	if err := save(t.Context(), there.DB, "two"); err != nil {
		t.Fatal(err)
	}
	if err := here.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	receive(t, "waiting", there.Waiting())
	select {
	case <-there.Changed():
		t.Error("a process is told of its own changes")
	default:
	}
}

func TestNotices_ConnectionBreaks_AnotherOneListens(t *testing.T) {
	url := pgtest.Start(t)
	here, there := joinReplica(t, url), joinReplica(t, url)
	receive(t, "changed", there.Changed())
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	tag, err := conn.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity
		where datname = current_database() and query = 'listen ravenbot'`)
	if err != nil || tag.RowsAffected() < 1 {
		t.Fatal(tag, err)
	}
	receive(t, "changed", there.Changed()) // by the next connection
	if err := save(t.Context(), here.DB, "one"); err != nil {
		t.Fatal(err)
	}
	receive(t, "changed", there.Changed())
}

func TestTell_OthersHearWhatWasToldLast(t *testing.T) {
	url := pgtest.Start(t)
	one, two, three := joinReplica(t, url), joinReplica(t, url), joinReplica(t, url)
	tell := func(r *replica, topic, mine string) map[int64]json.RawMessage {
		t.Helper()
		others, err := r.Tell(t.Context(), topic, json.RawMessage(mine))
		if err != nil {
			t.Fatal(err)
		}
		return others
	}
	check := func(what string, got map[int64]json.RawMessage, want map[int64]string) {
		t.Helper()
		texts := map[int64]string{}
		for id, text := range got {
			texts[id] = string(text)
		}
		if !maps.Equal(texts, want) {
			t.Errorf("%s: it hears %v, want %v", what, texts, want)
		}
	}
	check("the first", tell(one, "a", `{"n": 1}`), map[int64]string{})
	tell(one, "a", `{"n": 2}`)
	tell(one, "b", `"of another topic"`)
	check("the second", tell(two, "a", `[]`), map[int64]string{one.id: `{"n": 2}`})
	check("the first again", tell(one, "a", `{}`), map[int64]string{two.id: `[]`})
	check("the third", tell(three, "b", `0`), map[int64]string{one.id: `"of another topic"`})
	if err := one.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("after the first has left", tell(two, "b", `1`), map[int64]string{three.id: `0`})
	if _, err := two.Tell(t.Context(), "a", json.RawMessage(`{`)); err == nil {
		t.Error("what is no JSON was told")
	}
}
