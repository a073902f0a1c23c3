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
	// progressTimes is how many times its timeout a call may take that shows
	// progress, and progressTime how long it may take at all.
	progressTimes = 10
	progressTime  = 15 * time.Minute
	// reportGap is the least time between two notes on how far a call is.
	reportGap = time.Second
)

// flight is a call that waits for its answer. Its time runs out unless it is
// paused because a person, or a model of ours, is asked something meanwhile;
// progress gives it more.
type flight struct {
	ctx     context.Context // ends with the call, and knows why
	cancel  context.CancelCauseFunc
	conn    *connection
	tool    string
	token   string // by which the server names it in notes on its progress
	caller  tool.Caller
	timeout time.Duration
	began   time.Time

	mu       sync.Mutex
	timer    *time.Timer
	until    time.Time // when the time is up
	limit    time.Time // progress does not carry beyond
	paused   int
	since    time.Time // when it was paused
	waited   time.Duration
	reported time.Time
	asked    int // what the server wanted of us meanwhile
}

// noAnswer says that a call has not been answered within its time.
type noAnswer struct{ after time.Duration }

func (e noAnswer) Error() string { return fmt.Sprintf("no answer within %s", e.after) }

type flightKey struct{}

// flightOf gives the call that a request belongs to, or nil.
func flightOf(ctx context.Context) *flight {
	f, _ := ctx.Value(flightKey{}).(*flight)
	return f
}

// fly begins a call; the function returned ends it.
func (c *connection) fly(ctx context.Context, name string, timeout time.Duration) (*flight, func()) {
	now := time.Now()
	f := &flight{conn: c, tool: name, caller: tool.CallerFrom(ctx), timeout: timeout, began: now, until: now.Add(timeout),
		limit: now.Add(max(timeout, min(progressTimes*timeout, progressTime)))}
	inner, cancel := context.WithCancelCause(ctx)
	f.cancel = cancel
	f.ctx = context.WithValue(inner, flightKey{}, f)
	f.mu.Lock()
	defer f.mu.Unlock()
	c.mu.Lock()
	c.flown++
	f.token = fmt.Sprint("call-", c.flown)
	c.flights[f.token] = f
	c.mu.Unlock()
	f.timer = time.AfterFunc(timeout, f.expire)
	return f, func() {
		c.mu.Lock()
		delete(c.flights, f.token)
		c.mu.Unlock()
		f.timer.Stop()
		cancel(context.Canceled)
	}
}

// expire ends the call unless it was given time since the timer was set.
func (f *flight) expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	switch {
	case f.paused > 0:
	case now.Before(f.until):
		f.timer.Reset(f.until.Sub(now))
	default:
		after := f.timeout
		if took := now.Sub(f.began) - f.waited; took > 2*f.timeout {
			after = took.Round(time.Second)
		}
		f.cancel(noAnswer{after})
	}
}

// pause stops the call's time until resume.
func (f *flight) pause() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.paused++; f.paused == 1 {
		f.timer.Stop()
		f.since = time.Now()
	}
}

func (f *flight) resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.paused--; f.paused == 0 {
		waited := time.Since(f.since)
		f.waited += waited
		f.until, f.limit = f.until.Add(waited), f.limit.Add(waited)
		f.timer.Reset(time.Until(f.until))
	}
}

// may counts what the server asks for during the call, and reports whether it has
// not asked too often.
func (f *flight) may(most int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return f.asked <= most
}

// advanced takes a note on how far the call is.
func (f *flight) advanced(note string) {
	now := time.Now()
	f.mu.Lock()
	if more := now.Add(f.timeout); more.After(f.until) {
		f.until = more
		if more.After(f.limit) {
			f.until = f.limit
		}
	}
	tell := f.caller.Report != nil && note != "" && now.Sub(f.reported) >= reportGap
	if tell {
		f.reported = now
	}
	f.mu.Unlock()
	if tell {
		f.caller.Report(note)
	}
}

// progressed finds the call that a progress notification is about.
func (c *connection) progressed(fields map[string]any) {
	token, _ := fields["progressToken"].(string)
	c.mu.Lock()
	f := c.flights[token]
	c.mu.Unlock()
	if f != nil {
		f.advanced(progressNote(fields))
	}
}

// progressNote says in a few words how far a call is: 3 of 10: copying.
func progressNote(fields map[string]any) string {
	message, _ := fields["message"].(string)
	message = cut(plain(message), 150)
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

// logged writes a log notification of the server into its log.
func (c *connection) logged(fields map[string]any) {
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

// concerned are the calls that something the server sends may belong to: the one
// on whose stream it came, else all that are under way if they are in the same
// name. Nothing is the answer where that cannot be told.
func (c *connection) concerned(ctx context.Context) []*flight {
	if f := flightOf(ctx); f != nil {
		return []*flight{f}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*flight
	for _, f := range c.flights {
		if len(all) > 0 && (f.caller.User.ID != all[0].caller.User.ID || f.caller.Conversation != all[0].caller.Conversation) {
			return nil
		}
		all = append(all, f)
	}
	return all
}

// during gives a context for what is done on behalf of calls: it has the values of
// the first, and ends with the last of them, or with the connection.
func (c *connection) during(flights []*flight, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(flights[0].ctx), limit)
	stops := []func() bool{context.AfterFunc(c.life, cancel)}
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
