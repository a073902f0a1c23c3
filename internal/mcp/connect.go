package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
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

	"ravenbot/internal/core/text"
	"ravenbot/internal/ops/egress"
)

// discoverTimeout bounds how long an HTTP server may take to answer server/discover.
const discoverTimeout = 5 * time.Second

// connection is one live connection. The goroutine of server.run makes it, and any number of calls use it at a time.
// Fields without a lock are set before connect returns, and only read later.
type connection struct {
	s      *server
	client *client.Client
	info   serverInfo

	instructions string // the server's own description of its use: untrusted text

	lost         <-chan struct{} // closed when the connection is lost
	lossReason   func() error    // the reason; only after lost is closed
	fail         func(error)     // ends the connection for a reason
	afterClose   func()          // called after it is closed
	relistWanted chan struct{}   // signalled when the server reports changed tools
	checkWanted  chan struct{}   // signalled when the server should be checked

	hasAnswered atomic.Bool // a call was answered

	ctx             context.Context // of background work; ends with the connection
	cancel          func()
	work            sync.WaitGroup // background work
	backgroundSlots chan struct{}  // bounds background work

	// mu guards the fields below.
	mu              sync.Mutex
	calls           map[string]*pendingCall            // by token
	callCount       int                                // calls made so far
	requests        map[string]context.CancelCauseFunc // from the server, until they are answered
	urlElicitations map[string]chan struct{}           // by id; closed when the person has finished at the address
}

// newConnection returns a connection over one of our transports. If over is nil, the caller reports the loss.
func (s *server) newConnection(over *rpcConn) *connection {
	c := &connection{
		s:               s,
		afterClose:      func() {},
		relistWanted:    make(chan struct{}, 1),
		checkWanted:     make(chan struct{}, 1),
		backgroundSlots: make(chan struct{}, maxConcurrentAnswers),
		calls:           map[string]*pendingCall{},
		requests:        map[string]context.CancelCauseFunc{},
		urlElicitations: map[string]chan struct{}{},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if over != nil {
		c.lost, c.lossReason, c.fail = over.done, over.lossReason, over.fail
		over.onRequest = func(r transport.JSONRPCRequest, reply func(context.Context, []byte) error) {
			c.answerFor(nil, r, reply)
		}
	}
	return c
}

var errNotReady = errors.New("it was not ready")

// connect makes a connection and negotiates a protocol version, within StartTimeout.
func (s *server) connect(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.o.StartTimeout,
		fmt.Errorf("%w within %s", errNotReady, s.o.StartTimeout))
	defer cancel()
	began := s.o.Now()
	conn, err := s.dial(ctx)
	if err != nil {
		s.learned = unknown // another program may run there now
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, s.explainConnectError(err, began)
	}
	if s.learned = legacy; sdk.IsModernProtocol(conn.info.protocol) {
		s.learned = modern
	}
	return conn, nil
}

// dial connects over the transport that is configured or learned. Otherwise it tries Streamable HTTP first, and then
// SSE if the server refuses in the way of an SSE server.
func (s *server) dial(ctx context.Context) (*connection, error) {
	if s.c.Command != "" {
		e := s.protocolEra()
		conn, err := s.connectStdio(ctx, e)
		switch {
		case e != unknown || ctx.Err() != nil:
		case errors.As(err, new(connectionLostError)): // some older servers end at an unknown request
			return s.connectStdio(ctx, legacy)
		case errors.Is(err, errNotLegacy): // it may start slowly, and now has all of StartTimeout
			return s.connectStdio(ctx, modern)
		}
		return conn, err
	}
	at, err := url.Parse(s.c.URL)
	if err != nil {
		return nil, errors.New("its url is not an http or https address")
	}
	switch {
	case s.c.Transport == HTTP:
		return s.connectHTTP(ctx, at)
	case s.c.Transport == SSE:
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

// checkProtocol returns an error for a protocol version that the SDK does not know. An empty version is valid.
func checkProtocol(version string) error {
	if version == "" || sdk.IsValidProtocolVersion(version) {
		return nil
	}
	return fmt.Errorf("unknown protocol version %q; known are %s", version, strings.Join(sdk.ValidProtocolVersions, ", "))
}

// protocolEra returns the era that is configured or learned, or unknown.
func (s *server) protocolEra() era {
	switch {
	case s.c.Protocol == "":
		return s.learned
	case sdk.IsModernProtocol(s.c.Protocol):
		return modern
	}
	return legacy
}

// connectStdio starts the program of a server and makes the handshake. If the handshake fails, the program has ended.
func (s *server) connectStdio(ctx context.Context, e era) (*connection, error) {
	process, err := newStdio(s.c, s.logs, s.o.Watcher, s.o.Protected, s.readOnlyPaths)
	if err != nil {
		return nil, err
	}
	process.ownFolders = s.o.OwnFolders
	conn := s.newConnection(process.rpcConn)
	over := &wrappedTransport{Interface: process, conn: conn, era: e, version: s.c.Protocol}
	discover := s.o.silence
	if e == modern {
		discover = -1
	}
	if conn, err = s.handshake(ctx, conn, over, Stdio, discover); err == nil {
		conn.info.isolation = process.isolation
	}
	return conn, err
}

// connectSSE connects over HTTP with server-sent events, the transport before protocol 2025-03-26.
func (s *server) connectSSE(ctx context.Context, at *url.URL) (*connection, error) {
	g := s.originTransport(at)
	stream := newSSE(at, g.client(), s.logs)
	conn := s.newConnection(stream.rpcConn)
	conn.afterClose = g.close
	over := &wrappedTransport{Interface: stream, conn: conn, era: legacy}
	return s.handshake(ctx, conn, over, SSE, -1)
}

// connectHTTP connects over streamable HTTP (protocol 2025-03-26 and later).
func (s *server) connectHTTP(ctx context.Context, at *url.URL) (*connection, error) {
	g := s.originTransport(at)
	streamable, err := transport.NewStreamableHTTP(s.c.URL, transport.WithHTTPBasicClient(g.client()),
		transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	// The library's transport reports no loss. noteFailure reports it when it finds the session terminated.
	lost, cancel := context.WithCancelCause(context.Background())
	conn := s.newConnection(nil)
	conn.afterClose = g.close
	conn.lost, conn.fail = lost.Done(), cancel
	conn.lossReason = func() error { return connectionLostError{context.Cause(lost)} }
	t := &wrappedTransport{Interface: streamable, conn: conn, era: s.protocolEra(), version: s.c.Protocol}
	poster := httpPoster{s.c.URL, g.client(), t.postHeader}
	streamable.SetRequestHandler(conn.requestHandler(poster))
	conn, err = s.handshake(ctx, conn, t, HTTP, discoverTimeout)
	// The newest protocol has no GET stream and no cancel notification over HTTP.
	if err == nil && !sdk.IsModernProtocol(conn.info.protocol) {
		openListenStream(poster, conn)
	}
	return conn, err
}

// versionedTransport adds the method that the library expects from HTTP transports.
type versionedTransport struct {
	*wrappedTransport
	http transport.HTTPConnection
}

// SetProtocolVersion passes the version on.
func (v versionedTransport) SetProtocolVersion(version string) { v.http.SetProtocolVersion(version) }

// handshake starts a transport and negotiates a protocol version. name is Stdio, HTTP or SSE. discover limits the time
// for server/discover; -1 means no limit. On an error it closes the connection.
func (s *server) handshake(
	ctx context.Context,
	conn *connection,
	over *wrappedTransport,
	name string,
	discover time.Duration,
) (*connection, error) {
	options := []client.ClientOption{
		client.WithDiscoverTimeout(discover),
		client.WithClientCapabilities(s.clientCapabilities()),
	}
	switch {
	case s.c.Protocol != "":
		options = append(options, client.WithProtocolVersion(s.c.Protocol))
	case over.era == legacy:
		options = append(options, client.WithProtocolVersion(sdk.LATEST_LEGACY_PROTOCOL_VERSION))
	}
	var library transport.Interface = over
	if http, ok := over.Interface.(transport.HTTPConnection); ok {
		library = versionedTransport{over, http}
	}
	conn.client = client.NewClient(library, options...)
	// Before Start: a notification may arrive with the answer to initialize.
	conn.client.OnNotification(conn.handleNotification)
	err := conn.client.Start(ctx)
	if err == nil {
		var result *sdk.InitializeResult
		request := sdk.InitializeRequest{}
		request.Params.ClientInfo = sdk.Implementation{Name: "ravenbot", Version: s.o.Version}
		if result, err = conn.client.Initialize(ctx, request); err == nil {
			conn.info = serverInfo{
				transport: name,
				protocol:  result.ProtocolVersion,
				version:   text.OneLine(result.ServerInfo.Name + " " + result.ServerInfo.Version),
			}
			conn.instructions = result.Instructions
			conn.watchChanges()
			return conn, nil
		}
	}
	conn.close()
	return nil, err
}

// watchChanges subscribes to changes of tools at a server with the newest protocol, and asks an older server, which
// reports changes anyway, for its log messages.
func (c *connection) watchChanges() {
	offers := c.client.GetServerCapabilities()
	modern := sdk.IsModernProtocol(c.info.protocol)
	// In the background, so that logging/setLevel does not delay the tools. The newest protocol has no such request.
	if offers.Logging != nil && !modern {
		c.runInBackground(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, answerTimeout)
			defer cancel()
			request := transport.JSONRPCRequest{
				JSONRPC: sdk.JSONRPC_VERSION,
				ID:      sdk.NewRequestId("level"),
				Method:  "logging/setLevel",
				Params:  map[string]string{"level": "info"},
			}
			_, _ = c.client.GetTransport().SendRequest(ctx, request) // if the server refuses, its default level applies
		})
	}
	filter := sdk.SubscriptionFilter{
		ToolsListChanged:     offers.Tools != nil && offers.Tools.ListChanged,
		PromptsListChanged:   offers.Prompts != nil && offers.Prompts.ListChanged,
		ResourcesListChanged: offers.Resources != nil && offers.Resources.ListChanged,
	}
	// An empty filter would keep a stream open for nothing.
	if !modern || filter.IsEmpty() {
		return
	}
	// Without a stream the regular check finds changes.
	c.keepOpen(func(ctx context.Context) (refused bool) {
		return errors.Is(c.client.Listen(ctx, filter), sdk.ErrMethodNotFound)
	})
}

// handleNotification handles a notification of the server. It must not block or call the server: no further message is
// read until it returns, and the library deadlocks on a call from here (mcp-go v1.2.1, 2026-11).
func (c *connection) handleNotification(n sdk.JSONRPCNotification) {
	fields := n.Params.AdditionalFields
	switch n.Method {
	case sdk.MethodNotificationToolsListChanged,
		sdk.MethodNotificationSubscriptionsAcknowledged: // tools may have changed before the subscription
		wake(c.relistWanted)
	case sdk.MethodNotificationPromptsListChanged, sdk.MethodNotificationResourcesListChanged:
		// Nothing is cached: each listing asks the server.
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

// wake signals a channel of size 1 without waiting. Several signals count as one.
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

// noteFailure ends the connection, or requests a check of it, if the error of a request calls for that.
func (c *connection) noteFailure(err error) {
	var failed *transport.Error
	var late callTimeoutError
	switch {
	case errors.Is(err, transport.ErrSessionTerminated):
		c.fail(errors.New("the server has forgotten the session"))
	// The server may only be slow. The supervisor checks it first, because a lost connection fails all other calls.
	case errors.As(err, &failed), errors.As(err, &late):
		wake(c.checkWanted)
	}
}

// close ends the connection, and returns when its process and background work have ended. Calls in progress fail with
// connectionLostError. It may be called several times, and after a failed handshake.
func (c *connection) close() {
	// Under the lock, so that runInBackground adds no work after Wait.
	c.mu.Lock()
	c.cancel()
	c.mu.Unlock()
	// Before the transport fails the waiting calls: they must count as lost, not as refused.
	c.fail(errors.New("closed"))
	_ = c.client.Close() // after an error there is nothing left to do
	c.afterClose()
	c.work.Wait()
}

// explainConnectError returns an error for the operator. If a process failed or was not ready, it adds the last line of
// its error output and the first line of its output that was not a message.
func (s *server) explainConnectError(err error, began time.Time) error {
	err = unwrapTransportError(err)
	if s.c.Command == "" || !errors.As(err, new(connectionLostError)) && !errors.Is(err, errNotReady) {
		return err
	}
	// Most failing programs give the reason in their last line.
	if lines := s.logs.linesSince(began, "stderr", s.mask); len(lines) > 0 {
		err = fmt.Errorf("%w; its last error output: %.300s", err, lines[len(lines)-1])
	}
	if lines := s.logs.linesSince(began, "stdout", s.mask); len(lines) > 0 {
		err = fmt.Errorf("%w; it wrote a line that is no MCP message: %.300s", err, lines[0])
	}
	return err
}

// unwrapTransportError returns an error without the library's wrapping.
func unwrapTransportError(err error) error {
	var failed *transport.Error
	var address *url.Error
	var refused authorizationError
	switch {
	case errors.As(err, &refused): // its text contains the remedy
		return refused
	case errors.Is(err, transport.ErrAuthorizationRequired):
		return statusError(http.StatusUnauthorized)
	case errors.Is(err, transport.ErrLegacySSEServer):
		return errors.New("it refuses to initialize")
	case errors.Is(err, io.EOF), strings.HasSuffix(err.Error(), "unexpected nil response"): // mcp-go v1.2.1
		return errors.New("its answer ended before a result")
	case errors.As(err, &address): // its text repeats the address, which may contain a secret
		return fmt.Errorf("it cannot be reached: %w", egress.ExplainCertificate(address.Err))
	case errors.As(err, &failed):
		return failed.Err
	}
	return err
}

// authorizationError is an error of Options.SignIns. Its text contains no secret.
type authorizationError interface {
	error
	Authorizing()
}
