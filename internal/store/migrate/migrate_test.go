package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/recall/meaning"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
	"ravenbot/internal/store/kv"
	"ravenbot/internal/store/migrate"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/store/records"
	"ravenbot/internal/testing/pgtest"
	"ravenbot/internal/testing/storetest"
)

var day = time.Date(2026, 3, 4, 12, 0, 0, 123456789, time.UTC)

func clock() time.Time { return day }

func silent(uint64, bool) {}

var general = chat.Address{Platform: "web", Channel: "general"}

// list returns all records of a store, in order.
func list(t *testing.T, s store.Source) []string {
	t.Helper()
	var all []string
	if err := s.Records(t.Context(), func(r store.Record) error {
		all = append(all, fmt.Sprintf("%s %q %q %d %s", r.Kind, r.Group, r.Key, r.Seq, r.Body))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

func openBolt(t *testing.T, path string) *records.Store {
	t.Helper()
	db, err := bolt.Open(path, clock)
	if err != nil {
		t.Fatal(err)
	}
	return records.New(db)
}

func options() postgres.Options {
	return postgres.Options{Now: clock, Log: slog.New(slog.DiscardHandler), Specs: records.Specs()}
}

// asTarget returns the records of an engine that was opened to be filled.
func asTarget[E kv.Target](db E, err error) (store.Target, error) {
	if err != nil {
		return nil, err
	}
	return records.NewTarget(db), nil
}

// asSource returns the records of an engine.
func asSource[E kv.Engine](db E, err error) (*records.Store, error) {
	if err != nil {
		return nil, err
	}
	return records.New(db), nil
}

// A store that goes to PostgreSQL and back is the same to the last byte of each record, and goes on where it was.
func TestRun_ThereAndBack_ChangesNoByte(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	from := openBolt(t, filepath.Join(dir, "from.db"))
	storetest.Fill(t, from, day)
	if err := from.Update(ctx, kv.Write{}, func(tx kv.Tx) error {
		return meaning.Vectors.Put(tx, "notes/user/web/a", "\x00\xff\x80", []byte{1, 0, 255})
	}); err != nil {
		t.Fatal(err)
	}
	before := list(t, from)
	kinds := map[string]bool{}
	for _, r := range before {
		kind, _, _ := strings.Cut(r, " ")
		kinds[kind] = true
	}
	if len(kinds) != len(records.Specs()) {
		t.Errorf("there are records of %d kinds, want %d: %v", len(kinds), len(records.Specs()), kinds)
	}
	address := pgtest.Start(t)
	there, err := asTarget(postgres.OpenTarget(ctx, address, options()))
	if err != nil {
		t.Fatal(err)
	}
	report, err := migrate.Run(ctx, from, there, silent)
	if err := errors.Join(err, from.Close(), there.Close()); err != nil {
		t.Fatal(err)
	}
	if report.Records < 50 {
		t.Errorf("the report has %d records", report.Records)
	}
	source, err := asSource(postgres.OpenSource(ctx, address, options()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, list(t, source)); diff != "" {
		t.Errorf("records in PostgreSQL (-before +after):\n%s", diff)
	}
	path := filepath.Join(dir, "back.db")
	back, err := asTarget(bolt.OpenTarget(ctx, path, clock))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = migrate.Run(ctx, source, back, silent); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, list(t, back)); diff != "" {
		t.Errorf("records that came back (-before +after):\n%s", diff)
	}
	if err := errors.Join(source.Close(), back.Close()); err != nil {
		t.Fatal(err)
	}
	if report, err := bolt.Check(ctx, path); err != nil {
		t.Errorf("%v\n%+v", err, report)
	}
	db := openBolt(t, path)
	defer db.Close()
	goesOn(t, db)
	used, err := asSource(postgres.Open(ctx, address, options()))
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	goesOn(t, used)
}

// goesOn fails where the store does not count on from where it was, or has forgotten what it knew.
func goesOn(t *testing.T, s store.Store) {
	t.Helper()
	ctx := t.Context()
	turn := &conversation.Turn{ID: "next", Began: day}
	note, isNew, err := s.SaveMemory(ctx, store.Memory{Scope: "emptied", Text: "next", At: day}, 10)
	posts := []store.Post{{Key: "next", To: general}, {Key: "replaced", To: general}}
	line, err2 := s.SaveEntry(ctx, store.Entry{ID: "line1", Room: "other", At: day})
	err = errors.Join(err, err2, s.SaveTurn(ctx, general, turn), s.SavePosts(ctx, posts))
	if err != nil || turn.Seq != 4 || note.N != 4 || !isNew || line.Seq != 2 || posts[0].Seq != 9 || posts[1].Seq != 0 {
		t.Errorf("turn %d, note %d, line %d, posts %d and %d (%v)",
			turn.Seq, note.N, line.Seq, posts[0].Seq, posts[1].Seq, err)
	}
	isNew, err = s.Accept(ctx, store.Received{Message: chat.Message{ID: "said0", Conversation: general}})
	if err != nil || isNew {
		t.Errorf("a message that was answered is new (%v)", err)
	}
	has, err := s.HasConversation(ctx, chat.Address{Platform: "web", Channel: "emptied"})
	if err != nil || has {
		t.Errorf("the conversation of which nothing is kept is there: %v (%v)", has, err)
	}
	got, err := s.Turns(ctx, general, store.Range{Newest: 1})
	if err != nil || len(got) != 1 || got[0].ID != "next" {
		t.Errorf("the newest turn is %+v (%v)", got, err)
	}
}

// cutSource is a source that fails in the middle.
type cutSource struct{ store.Source }

var errCut = errors.New("cut")

func (s cutSource) Records(ctx context.Context, fn func(store.Record) error) error {
	n := 0
	return s.Source.Records(ctx, func(r store.Record) error {
		if n++; n > 40 {
			return errCut
		}
		return fn(r)
	})
}

// A migration that is cut off leaves a store that no daemon opens, and that the next one fills from the start.
func TestRun_CutOff_LeavesWhatNoDaemonOpens(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	from := openBolt(t, filepath.Join(dir, "from.db"))
	defer from.Close()
	storetest.Fill(t, from, day)
	before := list(t, from)
	path, address := filepath.Join(dir, "to.db"), pgtest.Start(t)
	for name, target := range map[string]struct {
		open   func() (store.Target, error)
		daemon func() error
	}{
		"bolt": {func() (store.Target, error) { return asTarget(bolt.OpenTarget(ctx, path, clock)) }, func() error {
			db, err := bolt.Open(path, clock)
			if err == nil {
				err = db.Close()
			}
			return err
		}},
		"postgres": {func() (store.Target, error) { return asTarget(postgres.OpenTarget(ctx, address, options())) }, func() error {
			db, err := postgres.Open(ctx, address, options())
			if err == nil {
				err = db.Close()
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			to, err := target.open()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := migrate.Run(ctx, cutSource{from}, to, silent); !errors.Is(err, errCut) {
				t.Fatal(err)
			}
			if err := to.Close(); err != nil {
				t.Fatal(err)
			}
			var damaged *store.DamagedError
			if err := target.daemon(); !errors.As(err, &damaged) || !strings.Contains(err.Error(), "migrate again") {
				t.Errorf("a daemon opens it: %v", err)
			}
			if to, err = target.open(); err != nil {
				t.Fatal(err)
			}
			_, err = migrate.Run(ctx, from, to, silent)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, list(t, to)); diff != "" {
				t.Errorf("records (-before +after):\n%s", diff)
			}
			if err := errors.Join(to.Close(), target.daemon()); err != nil {
				t.Error(err)
			}
			if _, err := target.open(); !errors.Is(err, store.ErrExists) {
				t.Errorf("filling a store that holds records: %v", err)
			}
		})
	}
}

// forgetful is a target that loses a record.
type forgetful struct{ store.Target }

func (f forgetful) AddRecords(ctx context.Context, list []store.Record) error {
	kept := slices.DeleteFunc(slices.Clone(list), func(r store.Record) bool { return r.Kind == "tools" })
	return f.Target.AddRecords(ctx, kept)
}

func TestRun_CopyThatDiffers_IsRefused(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	from := openBolt(t, filepath.Join(dir, "from.db"))
	defer from.Close()
	storetest.Fill(t, from, day)
	to, err := asTarget(bolt.OpenTarget(ctx, filepath.Join(dir, "to.db"), clock))
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	_, err = migrate.Run(ctx, from, forgetful{to}, silent)
	if err == nil || !strings.Contains(err.Error(), "of 1 tools there are 0") {
		t.Errorf("a copy without a record: %v", err)
	}
}

// A database that a daemon is connected to is neither read nor filled.
func TestOpenSourceAndTarget_OfADatabaseInUse_AreRefused(t *testing.T) {
	address, ctx := pgtest.Start(t), t.Context()
	daemon, err := postgres.Open(ctx, address, options())
	if err != nil {
		t.Fatal(err)
	}
	defer daemon.Close()
	_, source := postgres.OpenSource(ctx, address, options())
	_, target := postgres.OpenTarget(ctx, address, options())
	for _, err := range []error{source, target} {
		var inUse *store.InUseError
		if !errors.As(err, &inUse) {
			t.Errorf("%v, want that it is in use", err)
		}
	}
}

// A daemon that starts while its database is copied waits until that has ended: what it wrote would be missing in the copy.
func TestRun_DaemonStartsMeanwhile_Waits(t *testing.T) {
	t.Parallel()
	source, target, ctx := pgtest.Start(t), pgtest.Start(t), t.Context()
	daemon, err := postgres.Open(ctx, source, options())
	if err != nil {
		t.Fatal(err)
	}
	storetest.Fill(t, records.New(daemon), day)
	if err := daemon.Close(); err != nil {
		t.Fatal(err)
	}
	from, err := asSource(postgres.OpenSource(ctx, source, options()))
	if err != nil {
		t.Fatal(err)
	}
	to, err := asTarget(postgres.OpenTarget(ctx, target, options()))
	if err != nil {
		t.Fatal(err)
	}
	if daemon, err = postgres.Open(ctx, source, options()); err != nil {
		t.Fatal(err)
	}
	defer daemon.Close()
	waiting, err := daemon.Membership(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var inUse *store.InUseError
	if _, err := waiting.Join(ctx, ""); !errors.As(err, &inUse) {
		t.Errorf("a daemon joins a store that is read: %v", err)
	}
	if _, err := migrate.Run(ctx, from, to, silent); err != nil {
		t.Error(err)
	}
	if err := errors.Join(from.Close(), to.Close()); err != nil {
		t.Error(err)
	}
	if _, err := waiting.Join(ctx, ""); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
