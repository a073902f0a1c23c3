package kit

import (
	"net/http"
	"time"
)

// NewTransport returns the transport for the API of a platform, which keeps a number of idle connections. A connection
// of HTTP/2 over which nothing comes back, as after the machine was suspended or its address has changed, is closed: Go
// would send requests over it for as long as the system does, a quarter of an hour.
func NewTransport(maxIdle int) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = maxIdle
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second}
	return t
}
