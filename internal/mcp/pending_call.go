package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"sync"
	"time"

	"ravenbot/internal/tool"
)

const (
	// progressFactor is how many times its timeout a call may take that shows
	// progress, and progressTime how long it may take at all.
	progressFactor  = 10
	maxProgressTime = 15 * time.Minute
	// minReportInterval is the least time between two notes on how far a call is.
	minReportInterval = time.Second
)

// pendingCall is a call that waits for its answer. Its time runs out unless it is
// paused because a person, or a model of ours, is asked something meanwhile;
// progress gives it more.
type pendingCall struct {
	ctx       context.Context // ends with the call, and knows why
	cancel    context.CancelCauseFunc
	conn      *connection
	tool      string
	token     string // by which the server names it in notes on its progress
	caller    tool.Caller
	timeout   time.Duration
	startedAt time.Time

	mu          sync.Mutex
	timer       *time.Timer
	deadline    time.Time // when the time is up
	maxDeadline time.Time // progress does not carry beyond
	paused      int
	pausedAt    time.Time // when it was paused
	pausedFor   time.Duration
	reportedAt  time.Time
	requests    int // what the server wanted of us meanwhile
}

// callTimeoutError says that a call has not been answered within its time.
type callTimeoutError struct{ after time.Duration }

func (e callTimeoutError) Error() string { return fmt.Sprintf("no answer within %s", e.after) }

type callKey struct{}

// callFromContext gives the call that a request belongs to, or nil.
func callFromContext(ctx context.Context) *pendingCall {
	f, _ := ctx.Value(callKey{}).(*pendingCall)
	return f
}

// beginCall begins a call; the function returned ends it.
func (c *connection) beginCall(ctx context.Context, name string, timeout time.Duration) (*pendingCall, func()) {
	now := time.Now()
	f := &pendingCall{conn: c, tool: name, caller: tool.CallerFrom(ctx), timeout: timeout, startedAt: now, deadline: now.Add(timeout),
		maxDeadline: now.Add(max(timeout, min(progressFactor*timeout, maxProgressTime)))}
	inner, cancel := context.WithCancelCause(ctx)
	f.cancel = cancel
	f.ctx = context.WithValue(inner, callKey{}, f)
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

// expire ends the call unless it was given time since the timer was set.
func (f *pendingCall) expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	switch {
	case f.paused > 0:
	case now.Before(f.deadline):
		f.timer.Reset(f.deadline.Sub(now))
	default:
		after := f.timeout
		if took := now.Sub(f.startedAt) - f.pausedFor; took > 2*f.timeout {
			after = took.Round(time.Second)
		}
		f.cancel(callTimeoutError{after})
	}
}

// pause stops the call's time until resume.
func (f *pendingCall) pause() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.paused++; f.paused == 1 {
		f.timer.Stop()
		f.pausedAt = time.Now()
	}
}

func (f *pendingCall) resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.paused--; f.paused == 0 {
		waited := time.Since(f.pausedAt)
		f.pausedFor += waited
		f.deadline, f.maxDeadline = f.deadline.Add(waited), f.maxDeadline.Add(waited)
		f.timer.Reset(time.Until(f.deadline))
	}
}

// allowRequest counts what the server asks for during the call, and reports whether it has
// not asked too often.
func (f *pendingCall) allowRequest(most int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	return f.requests <= most
}

// recordProgress takes a note on how far the call is.
func (f *pendingCall) recordProgress(note string) {
	now := time.Now()
	f.mu.Lock()
	if more := now.Add(f.timeout); more.After(f.deadline) {
		f.deadline = more
		if more.After(f.maxDeadline) {
			f.deadline = f.maxDeadline
		}
	}
	tell := f.caller.Report != nil && note != "" && now.Sub(f.reportedAt) >= minReportInterval
	if tell {
		f.reportedAt = now
	}
	f.mu.Unlock()
	if tell {
		f.caller.Report(note)
	}
}

// handleProgress finds the call that a progress notification is about.
func (c *connection) handleProgress(fields map[string]any) {
	token, _ := fields["progressToken"].(string)
	c.mu.Lock()
	f := c.calls[token]
	c.mu.Unlock()
	if f != nil {
		f.recordProgress(progressNote(fields))
	}
}

// progressNote says in a few words how far a call is: 3 of 10: copying.
func progressNote(fields map[string]any) string {
	message, _ := fields["message"].(string)
	message = cut(plainLine(message), 150)
	done, ok := fields["progress"].(float64)
	if !ok || math.IsNaN(done) || math.IsInf(done, 0) {
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

// handleLog writes a log notification of the server into its log.
func (c *connection) handleLog(fields map[string]any) {
	data, isText := fields["data"].(string)
	if !isText {
		encoded, err := json.Marshal(fields["data"])
		if err != nil {
			return
		}
		data = string(encoded)
	}
	level, _ := fields["level"].(string)
	if name, _ := fields["logger"].(string); name != "" {
		level += " " + name
	}
	c.logs.add("message", []byte(level+": "+data))
}

// callsBehind are the calls that something the server sends may belong to: the one
// on whose stream it came, else all that are under way if they are in the same
// name. Nothing is the answer where that cannot be told.
func (c *connection) callsBehind(ctx context.Context) []*pendingCall {
	if f := callFromContext(ctx); f != nil {
		return []*pendingCall{f}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*pendingCall
	for _, f := range c.calls {
		if len(all) > 0 && (f.caller.User.ID != all[0].caller.User.ID || f.caller.Conversation != all[0].caller.Conversation) {
			return nil
		}
		all = append(all, f)
	}
	return all
}

// pauseCalls gives a context for what is done on behalf of calls: it has the values of
// the first, and ends with the last of them, or with the connection.
func (c *connection) pauseCalls(flights []*pendingCall, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(flights[0].ctx), limit)
	stops := []func() bool{context.AfterFunc(c.ctx, cancel)}
	var mu sync.Mutex
	left := len(flights)
	for _, f := range flights {
		f.pause()
		stops = append(stops, context.AfterFunc(f.ctx, func() {
			mu.Lock()
			defer mu.Unlock()
			if left--; left == 0 {
				cancel()
			}
		}))
	}
	return ctx, sync.OnceFunc(func() {
		cancel()
		for _, stop := range stops {
			stop()
		}
		for _, f := range flights {
			f.resume()
		}
	})
}
