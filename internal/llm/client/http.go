package client

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// ReadRetryAfter returns how long a provider asks for a pause by the header Retry-After, which is in seconds, perhaps with
// a fraction, or a date (RFC 9110, 10.2.3); 0: it does not say so.
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

// dialTimeout bounds how long it may take to connect to a provider.
const dialTimeout = 10 * time.Second

// errRedirect says that an endpoint redirects.
var errRedirect = errors.New("it redirects")

// newHTTPClient returns a client for the API of a provider, with enough idle connections for many conversations at once.
// It follows no redirect: Go would take the keys in headers of providers' own along to any host. It sets no time limit:
// the context of each request does.
func newHTTPClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	// Go's own 30 s are longer than a first token may take: a provider that a firewall keeps from being reached would be
	// taken for one that thinks.
	t.DialContext = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	t.MaxIdleConnsPerHost = 64
	t.WriteBufferSize = 16 << 10 // most requests in one write
	// A connection over which nothing comes back, as after the machine was suspended, is closed before the first token is
	// overdue: Go would send requests over it for as long as the system does, a quarter of an hour.
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second}
	return &http.Client{Transport: t, CheckRedirect: func(next *http.Request, _ []*http.Request) error {
		return fmt.Errorf("%w to %s://%s, which is not followed: name the address of the API itself",
			errRedirect, next.URL.Scheme, next.URL.Host)
	}}
}
