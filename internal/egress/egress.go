// Package egress is the one way out for everything that fetches what a stranger
// named: feeds, pages, pictures, discovery documents.
//
// It promises that no connection is made to an address that is not publicly
// routable unless the operator allowed it: the address actually dialled is
// checked, at every redirect, whatever DNS answered before. It takes http and
// https alone, ignores proxy settings of the environment, and bounds time, bytes
// (after decompression) and redirects.
//
// What the bytes mean, when to ask again, and caching are left to the caller.
package egress

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// The kinds of failure a caller may want to tell apart; test with errors.Is.
var (
	// ErrBlocked: the address is not publicly routable and not allowed.
	ErrBlocked = errors.New("address is not public")
	// ErrTooLarge: the body is larger than the caller takes.
	ErrTooLarge = errors.New("response is too large")
	// ErrTimeout: no complete answer in time.
	ErrTimeout = errors.New("timed out")
	// ErrRedirects: more redirects than the caller takes.
	ErrRedirects = errors.New("too many redirects")
	// ErrURL: the address is malformed or of a kind that is never fetched.
	ErrURL = errors.New("not a URL that can be fetched")
	// ErrUserinfo is an ErrURL: the address holds a user name or password.
	ErrUserinfo = fmt.Errorf("%w: it holds a user name or password", ErrURL)
)

const (
	defaultTimeout   = 15 * time.Second
	defaultMaxBytes  = 10 << 20
	defaultRedirects = 5
	dialTimeout      = 5 * time.Second
)

// Resolver finds the addresses of a host name; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options configure a Client.
type Options struct {
	// AllowPrivateHosts are host names, IP addresses or CIDR blocks, each with an
	// optional ":port", that may be reached although they are not public.
	AllowPrivateHosts []string
	// UserAgent is sent with every request of Get.
	UserAgent string
	// Resolver is asked for host names; nil is net.DefaultResolver.
	Resolver Resolver
}

// Client is a guarded HTTP client, safe for concurrent use.
type Client struct {
	opts      Options
	guard     *guard
	transport *http.Transport
}

// New makes a client. The error names each allowed host that cannot be read.
func New(opts Options) (*Client, error) {
	rules, err := parseRules(opts.AllowPrivateHosts)
	if err != nil {
		return nil, err
	}
	if opts.Resolver == nil {
		opts.Resolver = net.DefaultResolver
	}
	g := &guard{rules: rules, resolver: opts.Resolver}
	return &Client{opts: opts, guard: g, transport: &http.Transport{
		DialContext:            g.dial,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // decompressed by Get, under its cap
		TLSHandshakeTimeout:    10 * time.Second,
		IdleConnTimeout:        30 * time.Second,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    2,
		MaxResponseHeaderBytes: 256 << 10,
	}}, nil
}

// WithAllowed is a client like this one that may also reach the given hosts.
func (c *Client) WithAllowed(hosts ...string) (*Client, error) {
	opts := c.opts
	opts.AllowPrivateHosts = slices.Concat(c.opts.AllowPrivateHosts, hosts)
	return New(opts)
}

// CloseIdle closes connections that no request is using.
func (c *Client) CloseIdle() { c.transport.CloseIdleConnections() }

// HTTPClient is a plain client behind the same guards, for libraries that want one.
// It follows five redirects and caps neither time nor bytes: its user must.
func (c *Client) HTTPClient() *http.Client {
	return &http.Client{
		Transport: guardedTripper{c.transport},
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			return checkRedirects(len(via), defaultRedirects)
		},
	}
}

// GetOptions bound one request. Zero values mean the defaults named.
type GetOptions struct {
	// Header is sent along; it is not changed.
	Header http.Header
	// Accept is the Accept header.
	Accept string
	// MaxBytes caps the body, before and after decompression: 10 MiB.
	MaxBytes int64
	// Timeout bounds everything from dialling to the last byte: 15 seconds.
	Timeout time.Duration
	// MaxRedirects is 5; negative follows none and returns the redirect itself.
	MaxRedirects int
}

// Response is a complete answer, of whatever status.
type Response struct {
	Status int
	Header http.Header
	// Body is decompressed.
	Body []byte
	// URL is where the answer came from, after redirects.
	URL string
	// PermanentURL is where the server says the resource has moved for good: the
	// last hop of the permanent redirects (301, 308) the chain began with. Empty
	// when there was none.
	PermanentURL string
}

// Get fetches a URL. Any status is a Response; an error means that there is no
// complete answer, and says what was attempted. Nothing is retried.
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

func (c *Client) get(ctx context.Context, rawURL string, o GetOptions) (*Response, error) {
	req, err := c.newRequest(ctx, rawURL, o)
	if err != nil {
		return nil, err
	}
	trail := &redirectTracker{limit: o.MaxRedirects, permanent: true}
	client := &http.Client{Transport: guardedTripper{c.transport}, CheckRedirect: trail.check}
	res, err := client.Do(req)
	if err != nil {
		if repeats, ok := errors.AsType[*url.Error](err); ok {
			err = repeats.Err // the caller's error names the URL already
		}
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // nothing is owed to a body that was read or given up
	body, err := readBody(res, o.MaxBytes)
	if err != nil {
		return nil, err
	}
	return &Response{
		Status: res.StatusCode, Header: res.Header, Body: body,
		URL: res.Request.URL.String(), PermanentURL: trail.moved,
	}, nil
}

func (c *Client) newRequest(ctx context.Context, rawURL string, o GetOptions) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSpace(rawURL), nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, stripURL(err))
	}
	for key, values := range o.Header {
		req.Header[http.CanonicalHeaderKey(key)] = slices.Clone(values)
	}
	req.Header.Set("Accept-Encoding", "gzip")
	if o.Accept != "" {
		req.Header.Set("Accept", o.Accept)
	}
	if c.opts.UserAgent != "" && req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", c.opts.UserAgent)
	}
	return req, nil
}

// redirectTracker watches the redirects of one request.
type redirectTracker struct {
	limit     int
	permanent bool
	moved     string
}

func (t *redirectTracker) check(req *http.Request, via []*http.Request) error {
	if t.limit < 0 {
		return http.ErrUseLastResponse
	}
	if err := checkRedirects(len(via), t.limit); err != nil {
		return err
	}
	status := req.Response.StatusCode
	t.permanent = t.permanent && (status == http.StatusMovedPermanently || status == http.StatusPermanentRedirect)
	if t.permanent {
		t.moved = req.URL.String()
	}
	return nil
}

func checkRedirects(hops, limit int) error {
	if hops > limit {
		return fmt.Errorf("%w: more than %d", ErrRedirects, limit)
	}
	return nil
}

// readBody reads at most limit bytes off the wire and out of the decompressor.
func readBody(res *http.Response, limit int64) ([]byte, error) {
	if res.ContentLength > limit {
		return nil, tooLargeError(limit)
	}
	wire := &cappedReader{r: res.Body, left: limit, limit: limit}
	var body io.Reader = wire
	switch encoding := strings.ToLower(strings.TrimSpace(res.Header.Get("Content-Encoding"))); encoding {
	case "", "identity":
	case "gzip", "x-gzip":
		unzipped, err := gzip.NewReader(wire)
		if errors.Is(err, io.EOF) {
			return nil, nil // an empty body, as with 304
		}
		if err != nil {
			return nil, fmt.Errorf("read gzip body: %w", err)
		}
		body = &cappedReader{r: unzipped, left: limit, limit: limit}
	default:
		return nil, fmt.Errorf("content encoding %q was not asked for", encoding)
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	return data, nil
}

// cappedReader fails, rather than ends, where the cap is passed.
type cappedReader struct {
	r           io.Reader
	left, limit int64
}

func (c *cappedReader) Read(p []byte) (int, error) {
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

func tooLargeError(limit int64) error {
	return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
}

// plainCause gives time-outs their own kind.
// bare takes the address out of an error, which may hold secrets.
func stripURL(err error) error {
	if of, ok := err.(*url.Error); ok {
		return of.Err
	}
	return err
}

func classifyError(err error, limit time.Duration) error {
	err = stripURL(err)
	var slow net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &slow) && slow.Timeout() {
		return fmt.Errorf("%w: no complete answer within %s: %w", ErrTimeout, limit, err)
	}
	return err
}
