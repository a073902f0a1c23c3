package bolt_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
)

// BenchmarkTurn is all that the store does for one answer: the message accepted,
// the answer and the post recorded, the post done. The floor beside it is three
// transactions of bare bbolt that write as many records of the same size.
func BenchmarkTurn(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprintf("store/%d", writers), func(b *testing.B) {
			db, err := bolt.OpenRecords(filepath.Join(b.TempDir(), "raven.db"), time.Now)
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			b.ResetTimer()
			share(writers, b.N, func(w, i int) error { return turn(b, db, w, i) }, b.Error)
		})
		b.Run(fmt.Sprintf("floor/%d", writers), func(b *testing.B) {
			db, err := bbolt.Open(filepath.Join(b.TempDir(), "raven.db"), 0o600,
				&bbolt.Options{FreelistType: bbolt.FreelistMapType, NoStatistics: true})
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			b.ResetTimer()
			db.MaxBatchDelay = time.Millisecond
			do := db.Update
			if writers > 1 {
				do = db.Batch
			}
			share(writers, b.N, func(_, i int) error { return bareTurn(do, i) }, b.Error)
		})
	}
}

// share has writers do n things together.
func share(writers, n int, do func(w, i int) error, failed func(...any)) {
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := w; i < n; i += writers {
				if err := do(w, i); err != nil {
					failed(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

var words = strings.Repeat("some words of an answer ", 20)

func turn(tb testing.TB, db *bolt.TestStore, w, i int) error {
	ctx := tb.Context()
	to := chat.Address{Platform: "web", Channel: fmt.Sprint("room", w)}
	m := chat.Message{ID: fmt.Sprint(i), Conversation: to, Text: words[:100], Time: time.Now()}
	if _, err := db.Accept(ctx, store.Received{Message: m, At: time.Now()}); err != nil {
		return err
	}
	t := &conversation.Turn{ID: m.Key(), State: conversation.Answered, Began: time.Now(), Messages: []llm.Message{
		{Role: llm.User, Parts: []llm.Part{{Text: words[:100]}}}, {Role: llm.Assistant, Parts: []llm.Part{{Text: words}}}}}
	p := store.Post{Key: "answer/" + m.Key(), To: to, Draft: chat.Draft{Text: words}, Message: m.Key(), At: time.Now()}
	if err := db.SaveAnswer(ctx, to, []string{m.Key()}, t, []store.Post{p}); err != nil {
		return err
	}
	return db.SaveOutcomes(ctx, []store.Outcome{{Key: p.Key, Ref: chat.Ref{IDs: []string{m.ID}}, At: time.Now()}}, 0)
}

// bareTurn has bbolt itself share commits where there are many writers.
func bareTurn(do func(func(*bbolt.Tx) error) error, i int) error {
	put := func(tx *bbolt.Tx, bucket string, key string, n int) error {
		b, err := tx.CreateBucketIfNotExists([]byte(bucket))
		if err != nil {
			return err
		}
		return b.Put([]byte(key), []byte(words[:n]))
	}
	key := fmt.Sprint(i)
	for _, step := range [][]struct {
		bucket string
		n      int
	}{{{"inbox", 350}, {"heard", 120}}, {{"turns", 480}, {"places", 60}, {"outbox", 480}}, {{"done", 60}, {"posts", 90}}} {
		if err := do(func(tx *bbolt.Tx) error {
			for _, s := range step {
				if err := put(tx, s.bucket, key, s.n); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkOpen is what reading the whole file costs at start. The floor is bare
// bbolt, which reads next to nothing of it.
func BenchmarkOpen(b *testing.B) {
	for _, turns := range []int{10, 3000, 50_000} {
		path := filepath.Join(b.TempDir(), "raven.db")
		db, err := bolt.OpenRecords(path, time.Now)
		if err != nil {
			b.Fatal(err)
		}
		share(64, turns, func(w, i int) error { return turn(b, db, w, i) }, b.Error)
		size, _, err := db.Size()
		if err := errors.Join(err, db.Close()); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("store/%dKiB", size>>10), func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				db, err := bolt.OpenRecords(path, time.Now)
				if err := errors.Join(err, db.Close()); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("floor/%dKiB", size>>10), func(b *testing.B) {
			for b.Loop() {
				db, err := bbolt.Open(path, 0o600, nil)
				if err := errors.Join(err, db.Close()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
