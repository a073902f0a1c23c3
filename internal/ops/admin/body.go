package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"ravenbot/internal/core/resident"
)

const (
	// maxBody is the largest request body in bytes, except for files.
	maxBody = 1 << 20
	// bodyTimeout is how long a client may take to send maxBody bytes. Where more is allowed it may take a second longer
	// for each minRate bytes.
	bodyTimeout = 30 * time.Second
	minRate     = 64 << 10
)

// readBody reads the body of a request, of up to limit bytes, into memory, so that no handler waits for a slow client.
// It returns false when it has answered the request itself.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) bool {
	if r.ContentLength == 0 {
		return true
	}
	c := http.NewResponseController(w)
	// A ResponseWriter of a test may offer no deadline; then the size limit has to do.
	_ = c.SetReadDeadline(time.Now().Add(bodyTimeout + time.Duration((limit-maxBody)/minRate)*time.Second))
	var body bytes.Buffer
	if limit > maxBody { // never for somebody who has not signed in
		body.Grow(int(min(max(r.ContentLength, 0), limit)) + bytes.MinRead)
	}
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	var large *http.MaxBytesError
	switch {
	case err == nil:
		r.Body = io.NopCloser(&body)
		w.Header().Del("Connection")
		endReading(w, r)
		return true
	case errors.As(err, &large):
		writeError(w, http.StatusRequestEntityTooLarge, "too_large",
			fmt.Sprintf("the request is larger than %d MiB", limit>>20), "send less at once")
	default:
		writeError(w, http.StatusRequestTimeout, "timeout", "the request did not arrive as a whole", "try again")
	}
	return false
}

const (
	// maxArriving is how many bytes of large bodies arrive at the same time, where memory is not limited.
	maxArriving = 34 << 20
	// bodyMemory is how many bytes of memory a large body takes for each of its own, besides these, from when it has
	// arrived until its content is stored: bbolt writes a large record together with up to three before it (node.split of
	// v1.5; measured 2026-11-27 with files of the web chat).
	bodyMemory = 8
	// bodyWait is how long a request with a large body waits for memory.
	bodyWait = 20 * time.Second
)

// receive is readBody with the limit of bodyLimit, or a sixth of FileMemory where that is less: FileMemory is half of
// the memory, so that bodyMemory is two thirds of all. A body of more than maxBody waits until there is memory for it and
// for storing its content, and holds this memory until release is called. A slow client holds up other large bodies only.
func (s *Server) receive(w http.ResponseWriter, r *http.Request) (release func(), ok bool) {
	limit := min(s.bodyLimit(r), max(maxBody, s.o.FileMemory.Size()/6))
	size := r.ContentLength
	if size < 0 || size > limit {
		size = limit
	}
	if size <= maxBody {
		return func() {}, readBody(w, r, limit)
	}
	arrived, ok := awaitMemory(w, r, s.arriving, size)
	if !ok {
		return nil, false
	}
	if readBody(w, r, limit) {
		if stored, ok := awaitMemory(w, r, s.o.FileMemory, bodyMemory*size); ok {
			return func() { stored(); arrived() }, true
		}
	}
	arrived()
	return nil, false
}

// awaitMemory takes memory for a request. It returns false when it has answered the request itself.
func awaitMemory(w http.ResponseWriter, r *http.Request, p *resident.Pool, bytes int64) (release func(), ok bool) {
	ctx, cancel := context.WithTimeout(r.Context(), bodyWait)
	defer cancel()
	release, err := p.Take(ctx, bytes)
	if err != nil {
		writeError(w, http.StatusServiceUnavailable, "busy", "too many files come at the same time", "try again in a moment")
		return nil, false
	}
	return release, true
}

// bodyLimit returns the largest body of a request to the pages and the API, in bytes.
func (s *Server) bodyLimit(r *http.Request) int64 {
	path := strings.TrimPrefix(r.URL.Path, "/api/v1")
	if r.Method == http.MethodPost && strings.HasPrefix(path, "/agents/") && strings.HasSuffix(path, "/files") {
		return MaxFile + 64<<10 // with what multipart adds
	}
	if path == "/import" {
		return maxImport
	}
	if strings.HasPrefix(path, "/chat/") {
		return max(s.o.ChatBody, maxBody)
	}
	return maxBody
}

// limitReading prepares a request so that its connection is not kept by a body that nobody reads: a probe or a refused
// request is answered at once, and the connection is closed behind it. Call the function that it returns after the
// answer.
func limitReading(w http.ResponseWriter, r *http.Request) (finish func()) {
	if r.ContentLength == 0 {
		endReading(w, r)
		return func() {}
	}
	sent := r.Body
	// Without this header net/http waits for the rest of the body before it answers. readBody removes it.
	w.Header().Set("Connection", "close")
	return func() {
		if r.Body == sent {
			// net/http reads a rest of up to 256 KiB behind the answer, too.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now())
		}
	}
}

// endReading is called when a request has arrived as a whole. The deadline has to go: net/http reads ahead while an
// answer is streamed, and would cancel the request when the deadline passes.
func endReading(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	keepConnection(r)
}
