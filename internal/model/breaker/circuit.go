package breaker

import (
	"errors"
	"slices"
	"sync"
	"time"

	"ravenbot/internal/core/llm"
)

// A circuit opens after maxFailures failures in a row, first for minPause, and twice as long after each failed probe,
// up to maxPause.
const (
	maxFailures = 3
	minPause    = 30 * time.Second
	maxPause    = 5 * time.Minute
)

// maxRetryAfter bounds a pause that the provider asks for.
const maxRetryAfter = time.Hour

// State is the state of a circuit.
type State string

// The states of a circuit.
const (
	Closed   State = "closed"    // requests are made
	Open     State = "open"      // no requests are made after repeated failures
	HalfOpen State = "half-open" // the next request is a probe, or one is in progress
)

// circuit counts the failures of a model. The zero circuit is closed. It is safe for concurrent use. Its times are
// monotonic.
type circuit struct {
	mu       sync.Mutex
	failures int           // in a row
	newest   time.Time     // time of the newest counted failure
	pause    time.Duration // 0: the circuit is closed
	until    time.Time     // time of the next probe
	probing  bool          // a probe is in progress
	fault    llm.Error     // that opened it
	answered time.Time     // time of the last answer, or zero
}

// begin reports whether a request is a probe, or returns the error of a request that must not be made.
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

// refusal returns the error of a request that must not be made; c.mu is held.
func (c *circuit) refusal(now time.Time) *llm.Error {
	refused := c.fault
	refused.CircuitOpen = true
	refused.RetryAfter = max(c.until.Sub(now), minPause)
	return &refused
}

// end counts the outcome of a request that began at a time. It returns the new state if that changed, and the error for
// the caller, which forbids retries if the circuit is open.
func (c *circuit) end(began, now time.Time, isProbe bool, err error) (changed State, reported error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if isProbe {
		c.probing = false
	}
	var fault *llm.Error
	// A refusal is an answer, too. A cancelled request says nothing about the model.
	hasAnswered := errors.As(err, &fault) || err == nil
	if err == nil {
		c.answered = now
	}
	switch {
	case isFailure(fault) && c.pause > 0 && !isProbe:
		// It began before the circuit opened.
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
	// A burst of requests hits a rate limit at once, while the model still answers others. Only later requests show
	// that waiting does not help.
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

func isFailure(fault *llm.Error) bool {
	kinds := []llm.Kind{llm.Unavailable, llm.TimedOut, llm.RateLimited, llm.Exhausted}
	return fault != nil && slices.Contains(kinds, fault.Kind)
}

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
