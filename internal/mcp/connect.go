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

// discoverTimeout is how long an HTTP server may take to say whether it knows the
// newest protocol. A process may take as long as it takes to start: see tap.
const discoverTimeout = 5 * time.Second

// learned is what was learnt of a server by connecting it, so that the next time
// nothing need be tried in vain.
type learned struct {
	transport string // Stdio, HTTP or SSE
	era       era
}

// connection is one live connection.
type connection struct {
	s      *server
	number int64 // of this connection among the server's
	client *client.Client
	info   serverInfo
	logs   *logBuffer

	instructions string // what the server says of its use; a stranger's text

	lost          <-chan struct{} // closed when it is gone
	lossReason    func() error
	fail          func(error)
	onToolsListed func()        // to be done when its tools are known
	beforeClose   func()        // to be done before it is closed, if not nil
	afterClose    []func()      // to be done after
	relistWanted  chan struct{} // the server says that its tools have changed
	checkWanted   chan struct{} // the server should be asked whether it lives

	hasAnswered atomic.Bool // a call was

	createdAt   time.Time
	lastMessage atomic.Int64 // nanoseconds from made to the last message of the server
	silentSince atomic.Int64 // heard, when a call ran out of time during which nothing was; else -1

	ctx             context.Context // of what is done in the background
	cancel          func()
	work            sync.WaitGroup
	backgroundSlots chan struct{} // as much as is done there at a time

	mu              sync.Mutex
	calls           map[string]*pendingCall            // calls under way, by token
	callCount       int                                // how many there were
	requests        map[string]context.CancelCauseFunc // requests of the server that are being answered
	questionCount   int                                // how many there were
	urlElicitations map[string]chan struct{}           // what a person does at addresses that the server named
}

// newConnection makes one that a carrier is to be given to.
func (s *server) newConnection(carrier *rpcConn) *connection {
	s.attempts++
	c := &connection{s: s, number: s.attempts, logs: s.logs, onToolsListed: func() {},
		relistWanted: make(chan struct{}, 1), checkWanted: make(chan struct{}, 1), backgroundSlots: make(chan struct{}, maxConcurrentAnswers),
		calls: map[string]*pendingCall{}, requests: map[string]context.CancelCauseFunc{}, urlElicitations: map[string]chan struct{}{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.createdAt = time.Now()
	c.silentSince.Store(-1)
	if carrier != nil {
		c.lost, c.lossReason, c.fail = carrier.done, carrier.lossReason, carrier.fail
		carrier.onRequest, carrier.onMessage = c.answerRequest, c.noteMessage
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
		s.learned = learned{}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, s.explainConnectError(err)
	}
	s.learned.transport, s.learned.era = conn.info.transport, legacy
	if sdk.IsModernProtocol(conn.info.protocol) {
		s.learned.era = modern
	}
	return conn, nil
}

// dial tries what the entry, or what is known, leaves open.
func (s *server) dial(ctx context.Context) (*connection, error) {
	if s.c.Command != "" {
		conn, err := s.connectStdio(ctx, s.protocolEra())
		var lost connectionLostError
		if s.protocolEra() == unknown && errors.As(err, &lost) && ctx.Err() == nil {
			// Some older servers end at a request that they do not know.
			return s.connectStdio(ctx, legacy)
		}
		return conn, err
	}
	at, err := url.Parse(s.c.URL)
	if err != nil {
		return nil, errors.New("its url is not an http or https address")
	}
	switch {
	case s.c.Transport == HTTP || s.learned.transport == HTTP:
		return s.connectHTTP(ctx, at)
	case s.c.Transport == SSE || s.learned.transport == SSE:
		return s.connectSSE(ctx, at)
	}
	conn, err := s.connectHTTP(ctx, at)
	if err == nil || !errors.Is(err, transport.ErrLegacySSEServer) {
		return conn, err
	}
	conn, second := s.connectSSE(ctx, at)
	if second != nil {
		return nil, fmt.Errorf("it takes neither Streamable HTTP (%w) nor SSE (%w)", unwrapTransportError(err), second)
	}
	return conn, nil
}

func checkProtocol(version string) error {
	if version == "" || sdk.IsValidProtocolVersion(version) {
		return nil
	}
	return fmt.Errorf("unknown protocol version %q; known are %s", version, strings.Join(sdk.ValidProtocolVersions, ", "))
}

// protocolEra is what is known of a server, or configured.
func (s *server) protocolEra() era {
	switch {
	case s.c.Protocol == "":
		return s.learned.era
	case sdk.IsModernProtocol(s.c.Protocol):
		return modern
	}
	return legacy
}

func (s *server) connectStdio(ctx context.Context, e era) (*connection, error) {
	carrier, err := newStdio(s.c, s.logs, s.o.Watch)
	if err != nil {
		return nil, err
	}
	conn := s.newConnection(carrier.rpcConn)
	conn.onToolsListed = carrier.endDeprioritized
	return s.handshake(ctx, conn, &wrappedTransport{Interface: carrier, conn: conn, era: e, version: s.c.Protocol, silence: s.o.silence, initializeParams: s.initializeParams}, Stdio, -1)
}

func (s *server) connectSSE(ctx context.Context, at *url.URL) (*connection, error) {
	g := s.originTransport(at)
	carrier := newSSE(at, g.client(), s.logs)
	conn := s.newConnection(carrier.rpcConn)
	conn.afterClose = []func(){g.close}
	return s.handshake(ctx, conn, versionedTransport{&wrappedTransport{Interface: carrier, conn: conn, era: legacy}, carrier}, SSE, -1)
}

func (s *server) connectHTTP(ctx context.Context, at *url.URL) (*connection, error) {
	g := s.originTransport(at)
	carrier, err := transport.NewStreamableHTTP(s.c.URL, transport.WithHTTPBasicClient(g.client()),
		transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	lost, cancel := context.WithCancelCause(context.Background())
	conn := s.newConnection(nil)
	conn.lost, conn.lossReason, conn.fail = lost.Done(), func() error { return connectionLostError{context.Cause(lost)} }, cancel
	conn.afterClose = []func(){func() { cancel(errors.New("closed")) }, g.close}
	t := &wrappedTransport{Interface: carrier, conn: conn, era: s.protocolEra(), version: s.c.Protocol}
	beside := httpPoster{s.c.URL, g.client(), t.postHeader}
	carrier.SetRequestHandler(conn.requestHandler(beside))
	conn, err = s.handshake(ctx, conn, versionedTransport{t, carrier}, HTTP, discoverTimeout)
	if err == nil && !sdk.IsModernProtocol(conn.info.protocol) {
		t.poster.Store(&beside)
		conn.beforeClose = openListenStream(beside, conn)
	}
	return conn, err
}

// versionedTransport adds what the library asks of carriers over HTTP.
type versionedTransport struct {
	*wrappedTransport
	http transport.HTTPConnection
}

// SetProtocolVersion passes the version on.
func (v versionedTransport) SetProtocolVersion(version string) { v.http.SetProtocolVersion(version) }

// handshake starts a carrier and shakes hands over it.
func (s *server) handshake(ctx context.Context, conn *connection, over transport.Interface, name string, discover time.Duration) (*connection, error) {
	options := []client.ClientOption{client.WithDiscoverTimeout(discover), client.WithClientCapabilities(s.clientCapabilities())}
	switch {
	case s.c.Protocol != "":
		options = append(options, client.WithProtocolVersion(s.c.Protocol))
	case eraOf(over) == legacy:
		options = append(options, client.WithProtocolVersion(sdk.LATEST_LEGACY_PROTOCOL_VERSION))
	}
	conn.client = client.NewClient(over, options...)
	conn.client.OnNotification(conn.handleNotification)
	err := conn.client.Start(ctx)
	if err == nil {
		var result *sdk.InitializeResult
		request := sdk.InitializeRequest{}
		request.Params.ClientInfo = sdk.Implementation{Name: "ravenbot", Version: s.clientVersion()}
		if result, err = conn.client.Initialize(ctx, request); err == nil {
			conn.info = serverInfo{name, result.ProtocolVersion, strings.TrimSpace(plainLine(result.ServerInfo.Name + " " + result.ServerInfo.Version))}
			conn.instructions = result.Instructions
			conn.watchChanges()
			return conn, nil
		}
	}
	conn.close()
	return nil, err
}

func (s *server) clientVersion() string {
	if s.o.Version == "" {
		return "dev"
	}
	return s.o.Version
}

// initializeParams are the parameters of the older handshake, for tap.
func (s *server) initializeParams() any {
	return map[string]any{
		"protocolVersion": sdk.LATEST_LEGACY_PROTOCOL_VERSION,
		"capabilities":    s.clientCapabilities(),
		"clientInfo":      sdk.Implementation{Name: "ravenbot", Version: s.clientVersion()},
	}
}

// watchChanges asks a server of the newest protocol to say when its tools change, which
// others do unasked; and for the log that it offers.
func (c *connection) watchChanges() {
	offers := c.client.GetServerCapabilities()
	modern := sdk.IsModernProtocol(c.info.protocol)
	if offers.Logging != nil && !modern {
		c.runInBackground(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, answerTimeout)
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
	wg.Go(func() {
		reopenUntilRefused(ctx, func(ctx context.Context) bool { return c.listenForChanges(ctx, filter) })
	})
	c.beforeClose = func() {
		cancel()
		wg.Wait()
	}
}

// listenForChanges waits for the end of a stream of changes. Without one the regular
// check finds them.
func (c *connection) listenForChanges(ctx context.Context, to sdk.SubscriptionFilter) (refused bool) {
	return errors.Is(c.client.Listen(ctx, to), sdk.ErrMethodNotFound)
}

// handleNotification must not block, nor call the server: the connection reads no further
// until it returns.
func (c *connection) handleNotification(n sdk.JSONRPCNotification) {
	c.noteMessage()
	fields := n.Params.AdditionalFields
	switch n.Method {
	case sdk.MethodNotificationToolsListChanged,
		sdk.MethodNotificationSubscriptionsAcknowledged: // from here on changes are told; there may have been one before
		wake(c.relistWanted)
	case sdk.MethodNotificationPromptsListChanged, sdk.MethodNotificationResourcesListChanged:
		// They are listed anew whenever somebody asks for them.
	case string(sdk.MethodNotificationMessage):
		c.handleLog(fields)
	case string(sdk.MethodNotificationProgress):
		c.handleProgress(fields)
	case string(sdk.MethodNotificationCancelled):
		c.cancelRequest(fields)
	case string(sdk.MethodNotificationElicitationComplete):
		id, _ := fields["elicitationId"].(string)
		c.finishURLElicitation(id)
	}
}

// requestCheck has the supervisor find out whether the server lives.
func (c *connection) requestCheck() { wake(c.checkWanted) }

func wake(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func (c *connection) hasCalls() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls) > 0
}

// noteMessage notes that a message of the server came.
func (c *connection) noteMessage() { c.lastMessage.Store(int64(time.Since(c.createdAt))) }

// noteTimeout notes that a call ran out of time. What was heard at its very beginning may have
// been under way before.
func (c *connection) noteTimeout(f *pendingCall) {
	heard := c.lastMessage.Load()
	if time.Duration(heard) < f.startedAt.Add(f.timeout/10).Sub(c.createdAt) {
		c.silentSince.Store(heard)
	}
}

// isSilent reports whether nothing has been heard of the server since a call was given its
// whole time in vain.
func (c *connection) isSilent() bool { return c.silentSince.Load() == c.lastMessage.Load() }

// noteFailure takes note of what an error says about the connection.
func (c *connection) noteFailure(err error) {
	var carrier *transport.Error
	var late callTimeoutError
	switch {
	case errors.Is(err, transport.ErrSessionTerminated):
		c.fail(errors.New("the server has forgotten the session"))
	case errors.As(err, &carrier), errors.As(err, &late):
		c.requestCheck()
	}
}

// close ends the connection and waits for its process.
func (c *connection) close() {
	c.mu.Lock()
	c.cancel()
	c.mu.Unlock()
	if c.beforeClose != nil {
		c.beforeClose()
	}
	_ = c.client.Close() // what could not be closed is of no use either
	for _, do := range c.afterClose {
		do()
	}
	c.work.Wait()
}

// explainConnectError adds to an error what helps the operator.
func (s *server) explainConnectError(err error) error {
	err = unwrapTransportError(err)
	if last := s.logs.lastLine("stderr", s.mask); last != "" && s.c.Command != "" {
		var lost connectionLostError
		if errors.As(err, &lost) || errors.Is(err, errNotReady) {
			return fmt.Errorf("%w; its last words: %.300s", err, last)
		}
	}
	return err
}

// unwrapTransportError takes the library's wrapping off an error where its text is for
// programmers.
func unwrapTransportError(err error) error {
	var carrier *transport.Error
	var address *url.Error
	var refused authorizationError
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

// authorizationError is an error of what Options.Authorize gave. Its text has no secret.
type authorizationError interface {
	error
	Authorizing()
}

// isMethodNotFound reports whether a server says that it knows no tools at all.
func isMethodNotFound(err error) bool { return errors.Is(err, sdk.ErrMethodNotFound) }
