package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	sdk "github.com/mark3labs/mcp-go/mcp"
)

// defaultSilence is the time for a process to answer server/discover before it gets the older initialize.
const defaultSilence = 3 * time.Second

// era is one of the two kinds of protocol.
type era int

const (
	unknown era = iota
	legacy      // begins with initialize; up to 2025-11-25
	modern      // stateless, begins with server/discover; from 2026-07-28
)

// wrappedTransport wraps a transport for the library. It captures raw results, and corrects answers that the library
// would misunderstand.
type wrappedTransport struct {
	transport.Interface
	conn    *connection
	era     era
	version string // the only version to speak, or ""

	// Used only during the handshake, which makes one request at a time.
	initializeRefused error // the reason not to try initialize
	isSilent          bool  // server/discover was not answered in time
}

// SendRequest sends a request, and captures its result for withCapture.
func (t *wrappedTransport) SendRequest(
	ctx context.Context,
	r transport.JSONRPCRequest,
) (*transport.JSONRPCResponse, error) {
	switch r.Method {
	case string(sdk.MethodServerDiscover):
		response, err := checkDiscovery(t.sendOnce(ctx, r))
		if mayRetryDiscover(r, response, err) {
			response, err = checkDiscovery(t.sendOnce(ctx, r))
		}
		return response, t.noteDiscovery(err)
	case string(sdk.MethodInitialize):
		return t.initialize(ctx, r)
	}
	response, err := t.conn.sendWithInput(ctx, r, t.sendOnce)
	if raw, ok := ctx.Value(captureKey{}).(*json.RawMessage); ok && err == nil && response.Error == nil {
		*raw = response.Result
		// The captured result is used, so that the library need not decode it.
		if r.Method == string(sdk.MethodToolsCall) {
			response.Result = json.RawMessage(`{"content":[]}`)
		}
	}
	return response, err
}

// errNotLegacy means that a server did not answer server/discover in time and refuses initialize, like a server of the
// newest protocol that starts slowly.
var errNotLegacy = errors.New("it answers neither server/discover in time nor initialize")

// initialize sends the older handshake, to which the library falls back after any failure of server/discover. It
// returns an error if the handshake cannot help.
func (t *wrappedTransport) initialize(
	ctx context.Context,
	r transport.JSONRPCRequest,
) (*transport.JSONRPCResponse, error) {
	refused := t.initializeRefused
	if refused == nil && sdk.IsModernProtocol(t.version) {
		refused = fmt.Errorf("it does not speak the configured protocol version %s", t.version)
	}
	if refused != nil {
		return nil, refused
	}
	response, err := t.sendOnce(ctx, r)
	switch {
	case err != nil:
	case response.Error == nil:
		err = mendHandshake(response)
	case t.isSilent:
		err = errNotLegacy
	}
	return response, err
}

// noteDiscovery returns the error of server/discover. A missing sign-in says nothing about the era: initialize then
// fails with the same error.
func (t *wrappedTransport) noteDiscovery(err error) error {
	if errors.As(err, new(authorizationError)) {
		t.initializeRefused = err
	}
	t.isSilent = errors.Is(err, context.DeadlineExceeded)
	return err
}

// mayRetryDiscover reports whether a server has refused a version that it supports. The library would take it for an
// old server.
func mayRetryDiscover(r transport.JSONRPCRequest, response *transport.JSONRPCResponse, err error) bool {
	if err != nil || response.Error == nil || response.Error.Code != sdk.UNSUPPORTED_PROTOCOL_VERSION {
		return false
	}
	var refused sdk.UnsupportedProtocolVersionError
	sent := jsonString(jsonObject(jsonObject(encodeJSON(r.Params))["_meta"])[sdk.MetaKeyProtocolVersion])
	return errors.As(response.Error.AsError(), &refused) && slices.Contains(refused.Supported, sent)
}

// sendOnce sends one request. If ctx ends first, it sends a cancel notification to an older server over HTTP, because
// such a server should not treat a closed stream as a cancellation.
func (t *wrappedTransport) sendOnce(
	ctx context.Context,
	r transport.JSONRPCRequest,
) (*transport.JSONRPCResponse, error) {
	response, err := t.Interface.SendRequest(ctx, r)
	_, isHTTP := t.Interface.(*transport.StreamableHTTP)
	if err == nil && !isAnswerTo(r.ID, response) {
		return nil, errors.New("it sent the answer to another request") // it may belong to another user
	}
	version := t.conn.info.protocol // "" during the handshake
	if err != nil && ctx.Err() != nil && isHTTP && version != "" && !sdk.IsModernProtocol(version) {
		t.conn.runInBackground(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, answerTimeout)
			defer cancel()
			cancelled := sdk.JSONRPCNotification{JSONRPC: sdk.JSONRPC_VERSION}
			cancelled.Method = string(sdk.MethodNotificationCancelled)
			cancelled.Params.AdditionalFields = map[string]any{"requestId": r.ID, "reason": "nobody waits for it any longer"}
			_ = t.Interface.SendNotification(ctx, cancelled) // the next request notices a lost connection
		})
	}
	return response, err
}

// isAnswerTo reports whether a response has the ID of a request, perhaps as text. An error may have none.
func isAnswerTo(id sdk.RequestId, response *transport.JSONRPCResponse) bool {
	if response.ID.IsNil() {
		return response.Error != nil
	}
	return fmt.Sprint(response.ID.Value()) == fmt.Sprint(id.Value())
}

// postHeader returns the headers of a message to an older Streamable HTTP server.
func (t *wrappedTransport) postHeader() http.Header {
	h := http.Header{}
	h.Set(transport.HeaderKeyProtocolVersion, t.conn.info.protocol)
	if session := t.GetSessionId(); session != "" {
		h.Set(transport.HeaderKeySessionID, session)
	}
	return h
}

var errNotModern = errors.New("the server does not speak the newest protocol")

// checkDiscovery returns a response only if it names a modern version: some old servers answer {} to any request (seen
// 2026-11).
func checkDiscovery(response *transport.JSONRPCResponse, err error) (*transport.JSONRPCResponse, error) {
	if err != nil || response.Error != nil {
		return response, err
	}
	var versions []string
	if json.Unmarshal(jsonObject(response.Result)["supportedVersions"], &versions) != nil ||
		!slices.ContainsFunc(versions, sdk.IsModernProtocol) {
		return nil, errNotModern
	}
	return response, mendHandshake(response)
}

// mendHandshake removes everything from the answer to initialize or server/discover that the library may refuse, such
// as `"tools": true` in the capabilities. A missing version becomes the one that the specification assumes. It fails if
// the answer is not an object.
func mendHandshake(response *transport.JSONRPCResponse) error {
	o := jsonObject(response.Result)
	if o == nil {
		return errors.New("its answer to initialize is no JSON object")
	}
	offers, offered := map[string]any{}, jsonObject(o["capabilities"])
	for _, name := range []string{"tools", "prompts", "resources", "logging"} {
		if offer := string(offered[name]); offer != "" && offer != "null" && offer != "false" {
			offers[name] = map[string]bool{"listChanged": decodeAs[bool](jsonObject(offered[name])["listChanged"])}
		}
	}
	info := jsonObject(o["serverInfo"])
	o["capabilities"] = encodeJSON(offers)
	o["instructions"] = encodeJSON(jsonString(o["instructions"]))
	o["serverInfo"] = encodeJSON(map[string]string{"name": jsonString(info["name"]), "version": jsonString(info["version"])})
	o["protocolVersion"] = encodeJSON(cmp.Or(jsonString(o["protocolVersion"]), "2025-03-26"))
	response.Result = encodeJSON(o)
	return nil
}

// SetRequestHandler ignores the library's handler, which would lose parts of requests. The connection answers them.
func (t *wrappedTransport) SetRequestHandler(transport.RequestHandler) {}

type captureKey struct{}

// withCapture returns a context for a request and its raw result, which stays nil without a result.
func withCapture(ctx context.Context) (context.Context, *json.RawMessage) {
	raw := new(json.RawMessage)
	return context.WithValue(ctx, captureKey{}, raw), raw
}
