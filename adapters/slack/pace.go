package slack

import (
	"context"
	"errors"
	"time"

	"ravenbot/internal/chat"
)

// Rules of the pace: after a refusal calls are a gap apart, which doubles with each
// further one and melts while calls are taken. Without refusals there is none.
const (
	firstGap   = 250 * time.Millisecond
	longestGap = 2 * time.Second
	leastGap   = 50 * time.Millisecond
)

var errPaced = errors.New("slack asked for fewer messages there")

// pace is how often a method may be called for a channel, as Slack's refusals tell.
type pace struct {
	next time.Time // not before
	gap  time.Duration
}

// paces knows the pace of each method in each channel.
type paces struct{ of memory[pace] }

// turn waits until a call may be made. Where that is after the end of ctx it says
// so at once.
func (p *paces) turn(ctx context.Context, now time.Time, key string) error {
	known, _ := p.of.get(key)
	wait := known.next.Sub(now)
	if wait <= 0 {
		return nil
	}
	if end, ok := ctx.Deadline(); ok && end.Before(now.Add(wait)) || !pause(ctx, wait) {
		return &chat.PostError{After: wait, Err: errPaced}
	}
	return nil
}

// learn takes note of how a call went: refused is how long Slack wants to be left
// alone; zero, it took the call or failed otherwise.
func (p *paces) learn(now time.Time, key string, refused time.Duration) {
	if _, known := p.of.get(key); !known && refused == 0 {
		return
	}
	slow := true
	p.of.change(key, func(was pace, _ bool) pace {
		if refused > 0 {
			gap := min(max(2*was.gap, firstGap), longestGap)
			return pace{next: now.Add(max(refused, gap)), gap: gap}
		}
		was.gap -= was.gap / 8
		slow = was.gap >= leastGap
		return pace{next: now.Add(was.gap), gap: was.gap}
	})
	if !slow {
		p.of.drop(key)
	}
}
