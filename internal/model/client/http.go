package client

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// dialTimeout bounds how long it may take to connect to a provider.
const dialTimeout = 10 * time.Second

// errRedirect says that an endpoint redirects.
var errRedirect = errors.New("it redirects")

// newHTTPClient returns a client for the API of a provider, with enough idle connections for many conversations at
// once. It follows no redirect: Go would take the keys in headers of providers' own along to any host. It sets no time
// limit: the context of each request does.
func newHTTPClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	// Go's own 30 s are longer than a first token may take: a provider that a firewall keeps from being reached would
	// be taken for one that thinks.
	t.DialContext = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	t.MaxIdleConnsPerHost = 64
	// A connection over which nothing comes back, as after the machine was suspended, is closed before the first token
	// is overdue: Go would send requests over it for as long as the system does, a quarter of an hour.
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second}
	return &http.Client{Transport: t, CheckRedirect: func(next *http.Request, _ []*http.Request) error {
		return fmt.Errorf("%w to %s://%s, which is not followed: name the address of the API itself",
			errRedirect, next.URL.Scheme, next.URL.Host)
	}}
}
