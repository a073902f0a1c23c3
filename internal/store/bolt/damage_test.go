package bolt_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
)

const pageSize = 4096

// TestDamagedCopies damages copies of a store in three ways. A process of its own opens each, checks it, reads
// everything, writes, and reads again. It may report that the store is damaged, or return what the store holds; it must
// not die, and return nothing else. RAVENBOT_DAMAGED is how many copies are damaged.
func TestDamagedCopies(t *testing.T) {
	n := 60
	if all := os.Getenv("RAVENBOT_DAMAGED"); all != "" {
		var err error
		if n, err = strconv.Atoi(all); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	whole := population(t, dir)
	w := &reader{t: t}
	defer w.end()
	want := w.read(place(t, dir, whole))
	if want.Damaged != "" || len(want.Before) < 10 || len(want.After) < 10 {
		t.Fatalf("the whole store gave %+v", want)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d bytes", seed, len(whole))
	random := rand.New(rand.NewPCG(seed, 0))
	ways := []struct {
		name   string
		damage func(b []byte) []byte
	}{
		{"truncated", func(b []byte) []byte { return b[:random.IntN(len(b))] }},
		{"pages zeroed", func(b []byte) []byte {
			for range 1 + random.IntN(8) {
				clear(pageOf(b, random.IntN(len(b)/pageSize)))
			}
			return b
		}},
		{"64 bits flipped", func(b []byte) []byte {
			for range 64 {
				b[random.IntN(len(b))] ^= 1 << random.IntN(8)
			}
			return b
		}},
	}
	for _, way := range ways {
		told := 0
		for i := range n / 3 {
			copied := way.damage(append([]byte(nil), whole...))
			got := w.read(place(t, dir, copied))
			if got.Damaged != "" {
				told++
				continue
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("seed %d, %s, copy %d: something else came back (-want +got):\n%s", seed, way.name, i, diff)
			}
		}
		t.Logf("%s: of %d copies %d were told to be damaged, and the rest held what they should", way.name, n/3, told)
		if told == 0 {
			t.Errorf("%s: nothing was noticed", way.name)
		}
	}
}

func pageOf(b []byte, n int) []byte { return b[n*pageSize : (n+1)*pageSize] }

// place writes a copy of a store with its marker.
func place(t *testing.T, dir string, b []byte) string {
	t.Helper()
	path := filepath.Join(dir, "copy.db")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// reader is a process that reads copies of the store.
type reader struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	said *os.File
}

// reading is what came of one copy. The maps are of what was read, by hash.
type reading struct {
	Damaged       string
	Before, After map[string]string
}

func (w *reader) start() {
	w.cmd = exec.Command(os.Args[0], "-test.run=^TestReadCopies$", "-test.timeout=10m")
	w.cmd.Env = append(os.Environ(), "RAVENBOT_TEST_READER=1", "GORACE=atexit_sleep_ms=0")
	said, err := os.CreateTemp(w.t.TempDir(), "said")
	if err != nil {
		w.t.Fatal(err)
	}
	w.said, w.cmd.Stderr = said, said
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		w.t.Fatal(err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	w.out = bufio.NewScanner(out)
	w.out.Buffer(nil, 1<<20)
	if err := w.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
}

// read has a copy read. A process that dies is a failure; the next copy gets a new one.
func (w *reader) read(path string) reading {
	w.t.Helper()
	if w.cmd == nil {
		w.start()
	}
	hung := time.AfterFunc(time.Minute, func() { _ = w.cmd.Process.Kill() })
	defer hung.Stop()
	fmt.Fprintln(w.in, path)
	var r reading
	if w.out.Scan() && json.Unmarshal(w.out.Bytes(), &r) == nil {
		return r
	}
	_ = w.cmd.Process.Kill() // if it has not ended
	w.end()
	text, _ := os.ReadFile(w.said.Name())
	w.t.Errorf("the process that read a copy died:\n%.1000s\n%.4000s", w.out.Bytes(), text)
	return reading{Damaged: "it died"}
}

func (w *reader) end() {
	if w.cmd == nil {
		return
	}
	_ = w.in.Close()
	_ = w.cmd.Wait() // a death is told by read
	_ = w.said.Close()
	w.cmd = nil
}

// TestReadCopies is the process that reads the copies named on standard input.
func TestReadCopies(t *testing.T) {
	if os.Getenv("RAVENBOT_TEST_READER") == "" {
		t.Skip("the other half of TestDamagedCopies")
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		r, err := readCopy(t, lines.Text())
		if damaged := (*store.DamagedError)(nil); errors.As(err, &damaged) {
			r = reading{Damaged: err.Error()}
		} else if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(string(b))
	}
}

func readCopy(t *testing.T, path string) (r reading, err error) {
	now := func() time.Time { return day.Add(time.Hour) }
	db, err := bolt.OpenRecords(path, now)
	if err != nil {
		return r, err
	}
	// As the daemon does in the background after a start without a clean end.
	faults, err := db.CheckOpen(t.Context())
	if len(faults) > 0 {
		err = &store.DamagedError{Path: path, What: faults[0]}
	}
	if err == nil {
		r.Before, err = everything(t, db)
	}
	if err == nil {
		err = change(t, db)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return r, err
	}
	if db, err = bolt.OpenRecords(path, now); err != nil {
		return r, fmt.Errorf("after the writes: %w", err)
	}
	r.After, err = everything(t, db)
	return r, errors.Join(err, db.Close())
}

var day = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)

func room(i int) chat.Address {
	return chat.Address{Platform: []string{"web", "slack", "discord"}[i%3], Workspace: []string{"", "T1", "G1"}[i%3],
		Channel: fmt.Sprint("room", i)}
}

// population makes a store with something of everything, free pages, and buckets of
// all sizes.
func population(t *testing.T, dir string) []byte {
	t.Helper()
	path := filepath.Join(dir, "whole.db")
	db, err := bolt.OpenRecords(path, func() time.Time { return day })
	if err != nil {
		t.Fatal(err)
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for half := range 2 {
		for i := range 300 {
			c := room(i % 40 * (1 + i%2))
			check(answer(t, db, c, fmt.Sprintf("%d-%d", half, i), i))
		}
		for i := range 30 {
			check(db.SaveFeeds(t.Context(), store.Feed{URL: fmt.Sprint("https://example.org/", i),
				Data: []byte(fmt.Sprintf(`{"half":%d,"text":%q}`, half, words))}))
			check(db.SaveSubscription(t.Context(), store.Subscription{To: room(i), URL: fmt.Sprint("https://example.org/", i),
				Title: fmt.Sprint(half), At: day}))
			check(db.SaveFeedback(t.Context(), store.Feedback{Turn: fmt.Sprint("web/", i), User: fmt.Sprint("U", half),
				Good: i%2 == 0, At: day}))
			check(db.SaveStream(t.Context(), fmt.Sprint("post/", i), chat.Ref{IDs: []string{fmt.Sprint(half, i)}}))
			check(db.SaveBlob(t.Context(), fmt.Sprint("server", i), []byte(fmt.Sprintf(`{"half":%d}`, half))))
			check(db.SaveSummary(t.Context(), room(i), conversation.Summary{Upto: uint64(1 + half), Text: words, At: day}))
			_, err := db.SaveEntry(t.Context(), store.Entry{ID: fmt.Sprint(half, i), Room: fmt.Sprint("room", i%3),
				Text: words, At: day})
			check(err)
			run := store.Run{Digest: fmt.Sprint("digest", i%4), Due: day.Add(time.Duration(100*half+i) * time.Minute),
				Ended: day, OK: true, Posted: i}
			_, err = db.FinishRun(t.Context(), run, []string{fmt.Sprint("item", half, i), fmt.Sprint("item", i)}, nil)
			check(err)
		}
	}
	check(db.DeleteConversation(t.Context(), room(2)))
	check(db.Backup(t.Context(), filepath.Join(dir, "short.db"))) // without the room that the file has kept for more
	check(db.Close())
	whole, err := os.ReadFile(filepath.Join(dir, "short.db"))
	check(err)
	check(os.Rename(path+".initialized", filepath.Join(dir, "copy.db.initialized")))
	return whole
}

// answer takes a message on its way: most are answered and posted, some are left
// waiting, on their way, or given up.
func answer(t *testing.T, db *bolt.TestStore, to chat.Address, id string, i int) error {
	m := chat.Message{ID: id, Conversation: to, Text: words[:50+i], Time: day}
	if _, err := db.Accept(t.Context(), store.Received{Message: m, At: day}); err != nil || i%17 == 0 {
		return err
	}
	turn := &conversation.Turn{ID: m.Key(), State: conversation.Answered, Began: day,
		Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: m.Text}}},
			{Role: llm.Assistant, Parts: []llm.Part{{Text: words[i:]}}}}}
	if i%50 == 0 {
		turn.Messages[0].Parts[0].Raw = []byte(`"` + string(make40k()) + `"`)
	}
	p := store.Post{Key: "answer/" + m.Key(), To: to, Draft: chat.Draft{Text: words[i:]}, Message: m.Key(), At: day}
	if err := db.SaveAnswer(t.Context(), to, []string{m.Key()}, turn, []store.Post{p}); err != nil || i%19 == 0 {
		return err
	}
	o := store.Outcome{Key: p.Key, Ref: chat.Ref{IDs: []string{id}}, At: day}
	if i%23 == 0 {
		o = store.Outcome{Key: p.Key, Error: "refused", At: day}
	}
	return db.SaveOutcomes(t.Context(), []store.Outcome{o}, 0)
}

// make40k is a text that needs many pages.
func make40k() []byte {
	b := make([]byte, 40<<10)
	for i := range b {
		b[i] = 'a' + byte(i%26)
	}
	return b
}

// change writes, with pages that were free before.
func change(t *testing.T, db *bolt.TestStore) error {
	for i := range 20 {
		if err := answer(t, db, room(i), fmt.Sprint("later-", i), i+1); err != nil {
			return err
		}
	}
	if err := db.DeleteConversation(t.Context(), room(4)); err != nil {
		return err
	}
	_, err := db.Prune(t.Context(), store.Retention{Calls: 90 * 24 * time.Hour})
	return err
}

// everything reads the store through all of its methods.
func everything(t *testing.T, db *bolt.TestStore) (map[string]string, error) {
	ctx := t.Context()
	all := map[string]string{}
	var failed []error
	note := func(name string, v any, err error) {
		b, _ := json.Marshal(v)
		all[name] = fmt.Sprintf("%x", sha256.Sum256(b))[:16]
		failed = append(failed, err)
	}
	waiting, err := db.Unanswered(ctx)
	note("waiting", waiting, err)
	pending, err := db.PendingPosts(ctx)
	note("pending", pending, err)
	lost, err := db.Undelivered(ctx)
	note("given up", lost, err)
	list, _, err := db.Conversations(ctx, "", 1000)
	note("conversations", list, err)
	subscriptions, err := db.Subscriptions(ctx)
	note("subscriptions", subscriptions, err)
	feedback, err := db.Feedback(ctx)
	note("feedback", feedback, err)
	rooms, err := db.Rooms(ctx)
	note("rooms", rooms, err)
	for _, platform := range []string{"web", "slack", "discord"} {
		heard, err := db.LastSeen(ctx, platform, time.Time{})
		note("heard on "+platform, heard, err)
	}
	for i := range 80 {
		turns, err := db.Turns(ctx, room(i), store.Range{Newest: math.MaxInt})
		note("turns of "+room(i).Channel, turns, err)
		turns, err = db.Turns(ctx, room(i), store.Range{Newest: 3, After: 2, Upto: 7})
		note("some turns of "+room(i).Channel, turns, err)
		has, err := db.HasConversation(ctx, room(i))
		note("has "+room(i).Channel, has, err)
		s, err := db.Summary(ctx, room(i))
		note("summary of "+room(i).Channel, s, err)
	}
	for i := range 300 {
		for half := range 2 {
			m := chat.Message{ID: fmt.Sprintf("%d-%d", half, i), Conversation: room(i % 40 * (1 + i%2))}
			at, known, err := db.ConversationOf(ctx, m.Key())
			note("known "+m.Key(), []any{at, known}, err)
			ref, posted, err := db.PostRef(ctx, "answer/"+m.Key())
			note("ref "+m.Key(), []any{ref, posted}, err)
			in, turn, err := db.TurnOf(ctx, m.Key())
			if missing := errors.Is(err, store.ErrNotFound); missing {
				err = nil
			}
			note("turn of "+m.Key(), []any{in, turn}, err)
		}
	}
	for i := range 30 {
		f, found, err := db.LoadFeed(ctx, fmt.Sprint("https://example.org/", i))
		note(fmt.Sprint("feed ", i), []any{f, found}, err)
		tools, err := db.LoadBlob(ctx, fmt.Sprint("server", i))
		note(fmt.Sprint("tools ", i), tools, err)
		begun, shown, err := db.Stream(ctx, fmt.Sprint("post/", i))
		note(fmt.Sprint("begun ", i), []any{begun, shown}, err)
	}
	for i := range 4 {
		runs, err := db.LastRuns(ctx, fmt.Sprint("digest", i), 1000)
		note(fmt.Sprint("runs ", i), runs, err)
		seen, ever, err := db.SeenItems(ctx, fmt.Sprint("digest", i), []string{"item1", "item00", "item12", "nothing"})
		note(fmt.Sprint("seen ", i), []any{seen, ever}, err)
		entries, err := db.Entries(ctx, fmt.Sprint("room", i), 0, 1000)
		note(fmt.Sprint("entries ", i), entries, err)
		entries, err = db.Entries(ctx, fmt.Sprint("room", i), 9, 4)
		note(fmt.Sprint("some entries ", i), entries, err)
	}
	return all, errors.Join(failed...)
}
