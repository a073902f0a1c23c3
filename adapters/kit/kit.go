// Package kit holds the parts that all adapters of chat platforms share: a memory of recent keys, shared look-ups,
// queues that keep the order within a place, the rate of requests, and the schedule of catching up.
//
// It promises that its memory does not grow with the number of channels or people, and that every wait ends with its
// context. It knows no platform: contents, identifiers and final errors belong to the adapters.
package kit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"ravenbot/internal/core/chat"
)

// Sleep pauses for a time. It reports whether ctx lasted that long.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Wake leaves a token in a channel with room for one, unless there is one already.
func Wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// NoRedirect is an http.Client's CheckRedirect that follows none: a token and a message are
// for the address that was configured.
func NoRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// RequestContext returns the context of one request on behalf of ctx: it ends after limit, or with ctx, unless that ended
// with chat.ErrSuperseded. The function must be called when the answer was read.
func RequestContext(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	end := time.Now().Add(limit)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	request, cancel := context.WithDeadline(context.WithoutCancel(ctx), end)
	unfollow := context.AfterFunc(ctx, func() {
		if !errors.Is(context.Cause(ctx), chat.ErrSuperseded) {
			cancel()
		}
	})
	return request, func() {
		unfollow()
		cancel()
	}
}

// IsUnsent reports whether a request failed before there was a connection to send it on, or permission to send it was
// gone, so that the other side cannot have acted on it.
func IsUnsent(err error) bool {
	var failed *net.OpError
	var refused *notPermittedError
	return errors.As(err, &failed) && failed.Op == "dial" || errors.As(err, &refused)
}

// TooLargeError says that a body has more bytes than are allowed.
type TooLargeError struct{ Limit int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("it is larger than the %d bytes that are allowed", e.Limit)
}

// ReadLimited reads a body to its end. It returns a *TooLargeError where that has more than
// limit bytes.
func ReadLimited(body io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, &TooLargeError{Limit: limit}
	}
	return data, nil
}
