// Package egress is the only HTTP client for addresses from untrusted sources: feeds, pages, pictures, discovery
// documents.
//
// It promises that it connects only to publicly routable addresses, unless the operator allowed another. It checks the
// address that is actually dialled, at every redirect, whatever DNS answered before. It accepts http and https only,
// ignores proxy settings of the environment, and limits time, bytes (after decompression) and redirects. Callers
// handle contents, retries and caching.
package egress

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// The kinds of failure a caller may want to tell apart; test with errors.Is.
var (
	// ErrBlocked: the address is not publicly routable, and the operator has not allowed it.
	ErrBlocked = errors.New("address is not public")
	// ErrTooLarge: the body is larger than the caller accepts.
	ErrTooLarge = errors.New("response is too large")
	// ErrTimeout: there was no complete answer in time.
	ErrTimeout = errors.New("timed out")
	// ErrRedirects: there were more redirects than the caller accepts.
	ErrRedirects = errors.New("too many redirects")
	// ErrURL: the address is malformed or of a kind that is never fetched.
	ErrURL = errors.New("not a URL that can be fetched")
	// ErrBusy: there was no memory for a large body in time, while others were worked on.
	ErrBusy = errors.New("other large answers took too long")
	// ErrUserinfo wraps ErrURL: the address holds a user name or password.
	ErrUserinfo = fmt.Errorf("%w: it contains a user name or password", ErrURL)
)

const (
	// The defaults of GetOptions.
	defaultTimeout   = 15 * time.Second
	defaultMaxBytes  = 10 << 20
	defaultRedirects = 5
	dialTimeout      = 5 * time.Second
)

// Resolver looks up the addresses of a host name; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// UserAgent is how the bot names itself to the servers of feeds and pages.
const UserAgent = "ravenbot (+https://github.com/ravenbot/ravenbot)"

// Options configure a Client.
type Options struct {
	// AllowPrivateHosts are host names, IP addresses or CIDR blocks, each with an optional ":port", that may be
	// reached although they are not public.
	AllowPrivateHosts []string
	// UserAgent is sent with every request of Get.
	UserAgent string
	// Resolver looks up host names. nil: net.DefaultResolver.
	Resolver Resolver
}

// Client is a guarded HTTP client, safe for concurrent use.
type Client struct {
	opts      Options
	guard     *guard
	transport *http.Transport
	memory    *memory
}

// New returns a client. The error names each allowed host that cannot be parsed.
func New(opts Options) (*Client, error) {
	rules, err := parseRules(opts.AllowPrivateHosts)
	if err != nil {
		return nil, err
	}
	if opts.Resolver == nil {
		opts.Resolver = net.DefaultResolver
	}
	// Proxy stays nil on purpose: behind a proxy the checks would see the proxy's address only.
	g := &guard{rules: rules, resolver: opts.Resolver}
	return &Client{opts: opts, guard: g, memory: shareMemory(), transport: &http.Transport{
		DialContext:            g.dial,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // Get decompresses, so that its limit holds
		TLSHandshakeTimeout:    10 * time.Second,
		IdleConnTimeout:        30 * time.Second,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    2,
		MaxResponseHeaderBytes: 256 << 10,
		// A connection over which nothing comes back, as after the machine was suspended, is closed before a feed or page is
		// overdue: others of the same host would be asked for over it, too.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 5 * time.Second},
	}}, nil
}

// WithAllowed returns a client like this one that may also reach the given hosts.
func (c *Client) WithAllowed(hosts ...string) (*Client, error) {
	// A new transport: pooled connections of one client must not serve requests that the other forbids.
	opts := c.opts
	opts.AllowPrivateHosts = slices.Concat(c.opts.AllowPrivateHosts, hosts)
	wider, err := New(opts)
	if err == nil {
		wider.memory = c.memory
	}
	return wider, err
}

// CloseIdle closes connections that no request uses.
func (c *Client) CloseIdle() { c.transport.CloseIdleConnections() }

// HTTPClient returns an *http.Client behind the same checks, for libraries that need one. It follows five redirects and
// limits neither time nor bytes: its user must. It shares the connections of c.
func (c *Client) HTTPClient() *http.Client {
	return &http.Client{
		Transport: guardedTripper{c.transport},
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			return checkRedirects(len(via), defaultRedirects)
		},
	}
}

// GetOptions limits one request. Zero values mean the defaults named.
type GetOptions struct {
	// Header is sent with the request; it is not changed.
	Header http.Header
	// Accept is the Accept header.
	Accept string
	// MaxBytes limits the body, before and after decompression: 10 MiB.
	MaxBytes int64
	// Timeout limits the time from dialling to the last byte: 15 seconds.
	Timeout time.Duration
	// MaxRedirects is 5; a negative number follows none and returns the redirect itself.
	MaxRedirects int
}

// Response is a complete answer with any status.
type Response struct {
	Status int
	Header http.Header
	// Body is decompressed.
	Body []byte
	// URL is where the answer came from, after redirects.
	URL string
	// PermanentURL is the new permanent address of the resource: the last hop of the permanent redirects (301, 308)
	// that the chain began with. It is empty when there was none.
	PermanentURL string

	read, work func() // give back the memory for a large body, and for the work on it; nil: there is none
}

// Close gives back the memory for a large body and the work on it, and sets Body to nil. Whoever has worked on the body
// calls it, before asking for another answer.
func (r *Response) Close() {
	for _, release := range []func(){r.work, r.read} {
		if release != nil {
			release()
		}
	}
	r.Body, r.work, r.read = nil, nil, nil
}

// Get fetches a URL. It returns a Response for any status; an error means that there is no complete answer, and says
// what was attempted, without secrets of the address. Test it for ErrBlocked, ErrTooLarge, ErrTimeout, ErrRedirects,
// ErrURL and ErrBusy. Get never retries. The Response is to be closed.
func (c *Client) Get(ctx context.Context, rawURL string, o GetOptions) (*Response, error) {
	o = o.withDefaults()
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	res, err := c.get(ctx, rawURL, o)
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", RedactURL(rawURL), classifyError(err, o.Timeout))
	}
	return res, nil
}

// withDefaults returns the options with the defaults filled in.
func (o GetOptions) withDefaults() GetOptions {
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.MaxRedirects == 0 {
		o.MaxRedirects = defaultRedirects
	}
	return o
}

// get is Get with the defaults filled in, and without words for the error.
func (c *Client) get(ctx context.Context, rawURL string, o GetOptions) (*Response, error) {
	req, err := c.newRequest(ctx, rawURL, o)
	if err != nil {
		return nil, err
	}
	trail := &redirectTracker{limit: o.MaxRedirects, permanent: true}
	// A client for one request, because the tracker follows its redirects. The connections are those of the transport.
	// So are its cookies: some sites set one, and redirect until they see it.
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: guardedTripper{c.transport}, CheckRedirect: trail.check, Jar: jar}
	res, err := client.Do(req)
	if err != nil {
		if urlError, ok := errors.AsType[*url.Error](err); ok {
			err = urlError.Err // the caller's error names the URL already
		}
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // an error would say nothing about what was read
	answer := &Response{
		Status: res.StatusCode, Header: res.Header, URL: res.Request.URL.String(), PermanentURL: trail.moved,
	}
	if err := c.readBody(ctx, res, o.MaxBytes, answer); err != nil {
		answer.Close()
		return nil, err
	}
	return answer, nil
}

// newRequest returns the request for an address; ErrURL where it cannot be one.
func (c *Client) newRequest(ctx context.Context, rawURL string, o GetOptions) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSpace(rawURL), nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, stripURL(err))
	}
	for key, values := range o.Header {
		req.Header[http.CanonicalHeaderKey(key)] = slices.Clone(values)
	}
	// Setting it ourselves keeps net/http from decompressing without a limit.
	req.Header.Set("Accept-Encoding", "gzip")
	if o.Accept != "" {
		req.Header.Set("Accept", o.Accept)
	}
	if c.opts.UserAgent != "" && req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", c.opts.UserAgent)
	}
	return req, nil
}

// redirectTracker follows the redirects of one request.
type redirectTracker struct {
	limit     int
	permanent bool   // every redirect so far was permanent
	moved     string // target of the last permanent redirect
}

// check is the CheckRedirect function of a client.
func (t *redirectTracker) check(req *http.Request, via []*http.Request) error {
	if t.limit < 0 {
		return http.ErrUseLastResponse
	}
	if err := checkRedirects(len(via), t.limit); err != nil {
		return err
	}
	status := req.Response.StatusCode
	// After one temporary hop, the rest of the chain says nothing about where the resource lives.
	t.permanent = t.permanent && (status == http.StatusMovedPermanently || status == http.StatusPermanentRedirect)
	if t.permanent {
		t.moved = req.URL.String()
	}
	return nil
}

// checkRedirects returns ErrRedirects where there were more hops than the limit.
func checkRedirects(hops, limit int) error {
	if hops > limit {
		return fmt.Errorf("%w: more than %d", ErrRedirects, limit)
	}
	return nil
}

// readBody reads at most limit bytes from the connection, and at most limit bytes from the decompressor, into answer.
// Of a body that is not small it waits for the memory.
func (c *Client) readBody(ctx context.Context, res *http.Response, limit int64, answer *Response) error {
	if res.ContentLength > limit {
		return tooLargeError(limit)
	}
	wire := &cappedReader{r: res.Body, left: limit, limit: limit}
	body, err := decode(wire, res.Header.Get("Content-Encoding"), limit)
	if err != nil {
		return err
	}
	var data bytes.Buffer
	_, err = io.CopyN(&data, body, smallBody)
	if err == nil {
		if answer.read, err = take(ctx, c.memory.bodies, limit); err != nil {
			return err
		}
		if _, isPlain := body.(*bufio.Reader); isPlain && res.ContentLength > 0 { // the whole size is known
			data.Grow(int(res.ContentLength) - data.Len() + bytes.MinRead)
		}
		if _, err = data.ReadFrom(body); err == nil {
			answer.work, err = take(ctx, c.memory.work, int64(data.Len())*workFactor)
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read body: %w", err)
	}
	answer.Body = data.Bytes()
	return nil
}

// cappedReader returns an error, rather than EOF, at the limit, so that a cut-off document is never taken for a whole
// one.
type cappedReader struct {
	r           io.Reader
	left, limit int64
}

// Read reads up to the limit, and returns an error that wraps ErrTooLarge where there is more.
func (c *cappedReader) Read(p []byte) (int, error) {
	// One byte beyond the limit tells a body of exactly that size from a larger one.
	if int64(len(p)) > c.left+1 {
		p = p[:c.left+1]
	}
	n, err := c.r.Read(p)
	if int64(n) > c.left {
		return int(c.left), tooLargeError(c.limit)
	}
	c.left -= int64(n)
	return n, err
}

// tooLargeError returns an error that wraps ErrTooLarge and names the limit.
func tooLargeError(limit int64) error {
	return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
}

// stripURL removes the address from an error, because it may hold secrets.
func stripURL(err error) error {
	if of, ok := err.(*url.Error); ok {
		return of.Err
	}
	return err
}

// classifyError gives timeouts, and certificates that are not valid now, their own kinds.
func classifyError(err error, limit time.Duration) error {
	err = ExplainCertificate(stripURL(err))
	var slow net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &slow) && slow.Timeout() {
		return fmt.Errorf("%w: no complete answer within %s: %w", ErrTimeout, limit, err)
	}
	return err
}
