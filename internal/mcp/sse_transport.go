package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
)

// maxEndpoint is the longest address that a server may name, in bytes.
const maxEndpoint = 8 << 10

// sseTransport is the older HTTP transport (2024-11-05): the server's messages come as events of
// one stream, each of ours is a POST to the endpoint that the first event names. It does not
// connect again: when the stream ends, the connection is lost, and server.run makes another one.
type sseTransport struct {
	*rpcConn
	url    *url.URL
	client *http.Client

	protocol      atomic.Value // string: the version in use
	endpoint      atomic.Pointer[url.URL]
	endpointKnown chan struct{}      // closed when the endpoint is known
	cancel        context.CancelFunc // ends the stream
	work          sync.WaitGroup
}

// newSSE returns a transport for server-sent events that is not connected yet.
func newSSE(at *url.URL, client *http.Client, logs *logBuffer) *sseTransport {
	s := &sseTransport{url: at, client: client, endpointKnown: make(chan struct{}), cancel: func() {}}
	s.rpcConn = newRPCConn(func(m []byte) { logs.add("stdout", m) })
	s.send = s.post
	return s
}

// Start opens the stream and waits until the server has named its endpoint. ctx limits
// only this; the stream lasts until Close.
func (s *sseTransport) Start(ctx context.Context) error {
	// While Start runs, the end of ctx cancels the request as well.
	long, end := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = end
	release := context.AfterFunc(ctx, end)
	defer release()
	r, err := http.NewRequestWithContext(long, http.MethodGet, s.url.String(), nil)
	if err != nil {
		return fmt.Errorf("open the event stream: %w", err)
	}
	r.Header.Set("Accept", "text/event-stream")
	resp, err := s.client.Do(r)
	if err != nil {
		return fmt.Errorf("open the event stream: %w", err)
	}
	if err := checkEventStream(resp); err != nil {
		resp.Body.Close()
		return fmt.Errorf("open the event stream: %w", err)
	}
	s.work.Go(func() { s.readStream(resp.Body) })
	select {
	case <-s.endpointKnown:
		return nil
	case <-s.done:
		return s.lossReason()
	case <-ctx.Done():
		return errors.New("open the event stream: the server did not name its endpoint in time")
	}
}

// checkEventStream returns what is wrong with a response that should be an event stream.
func checkEventStream(resp *http.Response) error {
	if err := checkStatus(resp.StatusCode); err != nil {
		return err
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "text/event-stream" {
		return fmt.Errorf("the answer is %.60q and no event stream", resp.Header.Get("Content-Type"))
	}
	return nil
}

// statusError is an HTTP status other than success.
type statusError int

// Error returns the status in words, with a remedy where the credentials were refused.
func (e statusError) Error() string {
	switch e {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Sprintf("the server refused the credentials (HTTP %d): check headers", int(e))
	}
	return fmt.Sprintf("the server answered HTTP %d %s", int(e), http.StatusText(int(e)))
}

// checkStatus returns a statusError unless the status is one of success.
func checkStatus(status int) error {
	if status >= 200 && status < 300 {
		return nil
	}
	return statusError(status)
}

// readStream handles events until the stream ends.
func (s *sseTransport) readStream(body io.ReadCloser) {
	defer body.Close()
	s.fail(fmt.Errorf("the event stream ended: %w", readEvents(body, s.handleEvent)))
}

// readEvents calls handle for each event of a stream until the stream ends or handle fails,
// and returns the error.
func readEvents(stream io.Reader, handle func(name string, data []byte) error) error {
	lines := lineReader{r: bufio.NewReaderSize(stream, 64<<10), max: maxMessageBytes}
	var event string
	var data []byte
	for {
		line, err := lines.next()
		if err != nil {
			return err
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0: // ends the event
			if err := handle(event, data); err != nil {
				return err
			}
			event, data = "", nil
		case string(name) == "event":
			event = string(value)
		case string(name) == "data":
			if len(data) > 0 {
				data = append(data, '\n')
			}
			if data = append(data, value...); len(data) > maxMessageBytes {
				return errTooLong
			}
		}
	}
}

// handleEvent takes one event of the stream: the endpoint to which messages are posted, once, and then messages. It
// fails for an endpoint at another origin.
func (s *sseTransport) handleEvent(name string, data []byte) error {
	switch {
	case len(data) == 0:
	case name == "endpoint":
		if s.endpoint.Load() != nil {
			return nil // a server must not redirect later messages elsewhere
		}
		// Checked before parsing: the address is kept for the life of the connection.
		if len(data) > maxEndpoint {
			return errors.New("the server named too long an endpoint")
		}
		at, err := s.url.Parse(string(data))
		if err != nil || !isSameOrigin(at, s.url) {
			return errors.New("the server named an endpoint on another host: refused, " +
				"since the configured headers would go there")
		}
		s.endpoint.Store(at)
		close(s.endpointKnown)
	case name == "message" || name == "":
		s.receive(data)
	}
	return nil
}

// post sends one message. Responses come on the stream.
func (s *sseTransport) post(ctx context.Context, message []byte) error {
	at := s.endpoint.Load()
	if at == nil {
		return errors.New("the server has not named its endpoint")
	}
	return httpPoster{at.String(), s.client, func() http.Header {
		h := http.Header{}
		if version, _ := s.protocol.Load().(string); version != "" {
			h.Set("Mcp-Protocol-Version", version)
		}
		return h
	}}.post(ctx, message)
}

// checkPosted returns nil if a server has accepted a message.
func checkPosted(resp *http.Response, err error) error {
	if err != nil {
		return fmt.Errorf("send a message: %w", err)
	}
	defer resp.Body.Close()
	// Reading the short body to its end lets the connection be used again.
	if _, err := io.CopyN(io.Discard, resp.Body, 64<<10); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("send a message: %w", err)
	}
	return checkStatus(resp.StatusCode)
}

// SetProtocolVersion sets the version that further requests name in their header.
func (s *sseTransport) SetProtocolVersion(version string) { s.protocol.Store(version) }

// Close ends the stream, and returns when its reader and the answers under way have ended.
func (s *sseTransport) Close() error {
	s.fail(errors.New("closed"))
	s.cancel()
	s.work.Wait()
	s.answers.Wait()
	return nil
}
