package mcp

import (
	"cmp"
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

// defaultSilence is how long a process may leave server/discover unanswered before it is
// also sent the older initialize.
const defaultSilence = 3 * time.Second

// era is which of the two kinds of protocol a server speaks.
type era int

const (
	unknown era = iota
	legacy      // begins with initialize; up to 2025-11-25
	modern      // stateless, begins with server/discover; from 2026-07-28
)

// wrappedTransport wraps a transport for the library. It captures results as they came, and
// finds out the era of a server. The library waits a fixed time for the answer to
// server/discover and then takes the server for an old one, which delays old servers that
// do not answer unknown requests, and misjudges new ones that start slowly (mcp-go v1.2.1,
// 2026-11). The wrapper sends both requests, the second after a while, and the first
// answer counts.
type wrappedTransport struct {
	transport.Interface
	conn             *connection
	era              era
	version          string        // the only version that may be spoken, or ""
	silence          time.Duration // after which initialize is sent as well; 0: never
	initializeParams func() any

	// poster sends the cancel notifications that the library does not send; nil: none are
	// to be sent.
	poster atomic.Pointer[httpPoster]

	mu                sync.Mutex
	earlyInitialize   *pendingInitialize // an initialize that was sent ahead of the library's
	initializeRefused error              // why initialize is not to be tried
}

// pendingInitialize is an initialize request; its reply may be read once done is closed.
type pendingInitialize struct {
	done chan struct{}
	reply
}

// reply is the outcome of a request: a response, which may hold an error of the server, or the
// reason why none came.
type reply struct {
	response *transport.JSONRPCResponse
	err      error
}

// ok reports whether the server answered with a result.
func (r reply) ok() bool { return r.err == nil && r.response.Error == nil }

// SendRequest sends a request, and captures its result if ctx comes from withCapture.
func (t *wrappedTransport) SendRequest(
	ctx context.Context,
	r transport.JSONRPCRequest,
) (*transport.JSONRPCResponse, error) {
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
		refused := t.initializeRefused
		t.mu.Unlock()
		// The library falls back to initialize after a failed discover, whatever the reason.
		if refused == nil && sdk.IsModernProtocol(t.version) {
			refused = fmt.Errorf("it does not speak version %s of the protocol, the one that is configured", t.version)
		}
		if refused != nil {
			return nil, refused
		}
		answer, ok := t.takeEarlyInitialize(ctx)
		if !ok {
			answer.response, answer.err = t.sendOnce(ctx, r)
		}
		if answer.ok() {
			answer.err = mendHandshake(answer.response)
		}
		return answer.response, answer.err
	}
	response, err := t.conn.sendWithInput(ctx, r, t.sendOnce)
	if c, ok := ctx.Value(captureKey{}).(*capture); ok && err == nil && response.Error == nil {
		c.Store(&response.Result)
		// The captured result is the one that is read: the library need not decode it again.
		if r.Method == string(sdk.MethodToolsCall) {
			response = &transport.JSONRPCResponse{
				JSONRPC: response.JSONRPC,
				ID:      response.ID,
				Result:  json.RawMessage(`{"content":[]}`),
			}
		}
	}
	return response, err
}

// noteAuthorizationError returns err. If it says that somebody has to sign in first, it says
// nothing about the era of the server: initialize is then refused with the same error.
func (t *wrappedTransport) noteAuthorizationError(err error) error {
	var refused authorizationError
	if errors.As(err, &refused) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.initializeRefused = err
	}
	return err
}

// mayRetryDiscover reports whether a server has refused a version that it names as
// supported. The library takes that for the sign of an old server.
func mayRetryDiscover(r transport.JSONRPCRequest, response *transport.JSONRPCResponse, err error) bool {
	if err != nil || response.Error == nil || response.Error.Code != sdk.UNSUPPORTED_PROTOCOL_VERSION {
		return false
	}
	var refused sdk.UnsupportedProtocolVersionError
	sent := jsonString(jsonObject(jsonObject(encodeJSON(r.Params))["_meta"])[sdk.MetaKeyProtocolVersion])
	return errors.As(response.Error.AsError(), &refused) && slices.Contains(refused.Supported, sent)
}

// sendOnce sends one request. To a server of an older protocol over HTTP it sends a cancel
// notification when ctx ends first: by the specification such a server should not take a
// closed stream for a cancelled request.
func (t *wrappedTransport) sendOnce(
	ctx context.Context,
	r transport.JSONRPCRequest,
) (*transport.JSONRPCResponse, error) {
	response, err := t.Interface.SendRequest(ctx, r)
	// A response over the library's HTTP transport passes no reader that would note it, or compare its ID.
	if err == nil {
		t.conn.noteMessage()
		if !isAnswerTo(r.ID, response) {
			return nil, errOtherAnswer
		}
	}
	if poster := t.poster.Load(); err != nil && ctx.Err() != nil && poster != nil {
		t.conn.runInBackground(func(ctx context.Context) {
			poster.postBestEffort(ctx, map[string]any{
				"jsonrpc": sdk.JSONRPC_VERSION,
				"method":  sdk.MethodNotificationCancelled,
				"params":  map[string]any{"requestId": r.ID, "reason": "nobody waits for it any longer"},
			})
		})
	}
	return response, err
}

// errOtherAnswer is the error of a request to which the server has sent the response to another one, which may hold what
// somebody else asked for.
var errOtherAnswer = errors.New("it sent the answer to another request")

// isAnswerTo reports whether a response has the ID of a request, which some servers send back as text. An error may have
// none, where the server could not read the request.
func isAnswerTo(id sdk.RequestId, response *transport.JSONRPCResponse) bool {
	if response.ID.IsNil() {
		return response.Error != nil
	}
	return fmt.Sprint(response.ID.Value()) == fmt.Sprint(id.Value())
}

// postHeader returns the headers of a message to a Streamable HTTP server of an older
// protocol.
func (t *wrappedTransport) postHeader() http.Header {
	h := http.Header{}
	h.Set(transport.HeaderKeyProtocolVersion, t.conn.info.protocol)
	if session := t.GetSessionId(); session != "" {
		h.Set(transport.HeaderKeySessionID, session)
	}
	return h
}

// takeEarlyInitialize returns the reply to an initialize that discover has sent; false: it
// has sent none.
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

// discover sends server/discover, and initialize as well if a process stays silent. It
// returns errNotModern where the server speaks an older protocol.
func (t *wrappedTransport) discover(
	ctx context.Context,
	r transport.JSONRPCRequest,
) (*transport.JSONRPCResponse, error) {
	asked := make(chan reply, 1) // buffered: nobody may read it any more
	go func() {
		response, err := t.Interface.SendRequest(ctx, r)
		asked <- reply{response, err}
	}()
	var silent, refused <-chan time.Time // nil channels block
	if t.era == unknown && t.silence > 0 {
		silent = time.After(t.silence)
	}
	var early *pendingInitialize
	var initialized chan struct{}
	for {
		select {
		case answer := <-asked:
			return checkDiscovery(answer)
		case <-silent:
			early = t.initializeEarly(ctx, r.ID)
			initialized = early.done
		case <-initialized:
			if early.ok() {
				return nil, errNotModern
			}
			// Servers of the newest protocol refuse initialize; their answer to discover is
			// on its way, as it was sent first.
			initialized, refused = nil, time.After(time.Second)
		case <-refused:
			return nil, errNotModern
		}
	}
}

// initializeEarly sends initialize ahead of the library. discover is the id of the other
// request.
func (t *wrappedTransport) initializeEarly(ctx context.Context, discover sdk.RequestId) *pendingInitialize {
	p := &pendingInitialize{done: make(chan struct{})}
	t.mu.Lock()
	t.earlyInitialize = p
	t.mu.Unlock()
	go func() {
		defer close(p.done)
		p.response, p.err = t.Interface.SendRequest(ctx, transport.JSONRPCRequest{
			JSONRPC: sdk.JSONRPC_VERSION,
			ID:      sdk.NewRequestId("early-" + discover.String()),
			Method:  string(sdk.MethodInitialize),
			Params:  t.initializeParams(),
		})
	}()
	return p
}

// checkDiscovery returns the response to server/discover only if it names a modern version:
// some old servers answer {} to any request that they do not know (seen 2026-11).
func checkDiscovery(answer reply) (*transport.JSONRPCResponse, error) {
	if !answer.ok() {
		return answer.response, answer.err
	}
	var versions []string
	if json.Unmarshal(jsonObject(answer.response.Result)["supportedVersions"], &versions) != nil ||
		!slices.ContainsFunc(versions, sdk.IsModernProtocol) {
		return nil, errNotModern
	}
	return answer.response, mendHandshake(answer.response)
}

// mendHandshake corrects the answer to initialize or server/discover in what the library would refuse it for, such as
// `"tools": true` among the capabilities, and keeps the fields that are used. If the answer names no version, it
// sets the version that the specification assumes in such a case. It returns an error if the answer is no object.
func mendHandshake(response *transport.JSONRPCResponse) error {
	o := jsonObject(response.Result)
	if o == nil {
		return errors.New("its answer to initialize is no JSON object")
	}
	offers, offered := map[string]any{}, jsonObject(o["capabilities"])
	for _, name := range []string{"tools", "prompts", "resources", "logging"} {
		if offer := string(offered[name]); offer != "" && offer != "null" && offer != "false" {
			changes := jsonBool(jsonObject(offered[name])["listChanged"])
			offers[name] = map[string]bool{"listChanged": changes != nil && *changes}
		}
	}
	info := jsonObject(o["serverInfo"])
	o["capabilities"] = encodeJSON(offers)
	o["instructions"] = encodeJSON(jsonString(o["instructions"]))
	o["serverInfo"] = encodeJSON(map[string]string{"name": jsonString(info["name"]), "version": jsonString(info["version"])})
	o["protocolVersion"] = encodeJSON(cmp.Or(jsonString(o["protocolVersion"]), batchProtocol))
	response.Result = encodeJSON(o)
	return nil
}

// SetRequestHandler ignores the library's handler: the connection answers the server's
// requests itself, since the library would lose parts of them.
func (t *wrappedTransport) SetRequestHandler(transport.RequestHandler) {}

// captureKey is the key of a capture in a context.
type captureKey struct{}

// capture holds the raw result of the last request made with its context.
type capture struct {
	atomic.Pointer[json.RawMessage]
}

// withCapture returns a context whose requests leave their raw result in the capture.
func withCapture(ctx context.Context) (context.Context, *capture) {
	c := &capture{}
	return context.WithValue(ctx, captureKey{}, c), c
}

// result returns the result that was kept; nil: there is none.
func (c *capture) result() json.RawMessage {
	if raw := c.Load(); raw != nil {
		return *raw
	}
	return nil
}
