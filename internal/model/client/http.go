package client

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

const dialTimeout = 10 * time.Second

var errRedirect = errors.New("it redirects")

// newHTTPClient returns a client for the API of a provider, with idle connections for many conversations. It follows no
// redirect, because Go would send keys in custom headers to any host.
func newHTTPClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	// Go's default of 30 s is longer than a first token may take, so that an unreachable provider would look slow.
	t.DialContext = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	t.MaxIdleConnsPerHost = 64
	// Closes a dead connection, for example after a suspend, before the first token is overdue. Otherwise the system
	// would keep it for a quarter of an hour.
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second}
	return &http.Client{Transport: t, CheckRedirect: func(next *http.Request, _ []*http.Request) error {
		return fmt.Errorf("%w to %s://%s, which is not followed: name the address of the API itself",
			errRedirect, next.URL.Scheme, next.URL.Host)
	}}
}
