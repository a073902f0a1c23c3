package mcp

import (
	"context"
	"fmt"
	"sync"
	"time"

	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
)

const (
	// A call that reports progress may take progressFactor times its timeout, up to maxProgressTime.
	progressFactor  = 10
	maxProgressTime = 15 * time.Minute
	// minReportInterval is the minimum time between two progress notes to the caller.
	minReportInterval = time.Second
)

// pendingCall is a call without a result yet. Questions to a person or a model pause its timeout, and progress extends
// it.
type pendingCall struct {
	ctx     context.Context // ends with the call; its cause is the reason
	cancel  context.CancelCauseFunc
	conn    *connection
	tool    string
	token   string // names the call in progress notifications
	caller  tool.Caller
	timeout time.Duration

	mu          sync.Mutex // guards the fields below; taken after connection.mu is released
	timer       *time.Timer
	deadline    time.Time // when the time is up
	maxDeadline time.Time // limit for extensions by progress
	paused      int       // current pauses
	pausedAt    time.Time // begin of the pause
	reportedAt  time.Time // time of the last progress note to the caller
	requests    int       // number of requests of the server
}

type callTimeoutError struct{ after time.Duration }

func (e callTimeoutError) Error() string { return fmt.Sprintf("no answer within %s", e.after) }

type callKey struct{}

// callFromContext returns the call that a request belongs to, or nil.
func callFromContext(ctx context.Context) *pendingCall {
	f, _ := ctx.Value(callKey{}).(*pendingCall)
	return f
}

// beginCall registers a call and starts its timeout; the returned function ends it. The cause of the call's context is
// a callTimeoutError after the timeout, or the cause of ctx.
func (c *connection) beginCall(ctx context.Context, name string, timeout time.Duration) (*pendingCall, func()) {
	now := time.Now()
	f := &pendingCall{
		conn:        c,
		tool:        name,
		caller:      tool.CallerFrom(ctx),
		timeout:     timeout,
		deadline:    now.Add(timeout),
		maxDeadline: now.Add(max(timeout, min(progressFactor*timeout, maxProgressTime))),
	}
	inner, cancel := context.WithCancelCause(ctx)
	f.cancel = cancel
	f.ctx = context.WithValue(inner, callKey{}, f)
	// Held until the timer is set, because a notification may already find the registered call.
	f.mu.Lock()
	defer f.mu.Unlock()
	c.mu.Lock()
	c.callCount++
	f.token = fmt.Sprint("call-", c.callCount)
	c.calls[f.token] = f
	c.mu.Unlock()
	f.timer = time.AfterFunc(timeout, f.expire)
	return f, func() {
		c.mu.Lock()
		delete(c.calls, f.token)
		c.mu.Unlock()
		f.timer.Stop()
		cancel(context.Canceled)
	}
}

// expire ends the call, unless its deadline has moved since the timer was set.
func (f *pendingCall) expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	switch {
	case f.paused > 0:
		// The timer fired just before pause; resume sets it again.
	case now.Before(f.deadline):
		f.timer.Reset(f.deadline.Sub(now))
	default:
		f.cancel(callTimeoutError{f.timeout})
	}
}

func (f *pendingCall) timeLeft() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Until(f.deadline)
}

// pause stops the timeout of the call until resume. Pauses may overlap.
func (f *pendingCall) pause() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.paused++; f.paused == 1 {
		f.timer.Stop()
		f.pausedAt = time.Now()
	}
}

// resume ends one pause. The last one moves the deadlines by the length of the pause.
func (f *pendingCall) resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	// Both: a long pause must not use up the time that progress may add.
	if f.paused--; f.paused == 0 {
		waited := time.Since(f.pausedAt)
		f.deadline, f.maxDeadline = f.deadline.Add(waited), f.maxDeadline.Add(waited)
		f.timer.Reset(time.Until(f.deadline))
	}
}

// extend gives the call more time. If the timer fires early, expire sets it again.
func (f *pendingCall) extend(more time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deadline, f.maxDeadline = f.deadline.Add(more), f.maxDeadline.Add(more)
}

// allowRequest counts a request of the server during the call. It returns false after maxRequestsPerCall.
func (f *pendingCall) allowRequest() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	return f.requests <= maxRequestsPerCall
}

// recordProgress extends the deadline and reports the note to the caller, at most once per minReportInterval.
func (f *pendingCall) recordProgress(note string) {
	now := time.Now()
	f.mu.Lock()
	// Progress extends the deadline to a whole timeout from now, up to maxDeadline.
	if more := now.Add(f.timeout); more.After(f.deadline) {
		f.deadline = more
		if more.After(f.maxDeadline) {
			f.deadline = f.maxDeadline
		}
	}
	report := f.caller.Report != nil && note != "" && now.Sub(f.reportedAt) >= minReportInterval
	if report {
		f.reportedAt = now
	}
	f.mu.Unlock()
	if report { // without the lock: Report is foreign code
		f.caller.Report(note)
	}
}

func (c *connection) handleProgress(fields map[string]any) {
	token, _ := fields["progressToken"].(string)
	c.mu.Lock()
	f := c.calls[token]
	c.mu.Unlock()
	if f != nil {
		f.recordProgress(progressNote(fields))
	}
}

// progressNote formats a progress notification: "3 of 10: copying".
func progressNote(fields map[string]any) string {
	message, _ := fields["message"].(string)
	message = text.Cut(text.OneLine(message), 150)
	done, ok := fields["progress"].(float64)
	if !ok {
		return message
	}
	note := fmt.Sprintf("%.6g", done)
	if total, ok := fields["total"].(float64); ok && total > 0 {
		note += fmt.Sprintf(" of %.6g", total)
	}
	if message != "" {
		note += ": " + message
	}
	return note
}

func (c *connection) handleLog(fields map[string]any) {
	data, isText := fields["data"].(string)
	if !isText {
		data = string(encodeJSON(fields["data"])) // it came as JSON
	}
	level, _ := fields["level"].(string)
	if name, _ := fields["logger"].(string); name != "" {
		level += " " + name
	}
	c.s.logs.add("message", []byte(level+": "+data))
}

// callsBehind returns the calls that a request of the server may belong to: the call on whose stream it came, or all
// pending calls if they have the same caller and conversation. Otherwise it returns nil, because nobody may be asked on
// behalf of another person.
func (c *connection) callsBehind(ctx context.Context) []*pendingCall {
	if f := callFromContext(ctx); f != nil {
		return []*pendingCall{f}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*pendingCall
	for _, f := range c.calls {
		if len(all) > 0 && (f.caller.User.ID != all[0].caller.User.ID ||
			f.caller.Conversation != all[0].caller.Conversation) {
			return nil
		}
		all = append(all, f)
	}
	return all
}

// pauseCalls pauses the timeouts of calls until end is called. The returned context has the values of the first call.
// It ends when all calls have ended, with the connection, or after limit.
func (c *connection) pauseCalls(calls []*pendingCall, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(calls[0].ctx), limit)
	// The request may belong to any of the calls.
	for _, f := range calls {
		f.pause()
	}
	go func() {
		defer cancel()
		for _, f := range calls {
			select {
			case <-f.ctx.Done():
			case <-c.ctx.Done():
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, sync.OnceFunc(func() {
		cancel()
		for _, f := range calls {
			f.resume()
		}
	})
}
