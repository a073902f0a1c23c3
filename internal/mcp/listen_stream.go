package mcp

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
)

// openListenStream opens the GET stream on which a Streamable HTTP server of the older protocol sends notifications and
// requests, and opens it again when it ends. The library would try once a second for ever, even if the server refuses
// (mcp-go v1.2.1, 2026-11). It returns when the stream is open or refused, or after listenOpenTimeout.
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
		defer reportTry() // also after an error: the connection does not wait for it
		return readListenStream(ctx, poster, stream, reportTry)
	})
	// A notification sent before the stream is open would be lost.
	select {
	case <-tried:
	case <-time.After(listenOpenTimeout):
	}
}

// keepOpen calls reopenUntilRefused in the background until the connection is closed.
func (c *connection) keepOpen(once func(context.Context) (refused bool)) {
	c.runInBackground(func(ctx context.Context) { reopenUntilRefused(ctx, once) })
}

// listenOpenTimeout bounds the wait for the stream. It is short because some servers send the response header only with
// their first message.
const listenOpenTimeout = 300 * time.Millisecond

// reopenUntilRefused opens a stream again whenever it ends, with growing delays, until it is refused or ctx ends.
func reopenUntilRefused(ctx context.Context, once func(context.Context) (refused bool)) {
	for wait := firstDelay; ; wait = min(2*wait, maxDelay) {
		opened := time.Now()
		if once(ctx) {
			return
		}
		// Servers and proxies end idle streams.
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

// readListenStream opens the stream and reads it to its end. It returns true if the server refuses: it does not offer
// the stream, or has forgotten the session.
func readListenStream(ctx context.Context, poster httpPoster, stream *rpcConn, opened func()) (refused bool) {
	resp, err := poster.open(ctx)
	if err != nil {
		return !errors.As(err, new(*url.Error))
	}
	defer resp.Body.Close()
	opened()
	// Servers may end the stream at any time, so its error means nothing.
	_ = readEvents(resp.Body, func(_ string, data []byte) error {
		stream.receive(data)
		return nil
	})
	return false
}
