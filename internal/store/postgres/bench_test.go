package postgres_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
	"ravenbot/internal/store/postgres/pgtest"
)

var words = strings.Repeat("some words of an answer ", 20)

// benchmarks are what the store does most, as the nth of many, in one of several conversations.
var benchmarks = []struct {
	name string
	do   func(ctx context.Context, s store.Store, n int64) error
}{
	{"Accept", func(ctx context.Context, s store.Store, n int64) error {
		m := chat.Message{ID: fmt.Sprint(n), Conversation: room(int(n % 16)), Text: words[:100], Time: time.Now()}
		_, err := s.Accept(ctx, store.Received{Message: m, At: time.Now()})
		return err
	}},
	{"SaveAnswer", func(ctx context.Context, s store.Store, n int64) error {
		key := fmt.Sprint("a/", n)
		turn := &conversation.Turn{ID: key, State: conversation.Answered, Began: time.Now(), Model: "m",
			User: fmt.Sprint(n % 16), Usage: llm.Usage{Input: 100, Output: 10}, Messages: []llm.Message{
				{Role: llm.User, Parts: []llm.Part{{Text: words[:100]}}}, {Role: llm.Assistant, Parts: []llm.Part{{Text: words}}}}}
		post := store.Post{Key: key, To: room(int(n % 16)), Draft: chat.Draft{Text: words}, Message: key, At: time.Now()}
		return s.SaveAnswer(ctx, room(int(n%16)), []string{key}, turn, []store.Post{post})
	}},
	{"Turns", func(ctx context.Context, s store.Store, n int64) error {
		turns, err := s.Turns(ctx, room(int(n%16)), store.Range{Newest: 40})
		if err == nil && len(turns) != 40 {
			err = fmt.Errorf("%d turns, want 40", len(turns))
		}
		return err
	}},
}

// BenchmarkStore compares the engines, both with fsync. The floor is a bare insert of as many bytes through pgx.
func BenchmarkStore(b *testing.B) {
	c := pgtest.NewCluster(b, pgtest.Options{Durable: true})
	file, err := bolt.Open(filepath.Join(b.TempDir(), "raven.db"), time.Now)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	address := c.Database(b)
	engines := map[string]store.Store{"bolt": file, "postgres": open(b, address, time.Now)}
	var n atomic.Int64
	for name, s := range engines {
		for i := range int64(16 * 40) {
			if err := benchmarks[1].do(b.Context(), s, 1_000_000_000+i); err != nil {
				b.Fatal(err)
			}
		}
		for _, bench := range benchmarks {
			for _, writers := range []int{1, 16} {
				b.Run(fmt.Sprintf("%s/%s/%d", bench.name, name, writers), func(b *testing.B) {
					share(b, writers, func() error { return bench.do(b.Context(), s, n.Add(1)) })
				})
			}
		}
	}
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		b.Fatal(err)
	}
	config.MaxConns, config.ConnConfig.DefaultQueryExecMode = 16, pgx.QueryExecModeExec
	pool, err := pgxpool.NewWithConfig(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(b.Context(), "create table bare (key text primary key, record json)"); err != nil {
		b.Fatal(err)
	}
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprintf("floor/insert/%d", writers), func(b *testing.B) {
			share(b, writers, func() error {
				_, err := pool.Exec(b.Context(), "insert into bare values ($1, $2)", fmt.Sprint(n.Add(1)), `"`+words+`"`)
				return err
			})
		})
	}
}

// share has several do something b.N times together.
func share(b *testing.B, writers int, do func() error) {
	b.ReportAllocs()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ResetTimer()
	for range writers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := do(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
