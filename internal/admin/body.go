package admin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
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
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var large *http.MaxBytesError
	switch {
	case err == nil:
		r.Body = io.NopCloser(bytes.NewReader(body))
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
