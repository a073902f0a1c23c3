package mcp

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
)

// openListenStream opens the GET stream on which a Streamable HTTP server of the older protocol sends its notifications
// and requests, above all that its tools have changed, and opens it again when it ends. The library would try once a
// second for ever, also where the server refuses (mcp-go v1.2.1, 2026-11). openListenStream returns when the stream is
// open or refused, or after listenOpenTimeout.
func openListenStream(poster httpPoster, conn *connection) {
	tried := make(chan struct{})
	reportTry := sync.OnceFunc(func() { close(tried) })
	stream := newRPCConn(func([]byte) {})
	stream.send = poster.post
	stream.onRequest = func(r transport.JSONRPCRequest, reply func(context.Context, []byte) error) {
		conn.answerFor(nil, r, reply)
	}
	stream.SetNotificationHandler(conn.handleNotification)
	conn.keepOpen(func(ctx context.Context) (refused bool) {
		defer reportTry() // also after an error: the connection need not wait for a stream that does not come
		return readListenStream(ctx, poster, stream, reportTry)
	})
	// A notification sent before the stream is open would be lost.
	select {
	case <-tried:
	case <-time.After(listenOpenTimeout):
	}
}

// keepOpen opens a stream in the background, again and again as reopenUntilRefused does, until the connection is closed.
func (c *connection) keepOpen(once func(context.Context) (refused bool)) {
	c.runInBackground(func(ctx context.Context) { reopenUntilRefused(ctx, once) })
}

// listenOpenTimeout is how long a connection waits for its stream, so that it misses no notification. It is short
// because some servers send the response header only with their first message.
const listenOpenTimeout = 300 * time.Millisecond

// reopenUntilRefused opens a stream again whenever it ends, with growing delays, until it is refused or ctx ends.
func reopenUntilRefused(ctx context.Context, once func(context.Context) (refused bool)) {
	for wait := firstDelay; ; wait = min(2*wait, maxDelay) {
		opened := time.Now()
		if once(ctx) {
			return
		}
		// Servers and proxies end idle streams; one that lasted is no failure.
		if time.Since(opened) > steadyAfter {
			wait = firstDelay
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// readListenStream opens the stream and reads it to its end. It reports true where the server refuses: it does not
// offer the stream, or has forgotten the session, which the next request will show.
func readListenStream(ctx context.Context, poster httpPoster, stream *rpcConn, opened func()) (refused bool) {
	resp, err := poster.open(ctx)
	if err != nil {
		return !errors.As(err, new(*url.Error))
	}
	defer resp.Body.Close()
	opened()
	// Servers may end the stream at any time: its error carries no news.
	_ = readEvents(resp.Body, func(_ string, data []byte) error {
		stream.receive(data)
		return nil
	})
	return false
}
