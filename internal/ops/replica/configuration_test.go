package replica_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/ops/replica"
)

// sums are those of a configuration that a test changes.
type sums struct {
	mu     sync.Mutex
	values map[string]string
}

func (s *sums) set(key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values = map[string]string{"agents": "1", "channels": "1", key: value}
}

func (s *sums) get() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values
}

// sharedLog is a log that is read while it is written.
type sharedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *sharedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *sharedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestConfiguration_AnotherReplicaHasADifferentOne_IsLoggedOnceAndWhenItEnds(t *testing.T) {
	first, second := listen(t), listen(t)
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		d.topics = map[string]map[int64]json.RawMessage{}
		var log sharedLog
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		join := func(o replica.Options, s *sums) *replica.Node {
			node, err := replica.Join(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			node.CompareConfiguration(s.get)
			ended.Go(func() { node.ShareCounts(ctx) })
			return node
		}
		mine, theirs := &sums{}, &sums{}
		mine.set("digests", "1")
		theirs.set("digests", "1")
		o := options(d, first)
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		node := join(o, mine)
		join(options(d, second), theirs)
		later := func() {
			time.Sleep(time.Minute) // of the clock of the bubble
			synctest.Wait()
		}
		later()
		if strings.Contains(log.String(), "configuration") || len(node.ConfigurationDiffers()) > 0 {
			t.Errorf("equal ones differ: %s", log.String())
		}
		theirs.set("digests", "secret")
		later()
		if !slices.Equal(node.ConfigurationDiffers(), []string{"digests"}) ||
			strings.Count(log.String(), "configuration differs") != 1 ||
			!strings.Contains(log.String(), "keys=digests replicas=2") {
			t.Errorf("differs in %q, log: %s", node.ConfigurationDiffers(), log.String())
		}
		d.mu.Lock()
		all := strings.Join(d.told, "")
		d.mu.Unlock()
		if strings.Contains(all, "digests") || strings.Contains(all, "secret") {
			t.Errorf("the database can read what is told: %s", all)
		}
		mine.set("digests", "secret")
		later()
		if len(node.ConfigurationDiffers()) > 0 || strings.Count(log.String(), "configuration") != 2 {
			t.Errorf("differs in %q, log: %s", node.ConfigurationDiffers(), log.String())
		}
		cancel()
		ended.Wait()
	})
	var alone *replica.Node
	alone.CompareConfiguration(nil)
	if len(alone.ConfigurationDiffers()) > 0 {
		t.Error("a process alone differs from others")
	}
}
