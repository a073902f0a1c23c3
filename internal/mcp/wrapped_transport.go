package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	sdk "github.com/mark3labs/mcp-go/mcp"
)

// defaultSilence is how long a process may leave the question for the newest protocol
// unanswered before it is greeted in the older way as well.
const defaultSilence = 3 * time.Second

// era is which of the two forms of the protocol a server speaks.
type era int

const (
	unknown era = iota
	legacy      // initialize first, to 2025-11-25
	modern      // every request for itself, from 2026-07-28
)

// wrappedTransport lies between the library and a carrier. It keeps results as they came, and
// finds out the era of a server: the library waits a fixed time for an answer
// and then takes the server for an old one, which delays those that are old and
// silent, and is wrong of those that are new and slow to start. Here both
// greetings are out after a while, and what is answered first counts.
type wrappedTransport struct {
	transport.Interface
	conn             *connection
	era              era
	version          string        // the one version that may be spoken, or ""
	silence          time.Duration // after which to greet in the older way as well; 0: never
	initializeParams func() any    // parameters of initialize

	// poster posts what the library does not; nil: it does.
	poster atomic.Pointer[httpPoster]

	mu                sync.Mutex
	earlyInitialize   *pendingInitialize // an initialize that was sent already
	initializeRefused error              // why the older greeting is not to be tried
}

// pendingInitialize is a handshake under way; its reply is there when done is closed.
type pendingInitialize struct {
	done chan struct{}
	reply
}

type reply struct {
	response *transport.JSONRPCResponse
	err      error
}

func (r reply) ok() bool { return r.err == nil && r.response.Error == nil }

func eraOf(over transport.Interface) era {
	switch t := over.(type) {
	case *wrappedTransport:
		return t.era
	case versionedTransport:
		return t.era
	}
	return unknown
}

// SendRequest passes a request on and keeps its result for who asked for that.
func (t *wrappedTransport) SendRequest(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	switch r.Method {
	case string(sdk.MethodServerDiscover):
		response, err := t.discover(ctx, r)
		if !mayRetryDiscover(r, response, err) {
			return response, t.noteAuthorizationError(err)
		}
		response, err = t.discover(ctx, r)
		return response, t.noteAuthorizationError(err)
	case string(sdk.MethodInitialize):
		t.mu.Lock()
		never := t.initializeRefused
		t.mu.Unlock()
		if never == nil && sdk.IsModernProtocol(t.version) {
			never = fmt.Errorf("it does not speak version %s of the protocol, the one that is configured", t.version)
		}
		if never != nil {
			return nil, never
		}
		if answer, ok := t.takeEarlyInitialize(ctx); ok {
			return answer.response, answer.err
		}
	}
	response, err := t.conn.sendWithInput(ctx, r, t.sendOnce)
	if c, ok := ctx.Value(captureKey{}).(*capture); ok && err == nil && response.Error == nil {
		c.set(response.Result)
		if r.Method == string(sdk.MethodToolsCall) { // nobody reads what the library would make of it
			response = &transport.JSONRPCResponse{JSONRPC: response.JSONRPC, ID: response.ID, Result: json.RawMessage(`{"content":[]}`)}
		}
	}
	return response, err
}

// noteAuthorizationError takes note of a failure to discover that tells nothing of the server's
// era: the library would go on in the older one.
func (t *wrappedTransport) noteAuthorizationError(err error) error {
	var refused authorizationError
	if errors.As(err, &refused) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.initializeRefused = err
	}
	return err
}

// mayRetryDiscover reports whether a server refused a version and named the same as one that
// it supports. The library takes that for the sign of an old server.
func mayRetryDiscover(r transport.JSONRPCRequest, response *transport.JSONRPCResponse, err error) bool {
	if err != nil || response.Error == nil || response.Error.Code != sdk.UNSUPPORTED_PROTOCOL_VERSION {
		return false
	}
	var refused sdk.UnsupportedProtocolVersionError
	sent := jsonString(jsonObject(jsonObject(encodeJSON(r.Params))["_meta"])[sdk.MetaKeyProtocolVersion])
	return errors.As(response.Error.AsError(), &refused) && slices.Contains(refused.Supported, sent)
}

// sendOnce sends one request, and tells a server of the older protocol over HTTP when
// nobody waits any longer: it is not to take the end of a stream for that.
func (t *wrappedTransport) sendOnce(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	response, err := t.Interface.SendRequest(ctx, r)
	if err == nil {
		t.conn.noteMessage()
	}
	if beside := t.poster.Load(); err != nil && ctx.Err() != nil && beside != nil {
		t.conn.runInBackground(func(ctx context.Context) {
			beside.postBestEffort(ctx, map[string]any{"jsonrpc": sdk.JSONRPC_VERSION, "method": sdk.MethodNotificationCancelled,
				"params": map[string]any{"requestId": r.ID, "reason": "nobody waits for it any longer"}})
		})
	}
	return response, err
}

// postHeader is what goes with each message to a Streamable HTTP server of the older
// protocol.
func (t *wrappedTransport) postHeader() http.Header {
	h := http.Header{}
	h.Set(transport.HeaderKeyProtocolVersion, t.conn.info.protocol)
	if session := t.GetSessionId(); session != "" {
		h.Set(transport.HeaderKeySessionID, session)
	}
	return h
}

// takeEarlyInitialize gives the answer to an initialize that was sent by discover, if so.
func (t *wrappedTransport) takeEarlyInitialize(ctx context.Context) (reply, bool) {
	t.mu.Lock()
	g := t.earlyInitialize
	t.earlyInitialize = nil
	t.mu.Unlock()
	if g == nil {
		return reply{}, false
	}
	select {
	case <-g.done:
		return g.reply, true
	case <-ctx.Done():
		return reply{err: ctx.Err()}, true
	}
}

var errNotModern = errors.New("the server does not speak the newest protocol")

// discover asks for the newest protocol, and for an older one too when a process
// stays silent.
func (t *wrappedTransport) discover(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	asked := make(chan reply, 1)
	go func() {
		response, err := t.Interface.SendRequest(ctx, r)
		asked <- reply{response, err}
	}()
	var quiet, refused <-chan time.Time
	if t.era == unknown && t.silence > 0 {
		quiet = time.After(t.silence)
	}
	var g *pendingInitialize
	var greeted chan struct{}
	for {
		select {
		case answer := <-asked:
			return checkDiscovery(answer)
		case <-quiet:
			g = t.initializeEarly(ctx, r.ID)
			greeted = g.done
		case <-greeted:
			if g.ok() {
				return nil, errNotModern
			}
			// Servers of the newest protocol refuse it, after they have answered.
			greeted, refused = nil, time.After(time.Second)
		case <-refused:
			return nil, errNotModern
		}
	}
}

// initializeEarly sends initialize ahead of the library.
func (t *wrappedTransport) initializeEarly(ctx context.Context, beside sdk.RequestId) *pendingInitialize {
	g := &pendingInitialize{done: make(chan struct{})}
	t.mu.Lock()
	t.earlyInitialize = g
	t.mu.Unlock()
	go func() {
		defer close(g.done)
		g.response, g.err = t.Interface.SendRequest(ctx, transport.JSONRPCRequest{JSONRPC: sdk.JSONRPC_VERSION,
			ID: sdk.NewRequestId("early-" + beside.String()), Method: string(sdk.MethodInitialize), Params: t.initializeParams()})
	}()
	return g
}

// checkDiscovery lets an answer pass only if it names a version of the new kind: old
// servers have been seen to answer {} to whatever they do not know.
func checkDiscovery(answer reply) (*transport.JSONRPCResponse, error) {
	if !answer.ok() {
		return answer.response, answer.err
	}
	var versions []string
	if json.Unmarshal(jsonObject(answer.response.Result)["supportedVersions"], &versions) != nil ||
		!slices.ContainsFunc(versions, sdk.IsModernProtocol) {
		return nil, errNotModern
	}
	return answer.response, nil
}

// SetRequestHandler leaves the server's requests to the connection: the library
// would lose parts of them.
func (t *wrappedTransport) SetRequestHandler(transport.RequestHandler) {}

type captureKey struct{}

// capture holds the result of the last request made with a context, as it came.
type capture struct {
	mu  sync.Mutex
	raw json.RawMessage
}

func withCapture(ctx context.Context) (context.Context, *capture) {
	c := &capture{}
	return context.WithValue(ctx, captureKey{}, c), c
}

func (c *capture) set(raw json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = raw
}

func (c *capture) result() json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.raw
}
