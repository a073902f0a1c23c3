package breaker

import (
	"errors"
	"sync"
	"time"

	"ravenbot/internal/llm"
)

// A circuit opens after maxFailures failures in a row, for minPause at first and twice as long
// after each probe that fails, up to maxPause.
const (
	maxFailures = 3
	minPause    = 30 * time.Second
	maxPause    = 5 * time.Minute
)

// maxRetryAfter is how long a pause that the provider asks for is believed.
const maxRetryAfter = time.Hour

// State is whether a model is asked.
type State string

// The states of a circuit.
const (
	Closed   State = "closed"    // the model is asked
	Open     State = "open"      // it failed repeatedly and is not asked
	HalfOpen State = "half-open" // the next request is a probe, or one is under way
)

// circuit counts the failures of a model. The zero circuit is closed; it is safe for concurrent use.
// Its times carry the monotonic clock, so that a clock that is set makes no difference.
type circuit struct {
	mu       sync.Mutex
	failures int           // in a row
	newest   time.Time     // when the newest of them was counted
	pause    time.Duration // 0: the circuit is closed
	until    time.Time     // when the next probe may be made
	probing  bool          // a probe is under way
	fault    llm.Error     // that opened it
	answered time.Time     // when a request was last answered; zero: none was
}

// begin reports whether a request may be made, and whether it is a probe. Otherwise it returns the
// error that the request fails with.
func (c *circuit) begin(now time.Time) (isProbe bool, refused *llm.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.pause == 0:
		return false, nil
	case c.probing || now.Before(c.until):
		return false, c.refusal(now)
	}
	c.probing = true
	return true, nil
}

// refusal returns the error of a request that is not made; c.mu is held.
func (c *circuit) refusal(now time.Time) *llm.Error {
	refused := c.fault
	refused.CircuitOpen = true
	refused.RetryAfter = max(c.until.Sub(now), minPause)
	return &refused
}

// change is what the end of a request did to a circuit.
type change int

const (
	unchanged change = iota
	opened
	closed
)

// end counts the outcome of a request that began at a time. Where the circuit is open afterwards it
// returns the error to be reported in place of err, so that nobody asks again.
func (c *circuit) end(began, now time.Time, isProbe bool, err error) (change, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if isProbe {
		c.probing = false
	}
	fault, failed := failure(err)
	if err == nil {
		c.answered = now
	}
	switch {
	case failed && c.pause > 0 && !isProbe:
		// The request began before the circuit opened.
		return unchanged, c.refusal(now)
	case failed:
		return c.countFailure(began, now, isProbe, fault)
	case !hasAnswered(err):
	case isProbe:
		c.failures, c.pause = 0, 0
		return closed, err
	case c.pause == 0:
		c.failures = 0
	}
	return unchanged, err
}

// countFailure counts a failure of the model; c.mu is held.
func (c *circuit) countFailure(began, now time.Time, isProbe bool, fault *llm.Error) (change, error) {
	// A burst of messages meets a rate limit at once, and the model still answers some of them. Only
	// requests made after the last refusal show that waiting did not help.
	if fault.Kind == llm.RateLimited && c.failures > 0 && began.Before(c.newest) {
		return unchanged, fault
	}
	c.failures++
	c.newest = now
	if !isProbe && c.failures < maxFailures {
		return unchanged, fault
	}
	c.pause = min(max(2*c.pause, minPause), maxPause)
	c.until = now.Add(max(c.pause, min(fault.RetryAfter, maxRetryAfter)))
	c.fault = *fault
	return opened, c.refusal(now)
}

// failure returns the error of a request that failed because of the model.
func failure(err error) (fault *llm.Error, ok bool) {
	if !errors.As(err, &fault) {
		return nil, false
	}
	switch fault.Kind {
	case llm.Unavailable, llm.TimedOut, llm.RateLimited, llm.Exhausted:
		return fault, true
	}
	return nil, false
}

// hasAnswered reports whether a request ended because the model answered it, if only to refuse it: a
// request that was cancelled says nothing about the model.
func hasAnswered(err error) bool {
	var fault *llm.Error
	return err == nil || errors.As(err, &fault)
}

// lastAnswer returns when a request was last answered; zero: none was.
func (c *circuit) lastAnswer() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered.Round(0)
}

// state returns the state of the circuit, with the error that opened it and when the next probe may
// be made.
func (c *circuit) state(now time.Time) (s State, fault llm.Error, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.pause == 0:
		return Closed, llm.Error{}, time.Time{}
	case c.probing || !now.Before(c.until):
		return HalfOpen, c.fault, c.until
	}
	return Open, c.fault, c.until
}
