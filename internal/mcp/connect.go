package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	sdk "github.com/mark3labs/mcp-go/mcp"
)

// discoverTime is how long an HTTP server may take to say whether it knows the
// newest protocol. A process may take as long as it takes to start: see tap.
const discoverTime = 5 * time.Second

// known is what was learnt of a server by connecting it, so that the next time
// nothing need be tried in vain.
type known struct {
	transport string // Stdio, HTTP or SSE
	era       era
}

// connection is one live connection.
type connection struct {
	s      *server
	number int64 // of this connection among the server's
	client *client.Client
	about  about
	logs   *ring

	instructions string // what the server says of its use; a stranger's text

	lost    <-chan struct{} // closed when it is gone
	why     func() error
	lose    func(error)
	ready   func()        // to be done when its tools are known
	first   func()        // to be done before it is closed, if not nil
	last    []func()      // to be done after
	relist  chan struct{} // the server says that its tools have changed
	suspect chan struct{} // the server should be asked whether it lives

	answered atomic.Bool // a call was

	made  time.Time
	heard atomic.Int64 // nanoseconds from made to the last message of the server
	deaf  atomic.Int64 // heard, when a call ran out of time during which nothing was; else -1

	life     context.Context // of what is done in the background
	end      func()
	work     sync.WaitGroup
	busyness chan struct{} // as much as is done there at a time

	mu         sync.Mutex
	flights    map[string]*flight                 // calls under way, by token
	flown      int                                // how many there were
	asks       map[string]context.CancelCauseFunc // requests of the server that are being answered
	questions  int                                // how many there were
	elsewheres map[string]chan struct{}           // what a person does at addresses that the server named
}

// connection makes one that a carrier is to be given to.
func (s *server) connection(carrier *duplex) *connection {
	s.connections++
	c := &connection{s: s, number: s.connections, logs: s.logs, ready: func() {},
		relist: make(chan struct{}, 1), suspect: make(chan struct{}, 1), busyness: make(chan struct{}, maxAnswering),
		flights: map[string]*flight{}, asks: map[string]context.CancelCauseFunc{}, elsewheres: map[string]chan struct{}{}}
	c.life, c.end = context.WithCancel(context.Background())
	c.made = time.Now()
	c.deaf.Store(-1)
	if carrier != nil {
		c.lost, c.why, c.lose = carrier.done, carrier.why, carrier.lose
		carrier.handle, carrier.heard = c.answer, c.hear
	}
	return c
}

var errNotReady = errors.New("it was not ready")

// connect makes a connection and agrees on a protocol version, within the time
// that a start may take.
func (s *server) connect(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.o.StartTimeout,
		fmt.Errorf("%w within %s", errNotReady, s.o.StartTimeout))
	defer cancel()
	conn, err := s.dial(ctx)
	if err != nil {
		s.known = known{}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, s.explained(err)
	}
	s.known.transport, s.known.era = conn.about.transport, legacy
	if sdk.IsModernProtocol(conn.about.protocol) {
		s.known.era = modern
	}
	return conn, nil
}

// dial tries what the entry, or what is known, leaves open.
func (s *server) dial(ctx context.Context) (*connection, error) {
	if s.c.Command != "" {
		conn, err := s.overStdio(ctx, s.era())
		var lost lostError
		if s.era() == unknown && errors.As(err, &lost) && ctx.Err() == nil {
			// Some older servers end at a request that they do not know.
			return s.overStdio(ctx, legacy)
		}
		return conn, err
	}
	at, err := url.Parse(s.c.URL)
	if err != nil {
		return nil, errors.New("its url is not an http or https address")
	}
	switch {
	case s.c.Transport == HTTP || s.known.transport == HTTP:
		return s.overHTTP(ctx, at)
	case s.c.Transport == SSE || s.known.transport == SSE:
		return s.overSSE(ctx, at)
	}
	conn, err := s.overHTTP(ctx, at)
	if err == nil || !errors.Is(err, transport.ErrLegacySSEServer) {
		return conn, err
	}
	conn, second := s.overSSE(ctx, at)
	if second != nil {
		return nil, fmt.Errorf("it takes neither Streamable HTTP (%w) nor SSE (%w)", readable(err), second)
	}
	return conn, nil
}

func checkProtocol(version string) error {
	if version == "" || sdk.IsValidProtocolVersion(version) {
		return nil
	}
	return fmt.Errorf("unknown protocol version %q; known are %s", version, strings.Join(sdk.ValidProtocolVersions, ", "))
}

// era is what is known of a server, or configured.
func (s *server) era() era {
	switch {
	case s.c.Protocol == "":
		return s.known.era
	case sdk.IsModernProtocol(s.c.Protocol):
		return modern
	}
	return legacy
}

func (s *server) overStdio(ctx context.Context, e era) (*connection, error) {
	carrier, err := newStdio(s.c, s.logs, s.o.Watch)
	if err != nil {
		return nil, err
	}
	conn := s.connection(carrier.duplex)
	conn.ready = carrier.ready
	return s.shake(ctx, conn, &tap{Interface: carrier, conn: conn, era: e, only: s.c.Protocol, silence: s.o.silence, hello: s.initialize}, Stdio, -1)
}

func (s *server) overSSE(ctx context.Context, at *url.URL) (*connection, error) {
	g := s.guard(at)
	carrier := newSSE(at, g.client(), s.logs)
	conn := s.connection(carrier.duplex)
	conn.last = []func(){g.close}
	return s.shake(ctx, conn, versioned{&tap{Interface: carrier, conn: conn, era: legacy}, carrier}, SSE, -1)
}

func (s *server) overHTTP(ctx context.Context, at *url.URL) (*connection, error) {
	g := s.guard(at)
	carrier, err := transport.NewStreamableHTTP(s.c.URL, transport.WithHTTPBasicClient(g.client()),
		transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	lost, cancel := context.WithCancelCause(context.Background())
	conn := s.connection(nil)
	conn.lost, conn.why, conn.lose = lost.Done(), func() error { return lostError{context.Cause(lost)} }, cancel
	conn.last = []func(){func() { cancel(errors.New("closed")) }, g.close}
	t := &tap{Interface: carrier, conn: conn, era: s.era(), only: s.c.Protocol}
	beside := courier{s.c.URL, g.client(), t.header}
	carrier.SetRequestHandler(conn.answering(beside))
	conn, err = s.shake(ctx, conn, versioned{t, carrier}, HTTP, discoverTime)
	if err == nil && !sdk.IsModernProtocol(conn.about.protocol) {
		t.beside.Store(&beside)
		conn.first = overhear(beside, conn)
	}
	return conn, err
}

// versioned adds what the library asks of carriers over HTTP.
type versioned struct {
	*tap
	http transport.HTTPConnection
}

// SetProtocolVersion passes the version on.
func (v versioned) SetProtocolVersion(version string) { v.http.SetProtocolVersion(version) }

// shake starts a carrier and shakes hands over it.
func (s *server) shake(ctx context.Context, conn *connection, over transport.Interface, name string, discover time.Duration) (*connection, error) {
	options := []client.ClientOption{client.WithDiscoverTimeout(discover), client.WithClientCapabilities(s.capabilities())}
	switch {
	case s.c.Protocol != "":
		options = append(options, client.WithProtocolVersion(s.c.Protocol))
	case eraOf(over) == legacy:
		options = append(options, client.WithProtocolVersion(sdk.LATEST_LEGACY_PROTOCOL_VERSION))
	}
	conn.client = client.NewClient(over, options...)
	conn.client.OnNotification(conn.notified)
	err := conn.client.Start(ctx)
	if err == nil {
		var result *sdk.InitializeResult
		request := sdk.InitializeRequest{}
		request.Params.ClientInfo = sdk.Implementation{Name: "ravenbot", Version: s.version()}
		if result, err = conn.client.Initialize(ctx, request); err == nil {
			conn.about = about{name, result.ProtocolVersion, strings.TrimSpace(plain(result.ServerInfo.Name + " " + result.ServerInfo.Version))}
			conn.instructions = result.Instructions
			conn.listen()
			return conn, nil
		}
	}
	conn.close()
	return nil, err
}

func (s *server) version() string {
	if s.o.Version == "" {
		return "dev"
	}
	return s.o.Version
}

// initialize are the parameters of the older handshake, for tap.
func (s *server) initialize() any {
	return map[string]any{
		"protocolVersion": sdk.LATEST_LEGACY_PROTOCOL_VERSION,
		"capabilities":    s.capabilities(),
		"clientInfo":      sdk.Implementation{Name: "ravenbot", Version: s.version()},
	}
}

// listen asks a server of the newest protocol to say when its tools change, which
// others do unasked; and for the log that it offers.
func (c *connection) listen() {
	offers := c.client.GetServerCapabilities()
	modern := sdk.IsModernProtocol(c.about.protocol)
	if offers.Logging != nil && !modern {
		c.background(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, answerTime)
			defer cancel()
			request := transport.JSONRPCRequest{JSONRPC: sdk.JSONRPC_VERSION, ID: sdk.NewRequestId("level"), Method: "logging/setLevel",
				Params: map[string]string{"level": "info"}}
			_, _ = c.client.GetTransport().SendRequest(ctx, request) // its own choice of level will do
		})
	}
	filter := sdk.SubscriptionFilter{ToolsListChanged: offers.Tools != nil && offers.Tools.ListChanged,
		PromptsListChanged:   offers.Prompts != nil && offers.Prompts.ListChanged,
		ResourcesListChanged: offers.Resources != nil && offers.Resources.ListChanged}
	if !modern || filter.IsEmpty() {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { reopened(ctx, func(ctx context.Context) bool { return c.subscribed(ctx, filter) }) })
	c.first = func() {
		cancel()
		wg.Wait()
	}
}

// subscribed waits for the end of a stream of changes. Without one the regular
// check finds them.
func (c *connection) subscribed(ctx context.Context, to sdk.SubscriptionFilter) (refused bool) {
	return errors.Is(c.client.Listen(ctx, to), sdk.ErrMethodNotFound)
}

// notified must not block, nor call the server: the connection reads no further
// until it returns.
func (c *connection) notified(n sdk.JSONRPCNotification) {
	c.hear()
	fields := n.Params.AdditionalFields
	switch n.Method {
	case sdk.MethodNotificationToolsListChanged,
		sdk.MethodNotificationSubscriptionsAcknowledged: // from here on changes are told; there may have been one before
		poke(c.relist)
	case sdk.MethodNotificationPromptsListChanged, sdk.MethodNotificationResourcesListChanged:
		// They are listed anew whenever somebody asks for them.
	case string(sdk.MethodNotificationMessage):
		c.logged(fields)
	case string(sdk.MethodNotificationProgress):
		c.progressed(fields)
	case string(sdk.MethodNotificationCancelled):
		c.takenBack(fields)
	case string(sdk.MethodNotificationElicitationComplete):
		id, _ := fields["elicitationId"].(string)
		c.completed(id)
	}
}

// ask has the supervisor find out whether the server lives.
func (c *connection) ask() { poke(c.suspect) }

func poke(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func (c *connection) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.flights) > 0
}

// hear notes that a message of the server came.
func (c *connection) hear() { c.heard.Store(int64(time.Since(c.made))) }

// late notes that a call ran out of time. What was heard at its very beginning may have
// been under way before.
func (c *connection) late(f *flight) {
	heard := c.heard.Load()
	if time.Duration(heard) < f.began.Add(f.timeout/10).Sub(c.made) {
		c.deaf.Store(heard)
	}
}

// silent reports whether nothing has been heard of the server since a call was given its
// whole time in vain.
func (c *connection) silent() bool { return c.deaf.Load() == c.heard.Load() }

// failed takes note of what an error says about the connection.
func (c *connection) failed(err error) {
	var carrier *transport.Error
	var late noAnswer
	switch {
	case errors.Is(err, transport.ErrSessionTerminated):
		c.lose(errors.New("the server has forgotten the session"))
	case errors.As(err, &carrier), errors.As(err, &late):
		c.ask()
	}
}

// close ends the connection and waits for its process.
func (c *connection) close() {
	c.mu.Lock()
	c.end()
	c.mu.Unlock()
	if c.first != nil {
		c.first()
	}
	_ = c.client.Close() // what could not be closed is of no use either
	for _, do := range c.last {
		do()
	}
	c.work.Wait()
}

// explained adds to an error what helps the operator.
func (s *server) explained(err error) error {
	err = readable(err)
	if last := s.logs.last("stderr", s.mask); last != "" && s.c.Command != "" {
		var lost lostError
		if errors.As(err, &lost) || errors.Is(err, errNotReady) {
			return fmt.Errorf("%w; its last words: %.300s", err, last)
		}
	}
	return err
}

// readable takes the library's wrapping off an error where its text is for
// programmers.
func readable(err error) error {
	var carrier *transport.Error
	var address *url.Error
	var refused authorizing
	switch {
	case errors.As(err, &refused): // whose text says what is to be done
		return refused
	case errors.Is(err, transport.ErrAuthorizationRequired):
		return statusError(http.StatusUnauthorized)
	case errors.Is(err, transport.ErrLegacySSEServer):
		return errors.New("it refuses to initialize")
	case errors.As(err, &address): // its text would repeat the address, with any secret in it
		return fmt.Errorf("it cannot be reached: %w", address.Err)
	case errors.As(err, &carrier):
		return carrier.Err
	}
	return err
}

// authorizing is an error of what Options.Authorize gave. Its text has no secret.
type authorizing interface {
	error
	Authorizing()
}

// hasNoTools reports whether a server says that it knows no tools at all.
func hasNoTools(err error) bool { return errors.Is(err, sdk.ErrMethodNotFound) }
