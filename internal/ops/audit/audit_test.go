package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/ops/audit"
	"ravenbot/internal/store"
)

// memoryStore keeps items by kind and name.
type memoryStore struct {
	mu    sync.Mutex
	kinds map[string]map[string]json.RawMessage
	full  bool
	saves int
	// isUnknown has items stored and an error returned.
	isUnknown bool
}

func (s *memoryStore) setFull(full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = full
}

func newStore() *memoryStore { return &memoryStore{kinds: map[string]map[string]json.RawMessage{}} }

func (s *memoryStore) SaveItem(_ context.Context, kind, name string, item json.RawMessage, overwrite bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saves++
	if s.full {
		return errors.New("the disk is full")
	}
	if _, exists := s.kinds[kind][name]; exists && !overwrite {
		return store.ErrExists
	}
	s.put(kind, name, item)
	if s.isUnknown {
		return errors.New("the connection is lost")
	}
	return nil
}

func (s *memoryStore) put(kind, name string, item json.RawMessage) {
	if s.kinds[kind] == nil {
		s.kinds[kind] = map[string]json.RawMessage{}
	}
	s.kinds[kind][name] = item
}

func (s *memoryStore) SwapItem(
	_ context.Context,
	kind, name string,
	was, now json.RawMessage,
	_ []store.Post,
) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !bytes.Equal(s.kinds[kind][name], was) {
		return false, nil
	}
	s.put(kind, name, now)
	return true, nil
}

func (s *memoryStore) Item(_ context.Context, kind, name string) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	item, ok := s.kinds[kind][name]
	if !ok {
		return nil, store.ErrNotFound
	}
	return item, nil
}

func (s *memoryStore) Items(_ context.Context, kind string) (map[string]json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.kinds[kind]), nil
}

func (s *memoryStore) DeleteItem(_ context.Context, kind, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.kinds[kind][name]; !ok {
		return store.ErrNotFound
	}
	delete(s.kinds[kind], name)
	return nil
}

func load(t *testing.T, s *memoryStore) *audit.Log {
	t.Helper()
	now := func() time.Time { return time.Unix(1_700_000_000, 0) }
	l, err := audit.Load(t.Context(), s, now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func record(t *testing.T, l *audit.Log, n int) {
	t.Helper()
	for i := range n {
		l.Record(t.Context(), audit.Entry{Who: "admin <a&b>", Action: "change", Target: strconv.Itoa(i)})
	}
}

func verify(t *testing.T, l *audit.Log, anchor audit.Link) audit.Report {
	t.Helper()
	report, err := l.Verify(t.Context(), anchor)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestRecord_KeepsTheNewestAndTheirChain(t *testing.T) {
	s := newStore()
	l := load(t, s)
	record(t, l, audit.MaxEntries+5)
	if n := len(s.kinds["audit"]); n != audit.MaxEntries {
		t.Errorf("%d entries are kept", n)
	}
	l = load(t, s) // as after a restart
	l.Record(t.Context(), audit.Entry{Action: "later"})
	page := l.Entries("", 2)
	if len(page) != 2 || page[0].Action != "later" || page[1].Target != strconv.Itoa(audit.MaxEntries+4) ||
		page[0].Time.IsZero() {
		t.Fatalf("the newest are %+v", page)
	}
	if next := l.Entries(page[1].ID, 1); len(next) != 1 || next[0].Target != strconv.Itoa(audit.MaxEntries+3) {
		t.Errorf("behind them is %+v", next)
	}
	if report := verify(t, l, audit.Link{}); report.Problem != "" || report.Entries != audit.MaxEntries ||
		report.First != 7 {
		t.Errorf("verified: %+v", report)
	}
}

func TestRecord_StoreFails_IsStoredLaterInOrder(t *testing.T) {
	s := newStore()
	at := time.Unix(1_700_000_000, 0)
	l, err := audit.Load(t.Context(), s, func() time.Time { return at }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s.full = true
	l.Record(t.Context(), audit.Entry{Action: "first"})
	tried := s.saves
	at = at.Add(time.Second)
	l.Record(t.Context(), audit.Entry{Action: "second"})
	if s.saves != tried {
		t.Error("a store that has just failed is waited for once more")
	}
	if list := l.Entries("", 9); len(list) != 0 {
		t.Errorf("listed although they are not stored: %+v", list)
	}
	s.full = false
	at = at.Add(time.Minute)
	l.Record(t.Context(), audit.Entry{Action: "third"})
	var got []string
	for _, e := range l.Entries("", 9) {
		got = append(got, e.Action+e.Time.Format(" 05"))
	}
	if want := "third 21, second 21, first 20"; strings.Join(got, ", ") != want {
		t.Errorf("stored are %q, want %q", got, want)
	}
	if report := verify(t, l, audit.Link{}); report.Problem != "" || report.Entries != 3 {
		t.Errorf("verified: %+v", report)
	}
}

func TestRecord_StoreFailsForLong_KeepsABoundedNumber(t *testing.T) {
	s := newStore()
	l := load(t, s)
	s.full = true
	record(t, l, audit.MaxWaiting+5)
	s.full = false
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.Retry(ctx) // as when the process ends
	if list := l.Entries("", audit.MaxWaiting+9); len(list) != audit.MaxWaiting || list[0].Target !=
		strconv.Itoa(audit.MaxWaiting-1) {
		t.Errorf("%d are stored, at last %+v", len(list), list[0])
	}
}

// TestRecord_StoredThoughItFailed_IsThereOnce: the answer of a database may get lost, and what was stored may have been
// read again by the time of the next try.
func TestRecord_StoredThoughItFailed_IsThereOnce(t *testing.T) {
	for _, isRead := range []bool{false, true} {
		s := newStore()
		l := load(t, s)
		s.isUnknown = true
		record(t, l, 1)
		s.isUnknown = false
		if isRead {
			if err := l.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		l.Retry(ctx)
		record(t, l, 1)
		if list := l.Entries("", 9); len(list) != 2 {
			t.Errorf("read again: %t; stored: %+v", isRead, list)
		}
	}
}

func TestRetry_StoresWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		l, err := audit.Load(t.Context(), s, time.Now, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		s.full = true
		record(t, l, 2)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { l.Retry(ctx) })
		<-time.After(time.Minute)
		s.setFull(false)
		<-time.After(10 * time.Second)
		if list := l.Entries("", 9); len(list) != 2 {
			t.Errorf("stored: %+v", list)
		}
		cancel()
		running.Wait()
	})
}

func TestLoad_NameThatIsNoNumber_IsAnError(t *testing.T) {
	s := newStore()
	_ = s.SaveItem(t.Context(), "audit", "x", json.RawMessage("{}"), true)
	if _, err := audit.Load(t.Context(), s, time.Now, slog.Default()); err == nil {
		t.Error("a name that is no number was taken")
	}
}

// Entries of a release before the chain have no hash; it begins behind them.
func TestLoad_EntriesWithoutHash_StayListed(t *testing.T) {
	s := newStore()
	_ = s.SaveItem(t.Context(), "audit", "000000000009", json.RawMessage(`{"id":"000000000009","action":"old"}`), true)
	record(t, load(t, s), 3)
	l := load(t, s)
	if list := l.Entries("", 9); len(list) != 4 || list[3].Action != "old" || list[2].Seq != 10 {
		t.Errorf("listed: %+v", list)
	}
	if report := verify(t, l, audit.Link{}); report.Problem != "" || report.Entries != 3 {
		t.Errorf("verified: %+v", report)
	}
}

// edit changes a stored entry, and makes its hash again where rehash is set.
func edit(t *testing.T, s *memoryStore, id string, rehash bool) {
	t.Helper()
	var e audit.Entry
	if err := json.Unmarshal(s.kinds["audit"][id], &e); err != nil {
		t.Fatal(err)
	}
	e.Target = "something else"
	if rehash {
		e.Hash = audit.Hash(e)
	}
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	s.kinds["audit"][id] = raw
}

func TestVerify_NamesTheFirstFault(t *testing.T) {
	id := func(n int) string { return strings.Repeat("0", 11) + strconv.Itoa(n) }
	for _, c := range []struct {
		name   string
		tamper func(*testing.T, *memoryStore)
		want   string
	}{
		{"nothing", func(*testing.T, *memoryStore) {}, ""},
		{"changed", func(t *testing.T, s *memoryStore) { edit(t, s, id(4), false) }, "entry 4 was changed"},
		{"changed with its hash", func(t *testing.T, s *memoryStore) { edit(t, s, id(4), true) }, "entry 4 was replaced"},
		{"the newest changed with its hash", func(t *testing.T, s *memoryStore) { edit(t, s, id(9), true) }, "entry 9 was replaced"},
		{"removed", func(_ *testing.T, s *memoryStore) { delete(s.kinds["audit"], id(4)) }, "entry 4 was removed"},
		{"the first removed", func(_ *testing.T, s *memoryStore) { delete(s.kinds["audit"], id(1)) }, "entry 1 was removed"},
		{"the newest removed", func(_ *testing.T, s *memoryStore) { delete(s.kinds["audit"], id(9)) }, "the entries behind 8"},
		{"moved", func(_ *testing.T, s *memoryStore) {
			s.kinds["audit"][id(4)], s.kinds["audit"][id(5)] = s.kinds["audit"][id(5)], s.kinds["audit"][id(4)]
		}, "entry 4 was removed"},
		{"beginning moved on", func(_ *testing.T, s *memoryStore) {
			var e audit.Entry
			_ = json.Unmarshal(s.kinds["audit"][id(3)], &e)
			s.kinds["audit base"] = map[string]json.RawMessage{"base": json.RawMessage(`{"seq":3,"hash":"` + e.Hash + `"}`)}
		}, "entries up to 3 were removed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStore()
			l := load(t, s)
			record(t, l, 9)
			c.tamper(t, s)
			if got := verify(t, l, audit.Link{}).Problem; !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
				t.Errorf("the problem is %q, want %q", got, c.want)
			}
		})
	}
}

func TestVerifyExport_NamesTheFirstFault(t *testing.T) {
	l := load(t, newStore())
	record(t, l, 8)
	var file bytes.Buffer
	if err := l.Export(t.Context(), &file); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSpace(file.String())+"\n", "\n")
	lines = lines[:len(lines)-1]
	head := l.Entries("", 1)[0]
	other := strings.Repeat("0", 64)
	for _, c := range []struct {
		name   string
		lines  []string
		anchor audit.Link
		want   string
	}{
		{"whole", lines, audit.Link{}, ""},
		{"anchored", lines, audit.Link{Seq: head.Seq, Hash: head.Hash}, ""},
		{"anchored elsewhere", lines, audit.Link{Seq: 4, Hash: other}, "entry 4 has another hash"},
		{"anchored behind the end", lines, audit.Link{Seq: 40, Hash: other}, "the entries behind 9"},
		{"changed", slices.Concat(lines[:2], []string{strings.Replace(lines[2], "change", "nothing", 1)}, lines[3:]), audit.Link{}, "entry 3 was changed"},
		{"removed", slices.Concat(lines[:2], lines[4:]), audit.Link{}, "entries 3 to 4 were removed"},
		{"added twice", slices.Concat(lines[:3], lines[2:]), audit.Link{}, "entry 3 was added"},
		{"added text", slices.Concat(lines[:3], []string{"{\"seq\":4}\n"}, lines[3:]), audit.Link{}, "entry 4 was changed"},
		{"no entry", slices.Concat(lines[:3], []string{"nothing\n"}, lines[3:]), audit.Link{}, "line 4 is not an audit entry"},
		{"cut off", lines[:5], audit.Link{}, "the entries behind 5 were removed"},
		{"cut off at its beginning", lines[1:], audit.Link{}, "the entries before 2 were removed"},
		{"empty", nil, audit.Link{}, "the file has no entry"},
	} {
		t.Run(c.name, func(t *testing.T) {
			report, err := audit.VerifyExport(strings.NewReader(strings.Join(c.lines, "")), c.anchor)
			if err != nil {
				t.Fatal(err)
			}
			if got := report.Problem; !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
				t.Errorf("the problem is %q, want %q", got, c.want)
			}
		})
	}
}

func TestParseLink_RefusesWhatIsNone(t *testing.T) {
	good := "7:" + strings.Repeat("ab", 32)
	if l, err := audit.ParseLink(good); err != nil || l.Seq != 7 {
		t.Errorf("%+v, %v", l, err)
	}
	for _, s := range []string{"7", "x:" + good[2:], "7:abcd", ":"} {
		if _, err := audit.ParseLink(s); err == nil {
			t.Errorf("%q was taken", s)
		}
	}
}

// Several processes share a store: their entries are one chain, of which none is lost.
func TestRecord_OfSeveralProcessesAtOnce(t *testing.T) {
	s := newStore()
	logs := []*audit.Log{load(t, s), load(t, s), load(t, s)}
	var wg sync.WaitGroup
	for n, l := range logs {
		wg.Go(func() {
			for i := range 100 {
				l.Record(context.Background(), audit.Entry{Who: strconv.Itoa(n), Action: strconv.Itoa(i)})
			}
		})
		wg.Go(func() {
			for range 50 {
				if err := l.Reload(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	want := len(logs) * 100
	for n, l := range logs {
		if report := verify(t, l, audit.Link{}); report.Problem != "" || report.Entries != want {
			t.Errorf("log %d verified: %+v, want %d entries", n, report, want)
		}
		if err := l.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		list := l.Entries("", want+1)
		for _, e := range list {
			seen[e.Who+" "+e.Action] = true
		}
		if len(list) != want || len(seen) != want {
			t.Errorf("log %d lists %d entries, %d of them different, want %d", n, len(list), len(seen), want)
		}
	}
}

// What one process deletes because there are too many is not missing to another one.
func TestVerify_OldEntriesDeletedByAnotherProcess(t *testing.T) {
	s := newStore()
	a, b := load(t, s), load(t, s)
	record(t, a, audit.MaxEntries-1)
	if err := b.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		record(t, a, 2)
		record(t, b, 1)
		for _, l := range []*audit.Log{a, b} {
			if report := verify(t, l, audit.Link{}); report.Problem != "" {
				t.Fatalf("verified: %+v", report)
			}
		}
		if err := a.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.kinds["audit"]); n != audit.MaxEntries {
		t.Errorf("%d entries are kept", n)
	}
	if n := len(b.Entries("", 2*audit.MaxEntries)); n != audit.MaxEntries {
		t.Errorf("%d entries are listed", n)
	}
	// An export ends with itself, whatever others record.
	var file bytes.Buffer
	if err := b.Export(t.Context(), &file); err != nil {
		t.Fatal(err)
	}
	// That it begins later is said, and how many came before.
	if report, err := audit.VerifyExport(&file, audit.Link{}); err != nil || report.Problem != "" ||
		report.Entries != audit.MaxEntries || report.Before == 0 || report.Before != report.First-1 {
		t.Errorf("the export: %+v, %v", report, err)
	}
}
