package admin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// maxBody is the largest request body in bytes, except for files.
	maxBody = 1 << 20
	// bodyTimeout is how long a client may take to send it.
	bodyTimeout = 30 * time.Second
)

// readBody reads the body of a request into memory, so that no handler waits for a slow client. It returns
// false when it has answered the request itself.
func readBody(w http.ResponseWriter, r *http.Request) bool {
	if r.ContentLength == 0 {
		return true
	}
	c := http.NewResponseController(w)
	// A ResponseWriter of a test may offer no deadline; then the size limit has to do.
	timed := c.SetReadDeadline(time.Now().Add(bodyTimeout)) == nil
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyLimit(r)))
	if timed {
		_ = c.SetReadDeadline(time.Time{}) // the connection may serve further requests
	}
	var large *http.MaxBytesError
	switch {
	case err == nil:
		r.Body = io.NopCloser(bytes.NewReader(body))
		return true
	case errors.As(err, &large):
		writeError(w, http.StatusRequestEntityTooLarge, "too_large",
			fmt.Sprintf("the request is larger than %d MiB", bodyLimit(r)>>20), "send less at once")
	default:
		writeError(w, http.StatusRequestTimeout, "timeout", "the request did not arrive as a whole", "try again")
	}
	return false
}
