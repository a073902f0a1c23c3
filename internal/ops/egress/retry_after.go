package egress

import (
	"net/http"
	"strconv"
	"time"
)

// ReadRetryAfter returns how long the header Retry-After asks to wait. Its value is in seconds, perhaps with a fraction,
// or a date (RFC 9110, 10.2.3). ReadRetryAfter returns 0 if there is no such header or value.
func ReadRetryAfter(h http.Header) time.Duration {
	said := h.Get("Retry-After")
	// The upper bound keeps the product within a Duration.
	if s, err := strconv.ParseFloat(said, 64); err == nil && s > 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(said); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}
