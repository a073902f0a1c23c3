package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"ravenbot/internal/ops/config"
)

// api returns a client of the running daemon or, where none runs, of a bot that is put together here over its store.
// The caller calls release once at the end, after closing all answers; it closes that store. release is nil when err is
// not.
func (c *invocation) api(ctx context.Context) (d *client, release func() error, err error) {
	cfg, err := c.loadConfig()
	if err != nil {
		return nil, nil, err
	}
	return c.apiOf(ctx, cfg)
}

// apiOf is api for a configuration that was loaded already.
func (c *invocation) apiOf(ctx context.Context, cfg *config.Config) (d *client, release func() error, err error) {
	d, err = findDaemon(ctx, cfg)
	// A daemon that refuses is an error: the store is open there and cannot be opened here.
	if !errors.Is(err, errNoDaemon) {
		return d, func() error { return nil }, err
	}
	a, err := openLocal(c, cfg)
	if err != nil {
		return nil, nil, err
	}
	// The handler asks for no token, because nobody but this process can call it.
	return &client{"http://localhost", "local", &http.Client{Transport: handlerTransport{a.API()}}}, a.Close, nil
}

// requestAPI makes a request to the running daemon or, where none runs, to a bot that is put together here. It reads
// the answer into out, unless that is nil. It opens and closes the store each time: a command that makes several
// requests uses api.
func (c *invocation) requestAPI(ctx context.Context, method, path string, body, out any) error {
	d, release, err := c.api(ctx)
	if err != nil {
		return err
	}
	res, err := d.do(ctx, method, path, body)
	if err != nil {
		return errors.Join(err, release())
	}
	if out != nil {
		err = json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(out)
	}
	// The request has to end before the store is closed.
	return errors.Join(err, res.Body.Close(), release())
}

// handlerTransport makes requests to a handler of this process.
type handlerTransport struct{ handler http.Handler }

// RoundTrip serves a request. It returns when the handler sends the status, and the answer can be read while the
// handler writes it. It returns the error of the request's context where that ends first, but not before the handler
// has returned.
func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	reader, writer := io.Pipe()
	w := &pipeWriter{header: http.Header{}, body: writer, begun: make(chan int, 1)}
	ctx, cancel := context.WithCancel(r.Context())
	served := r.Clone(ctx)
	served.RequestURI = r.URL.RequestURI()
	served.Host = r.URL.Host
	if served.Body == nil {
		served.Body = http.NoBody
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		defer func() {
			// A handler panics with ErrAbortHandler to say that its answer is not whole.
			if p := recover(); p != nil {
				w.WriteHeader(http.StatusInternalServerError)
				_ = writer.CloseWithError(io.ErrUnexpectedEOF) // as over the network; never fails
			}
		}()
		t.handler.ServeHTTP(w, served)
		w.WriteHeader(http.StatusOK) // where nothing was written
		_ = writer.Close()           // never fails
	}()
	select {
	case status := <-w.begun:
		return &http.Response{
			StatusCode: status,
			Status:     http.StatusText(status),
			Proto:      "HTTP/1.1",
			ProtoMajor: 1,
			ProtoMinor: 1,
			Header:     w.header,
			Body:       pipeBody{reader, cancel, done},
			Request:    r,
		}, nil
	case <-r.Context().Done():
		cancel()
		_ = reader.Close() // the handler's next write fails
		// The caller closes the store next, which the handler may still use.
		<-done
		return nil, r.Context().Err()
	}
}

// pipeBody is the body of an answer. Closing it ends the request, and waits until the handler has returned.
type pipeBody struct {
	*io.PipeReader
	cancel context.CancelFunc
	done   <-chan struct{}
}

// Close always waits for the handler, so that the store may be closed next.
func (b pipeBody) Close() error {
	b.cancel()
	err := b.PipeReader.Close()
	<-b.done
	return err
}

// pipeWriter is the ResponseWriter of a handlerTransport. It is used by the handler's goroutine alone; header passes to
// the client with the status.
type pipeWriter struct {
	header http.Header
	body   *io.PipeWriter
	begun  chan int // the status, once
	wrote  bool
}

func (w *pipeWriter) Header() http.Header { return w.header }

// WriteHeader sends the status to RoundTrip. Later calls do nothing.
func (w *pipeWriter) WriteHeader(status int) {
	if !w.wrote {
		w.wrote = true
		// A copy: the handler may still change the header, while the client reads it.
		w.header = w.header.Clone()
		w.begun <- status
	}
}

// Write waits until the client has read b, or has closed the body, and then returns an error.
func (w *pipeWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// SetWriteDeadline does nothing: the reader is this process.
func (*pipeWriter) SetWriteDeadline(time.Time) error { return nil }

// FlushError does nothing: what is written is read at once.
func (*pipeWriter) FlushError() error { return nil }
