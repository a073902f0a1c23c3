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

// sseTransport is the older HTTP transport (2024-11-05): the server sends events on one stream, and receives messages
// at the endpoint that the first event names. The connection ends with the stream.
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

func newSSE(at *url.URL, client *http.Client, logs *logBuffer) *sseTransport {
	s := &sseTransport{url: at, client: client, endpointKnown: make(chan struct{}), cancel: func() {}}
	s.rpcConn = newRPCConn(func(m []byte) { logs.add("stdout", m) })
	s.send = s.post
	return s
}

// Start opens the stream and waits until the server names its endpoint. ctx limits only the start.
func (s *sseTransport) Start(ctx context.Context) error {
	// The end of ctx cancels the request only during Start.
	long, end := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = end
	release := context.AfterFunc(ctx, end)
	defer release()
	resp, err := s.at(s.url).open(long)
	if err != nil {
		return err
	}
	s.work.Go(func() {
		defer resp.Body.Close()
		s.fail(fmt.Errorf("the event stream ended: %w", readEvents(resp.Body, s.handleEvent)))
	})
	select {
	case <-s.endpointKnown:
		return nil
	case <-s.done:
		return s.lossReason()
	case <-ctx.Done():
		return errors.New("open the event stream: the server did not name its endpoint in time")
	}
}

// httpPoster exchanges messages over HTTP without the library, which cannot answer a request late or cancel one (mcp-go
// v1.2.1, 2026-11).
type httpPoster struct {
	endpoint string
	client   *http.Client
	header   func() http.Header
}

func (p httpPoster) send(ctx context.Context, method, accept string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, p.endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = p.header()
	r.Header.Set("Accept", accept)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return p.client.Do(r)
}

// open opens a stream of events. The error is a *url.Error unless the server has answered.
func (p httpPoster) open(ctx context.Context) (*http.Response, error) {
	resp, err := p.send(ctx, http.MethodGet, "text/event-stream", nil)
	if err != nil {
		return nil, fmt.Errorf("open the event stream: %w", err)
	}
	err = checkStatus(resp.StatusCode)
	said := resp.Header.Get("Content-Type")
	if kind, _, _ := mime.ParseMediaType(said); err == nil && kind != "text/event-stream" {
		err = fmt.Errorf("the answer is %.60q and no event stream", said)
	}
	if err != nil {
		resp.Body.Close()
		return nil, fmt.Errorf("open the event stream: %w", err)
	}
	return resp, nil
}

// post sends one message. It returns an error unless the server accepts it.
func (p httpPoster) post(ctx context.Context, message []byte) error {
	resp, err := p.send(ctx, http.MethodPost, "application/json, text/event-stream", message)
	if err != nil {
		return fmt.Errorf("send a message: %w", err)
	}
	defer resp.Body.Close()
	// Read to the end, so that the connection can be used again.
	if _, err := io.CopyN(io.Discard, resp.Body, 64<<10); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("send a message: %w", err)
	}
	return checkStatus(resp.StatusCode)
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

func checkStatus(status int) error {
	if status >= 200 && status < 300 {
		return nil
	}
	return statusError(status)
}

// readEvents calls handle for each event until the stream ends or handle fails. It returns the error.
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

// handleEvent handles an event: the endpoint, once, and then messages. It fails for an endpoint at another origin.
func (s *sseTransport) handleEvent(name string, data []byte) error {
	switch {
	case len(data) == 0:
	case name == "endpoint":
		if s.endpoint.Load() != nil {
			return nil // a server must not redirect later messages elsewhere
		}
		at, err := s.url.Parse(string(data))
		if err != nil || !isSameOrigin(at, s.url) {
			return errors.New("the server named an endpoint on another host, which must not get the configured headers")
		}
		s.endpoint.Store(at)
		close(s.endpointKnown)
	case name == "message" || name == "":
		s.receive(data)
	}
	return nil
}

func (s *sseTransport) post(ctx context.Context, message []byte) error {
	at := s.endpoint.Load()
	if at == nil {
		return errors.New("the server has not named its endpoint")
	}
	return s.at(at).post(ctx, message)
}

func (s *sseTransport) at(address *url.URL) httpPoster {
	return httpPoster{address.String(), s.client, func() http.Header {
		h := http.Header{}
		if version, _ := s.protocol.Load().(string); version != "" {
			h.Set("Mcp-Protocol-Version", version)
		}
		return h
	}}
}

// SetProtocolVersion sets the version for the headers of further requests.
func (s *sseTransport) SetProtocolVersion(version string) { s.protocol.Store(version) }

// Close ends the stream and waits for its reader.
func (s *sseTransport) Close() error {
	s.fail(errors.New("closed"))
	s.cancel()
	s.work.Wait()
	return nil
}
