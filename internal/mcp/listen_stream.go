package mcp

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// openListenStream opens the stream on which a Streamable HTTP server of the older
// protocol says what nobody asked for, above all that its tools have changed, and
// opens it again when it ends. The library would do so once a second for ever,
// also where the server refuses. It returns when the stream is open or refused, or
// soon, so that nothing said from then on is missed. The function returned ends it.
func openListenStream(by httpPoster, conn *connection) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	tried := make(chan struct{})
	o := &listenStream{poster: by, rpcConn: newRPCConn(func([]byte) {}), onFirstAnswer: sync.OnceFunc(func() { close(tried) })}
	o.send, o.onRequest = by.post, conn.answerRequest
	o.SetNotificationHandler(conn.handleNotification)
	var wg sync.WaitGroup
	wg.Go(func() { reopenUntilRefused(ctx, o.readOnce) })
	timer := time.NewTimer(listenOpenTimeout)
	defer timer.Stop()
	select {
	case <-tried:
	case <-timer.C:
	}
	return func() {
		o.fail(errors.New("closed"))
		cancel()
		wg.Wait()
		o.answers.Wait()
	}
}

// listenOpenTimeout is how long a connection waits for its stream. Some servers send no
// header of it before they have something to say.
const listenOpenTimeout = 300 * time.Millisecond

type listenStream struct {
	*rpcConn
	poster        httpPoster
	onFirstAnswer func() // to be called when the first attempt has an answer
}

// reopenUntilRefused opens a stream again whenever it ends, with growing delays, until it is
// refused or ctx ends.
func reopenUntilRefused(ctx context.Context, once func(context.Context) (refused bool)) {
	for wait := firstDelay; ; wait = min(2*wait, maxDelay) {
		opened := time.Now()
		if once(ctx) {
			return
		}
		if time.Since(opened) > steadyAfter {
			wait = firstDelay
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// readOnce reads the stream to its end. A refusal means that the server does not offer
// it, or has forgotten the session, which the next request will show.
func (o *listenStream) readOnce(ctx context.Context) (refused bool) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, o.poster.endpoint, nil)
	if err != nil {
		return true
	}
	r.Header = o.poster.header()
	r.Header.Set("Accept", "text/event-stream")
	resp, err := o.poster.client.Do(r)
	o.onFirstAnswer()
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	if checkEventStream(resp) != nil {
		return true
	}
	_ = readEvents(resp.Body, func(_ string, data []byte) error { // its end is no fault
		o.receive(data)
		return nil
	})
	return false
}
