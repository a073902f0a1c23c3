package mcp

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// overhear opens the stream on which a Streamable HTTP server of the older
// protocol says what nobody asked for, above all that its tools have changed, and
// opens it again when it ends. The library would do so once a second for ever,
// also where the server refuses. It returns when the stream is open or refused, or
// soon, so that nothing said from then on is missed. The function returned ends it.
func overhear(by courier, conn *connection) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	tried := make(chan struct{})
	o := &overheard{by: by, duplex: newDuplex(func([]byte) {}), tried: sync.OnceFunc(func() { close(tried) })}
	o.send, o.handle = by.post, conn.answer
	o.SetNotificationHandler(conn.notified)
	var wg sync.WaitGroup
	wg.Go(func() { reopened(ctx, o.once) })
	timer := time.NewTimer(openTime)
	defer timer.Stop()
	select {
	case <-tried:
	case <-timer.C:
	}
	return func() {
		o.lose(errors.New("closed"))
		cancel()
		wg.Wait()
		o.answers.Wait()
	}
}

// openTime is how long a connection waits for its stream. Some servers send no
// header of it before they have something to say.
const openTime = 300 * time.Millisecond

type overheard struct {
	*duplex
	by    courier
	tried func() // to be called when the first attempt has an answer
}

// reopened opens a stream again whenever it ends, with growing delays, until it is
// refused or ctx ends.
func reopened(ctx context.Context, once func(context.Context) (refused bool)) {
	for wait := firstDelay; ; wait = min(2*wait, maxDelay) {
		opened := time.Now()
		if once(ctx) {
			return
		}
		if time.Since(opened) > steady {
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

// once reads the stream to its end. A refusal means that the server does not offer
// it, or has forgotten the session, which the next request will show.
func (o *overheard) once(ctx context.Context) (refused bool) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, o.by.at, nil)
	if err != nil {
		return true
	}
	r.Header = o.by.header()
	r.Header.Set("Accept", "text/event-stream")
	resp, err := o.by.client.Do(r)
	o.tried()
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	if isStream(resp) != nil {
		return true
	}
	_ = readEvents(resp.Body, func(_ string, data []byte) error { // its end is no fault
		o.receive(data)
		return nil
	})
	return false
}
