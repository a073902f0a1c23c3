package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/testing/pgtest"
)

// A write takes two round trips, whether it reads what it was told to prefetch or nothing.
func TestUpdate_RoundTrips(t *testing.T) {
	p, address := newProxy(t, pgtest.Start(t))
	db := open(t, address, time.Now)
	for name, fn := range map[string]func(tx kv.Tx) error{
		"a write alone": func(tx kv.Tx) error {
			return errors.Join(tx.Put(notes, "", "a", []byte("1")), tx.Put(tasks, "", "a", []byte("{}")),
				tx.Delete(notes, "", "b"))
		},
		"reads and writes": func(tx kv.Tx) error {
			err := tx.Prefetch(kv.Ref{Spec: notes, Key: "a"}, kv.Ref{Spec: notes, Key: "b"}, kv.Ref{Spec: tasks, Key: "a"},
				kv.Ref{Spec: notes}, kv.Ref{Spec: logs, Group: "g"})
			_, getErr := tx.Get(notes, "", "b")
			n, nextErr := tx.Next(notes, "")
			m, groupErr := tx.Next(logs, "g")
			return errors.Join(err, getErr, nextErr, groupErr, tx.Raise(logs, "g", m),
				tx.Put(notes, "", fmt.Sprint(n), []byte("1")), tx.Put(logs, "g", kv.NumberKey(m), nil))
		},
	} {
		least := int64(9)
		for range 3 { // the first may connect, and a connection that was idle for a second is asked whether it works
			before := p.questions.Load()
			if err := db.Update(t.Context(), kv.Write{Scopes: []string{name}}, fn); err != nil {
				t.Fatal(err)
			}
			least = min(least, p.questions.Load()-before)
		}
		if least != 2 {
			t.Errorf("%s takes %d round trips, want 2", name, least)
		}
	}
}

// What changes nothing is no transaction, for which the disk would be waited for.
func TestUpdate_NothingChanges_IsNotCommitted(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	ctx, r, other := t.Context(), joinReplica(t, url), joinReplica(t, url)
	_, _, claimErr := other.ClaimShard(ctx, "bot", 0, 1)
	if err := errors.Join(save(ctx, r.DB, "a"), errOf(other.Claim(ctx, "key")), errOf(other.JoinShards(ctx, "bot", 1, 1)),
		errOf(add(ctx, r.DB, "1", "")), readAndWrite(ctx, r.DB, "log", 1)); err != nil {
		t.Fatal(err, claimErr)
	}
	if _, _, err := other.ClaimShard(ctx, "bot", 0, 1); err != nil {
		t.Fatal(err)
	}
	before := r.Commits()
	if before == 0 {
		t.Error("nothing is counted")
	}
	write := func(fn func(tx kv.Tx) error) error { return r.Update(ctx, kv.Write{Scopes: []string{"a"}}, fn) }
	for name, err := range map[string]error{
		"nothing":  write(func(kv.Tx) error { return nil }),
		"a read":   write(func(tx kv.Tx) error { return errOf(tx.Get(notes, "", "a")) }),
		"a repeat": errOf(add(ctx, r.DB, "1", "")),
		"what is there": write(func(tx kv.Tx) error {
			v, err := tx.Get(notes, "", "a")
			return errors.Join(err, tx.Put(notes, "", "a", v))
		}),
		"what is not there": write(func(tx kv.Tx) error {
			return errors.Join(errOf(tx.Get(notes, "", "none")), tx.Delete(notes, "", "none"))
		}),
		"a number that is passed": write(func(tx kv.Tx) error { return errOf(tx.Next(notes, "")) }),
		"a key of another":        r.Release(ctx, "key"),
		"no keys":                 r.Release(ctx),
		"nothing is left":         errOf(r.Take(ctx, all)),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, isOwn, err := r.ClaimShard(ctx, "bot", 0, 1); isOwn || err != nil {
		t.Errorf("the shard of another is this one's: %v (%v)", isOwn, err)
	}
	if n := r.Commits() - before; n != 0 {
		t.Errorf("%d transactions were committed", n)
	}
}

// A member has its own records, and who is none has all. Who replaces a record does not become its owner.
func TestScan_MineOfMembers(t *testing.T) {
	url := pgtest.Start(t)
	first, second, tool := joinReplica(t, url), joinReplica(t, url), open(t, url, time.Now)
	for name, r := range map[string]*replica{"a": first, "b": second, "c": first} {
		if _, err := add(t.Context(), r.DB, name, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := put(t.Context(), second.DB, tasks, "a", `{"claim":"x"}`); err != nil {
		t.Fatal(err)
	}
	for want, db := range map[string]*postgres.DB{"a, c, ": first.DB, "b, ": second.DB, "a, b, c, ": tool} {
		if got := own(t, db); got != want {
			t.Errorf("a process has %q, want %q", got, want)
		}
	}
}

// The connection is lost at any byte of an answer: a read runs again, and returns everything once.
func TestView_ConnectionLost_ReturnsEachOnce(t *testing.T) {
	t.Parallel()
	p, behind := newProxy(t, pgtest.Start(t))
	db := open(t, behind, time.Now)
	err := db.Update(t.Context(), kv.Write{}, func(tx kv.Tx) error {
		for n := range 5 {
			if err := tx.Put(logs, fmt.Sprint("g", n%2), fmt.Sprint(n), []byte(fmt.Sprint("value ", n))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	read := func() (all []string, err error) {
		err = db.View(t.Context(), func(tx kv.Tx) error {
			all = nil
			return tx.Groups(logs, "", "", func(group string) error {
				return tx.Scan(logs, kv.Range{Group: group}, func(e kv.Entry) error {
					all = append(all, group+"/"+e.Key+"="+string(e.Value))
					return nil
				})
			})
		})
		return all, err
	}
	before := p.sent.Load()
	want, err := read()
	if err != nil || len(want) != 5 {
		t.Fatalf("%q (%v), want 5 records", want, err)
	}
	for at := range p.sent.Load() - before {
		p.cutAt.Store(p.sent.Load() + at + 1)
		got, err := read()
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("cut at byte %d: %v (-want +got):\n%s", at, err, diff)
		}
	}
}

// If the tables are gone, every method says so in words for the operator: none takes what it cannot read for nothing,
// or says that it has written.
func TestStore_SchemaIsMissing_EveryMethodSaysSo(t *testing.T) {
	url := pgtest.Start(t)
	r := joinReplica(t, url)
	if _, err := connect(t, url).Exec(t.Context(), `alter schema ravenbot rename to elsewhere`); err != nil {
		t.Fatal(err)
	}
	check := func(name string, err error) {
		t.Helper()
		if explained := (*store.SystemError)(nil); !errors.As(err, &explained) {
			t.Errorf("%s returned %v", name, err)
		}
	}
	for name, do := range map[string]func(tx kv.Tx) error{
		"Get":         func(tx kv.Tx) error { return errOf(tx.Get(notes, "", "a")) },
		"Put":         func(tx kv.Tx) error { return tx.Put(notes, "", "a", nil) },
		"Delete":      func(tx kv.Tx) error { return tx.Delete(notes, "", "a") },
		"Scan":        func(tx kv.Tx) error { return tx.Scan(notes, kv.Range{}, func(kv.Entry) error { return nil }) },
		"Count":       func(tx kv.Tx) error { return errOf(tx.Count(notes, "")) },
		"Groups":      func(tx kv.Tx) error { return tx.Groups(logs, "", "", func(string) error { return nil }) },
		"DeleteGroup": func(tx kv.Tx) error { return tx.DeleteGroup(logs, "g") },
		"Next":        func(tx kv.Tx) error { return errOf(tx.Next(notes, "")) },
		"Raise":       func(tx kv.Tx) error { return tx.Raise(logs, "g", 1) },
		"Number":      func(tx kv.Tx) error { return errOf(tx.Number(logs, "g")) },
		"Prefetch":    func(tx kv.Tx) error { return tx.Prefetch(kv.Ref{Spec: notes, Key: "a"}) },
	} {
		check(name, r.Update(t.Context(), kv.Write{}, do))
	}
	// Those that look at no table, and the beginning and the end of a membership.
	skipped := map[string]bool{"LocalAddr": true, "ID": true, "Membership": true, "Join": true, "Leave": true,
		"CheckAlone": true, "Update": true, "View": true}
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
			check(name, err)
		}
	}
}

// argumentsOf returns arguments for a method that takes a context and returns an error; false for all others. They are
// small values: numbers are 1, bytes are JSON, and lists have one element.
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
		case arg.Kind() == reflect.Slice && arg.Type().Elem().Kind() == reflect.Uint8:
			arg.SetBytes([]byte(`{}`))
		case arg.CanInt():
			arg.SetInt(1)
		case arg.Kind() == reflect.Slice && method.IsVariadic() && i == method.NumIn()-1:
			arg = reflect.New(method.In(i).Elem()).Elem()
		}
		args = append(args, arg)
	}
	return args, true
}

// A table that was made and is gone is missed, and not made again without its records. The others work.
func TestOpen_TableIsGone_IsMissed(t *testing.T) {
	url := pgtest.Start(t)
	if err := save(t.Context(), open(t, url, time.Now), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, url).Exec(t.Context(), `drop table ravenbot.c_notes`); err != nil {
		t.Fatal(err)
	}
	db := open(t, url, time.Now)
	_, err := read(t.Context(), db, "a")
	if err == nil || !strings.Contains(err.Error(), "a table of the store is missing") {
		t.Errorf("reading gave %v", err)
	}
	if _, err := add(t.Context(), db, "1", ""); err != nil {
		t.Error(err)
	}
}

// A collection that gets a time, or an owner, is given the column, and the times of the records that it has.
func TestOpen_CollectionGetsColumns(t *testing.T) {
	url := pgtest.Start(t)
	opened := func(s *kv.Spec) *postgres.DB {
		t.Helper()
		o := postgres.Options{Log: slog.New(slog.DiscardHandler), Specs: []*kv.Spec{s}}
		db, err := postgres.Open(t.Context(), url, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	s := &kv.Spec{Name: "growing"}
	err := opened(s).Update(t.Context(), kv.Write{}, func(tx kv.Tx) error {
		var errs error
		for n := range 450 {
			errs = errors.Join(errs, tx.Put(s, "", fmt.Sprintf("%03d", n), fmt.Append(nil, n)))
		}
		return errors.Join(errs, tx.Put(s, "", "damaged", []byte("{")))
	})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	later := &kv.Spec{Name: "growing", Owner: func([]byte) (string, error) { return "", nil },
		At: func(value []byte) (time.Time, error) {
			var n int
			err := json.Unmarshal(value, &n)
			return began.Add(time.Duration(n) * time.Second), err
		}}
	old := 0
	err = opened(later).View(t.Context(), func(tx kv.Tx) error {
		old = 0
		r := kv.Range{Before: began.Add(440 * time.Second), KeysOnly: true, Mine: true}
		return tx.Scan(later, r, func(kv.Entry) error { old++; return nil })
	})
	if err != nil || old != 440 {
		t.Errorf("%d records are old (%v), want 440", old, err)
	}
}

// A store to be filled is empty, closed to daemons until it is complete, and emptied when it is begun again.
func TestOpenTarget_IsEmptiedUntilItIsComplete(t *testing.T) {
	ctx, url := t.Context(), pgtest.Start(t)
	o := postgres.Options{Log: slog.New(slog.DiscardHandler), Specs: specs}
	for _, isLast := range []bool{false, true} {
		to, err := postgres.OpenTarget(ctx, url, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(save(ctx, to, fmt.Sprint("note ", isLast)), readAndWrite(ctx, to, "log", 1)); err != nil {
			t.Fatal(err)
		}
		n := uint64(0)
		if err := to.Update(ctx, kv.Write{}, func(tx kv.Tx) (err error) {
			n, err = tx.Next(notes, "")
			return err
		}); err != nil || n != 1 {
			t.Errorf("the first number is %d (%v)", n, err)
		}
		if _, entries := count(t, to, "log"); entries != 1 {
			t.Errorf("the log has %d entries, want 1", entries)
		}
		if isLast {
			if err := errors.Join(to.CheckAlone(ctx), to.Complete(ctx)); err != nil {
				t.Fatal(err)
			}
		}
		if err := to.Close(); err != nil {
			t.Fatal(err)
		}
		damaged := (*store.DamagedError)(nil)
		db, err := postgres.Open(ctx, url, o)
		if errors.As(err, &damaged) == isLast || (err == nil) != isLast {
			t.Errorf("opening a store that is complete: %v gave %v", isLast, err)
		}
		if isLast {
			if v, err := read(ctx, db, "note false"); v != "" || err != nil {
				t.Errorf("the note of the first try is %q (%v)", v, err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := postgres.OpenTarget(ctx, url, o); !errors.Is(err, store.ErrExists) {
		t.Errorf("filling it once more gave %v", err)
	}
}

// What the role or the database allow a statement does not end what takes as long as the store is large.
func TestMigrate_TakesLongerThanTheRoleAllows_IsDone(t *testing.T) {
	ctx, address := t.Context(), pgtest.Start(t)
	db := open(t, address+"&options=-c%20statement_timeout%3D200%20-c%20lock_timeout%3D100", time.Now)
	if err := postgres.MigrateBy(ctx, db, `select pg_sleep(0.5)`); err != nil {
		t.Errorf("a step of a migration: %v", err)
	}
}

// A database that a daemon is connected to is neither read nor filled.
func TestOpenSourceAndTarget_DaemonIsConnected_AreRefused(t *testing.T) {
	t.Parallel()
	address := pgtest.Start(t)
	db := open(t, address, time.Now)
	if err := save(t.Context(), db, "a"); err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func(context.Context, string, postgres.Options) (*postgres.DB, error){
		"source": postgres.OpenSource, "target": postgres.OpenTarget,
	} {
		var inUse *store.InUseError
		if _, err := open(t.Context(), address, postgres.Options{}); !errors.As(err, &inUse) {
			t.Errorf("opened as a %s: %v", name, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	source, err := postgres.OpenSource(t.Context(), address, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := read(t.Context(), source, "a"); v != "a" || err != nil {
		t.Errorf("the note is %q (%v)", v, err)
	}
	if err := source.Close(); err != nil {
		t.Error(err)
	}
}

// BenchmarkUpdate writes as the store does most.
func BenchmarkUpdate(b *testing.B) {
	c := pgtest.NewCluster(b, pgtest.Options{Durable: true})
	db := open(b, c.Database(b), time.Now)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if err := readAndWrite(b.Context(), db, fmt.Sprint(n%16), 1); err != nil {
			b.Fatal(err)
		}
	}
}
