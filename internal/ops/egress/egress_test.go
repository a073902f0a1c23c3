package egress

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// names answers each host with its list of addresses in turn.
type names struct {
	answers map[string][]string
	asked   atomic.Int64
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	list := n.answers[strings.ToLower(host)]
	if len(list) == 0 {
		return nil, fmt.Errorf("no such host %s", host)
	}
	return []netip.Addr{netip.MustParseAddr(list[int(n.asked.Add(1)-1)%len(list)])}, nil
}

func newClient(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdle)
	return c
}

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func hostPort(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }

func TestPrivateAddressesAreRefused(t *testing.T) {
	var reached atomic.Int64
	server := serve(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	_, port, err := net.SplitHostPort(hostPort(server))
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, Options{Resolver: &names{answers: map[string][]string{
		"inside.example": {"127.0.0.1"}, "localhost": {"127.0.0.1"}, "mapped.example": {"::ffff:127.0.0.1"},
		"nat64.example": {"64:ff9b::7f00:1"}, "sixtofour.example": {"2002:7f00:1::"},
	}}})
	for _, host := range []string{
		"127.0.0.1", "127.8.9.1", "0.0.0.0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]",
		"[64:ff9b::7f00:1]", "[64:ff9b:1::1]", "[2002:7f00:1::]", "[2001::1]", "[fd00:ec2::254]", "[fe80::1]",
		"localhost", "inside.example", "INSIDE.example", "mapped.example", "nat64.example", "sixtofour.example",
		"10.0.0.1", "100.64.0.1", "100.100.100.200", "169.254.169.254", "172.31.255.255", "192.0.0.192", "192.168.1.1",
		"198.18.0.1", "203.0.113.9", "224.0.0.1", "255.255.255.255", "168.63.129.16", "[3fff::1]", "[5f00::1]", "[ff02::1]",
	} {
		_, err := c.Get(t.Context(), "http://"+host+":"+port+"/", GetOptions{})
		if !errors.Is(err, ErrBlocked) {
			t.Errorf("%s: error %v, want ErrBlocked", host, err)
		}
	}
	if reached.Load() != 0 {
		t.Errorf("the server was reached %d times", reached.Load())
	}
}

func TestOddURLsAreRefused(t *testing.T) {
	c := newClient(t, Options{})
	for _, u := range []string{
		"file:///etc/passwd", "gopher://127.0.0.1/", "ftp://example.com/", "//example.com/", "example.com", "",
		"http://", "http://:80/",
		"http://user:secret@example.com/", "http://127.1/", "http://0x7f000001/", "http://0x7f.0.0.0x1/",
		"http://2130706433/",
		"http://0177.0.0.1/", "http://017700000001/", "http://127.0.0.01/", "http://1.2.3.4.5/", "http://[fe80::1%25eth0]/",
		"http://exa mple/",
	} {
		_, err := c.Get(t.Context(), u, GetOptions{Timeout: time.Second})
		if !errors.Is(err, ErrURL) {
			t.Errorf("%q: error %v, want ErrURL", u, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error tells the password: %v", u, err)
		}
	}
}

var errNotDialled = errors.New("test does not leave the machine")

// TestRebinding answers with a public and a private address in turn: not one
// connection to the private one may be begun.
func TestRebinding(t *testing.T) {
	c := newClient(t, Options{Resolver: &names{answers: map[string][]string{
		"flip.example": {"93.184.215.14", "127.0.0.1", "2606:4700::1", "::ffff:10.0.0.1", "169.254.169.254"},
	}}})
	var private, public int
	c.guard.dialer.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		if isPublic(netip.MustParseAddrPort(address).Addr()) {
			public++
		} else {
			private++
		}
		return errNotDialled
	}
	for range 1000 {
		_, err := c.Get(t.Context(), "http://flip.example/", GetOptions{})
		if !errors.Is(err, ErrBlocked) && !errors.Is(err, errNotDialled) {
			t.Fatalf("error %v", err)
		}
	}
	if private != 0 || public != 400 {
		t.Errorf("dialled %d private and %d public addresses, want 0 and 400", private, public)
	}
}

func TestRedirectsAreGuarded(t *testing.T) {
	var reached atomic.Int64
	inside := serve(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	targets := map[string]string{
		"/loopback": inside.URL, "/mapped": strings.Replace(inside.URL, "127.0.0.1", "[::ffff:127.0.0.1]", 1),
		"/metadata": "http://169.254.169.254/latest/", "/file": "file:///etc/passwd", "/user": "http://a:b@example.com/",
	}
	outside := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, targets[r.URL.Path], http.StatusFound)
	})
	c := newClient(t, Options{AllowPrivateHosts: []string{hostPort(outside)}})
	for path := range targets {
		for name, get := range map[string]func(string) error{
			"Get":  func(u string) error { _, err := c.Get(t.Context(), u, GetOptions{}); return err },
			"HTTP": func(u string) error { return plainGet(c.HTTPClient(), u) },
		} {
			if err := get(outside.URL + path); !errors.Is(err, ErrBlocked) && !errors.Is(err, ErrURL) {
				t.Errorf("%s %s: error %v", name, path, err)
			}
		}
	}
	if reached.Load() != 0 {
		t.Errorf("the inner server was reached %d times", reached.Load())
	}
}

func plainGet(c *http.Client, u string) error {
	res, err := c.Get(u)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

func TestAllowList(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	other := serve(t, func(http.ResponseWriter, *http.Request) {})
	_, port, _ := net.SplitHostPort(hostPort(server))
	dns := &names{answers: map[string][]string{"feeds.home": {"127.0.0.1"}, "evil.example": {"127.0.0.1"}}}
	for _, tc := range []struct {
		allow, url string
		ok         bool
	}{
		{"127.0.0.1", server.URL, true},
		{"127.0.0.0/8", server.URL, true},
		{"127.0.0.0/8:" + port, server.URL, true},
		{"127.0.0.0/8:" + port, other.URL, false},
		{"::ffff:127.0.0.1", server.URL, true},
		{"Feeds.Home.", "http://feeds.home:" + port, true},
		{"feeds.home:" + port, "http://FEEDS.home:" + port, true},
		{"feeds.home:1", "http://feeds.home:" + port, false},
		{"feeds.home", "http://evil.example:" + port, false},
		{"feeds.home", server.URL, false},
		{"[::1]:" + port, server.URL, false},
	} {
		c, err := newClient(t, Options{Resolver: dns}).WithAllowed(tc.allow)
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.Get(t.Context(), tc.url, GetOptions{})
		c.CloseIdle()
		switch {
		case tc.ok && (err != nil || string(res.Body) != "hello"):
			t.Errorf("allow %s, get %s: %v", tc.allow, tc.url, err)
		case !tc.ok && !errors.Is(err, ErrBlocked):
			t.Errorf("allow %s, get %s: error %v, want ErrBlocked", tc.allow, tc.url, err)
		}
	}
}

func TestBadAllowedHostsAreAllNamed(t *testing.T) {
	bad := []string{"http://a.example", "10.0.0.0/33", "a b", "[::1", "host:0", "host:99999", "", "10.0.0", "a/b"}
	_, err := New(Options{AllowPrivateHosts: append([]string{"good.example:8080", "[fd00::/8]:80", "fe80::1"}, bad...)})
	if err == nil {
		t.Fatal("no error")
	}
	for _, entry := range bad {
		if !strings.Contains(err.Error(), fmt.Sprintf("%q", entry)) {
			t.Errorf("error does not name %q: %v", entry, err)
		}
	}
	if strings.Contains(err.Error(), "good.example") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error names a good entry or spans lines: %v", err)
	}
}

func TestProxyEnvironmentIsIgnored(t *testing.T) {
	var reached atomic.Int64
	proxy := serve(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	c := newClient(t, Options{AllowPrivateHosts: []string{"127.0.0.1"}, Resolver: &names{}})
	if _, err := c.Get(t.Context(), "http://some.example/", GetOptions{}); err == nil || reached.Load() != 0 {
		t.Errorf("error %v, proxy reached %d times", err, reached.Load())
	}
}

func TestPermanentRedirects(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/old", http.RedirectHandler("/newer", http.StatusMovedPermanently))
	mux.Handle("/newer", http.RedirectHandler("/new", http.StatusPermanentRedirect))
	mux.Handle("/detour", http.RedirectHandler("/old", http.StatusFound))
	mux.Handle("/half", http.RedirectHandler("/today", http.StatusMovedPermanently))
	mux.Handle("/today", http.RedirectHandler("/new", http.StatusTemporaryRedirect))
	mux.Handle("/loop", http.RedirectHandler("/loop", http.StatusFound))
	mux.HandleFunc("/new", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.UserAgent(), " ", r.Header.Get("If-None-Match"))
	})
	server := serve(t, mux.ServeHTTP)
	c := newClient(t, Options{AllowPrivateHosts: []string{hostPort(server)}, UserAgent: "ravenbot-test"})
	for path, want := range map[string]string{"/new": "", "/old": "/new", "/detour": "", "/half": "/today"} {
		res, err := c.Get(t.Context(), server.URL+path, GetOptions{Header: http.Header{"If-None-Match": {`"e"`}}})
		if err != nil {
			t.Fatal(err)
		}
		if want != "" {
			want = server.URL + want
		}
		if res.PermanentURL != want || res.URL != server.URL+"/new" || string(res.Body) != `ravenbot-test "e"` {
			t.Errorf("%s: permanent %q, final %q, body %q", path, res.PermanentURL, res.URL, res.Body)
		}
	}
	if _, err := c.Get(t.Context(), server.URL+"/loop", GetOptions{}); !errors.Is(err, ErrRedirects) {
		t.Errorf("loop: error %v", err)
	}
	if res, err := c.Get(t.Context(), server.URL+"/old", GetOptions{MaxRedirects: -1}); err != nil ||
		res.Status != http.StatusMovedPermanently {
		t.Errorf("without redirects: %+v, %v", res, err)
	}
}

func TestBodiesAreBounded(t *testing.T) {
	bomb := gzipped(t, bytes.Repeat([]byte{0}, 16<<20))
	empties := bytes.Repeat(gzipped(t, nil), 1000)
	release := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/bomb", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb)
	})
	mux.HandleFunc("/empties", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		for r.Context().Err() == nil {
			if _, err := w.Write(empties); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/announced", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "99999999")
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("a"))
		w.(http.Flusher).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("/exact", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) })
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("short"))
	})
	server := serve(t, mux.ServeHTTP)
	defer close(release)
	c := newClient(t, Options{AllowPrivateHosts: []string{hostPort(server)}})
	for path, want := range map[string]error{
		"/endless": ErrTooLarge, "/bomb": ErrTooLarge, "/empties": ErrTooLarge, "/announced": ErrTooLarge,
		"/slow": ErrTimeout, "/exact": nil,
	} {
		limit := 10 * time.Second
		if want == ErrTimeout {
			limit = 50 * time.Millisecond
		}
		_, err := c.Get(t.Context(), server.URL+path, GetOptions{MaxBytes: 1 << 20, Timeout: limit})
		if !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", path, err, want)
		}
	}
	if _, err := c.Get(t.Context(), server.URL+"/cut", GetOptions{}); err == nil {
		t.Error("a body cut short was taken for a whole one")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Get(ctx, server.URL+"/slow", GetOptions{}); !errors.Is(err, context.Canceled) ||
		errors.Is(err, ErrTimeout) {
		t.Errorf("cancelled: error %v", err)
	}
}

func TestGzipIsDecoded(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/brotli" {
			w.Header().Set("Content-Encoding", "br")
		} else {
			w.Header().Set("Content-Encoding", "gzip")
		}
		if r.URL.Path == "/none" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		if r.URL.Path == "/brotli" {
			_, _ = w.Write([]byte{0x0b, 0x02, 0x80, 'x', 0x03})
			return
		}
		_, _ = w.Write(gzipped(t, []byte("plain text")))
	})
	c := newClient(t, Options{AllowPrivateHosts: []string{hostPort(server)}})
	if res, err := c.Get(t.Context(), server.URL, GetOptions{}); err != nil || string(res.Body) != "plain text" {
		t.Errorf("gzip: %+v, %v", res, err)
	}
	if res, err := c.Get(t.Context(), server.URL+"/none", GetOptions{}); err != nil ||
		res.Status != http.StatusNotModified {
		t.Errorf("304 with an encoding: %+v, %v", res, err)
	}
	if _, err := c.Get(t.Context(), server.URL+"/brotli", GetOptions{}); err == nil ||
		!strings.Contains(err.Error(), `"br"`) {
		t.Errorf("brotli: error %v", err)
	}
}

func gzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	return b.Bytes()
}

func TestPublicAddresses(t *testing.T) {
	for _, a := range []string{"8.8.8.8", "100.63.255.255", "100.128.0.1", "172.32.0.1", "192.0.1.1", "198.20.0.1",
		"2606:4700::1111", "2a00:1450::1", "2001:4860:4860::8888", "::ffff:8.8.8.8", "64:ff9b::808:808"} {
		if !isPublic(netip.MustParseAddr(a)) {
			t.Errorf("%s is closed", a)
		}
	}
}

func FuzzCheckedURLNeverReachesPrivateSpace(f *testing.F) {
	for _, seed := range []string{"http://127.0.0.1/", "http://0x7f.1/", "http://[::ffff:127.0.0.1]:80/",
		"http://localhost/", "https://a.example:443"} {
		f.Add(seed)
	}
	c, err := New(Options{Resolver: &names{answers: map[string][]string{"localhost": {"127.0.0.1"}}}})
	if err != nil {
		f.Fatal(err)
	}
	c.guard.dialer.ControlContext = func(context.Context, string, string, syscall.RawConn) error { return errNotDialled }
	f.Fuzz(func(t *testing.T, u string) {
		_, err := c.Get(t.Context(), u, GetOptions{})
		if err == nil {
			t.Fatalf("%q was fetched", u)
		}
	})
}
