package kit_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/adapters/kit"
)

// slowSource answers after a second with the number of times that it was asked.
type slowSource struct {
	asked int
	err   error
}

func (s *slowSource) look(ctx context.Context, _ string) (int, error) {
	s.asked++
	n := s.asked
	if !kit.Sleep(ctx, time.Second) {
		return 0, ctx.Err()
	}
	return n, s.err
}

func (s *slowSource) cache() *kit.Cache[int] {
	return kit.NewCache(kit.CacheOptions[int]{Look: s.look, Life: time.Minute, Timeout: 5 * time.Second, Now: time.Now})
}

func TestCache_SeveralWantOneKey_AskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSource{}
		c := s.cache()
		defer c.Close()
		hasty, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		// Whoever gives up first must not end the look-up that others wait for.
		if _, err := c.Get(hasty, "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller without time got %v", err)
		}
		got := make(chan int, 3)
		for range 3 {
			go func() {
				n, err := c.Get(context.Background(), "k")
				if err != nil {
					t.Error(err)
				}
				got <- n
			}()
		}
		for range 3 {
			if n := <-got; n != 1 {
				t.Errorf("the value is of look-up %d, want the first", n)
			}
		}
		if s.asked != 1 {
			t.Errorf("asked %d times", s.asked)
		}
	})
}

func TestCache_LifeIsOver_AsksAgainAndKeepsTheOldOnFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSource{}
		c := s.cache()
		defer c.Close()
		for _, step := range []struct {
			pass time.Duration
			err  error
			want int
		}{
			{0, nil, 1},
			{30 * time.Second, nil, 1},
			{time.Minute, errors.New("away"), 1},
			{0, nil, 3},
		} {
			time.Sleep(step.pass)
			s.err = step.err
			n, err := c.Get(t.Context(), "k")
			if n != step.want || !errors.Is(err, step.err) {
				t.Errorf("after %v: %d, %v, want %d, %v", step.pass, n, err, step.want, step.err)
			}
		}
		if n, ok := c.Known("k"); n != 3 || !ok {
			t.Errorf("known: %d, %v", n, ok)
		}
	})
}

func TestCache_Close_EndsLookupsAndAsksNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSource{}
		c := s.cache()
		c.Prefetch("k")
		synctest.Wait()
		c.Close()
		if n, err := c.Get(t.Context(), "k"); n != 0 || err != nil || s.asked != 1 {
			t.Errorf("after Close: %d, %v, asked %d times", n, err, s.asked)
		}
	})
}

func TestCache_Fresh_EndsWithTheLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSource{}
		c := s.cache()
		defer c.Close()
		if n, ok := c.Fresh("k"); ok {
			t.Errorf("a value that nobody asked for: %d", n)
		}
		if _, err := c.Get(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		n, young := c.Fresh("k")
		time.Sleep(time.Minute)
		_, old := c.Fresh("k")
		if !young || n != 1 || old || s.asked != 1 {
			t.Errorf("%d is fresh: %v, after a minute: %v; asked %d times", n, young, old, s.asked)
		}
	})
}

// A look-up may end just when somebody else asks for its key: they get what it has found.
func TestCache_LookupEndsMeanwhile_ItsValueIsReturned(t *testing.T) {
	c := kit.NewCache(kit.CacheOptions[int]{
		Look:    func(context.Context, string) (int, error) { return 1, nil },
		Life:    time.Minute,
		Timeout: time.Minute,
		Now:     time.Now,
	})
	defer c.Close()
	for n := range 20_000 {
		key := strconv.Itoa(n)
		c.Prefetch(key)
		if got, err := c.Get(t.Context(), key); got != 1 || err != nil {
			t.Fatalf("key %d: %d, %v", n, got, err)
		}
	}
}
