package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/store"
)

// salvageable writes a store with conversations of all sizes, and returns its path and its records.
func salvageable(t *testing.T) (path string, records map[string]string) {
	t.Helper()
	db := opened(t)
	for i := range 30 {
		a := chat.Address{Platform: "slack", Workspace: "T1", Channel: fmt.Sprint("C", i)}
		for n := range 1 + i*3 {
			words := fmt.Sprintf("words %d of channel %d %s", n, i, bytes.Repeat([]byte("x"), 300))
			turn := &conversation.Turn{ID: fmt.Sprint(i, n), Of: []string{fmt.Sprintf("slack/%d-%d", i, n)},
				Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: words}}}}}
			if err := db.SaveTurn(t.Context(), a, turn); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 200 {
		if err := db.SaveBlob(t.Context(), fmt.Sprint("blob", i), []byte(`"some words"`)); err != nil {
			t.Fatal(err)
		}
	}
	records = rawRecords(t, db.DB)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return db.path, records
}

// rawRecords returns all records, by bucket and key.
func rawRecords(t *testing.T, db *DB) map[string]string {
	t.Helper()
	all := map[string]string{}
	var visit func(name string, b *bbolt.Bucket) error
	visit = func(name string, b *bbolt.Bucket) error {
		return b.ForEach(func(k, v []byte) error {
			if v == nil {
				return visit(name+nul+string(k), b.Bucket(k))
			}
			if name != formatBucket || string(k) != string(closedKey) {
				all[name+nul+string(k)] = string(v)
			}
			return nil
		})
	}
	err := db.bolt.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error { return visit(string(name), b) })
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// salvage salvages a file and returns the report and the records of the copy.
func salvage(t *testing.T, path string) (Salvaged, map[string]string, error) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "salvaged.db")
	r, err := Salvage(t.Context(), path, to)
	if err != nil {
		if _, statErr := os.Stat(to); statErr == nil {
			t.Error("a salvage that failed left a file")
		}
		return r, nil, err
	}
	db, err := OpenRecords(to, time.Now)
	if err != nil {
		t.Fatalf("the copy cannot be opened: %v", err)
	}
	records := rawRecords(t, db.DB)
	checkWhole(t, db)
	return r, records, nil
}

func TestSalvage_OfAWholeStore_IsTheStore(t *testing.T) {
	path, want := salvageable(t)
	r, got, err := salvage(t, path)
	if err != nil || len(r.Faults) > 0 || int(r.Records) != len(want) {
		t.Fatalf("%+v (%v)", r, err)
	}
	if len(got) != len(want) {
		t.Errorf("%d records, want %d", len(got), len(want))
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("record %q is %q, want %q", k, got[k], v)
		}
	}
}

// A page that is gone is named by the conversation that it belonged to, and all else is there.
func TestSalvage_NamesTheConversationThatALostPageBelongedTo(t *testing.T) {
	path, want := salvageable(t)
	b := bytesOf(t, path)
	const size = 4096
	// The page may be there in older states, too; only one of them is in use.
	for at := 0; ; {
		i := bytes.Index(b[at:], []byte("words 40 of channel 20 "))
		if i < 0 {
			break
		}
		at += i + 1
		clear(b[at/size*size : (at/size+1)*size])
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	r, got, err := salvage(t, path)
	if err != nil || len(r.Faults) != 1 || !strings.Contains(r.Faults[0], `turns of "slack:T1/C20"`) {
		t.Fatalf("%+v (%v), want one fault", r, err)
	}
	if lost := len(want) - len(got); lost == 0 || lost > 20 {
		t.Errorf("%d records are missing", lost)
	}
}

// TestSalvage_OfAnyDamage_InventsNothing: what is in the copy was stored, and what is missing is named.
func TestSalvage_OfAnyDamage_InventsNothing(t *testing.T) {
	path, want := salvageable(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const size = 4096
	for _, test := range []struct {
		name   string
		damage func(b []byte) []byte
	}{
		{"truncated", func(b []byte) []byte { return b[:random.IntN(len(b))] }},
		{"pages zeroed", func(b []byte) []byte {
			for range 1 + random.IntN(8) {
				n := random.IntN(len(b) / size)
				clear(b[n*size : (n+1)*size])
			}
			return b
		}},
		{"64 bits flipped", func(b []byte) []byte {
			for range 64 {
				b[random.IntN(len(b))] ^= 1 << random.IntN(8)
			}
			return b
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			salvaged := 0
			for range 8 {
				if err := os.WriteFile(path, test.damage(bytes.Clone(whole)), 0o600); err != nil {
					t.Fatal(err)
				}
				r, got, err := salvage(t, path)
				if err != nil {
					continue // nothing of it can be read
				}
				salvaged += len(got)
				for k, v := range got {
					if was, ok := want[k]; !ok || was != v {
						t.Errorf("record %q was never stored as %q", k, v)
					}
				}
				if len(got) < len(want) && len(r.Faults) == 0 {
					t.Errorf("%d of %d records are missing, and nothing is said", len(want)-len(got), len(want))
				}
			}
			// The page that leads to all others is often the last one, which is the first to be cut off.
			if salvaged == 0 && test.name != "truncated" {
				t.Error("nothing was salvaged of any copy")
			}
		})
	}
}

func TestSalvage_RefusesWhatIsInUseOrThere(t *testing.T) {
	path, _ := salvageable(t)
	db, err := OpenRecords(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "to.db")
	var inUse *store.InUseError
	if _, err := Salvage(t.Context(), path, to); !errors.As(err, &inUse) {
		t.Errorf("salvaging a store in use gave %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Salvage(t.Context(), path, path); !errors.Is(err, os.ErrExist) {
		t.Errorf("salvaging to a file that is there gave %v", err)
	}
	if err := os.WriteFile(path, []byte("this is no database"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Salvage(t.Context(), path, to); err == nil {
		t.Error("what is no store was salvaged")
	}
}

// What is stored after a salvage gets further numbers: one that was given before would replace a record, or name
// another one.
func TestSalvage_NumbersGoOn(t *testing.T) {
	db := opened(t)
	save := func(db *TestStore, id string) {
		t.Helper()
		call := store.ToolCall{ID: id, Conversation: general, Began: time.Now()}
		turn := conversation.Turn{ID: "web/" + id, Began: time.Now()}
		if err := errors.Join(db.SaveCalls(t.Context(), []store.ToolCall{call}),
			db.SaveTurn(t.Context(), general, &turn)); err != nil {
			t.Fatal(err)
		}
	}
	save(db, "first")
	save(db, "second")
	// The newest turn is gone, and its number must not be given again.
	if err := db.DeleteTurn(t.Context(), general, 2); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "salvaged.db")
	if _, err := Salvage(t.Context(), db.path, to); err != nil {
		t.Fatal(err)
	}
	salvaged, err := OpenRecords(to, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer salvaged.Close()
	save(salvaged, "third")
	calls, err := salvaged.ToolCalls(t.Context(), 0, 9, nil)
	if err != nil || len(calls) != 3 || calls[0].ID != "third" || calls[0].Seq != 3 {
		t.Errorf("the calls are %+v, %v", calls, err)
	}
	turns, err := salvaged.Turns(t.Context(), general, store.Range{Newest: 9})
	if err != nil || len(turns) != 2 || turns[1].ID != "web/third" || turns[1].Seq != 3 {
		t.Errorf("the turns are %+v, %v", turns, err)
	}
}

// Where it is ended before all is read, salvaging fails: what is left out then is no loss.
func TestSalvageInto_ContextEnds_Fails(t *testing.T) {
	db := opened(t)
	saveTurns(t, db, general, 0, 300, time.Now())
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := salvageInto(t.Context(), db.path, filepath.Join(t.TempDir(), "salvaged.db"))
	if err != nil {
		t.Fatal(err)
	}
	folder, n := t.TempDir(), 0
	for ; ; n++ {
		ctx := EndAfter(t.Context(), n)
		s, err := salvageInto(ctx, db.path, filepath.Join(folder, fmt.Sprint(n)))
		if err == nil {
			if s.records != whole.records || HasEnded(ctx) {
				t.Errorf("after %d looks at its context it salvages %d records of %d", n, s.records, whole.records)
			}
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("after %d looks at its context: %v", n, err)
		}
	}
	if n < 20 {
		t.Errorf("it looks at its context %d times", n)
	}
}
