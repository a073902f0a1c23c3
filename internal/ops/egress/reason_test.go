package egress

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// Each cause has words of its own, and none of them names an address inside of the network.
func TestReason_TellsCausesApart(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	g, err := New(Options{AllowPrivateHosts: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	_, refused := g.Get(t.Context(), closed.URL, GetOptions{})
	for want, err := range map[string]error{
		"refuses the connection": refused,
		"no such host":           &url.Error{Op: "Get", Err: &net.DNSError{Name: "a.example", IsNotFound: true}},
		"could not be looked up": &net.DNSError{Name: "a.example", IsTimeout: true},
		"unknown authority":      fmt.Errorf("get: %w", x509.UnknownAuthorityError{}),
		"another name":           x509.HostnameError{Certificate: &x509.Certificate{}},
		"closed the connection":  &url.Error{Op: "Get", Err: io.EOF},
		"the connection failed":  &url.Error{Op: "Get", URL: "http://10.1.2.3/", Err: errors.New("10.1.2.3 is odd")},
	} {
		if got := Reason(err); !strings.Contains(got, want) || strings.Contains(got, "10.1") || strings.Contains(got, "127.0") {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	if got := Reason(errors.New("malformed")); got != "" {
		t.Errorf("an error that is none of the connection: %q", got)
	}
}
