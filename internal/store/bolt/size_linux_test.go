package bolt_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
)

// BenchmarkSize fills a store with a simulated year of messages and reports what its size costs:
// starting, one message, and how long a message waits to be accepted while the store is pruned,
// backed up, and while a conversation is deleted. RAVENBOT_STORE_TURNS is the number of turns (300,000
// make about 1 GB); with RAVENBOT_STORE_FILE the filled file is kept there, and used again.
func BenchmarkSize(b *testing.B) {
	turns := 3000
	if text := os.Getenv("RAVENBOT_STORE_TURNS"); text != "" {
		var err error
		if turns, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	path := os.Getenv("RAVENBOT_STORE_FILE")
	if path == "" {
		path = filepath.Join(b.TempDir(), "raven.db")
	}
	for range b.N {
		measureSize(b, path, turns)
	}
}

// bigTurns is the share of all turns that is in the one big conversation.
const bigTurns = 13

var bigConversation = chat.Address{Platform: "discord", Workspace: "G1", Channel: "big"}

func measureSize(b *testing.B, path string, turns int) {
	year := simulatedYear{turns: turns, began: day}
	if _, err := os.Stat(path); err != nil {
		year.fill(b, path)
	}
	now := func() time.Time { return year.began.Add(365 * 24 * time.Hour) }
	if err := bolt.ForgetClosed(path); err != nil {
		b.Fatal(err)
	}
	if err := reportStart(b, "killed", path, now).Close(); err != nil {
		b.Fatal(err)
	}
	db := reportStart(b, "", path, now)
	size, free, err := db.Size()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(size)/(1<<20), "file-MB")
	b.ReportMetric(float64(free)/(1<<20), "free-MB")
	// Messages to an empty store at the same time show what of the cost is the machine's.
	empty, err := bolt.OpenRecords(filepath.Join(b.TempDir(), "empty.db"), now)
	if err != nil {
		b.Fatal(err)
	}
	defer empty.Close()
	reportMessage(b, db, empty, "full")
	// What the machine itself makes a message wait, in about the time that the work below takes.
	b.ReportMetric(ms(worstAccept(b, db, "nothing", func() error {
		<-time.After(20 * time.Second)
		return nil
	})), "quiet-worst-ms")
	b.ReportMetric(ms(worstAccept(b, db, "prune", func() error { return prune(b, db) })), "prune-worst-ms")
	b.ReportMetric(ms(worstAccept(b, db, "backup", func() error {
		return db.Backup(b.Context(), path+".backup")
	})), "backup-worst-ms")
	if err := os.Remove(path + ".backup"); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(ms(worstAccept(b, db, "idle", func() error { return prune(b, db) })), "second-prune-worst-ms")
	b.ReportMetric(ms(worstAccept(b, db, "delete", func() error {
		err := db.DeleteConversation(b.Context(), bigConversation)
		if errors.Is(err, store.ErrNotFound) { // in a file that is used again
			err = nil
		}
		return err
	})), "delete-worst-ms")
	// The rest of half of the turns.
	for i := range 500 {
		if err := db.DeleteConversation(b.Context(), channelOf(i)); err != nil && !errors.Is(err, store.ErrNotFound) {
			b.Fatal(err)
		}
	}
	_, free, err = db.Size()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(free)/(1<<20), "free-after-delete-MB")
	reportMessage(b, db, empty, "deleted")
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	db = reportStart(b, "compacting", path, now) // if more than half is free
	if size, _, err = db.Size(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(size)/(1<<20), "compacted-MB")
	reportMessage(b, db, empty, "compacted")
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
}

// reportStart opens the store, and reports what that takes.
func reportStart(b *testing.B, how, path string, now func() time.Time) *bolt.TestStore {
	b.Helper()
	before := allocated()
	began, cpu := time.Now(), usedCPU()
	db, err := bolt.OpenRecords(path, now)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(time.Since(began).Milliseconds()), how+"start-ms")
	b.ReportMetric(float64((usedCPU() - cpu).Milliseconds()), how+"start-cpu-ms")
	b.ReportMetric(float64(allocated()-before)/(1<<20), how+"start-alloc-MB")
	return db
}

func prune(b *testing.B, db *bolt.TestStore) error {
	days := 24 * time.Hour
	_, err := db.Prune(b.Context(), store.Retention{Calls: 90 * days, Usage: 400 * days, Feedback: 365 * days})
	return err
}

// simulatedYear is a year of turns: a part in one big conversation, some in 500 channels, and most
// in short threads.
type simulatedYear struct {
	turns int
	began time.Time
}

func (y simulatedYear) time(i int) time.Time {
	return y.began.Add(time.Duration(i) * (365 * 24 * time.Hour / time.Duration(y.turns)))
}

func channelOf(i int) chat.Address {
	return chat.Address{Platform: "discord", Workspace: "G1", Channel: fmt.Sprint("channel", i%500)}
}

func (y simulatedYear) place(i int) chat.Address {
	switch {
	case i%bigTurns == 0:
		return bigConversation
	case i%2 == 0:
		return channelOf(i)
	}
	return chat.Address{Platform: "slack", Workspace: "T1", Channel: fmt.Sprint("C", i%200),
		Thread: fmt.Sprintf("17%08d.%06d", i/5, 0)}
}

func (y simulatedYear) fill(b *testing.B, path string) {
	now := y.began
	db, err := bolt.OpenRecords(path, func() time.Time { return now })
	if err != nil {
		b.Fatal(err)
	}
	const parts = 26
	for part := range parts {
		from, to := y.turns*part/parts, y.turns*(part+1)/parts
		now = y.time(to)
		share(64, to-from, func(_, i int) error { return yearTurn(b, db, y.place(from+i), from+i, y.time(from+i)) }, b.Error)
		if err := prune(b, db); err != nil {
			b.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
}

// yearTurn stores all that one message and its answer leave behind.
func yearTurn(b *testing.B, db *bolt.TestStore, to chat.Address, i int, at time.Time) error {
	ctx := b.Context()
	m := chat.Message{ID: fmt.Sprintf("%018d", i), Conversation: to, Text: words[:200], Time: at}
	if _, err := db.Accept(ctx, store.Received{Message: m, At: at}); err != nil {
		return err
	}
	t := &conversation.Turn{ID: m.Key(), State: conversation.Answered, Began: at, Model: "m",
		User: fmt.Sprint("discord/U", i%2000), Usage: llm.Usage{Input: 100, Output: 10},
		Messages: []llm.Message{
			{Role: llm.User, Parts: []llm.Part{{Text: m.Text}}},
			{Role: llm.Assistant, Parts: []llm.Part{{Text: words + words}}}}}
	if i%3 == 0 {
		t.Messages[0].Parts = append(t.Messages[0].Parts, llm.Part{Text: words + words})
	}
	p := store.Post{Key: "answer/" + m.Key(), To: to, Draft: chat.Draft{Text: words}, Message: m.Key(),
		Turn: m.Key(), At: at}
	if err := db.SaveAnswer(ctx, to, []string{m.Key()}, t, []store.Post{p}); err != nil {
		return err
	}
	return db.SaveOutcomes(ctx, []store.Outcome{{Key: p.Key, Ref: chat.Ref{IDs: []string{"p" + m.ID}}, At: at}}, 0)
}

// reportMessage reports processor time and bytes written of one message, with one writer, and how
// many times that of an empty store the first is.
func reportMessage(b *testing.B, db, empty *bolt.TestStore, when string) {
	const rounds, n = 20, 50
	began := time.Now().UnixMilli() // no id of an earlier run
	at := day.Add(365 * 24 * time.Hour)
	var cpu [2]time.Duration
	var written [2]int64
	for round := range rounds {
		for which, db := range []*bolt.TestStore{db, empty} {
			before, bytes := usedCPU(), bytesWritten(b)
			for i := range n {
				i += round * n
				to := chat.Address{Platform: "slack", Workspace: "T1", Channel: "C1", Thread: fmt.Sprint(when, began, i/5)}
				if err := yearTurn(b, db, to, int(began)*1000+i, at); err != nil {
					b.Fatal(err)
				}
			}
			cpu[which] += usedCPU() - before
			written[which] += bytesWritten(b) - bytes
		}
	}
	b.ReportMetric(ms(cpu[0])/rounds/n, when+"-cpu-ms/message")
	b.ReportMetric(float64(cpu[0])/float64(cpu[1]), when+"-cpu/empty")
	b.ReportMetric(float64(written[0])/rounds/n/1024, when+"-KB/message")
}

// worstAccept returns the longest time that a message waited to be accepted while work was done. Beside each message a
// few bytes are written to a file and synced, which shows what of the time is the disk's.
func worstAccept(b *testing.B, db *bolt.TestStore, name string, work func() error) time.Duration {
	plain, err := os.Create(filepath.Join(b.TempDir(), "plain"))
	if err != nil {
		b.Fatal(err)
	}
	defer plain.Close()
	done := make(chan error, 1)
	began := time.Now()
	go func() { done <- work() }()
	var waits, syncs []time.Duration
	pace := time.NewTicker(2 * time.Millisecond)
	defer pace.Stop()
	for i := 0; ; i++ {
		<-pace.C
		select {
		case err := <-done:
			if err != nil {
				b.Fatal(err)
			}
			took := time.Since(began)
			slices.Sort(waits)
			slices.Sort(syncs)
			b.Logf("%s took %v: %d messages waited %v in the median, 999 of 1,000 at most %v, all %v; the disk %v, %v, %v",
				name, took, i, waits[i/2], waits[i*999/1000], waits[i-1], syncs[i/2], syncs[i*999/1000], syncs[i-1])
			return waits[i-1]
		default:
		}
		m := chat.Message{ID: fmt.Sprint(name, began.UnixNano(), i),
			Conversation: chat.Address{Platform: "web", Channel: "/general"}}
		at := time.Now()
		if _, err := db.Accept(b.Context(), store.Received{Message: m, At: day.Add(365 * 24 * time.Hour)}); err != nil {
			b.Fatal(err)
		}
		accepted := time.Now()
		if _, err := plain.WriteAt([]byte(m.ID), int64(i%1024)<<12); err != nil {
			b.Fatal(err)
		}
		if err := syscall.Fdatasync(int(plain.Fd())); err != nil {
			b.Fatal(err)
		}
		waits, syncs = append(waits, accepted.Sub(at)), append(syncs, time.Since(accepted))
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// allocated returns the bytes that were allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func usedCPU() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// bytesWritten returns the bytes that this process has written to disks.
func bytesWritten(b *testing.B) int64 {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "wchar: "); ok {
			v, err := strconv.ParseInt(strings.TrimSpace(n), 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return v
		}
	}
	return 0
}
