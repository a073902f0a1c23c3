package replica_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/ops/replica"
)

// counter tells 1, and keeps what it hears.
type counter struct {
	name  string
	heard []string
}

func (c *counter) Topic() string                  { return c.name }
func (c *counter) Told() (json.RawMessage, error) { return json.RawMessage("1"), nil }

func (c *counter) Hear(others map[int64]json.RawMessage) error {
	c.heard = append(c.heard, fmt.Sprint(len(others), " ", string(others[9])))
	return nil
}

func TestShareCounts_EachPartTellsAndHears(t *testing.T) {
	l := listen(t)
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		d := newDatabase()
		o := options(d, l)
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		node, err := replica.Join(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		a, b := &counter{name: "a"}, &counter{name: "b"}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { node.ShareCounts(ctx, a, b); close(ended) }()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if !slices.Equal(d.told, []string{"a 1", "b 1", "a 1", "b 1"}) {
			t.Errorf("in five seconds %q was told", d.told)
		}
		if want := []string{`1 "b"`, `1 "b"`}; !slices.Equal(b.heard, want) {
			t.Errorf("heard %q, want %q", b.heard, want)
		}
		d.fail(errors.New("no database"))
		time.Sleep(time.Minute)
		d.fail(nil)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if n := strings.Count(log.String(), "no database"); n != 1 || len(a.heard) < 3 || len(a.heard) > 4 {
			t.Errorf("while the database was away: logged %d times, heard %q", n, a.heard)
		}
		cancel()
		<-ended
	})
	var alone *replica.Node
	alone.ShareCounts(t.Context(), &counter{})
}
