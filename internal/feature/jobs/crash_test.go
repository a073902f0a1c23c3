package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/feature/jobs"
)

// manyTimes returns how many reminders or deliveries a test makes: n, or what RAVENBOT_JOBS says.
func manyTimes(t *testing.T, n int) int {
	t.Helper()
	if s := os.Getenv("RAVENBOT_JOBS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

var errKilled = errors.New("killed")

// killer ends the bot in the middle of a change of the store, before or after it is on the disk.
type killer struct {
	chance *rand.Rand
	mu     sync.Mutex
	left   int // changes until the next kill; 0: none comes
	after  bool
	dead   atomic.Bool
	kill   func()

	numbers atomic.Int64
}

func (k *killer) aim() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left, k.after = 1+k.chance.IntN(20), k.chance.IntN(2) == 0
	k.dead.Store(false)
}

func (k *killer) onSwap(after bool) error {
	if k.dead.Load() {
		return errKilled
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if after != k.after || k.left == 0 {
		return nil
	}
	if k.left--; k.left > 0 {
		return nil
	}
	k.dead.Store(true)
	k.kill()
	return errKilled
}

// TestReminders_OverKillsAndClockJumps_EachOnce has the bot killed in the middle of storing, and the clock jump by
// hours and days in both directions, while reminders are made and fall due: each is posted once. RAVENBOT_JOBS=1000
// makes it as many.
func TestReminders_OverKillsAndClockJumps_EachOnce(t *testing.T) {
	n := manyTimes(t, 200)
	synctest.Test(t, func(t *testing.T) {
		b := newBot(t)
		b.conf.Jobs.MaxPerUser = 10 * n
		chance := rand.New(rand.NewPCG(7, uint64(n)))
		k := &killer{chance: chance}
		b.disk.onSwap = k.onSwap
		promised := map[string]bool{}
		for begin := time.Now(); time.Since(begin) < 6*24*time.Hour || len(promised) < n; {
			b.live(t, k, chance, promised, n)
		}
		b.disk.onSwap = nil
		b.jump(10 * 24 * time.Hour) // all are due, also those that were made while the clock was ahead
		b.restart(t)
		stop := b.run(t)
		<-time.After(time.Hour)
		stop()
		posted := map[string]int{}
		for _, text := range b.disk.texts() {
			what, _, _ := strings.Cut(strings.TrimPrefix(text, "⏰ "), "\n")
			posted[what]++
		}
		for what := range promised {
			if posted[what] != 1 {
				t.Errorf("reminder %q was posted %d times", what, posted[what])
			}
		}
		for what, times := range posted {
			if times != 1 {
				t.Errorf("reminder %q was posted %d times", what, times)
			}
		}
	})
}

// live is one life of the bot: it is started, told some reminders, and killed or ended.
func (b *bot) live(t *testing.T, k *killer, chance *rand.Rand, promised map[string]bool, n int) {
	b.restart(t)
	ctx, cancel := context.WithCancel(t.Context())
	k.kill = cancel
	k.aim()
	var wg sync.WaitGroup
	wg.Go(func() { b.Run(ctx) })
	for range chance.IntN(12) {
		if len(promised) >= n || ctx.Err() != nil {
			break
		}
		// One that was stored as the bot was killed comes too, so that its number is not used again.
		what := fmt.Sprintf("number %d", k.numbers.Add(1))
		words := fmt.Sprintf("in %d minutes %s", 1+chance.IntN(3*24*60), what)
		// Only what its author was told has to come.
		if d, err := b.Handle(ctx, remind(words)); err == nil && !d.Failed {
			promised[what] = true
		}
		<-time.After(time.Duration(chance.IntN(600)) * time.Second)
	}
	jumps := []time.Duration{0, 0, 3 * time.Hour, -3 * time.Hour, 24 * time.Hour, -24 * time.Hour}
	b.jump(jumps[chance.IntN(len(jumps))])
	<-time.After(time.Duration(chance.IntN(300)) * time.Minute)
	cancel()
	wg.Wait()
}

// TestRepeatingJob_OverKills_EachDueTimeOnce posts once for each hour, also where the bot is killed while it stores,
// and where the clock jumps by hours and back.
func TestRepeatingJob_OverKills_EachDueTimeOnce(t *testing.T) {
	for _, jump := range []time.Duration{0, 3 * time.Hour, 24 * time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { repeatOverKills(t, jump) })
		})
	}
}

func repeatOverKills(t *testing.T, jump time.Duration) {
	b := newBot(t)
	chance := rand.New(rand.NewPCG(3, 4))
	k := &killer{chance: chance}
	if _, err := b.AddRequest(t.Context(), jobs.Request{
		Schedule: "every hour",
		Post:     []string{general.String()},
		Text:     "cuckoo",
	}); err != nil {
		t.Fatal(err)
	}
	b.disk.onSwap = k.onSwap
	const days = 20
	for begin := time.Now(); time.Since(begin) < days*24*time.Hour; {
		b.restart(t)
		ctx, cancel := context.WithCancel(t.Context())
		k.kill = cancel
		k.aim()
		var wg sync.WaitGroup
		wg.Go(func() { b.Run(ctx) })
		ahead := jump * time.Duration(chance.IntN(2))
		b.jump(ahead)
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(chance.IntN(90)) * time.Minute):
		}
		b.jump(-ahead)
		if jump == 0 {
			<-ctx.Done()
		}
		cancel()
		wg.Wait()
		// Less than an hour, so that no due time is skipped for the next one.
		<-time.After(time.Duration(chance.IntN(50)) * time.Minute)
	}
	keys := map[string]int{}
	for _, p := range b.disk.posts {
		keys[p.Key]++
	}
	for key, times := range keys {
		if times != 1 {
			t.Errorf("%s was stored %d times", key, times)
		}
	}
	if len(keys) < days*24-1 && jump == 0 {
		t.Errorf("%d posts in %d hours", len(keys), days*24)
	}
}
