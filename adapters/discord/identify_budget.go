package discord

import (
	"cmp"
	"context"
	"sync"
	"time"

	"ravenbot/adapters/kit"
)

// identifyBudget decides when sessions may be begun. Discord allows so many in 24 hours over all
// shards, and resets the token after more; and one every five seconds in each of the buckets into
// which it divides shards.
type identifyBudget struct {
	buckets   []identifyBucket
	maxPerDay int // in 24 hours

	mu        sync.Mutex
	begun     []time.Time // sessions begun in the last day, or about to
	remaining int         // by Discord's own count, until reset
	reset     time.Time   // zero: it did not say
}

// identifyBucket is a group of shards that begin their sessions one after the other.
type identifyBucket struct {
	turn chan struct{} // holds an element while one of them begins a session
	last time.Time     // guarded by the budget's lock
}

// Rules of beginning sessions.
const (
	// defaultIdentifies is Discord's number for small bots (reference of 2026).
	defaultIdentifies = 1000
	identifyEvery     = 5 * time.Second
	day               = 24 * time.Hour
	// Left alone for restarts by the operator, of which this process knows nothing.
	reservedPart = 10 // of the day's sessions one in so many is left alone
)

// newBudget returns the budget of a plan in which no session was begun. Where Discord tells no limits it takes
// defaultIdentifies a day and one bucket.
func newBudget(p gatewayPlan, now time.Time) *identifyBudget {
	total := cmp.Or(max(p.Limit.Total, 0), defaultIdentifies)
	b := &identifyBudget{
		buckets:   make([]identifyBucket, min(max(p.Limit.Concurrency, 1), p.Shards)),
		maxPerDay: total - total/reservedPart,
	}
	for i := range b.buckets {
		b.buckets[i].turn = make(chan struct{}, 1)
	}
	b.setRemaining(p, now)
	return b
}

// setRemaining notes how many sessions Discord says are left, where it does.
func (b *identifyBudget) setRemaining(p gatewayPlan, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.Limit.ResetAfter > 0 {
		b.remaining, b.reset = p.Limit.Remaining, now.Add(time.Duration(p.Limit.ResetAfter)*time.Millisecond)
	}
}

// bucketOf returns the bucket of a shard.
func (b *identifyBudget) bucketOf(shard int) *identifyBucket { return &b.buckets[shard%len(b.buckets)] }

// bucketNumber returns the number of a shard's bucket.
func (b *identifyBudget) bucketNumber(shard int) int { return shard % len(b.buckets) }

// claim counts a session that a shard is about to begin and returns 0, or returns how long to wait and counts nothing.
// The caller has the turn of the shard's bucket.
func (b *identifyBudget) claim(now time.Time, shard int) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.begun) > 0 && now.Sub(b.begun[0]) >= day {
		b.begun = b.begun[1:]
	}
	pause := max(0, b.bucketOf(shard).last.Add(identifyEvery).Sub(now))
	if len(b.begun) >= b.maxPerDay {
		pause = max(pause, day-now.Sub(b.begun[0]))
	}
	if b.remaining <= 0 {
		pause = max(pause, b.reset.Sub(now))
	}
	if pause > 0 {
		return pause
	}
	// Counted before it is begun: a session that is begun but not counted could cost the token.
	b.begun = append(b.begun, now)
	b.remaining--
	return 0
}

// finishClaim ends a claim; begun is false if the session was not begun.
func (b *identifyBudget) finishClaim(now time.Time, shard int, begun bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if begun {
		b.bucketOf(shard).last = now
		return
	}
	b.remaining++
	// The last may be another shard's: their number counts, and their times are close.
	b.begun = b.begun[:max(0, len(b.begun)-1)]
}

// allowIdentify waits until a session may be begun. begun must be called with whether it was; the
// shards of one bucket wait for one another until then. It returns false if ctx ended first.
func (d *shard) allowIdentify(ctx context.Context) (begun func(bool), ok bool) {
	turn := d.budget.bucketOf(d.id).turn
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return nil, false
	}
	for {
		d.refreshBudget(ctx)
		pause := d.budget.claim(d.o.Now(), d.id)
		if pause <= 0 {
			// Own limits first: asking the other replicas counts a session, which must then be begun or given back.
			if pause = d.claimIdentify(ctx); pause > 0 {
				d.budget.finishClaim(d.o.Now(), d.id, false)
			}
		}
		if pause > identifyEvery {
			d.o.Log.Error(
				"too many new discord sessions today; waiting",
				"platform",
				"discord",
				"shard",
				d.id,
				"wait",
				pause,
			)
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
		d.budget.finishClaim(d.o.Now(), d.id, was)
		d.endIdentify(was)
		<-turn
	}, true
}

// claimIdentify asks whether this process may begin a session of a shard now: 0, or how long to wait.
func (d *shard) claimIdentify(ctx context.Context) time.Duration {
	if d.o.Sharing == nil {
		return 0
	}
	wait, err := d.o.Sharing.Shards.BeginIdentify(ctx, d.botKey, d.budget.bucketNumber(d.id), d.budget.maxPerDay)
	if err != nil {
		if ctx.Err() == nil {
			d.o.Log.Warn("failed to claim a discord session; retrying", "platform", "discord", "shard", d.id, "error", err)
		}
		return firstPause
	}
	return wait
}

// endIdentify tells the other processes that a session was begun, or was not.
func (d *shard) endIdentify(hasBegun bool) {
	if d.o.Sharing == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), releaseTimeout)
	defer cancel()
	err := d.o.Sharing.Shards.EndIdentify(ctx, d.botKey, d.budget.bucketNumber(d.id), hasBegun)
	if err != nil {
		// The others wait for as long as beginning a session can take.
		d.o.Log.Warn("failed to store that a discord session has begun", "platform", "discord", "shard", d.id, "error", err)
	}
}

// refreshBudget asks how many sessions are left, of which the other processes begin some, too.
func (d *shard) refreshBudget(ctx context.Context) {
	if d.o.Sharing == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	var p gatewayPlan
	err := d.api.do(ctx, request{method: "GET", path: "/gateway/bot"}, &p)
	if err == nil {
		d.budget.setRemaining(p, d.o.Now())
	}
}
