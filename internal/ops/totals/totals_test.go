package totals

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/ops/measure"
	"ravenbot/internal/store"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/store/records"
	"ravenbot/internal/store/storage"
	"ravenbot/internal/testing/pgtest"
)

// memory is a store of the items of one kind.
type memory struct {
	mu     sync.Mutex
	items  map[string]json.RawMessage
	writes int
	// fail is the error of the next writes; applied: it is returned after they took place.
	fail    error
	applied bool
	taken   int   // how many of the next swaps somebody else was quicker than
	away    error // of the next reads
}

func newMemory() *memory { return &memory{items: map[string]json.RawMessage{}} }

func (m *memory) Items(context.Context, string) (map[string]json.RawMessage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.items), m.away
}

func (m *memory) Item(_ context.Context, _, name string) (json.RawMessage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away != nil {
		return nil, m.away
	}
	if raw, ok := m.items[name]; ok {
		return raw, nil
	}
	return nil, store.ErrNotFound
}

func (m *memory) SwapItem(ctx context.Context, _, name string, was, now json.RawMessage, _ []store.Post) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	m.writes++
	if m.fail != nil && !m.applied {
		return false, m.fail
	}
	if m.taken > 0 {
		m.taken--
		return false, nil
	}
	if !bytes.Equal(m.items[name], was) {
		return false, nil
	}
	m.items[name] = now
	return true, m.fail
}

func (m *memory) DeleteItem(_ context.Context, _, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.items, name)
	return nil
}

// count returns what is stored of a server on a day.
func (m *memory) count(t *testing.T, day, server string) uint64 {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := decode(m.items[day])
	if err != nil {
		t.Fatal(err)
	}
	return r.counts[ToolCalls][server].Count
}

// process is a Recorder with the counter that it reads.
type process struct {
	*Recorder
	calls measure.Totals
}

func begin(s Store, now func() time.Time) *process {
	p := &process{}
	p.Recorder = New(Options{
		Store:    s,
		Counters: Counters{ToolCalls: p.calls.All},
		Log:      slog.New(slog.DiscardHandler),
		Now:      now,
	})
	return p
}

// call counts calls of a server, each of half a second.
func (p *process) call(server string, n int) {
	for range n {
		p.calls.Add(server, measure.Total{Count: 1, Seconds: 0.5})
	}
}

// shown returns how many calls of a server the last days have, by day.
func (p *process) shown(t *testing.T, server string) map[string]uint64 {
	t.Helper()
	days, err := p.Days(t.Context(), 30)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]uint64{}
	for _, d := range days {
		if n := d.Of(ToolCalls, server).Count; n > 0 {
			counts[d.Day] = n
		}
	}
	return counts
}

func wantCounts(t *testing.T, what string, got, want map[string]uint64) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// clock is a clock that is set by hand.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

func at(text string) *clock {
	c, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return &clock{c}
}

// What is counted is stored within a minute, and shown at once; where nothing is counted nothing is written.
func TestRun_WritesWhatWasCounted_OnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		p := begin(m, time.Now) // the first of January 2000
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { p.Run(ctx) })
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if m.writes != 0 {
			t.Errorf("%d writes though nothing was counted", m.writes)
		}
		if d := must(p.Days(t.Context(), 1))[0]; d.Day != "2000-01-01" || d.Counts != nil {
			t.Errorf("a day on which nothing was counted is %+v", d)
		}
		p.call("files", 3)
		wantCounts(t, "shown at once", p.shown(t, "files"), map[string]uint64{"2000-01-01": 3})
		time.Sleep(time.Hour)
		synctest.Wait()
		if m.writes != 1 || m.count(t, "2000-01-01", "files") != 3 {
			t.Errorf("%d writes, stored %s", m.writes, m.items)
		}
		p.call("files", 1)
		cancel() // a clean stop
		wg.Wait()
		if m.count(t, "2000-01-01", "files") != 4 {
			t.Errorf("after the stop %s is stored", m.items)
		}
		wantCounts(t, "shown", p.shown(t, "files"), map[string]uint64{"2000-01-01": 4})
		if all := must(p.Days(t.Context(), 1))[0].All(ToolCalls); all != (measure.Total{Count: 4, Seconds: 2}) {
			t.Errorf("all calls are %+v", all)
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// What is counted just before midnight UTC belongs to the day that ends, whatever the zone of the machine, and whether
// its clock changes between summer and winter on that day.
func TestRun_DaysEndAtMidnightUTC(t *testing.T) {
	for name, c := range map[string]struct {
		zone          string
		begins        string
		first, second string
	}{
		"in UTC":                    {"UTC", "2026-03-14T23:30:30Z", "2026-03-14", "2026-03-15"},
		"summer begins in the west": {"America/New_York", "2026-03-08T23:30:30Z", "2026-03-08", "2026-03-09"},
		"winter begins in the east": {"Europe/Oslo", "2026-10-25T23:30:30Z", "2026-10-25", "2026-10-26"},
	} {
		t.Run(name, func(t *testing.T) {
			zone := must(time.LoadLocation(c.zone))
			synctest.Test(t, func(t *testing.T) {
				ahead := time.Until(at(c.begins).Time)
				m := newMemory()
				p := begin(m, func() time.Time { return time.Now().Add(ahead).In(zone) })
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() { p.Run(ctx) })
				time.Sleep(45 * time.Second)
				for range 60 { // a call a minute, from 23:31:15; the first of the new day before a minute of it is over
					p.call("files", 1)
					time.Sleep(time.Minute)
				}
				wantCounts(t, "shown", p.shown(t, "files"), map[string]uint64{c.first: 29, c.second: 31})
				cancel()
				wg.Wait()
			})
		})
	}
}

// A process that is killed loses what it has not stored, and the next one adds to what is there.
func TestSave_AfterAKill_AddsToTheSameDay(t *testing.T) {
	m, c := newMemory(), at("2026-11-27T10:00:00Z")
	first := begin(m, c.now)
	first.call("files", 5)
	first.save(t.Context())
	first.call("files", 100) // killed before the next minute
	second := begin(m, c.now)
	second.call("files", 2)
	wantCounts(t, "before the first write", second.shown(t, "files"), map[string]uint64{"2026-11-27": 7})
	second.save(t.Context())
	second.save(t.Context())
	wantCounts(t, "after it", second.shown(t, "files"), map[string]uint64{"2026-11-27": 7})
}

// A store that fails for a while, with and without having stored what it was given, doubles and loses nothing, also
// over midnight and while others write.
func TestSave_StoreFails_IsMadeUpForOnce(t *testing.T) {
	broken := errors.New("the disk is full")
	for _, applied := range []bool{false, true} {
		t.Run(fmt.Sprint("applied ", applied), func(t *testing.T) {
			m, c := newMemory(), at("2026-11-27T23:50:00Z")
			var log bytes.Buffer
			p := begin(m, c.now)
			p.o.Log = slog.New(slog.NewTextHandler(&log, nil))
			p.call("files", 1)
			p.save(t.Context())
			if log.Len() > 0 {
				t.Errorf("of a write that took place the operator is told\n%s", &log)
			}
			m.fail, m.applied = broken, applied
			for range 20 {
				p.call("files", 1)
				p.save(t.Context())
				c.Time = c.Add(time.Minute)
			}
			if n := strings.Count(log.String(), "failed to store daily totals"); n != 1 {
				t.Errorf("the operator is told %d times:\n%s", n, &log)
			}
			m.fail, m.away = nil, broken
			p.save(t.Context())
			if _, err := p.Days(t.Context(), 1); !errors.Is(err, broken) || !p.failing {
				t.Errorf("a store that cannot be read gives %v", err)
			}
			m.away = nil
			other := begin(m, c.now)
			other.call("files", 100)
			other.save(t.Context())
			want := map[string]uint64{"2026-11-27": 12, "2026-11-28": 109}
			wantCounts(t, "shown while it is made up for", p.shown(t, "files"), want)
			p.save(t.Context())
			p.save(t.Context())
			wantCounts(t, "shown", p.shown(t, "files"), want)
			wantCounts(t, "shown by a new process", begin(m, c.now).shown(t, "files"), want)
		})
	}
}

// A write that failed is tried again though nothing is counted any more.
func TestSave_StoreFailsOnce_IsMadeUpForAtTheNextTime(t *testing.T) {
	for _, applied := range []bool{false, true} {
		m, c := newMemory(), at("2026-11-27T10:00:00Z")
		p := begin(m, c.now)
		p.call("files", 3)
		m.fail, m.applied = errors.New("the disk is full"), applied
		p.save(t.Context())
		m.fail = nil
		c.Time = c.AddDate(0, 0, 1)
		p.save(t.Context())
		if m.count(t, "2026-11-27", "files") != 3 || p.sent != nil || len(p.unsaved) != 0 {
			t.Errorf("applied %t: %s is stored", applied, m.items)
		}
	}
}

// A record names the newest writes of the processes that wrote last.
func TestEncode_ManyWriters_NamesTheLast(t *testing.T) {
	r := record{counts: Counts{}}
	for i := range 3 * maxWriters {
		r = must(decode(must(encode(r, write{fmt.Sprint("process ", i%(maxWriters+5)), i}))))
	}
	last := 3*maxWriters - 1
	if len(r.writes) != maxWriters ||
		r.writes[maxWriters-1] != (write{fmt.Sprint("process ", last%(maxWriters+5)), last}) ||
		r.has(write{fmt.Sprint("process ", (last-maxWriters)%(maxWriters+5)), 0}) {
		t.Errorf("after %d writes there are %v", last+1, r.writes)
	}
}

// Whoever is not the quickest reads again, and gives up after some attempts until the next minute.
func TestSave_OthersAreQuicker_TriesAgain(t *testing.T) {
	m, c := newMemory(), at("2026-11-27T10:00:00Z")
	p := begin(m, c.now)
	p.call("files", 1)
	m.taken = maxSwaps - 1
	p.save(t.Context())
	if m.count(t, "2026-11-27", "files") != 1 || p.failing {
		t.Errorf("after %d attempts %s is stored", m.writes, m.items)
	}
	p.call("files", 1)
	m.taken = maxSwaps
	p.save(t.Context())
	if m.count(t, "2026-11-27", "files") != 1 || !p.failing {
		t.Errorf("after %d attempts %s is stored", m.writes, m.items)
	}
	p.save(t.Context())
	wantCounts(t, "shown", p.shown(t, "files"), map[string]uint64{"2026-11-27": 2})
}

// A clock that jumps back and forth costs at most the counts of a minute, and deletes no good day.
func TestClockJumps_GoodDaysStay(t *testing.T) {
	m, c := newMemory(), at("2026-11-26T10:00:00Z")
	p := begin(m, c.now)
	save := func(time string, calls int) {
		p.call("files", calls)
		c.Time = at(time).Time
		p.save(t.Context())
	}
	save("2026-11-26T10:01:00Z", 1)
	save("2099-01-01T00:00:00Z", 2) // counted before the clock jumped
	save("2099-01-01T00:01:00Z", 4) // while it was wrong
	save("2026-11-26T10:03:00Z", 8) // counted before it was set right
	save("2026-11-25T10:04:00Z", 16)
	save("2026-11-26T10:05:00Z", 32)
	wantCounts(t, "shown", p.shown(t, "files"), map[string]uint64{"2026-11-25": 48, "2026-11-26": 11})
	if err := p.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	days := slices.Sorted(maps.Keys(m.items))
	if want := []string{"2026-11-25", "2026-11-26", "2099-01-01"}; !slices.Equal(days, want) {
		t.Errorf("%q are stored, want %q", days, want)
	}
}

func TestPrune_DeletesDaysOverTheirTime(t *testing.T) {
	m, c := newMemory(), at("2026-11-27T10:00:00Z")
	for _, day := range []string{"2025-01-01", "2026-08-29", "2026-08-30", "2026-11-27"} {
		m.items[day] = json.RawMessage(`{"v":1}`)
	}
	p := begin(m, c.now)
	if err := p.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Ninety days with today.
	days := slices.Sorted(maps.Keys(m.items))
	if want := []string{"2026-08-30", "2026-11-27"}; !slices.Equal(days, want) {
		t.Errorf("%q are left, want %q", days, want)
	}
	m.away = errors.New("the disk is gone")
	if err := p.Prune(t.Context()); !errors.Is(err, m.away) {
		t.Errorf("a store that cannot be read gives %v", err)
	}
}

// A day has a bounded number of names, however long, and each call is counted all the same.
func TestSave_ManyNames_AreBounded(t *testing.T) {
	m, c := newMemory(), at("2026-11-27T10:00:00Z")
	p := begin(m, c.now)
	for i := range MaxNames {
		p.call(fmt.Sprintf("%s %04d", strings.Repeat("ü", 200), i), 1)
	}
	long := strings.Repeat("ü", 200)
	p.call(long, 1)
	p.save(t.Context())
	days := must(p.Days(t.Context(), 1))
	if got := days[0].Of(ToolCalls, long).Count; got != MaxNames+1 {
		t.Errorf("of the names that begin as one does %d calls are counted", got)
	}
	p.call("", 1)
	for i := range 2 * MaxNames {
		p.call(fmt.Sprint("server ", i), 1)
	}
	for range 2 {
		p.save(t.Context())
		d := must(p.Days(t.Context(), 1))[0]
		if names, all := len(d.Counts[ToolCalls]), d.All(ToolCalls).Count; names > MaxNames || all != 3*MaxNames+2 ||
			d.Of(ToolCalls, Others).Count < MaxNames || d.Of(ToolCalls, "server 0").Count != 1 {
			t.Errorf("%d names with %d calls, of which %+v of others", names, all, d.Of(ToolCalls, Others))
		}
	}
	if size := len(m.items["2026-11-27"]); size > 64<<10 {
		t.Errorf("the record has %d bytes", size)
	}
}

// A day that cannot be read is said to be so and left alone, and keeps no other day from being stored.
func TestSave_DayOfANewerVersion_IsLeftAlone(t *testing.T) {
	m, c := newMemory(), at("2026-11-27T23:59:30Z")
	newer := json.RawMessage(`{"v":2,"counts":{}}`)
	m.items["2026-11-27"] = newer
	p := begin(m, c.now)
	p.call("files", 1)
	p.save(t.Context())
	c.Time = c.Add(time.Hour)
	p.save(t.Context())
	p.call("files", 2)
	p.save(t.Context())
	if string(m.items["2026-11-27"]) != string(newer) || m.count(t, "2026-11-28", "files") != 2 || !p.failing {
		t.Errorf("%s is stored", m.items)
	}
	if _, err := p.Days(t.Context(), 30); err == nil || !strings.Contains(err.Error(), "2026-11-27") {
		t.Errorf("the days are read with %v", err)
	}
}

// A record of each released form is read.
func TestDecode_ReleasedForms(t *testing.T) {
	files := must(filepath.Glob("testdata/*.json"))
	if len(files) == 0 {
		t.Fatal("there are no records in testdata")
	}
	for _, file := range files {
		r, err := decode(must(os.ReadFile(file)))
		want := Counts{
			ToolCalls:  {"files": {Count: 12, Failed: 2, Seconds: 3.25}, Others: {Count: 1, Failed: 1}},
			DigestRuns: {"morning": {Count: 1, Seconds: 2.5, Results: 7}},
			FeedReads:  {"https://example.org/feed": {Count: 24, Failed: 3}},
		}
		if diff := cmp.Diff(want, r.counts); err != nil || diff != "" || !r.has(write{"5f0c2ab81e77", 3}) {
			t.Errorf("%s: %v, %+v (-want +got):\n%s", file, err, r.writes, diff)
		}
	}
}

// Two processes on each kind of store add to the same day; what is pruned is gone.
func TestStores_TwoProcesses_ShowTheSum(t *testing.T) {
	c := at("2026-11-27T10:00:00Z")
	file := must(storage.OpenFile(filepath.Join(t.TempDir(), "raven.db"), c.now))
	log := slog.New(slog.DiscardHandler)
	database := records.New(must(postgres.OpenAlone(t.Context(), pgtest.Start(t),
		postgres.Options{Now: c.now, Log: log, Specs: records.Specs()})))
	for name, s := range map[string]store.Store{"file": file, "database": database} {
		t.Run(name, func(t *testing.T) {
			c := at("2026-08-01T10:00:00Z")
			one := begin(s, c.now)
			one.call("files", 1)
			one.save(t.Context())
			c.Time = at("2026-11-27T10:00:00Z").Time
			one.save(t.Context())
			two := begin(s, c.now)
			var wg sync.WaitGroup
			for _, p := range []*process{one, two} {
				wg.Go(func() {
					for range 10 {
						p.call("files", 3)
						p.save(t.Context())
					}
				})
			}
			wg.Wait()
			one.save(t.Context())
			two.save(t.Context())
			for _, p := range []*process{one, two, begin(s, c.now)} {
				wantCounts(t, "shown", p.shown(t, "files"), map[string]uint64{"2026-11-27": 60})
			}
			if err := one.Prune(t.Context()); err != nil {
				t.Fatal(err)
			}
			if left := must(s.Items(t.Context(), itemKind)); len(left) != 1 || left["2026-11-27"] == nil {
				t.Errorf("after pruning %s is stored", left)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
