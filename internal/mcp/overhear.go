package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
)

// overhear opens the stream on which a Streamable HTTP server of the older
// protocol says what nobody asked for, above all that its tools have changed, and
// opens it again when it ends. The library would do so once a second for ever,
// also where the server refuses. It returns when the stream is open or refused, or
// soon, so that nothing said from then on is missed. The function returned ends it.
func overhear(at string, client *http.Client, conn *connection, t *tap) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	tried := make(chan struct{})
	o := &overheard{at: at, client: client, header: http.Header{}, tried: sync.OnceFunc(func() { close(tried) })}
	o.header.Set(transport.HeaderKeyProtocolVersion, conn.about.protocol)
	if session := t.GetSessionId(); session != "" {
		o.header.Set(transport.HeaderKeySessionID, session)
	}
	o.duplex = newDuplex(func([]byte) {})
	o.send = o.post
	o.SetNotificationHandler(conn.notified)
	t.mu.Lock()
	o.SetRequestHandler(t.asked)
	t.mu.Unlock()
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
	at     string
	client *http.Client
	header http.Header
	tried  func() // to be called when the first attempt has an answer
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
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, o.at, nil)
	if err != nil {
		return true
	}
	r.Header = o.header.Clone()
	r.Header.Set("Accept", "text/event-stream")
	resp, err := o.client.Do(r)
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

// post sends the answer to a request that came on the stream.
func (o *overheard) post(ctx context.Context, message []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, o.at, bytes.NewReader(message))
	if err != nil {
		return fmt.Errorf("send a message: %w", err)
	}
	r.Header = o.header.Clone()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	return posted(o.client.Do(r))
}
