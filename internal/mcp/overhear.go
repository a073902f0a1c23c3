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
// also where the server refuses. The function returned ends it.
func overhear(by courier, conn *connection) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	o := &overheard{by: by, duplex: newDuplex(func([]byte) {})}
	o.send, o.handle = by.post, conn.answer
	o.SetNotificationHandler(conn.notified)
	var wg sync.WaitGroup
	wg.Go(func() { o.run(ctx) })
	return func() {
		o.lose(errors.New("closed"))
		cancel()
		wg.Wait()
		o.answers.Wait()
	}
}

type overheard struct {
	*duplex
	by courier
}

// run stops at the first refusal: the server does not offer the stream, or has
// forgotten the session, which the next request will show.
func (o *overheard) run(ctx context.Context) {
	for wait := firstDelay; ; wait = min(2*wait, maxDelay) {
		opened := time.Now()
		if o.once(ctx) {
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

func (o *overheard) once(ctx context.Context) (refused bool) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, o.by.at, nil)
	if err != nil {
		return true
	}
	r.Header = o.by.header()
	r.Header.Set("Accept", "text/event-stream")
	resp, err := o.by.client.Do(r)
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
