package slack

import (
	"context"
	"errors"
	"time"

	"ravenbot/internal/chat"
)

// Rules of the pace: after a refusal calls are a gap apart, which grows with each
// further one and melts while calls are taken. Without refusals there is none, and
// what was learnt is forgotten when nothing was called for a while.
const (
	gapStep    = 250 * time.Millisecond
	longestGap = 2 * time.Second
	leastGap   = 50 * time.Millisecond
	gapMelt    = 32 // a part of so many with each call taken
	gapLife    = time.Minute
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
	known, _ := p.of.get(key)
	if now.Sub(known.next) > gapLife {
		known.gap = 0
	}
	switch {
	case refused > 0:
		known.gap = min(known.gap+gapStep, longestGap)
		p.of.put(key, pace{next: now.Add(max(refused, known.gap)), gap: known.gap})
	case known.gap < leastGap:
		p.of.drop(key)
	default:
		known.gap -= known.gap / gapMelt
		p.of.put(key, pace{next: now.Add(known.gap), gap: known.gap})
	}
}
