package llm

import (
	"fmt"
	"net/http"
)

// HTTPClient returns a client for the API of a provider, with enough idle connections for many conversations at once.
// It follows no redirect: Go would take the keys in headers of providers' own along to any host. It sets no time limit:
// the context of each request does.
func HTTPClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 64
	t.WriteBufferSize = 16 << 10 // most requests in one write
	return &http.Client{Transport: t, CheckRedirect: func(next *http.Request, _ []*http.Request) error {
		return fmt.Errorf("it redirects to %s://%s, which is not followed: name the address of the API itself",
			next.URL.Scheme, next.URL.Host)
	}}
}
