package discord

import (
	"cmp"
	"context"
	"sync"
	"time"

	"ravenbot/adapters/kit"
)

// budget gives sessions their turn to begin. Discord takes so many in 24 hours over
// all shards, and then resets the token; and one every five seconds in each of the
// buckets into which it divides shards.
type budget struct {
	buckets []bucket
	most    int // in 24 hours

	mu    sync.Mutex
	at    []time.Time // sessions begun in the last day, or about to
	left  int         // by Discord's own count, until reset
	reset time.Time   // zero: it did not say
}

// bucket is a line of shards.
type bucket struct {
	turn chan struct{} // holds an element while one of them begins a session
	last time.Time     // guarded by the budget's lock
}

// Rules of beginning sessions.
const (
	usualIdentifies = 1000
	identifyEvery   = 5 * time.Second
	day             = 24 * time.Hour
	sparedPart      = 10 // of the day's sessions one in so many is left alone
)

func newBudget(p plan, now time.Time) *budget {
	total := cmp.Or(max(p.Limit.Total, 0), usualIdentifies)
	b := &budget{buckets: make([]bucket, min(max(p.Limit.Concurrency, 1), p.Shards)), most: total - total/sparedPart}
	for i := range b.buckets {
		b.buckets[i].turn = make(chan struct{}, 1)
	}
	if p.Limit.ResetAfter > 0 {
		b.left, b.reset = p.Limit.Remaining, now.Add(time.Duration(p.Limit.ResetAfter)*time.Millisecond)
	}
	return b
}

// of is the bucket of a shard.
func (b *budget) of(shard int) *bucket { return &b.buckets[shard%len(b.buckets)] }

// claim counts a session that a shard is about to begin, or tells how long to wait
// before asking again.
func (b *budget) claim(now time.Time, shard int) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.at) > 0 && now.Sub(b.at[0]) >= day {
		b.at = b.at[1:]
	}
	pause := max(0, b.of(shard).last.Add(identifyEvery).Sub(now))
	if len(b.at) >= b.most {
		pause = max(pause, day-now.Sub(b.at[0]))
	}
	if b.left <= 0 {
		pause = max(pause, b.reset.Sub(now))
	}
	if pause > 0 {
		return pause
	}
	b.at = append(b.at, now)
	b.left--
	return 0
}

// settle tells what became of a claim: whether the session was begun.
func (b *budget) settle(now time.Time, shard int, begun bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if begun {
		b.of(shard).last = now
		return
	}
	b.left++
	b.at = b.at[:max(0, len(b.at)-1)]
}

// allowIdentify waits until a session may be begun. begun must be called, with
// whether it was; the shards of one bucket wait for one another until then. False:
// ctx ended first.
func (d *shard) allowIdentify(ctx context.Context) (begun func(bool), ok bool) {
	turn := d.budget.of(d.id).turn
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return nil, false
	}
	for {
		pause := d.budget.claim(d.o.Now(), d.id)
		if pause > identifyEvery {
			d.o.Log.Error("too many new discord sessions today, waiting", "platform", "discord", "shard", d.id, "wait", pause)
		}
		if pause <= 0 {
			break
		}
		if !kit.Sleep(ctx, pause) {
			<-turn
			return nil, false
		}
	}
	return func(was bool) {
		d.budget.settle(d.o.Now(), d.id, was)
		<-turn
	}, true
}
