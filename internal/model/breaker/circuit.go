package breaker

import (
	"errors"
	"slices"
	"sync"
	"time"

	"ravenbot/internal/core/llm"
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

// end counts the outcome of a request that began at a time. It returns the new state if the circuit has opened or
// closed. Where the circuit is open afterwards it returns the error to be reported in place of err, so that nobody asks
// again.
func (c *circuit) end(began, now time.Time, isProbe bool, err error) (changed State, reported error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if isProbe {
		c.probing = false
	}
	var fault *llm.Error
	// If only to refuse. A cancelled request says nothing about the model.
	hasAnswered := errors.As(err, &fault) || err == nil
	if err == nil {
		c.answered = now
	}
	switch {
	case isFailure(fault) && c.pause > 0 && !isProbe:
		// The request began before the circuit opened.
		return "", c.refusal(now)
	case isFailure(fault):
		return c.countFailure(began, now, isProbe, fault)
	case !hasAnswered:
	case isProbe:
		c.failures, c.pause = 0, 0
		return Closed, err
	case c.pause == 0:
		c.failures = 0
	}
	return "", err
}

// countFailure counts a failure of the model; c.mu is held.
func (c *circuit) countFailure(began, now time.Time, isProbe bool, fault *llm.Error) (State, error) {
	// A burst of messages meets a rate limit at once, and the model still answers some of them. Only
	// requests made after the last refusal show that waiting did not help.
	if fault.Kind == llm.RateLimited && c.failures > 0 && began.Before(c.newest) {
		return "", fault
	}
	c.failures++
	c.newest = now
	if !isProbe && c.failures < maxFailures {
		return "", fault
	}
	c.pause = min(max(2*c.pause, minPause), maxPause)
	c.until = now.Add(max(c.pause, min(fault.RetryAfter, maxRetryAfter)))
	c.fault = *fault
	return Open, c.refusal(now)
}

// isFailure reports whether a request failed because of the model.
func isFailure(fault *llm.Error) bool {
	kinds := []llm.Kind{llm.Unavailable, llm.TimedOut, llm.RateLimited, llm.Exhausted}
	return fault != nil && slices.Contains(kinds, fault.Kind)
}

// status returns the state of the circuit, with the error that opened it, and when the next probe may be made.
func (c *circuit) status(now time.Time) Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Status{State: Closed, Answered: c.answered.Round(0)}
	if c.pause > 0 {
		s.State, s.Error, s.Until = Open, c.fault.Error(), c.until.Round(0)
		if c.probing || !now.Before(c.until) {
			s.State = HalfOpen
		}
	}
	return s
}
