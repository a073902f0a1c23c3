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

// defaultSilence is how long a process may leave server/discover unanswered before it is sent the older initialize.
const defaultSilence = 3 * time.Second

// era is which of the two kinds of protocol a server speaks.
type era int

const (
	unknown era = iota
	legacy      // begins with initialize; up to 2025-11-25
	modern      // stateless, begins with server/discover; from 2026-07-28
)

// wrappedTransport wraps a transport for the library. It captures results as they came, and corrects what the library
// would take for the sign of an old or a new server.
type wrappedTransport struct {
	transport.Interface
	conn    *connection
	era     era
	version string // the only version that may be spoken, or ""

	// Set and read during the handshake alone, which makes one request at a time.
	initializeRefused error // why initialize is not to be tried
	isSilent          bool  // server/discover was not answered in time
}

// SendRequest sends a request, and captures its result if ctx comes from withCapture.
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
		// The captured result is the one that is read: the library need not decode it again.
		if r.Method == string(sdk.MethodToolsCall) {
			response.Result = json.RawMessage(`{"content":[]}`)
		}
	}
	return response, err
}

// errNotLegacy says that a server which did not answer server/discover in time refuses initialize, as one of the newest
// protocol that starts slowly does.
var errNotLegacy = errors.New("it answers neither server/discover in time nor initialize")

// initialize sends the older handshake, unless it is known to be of no use: the library falls back to it after a failed
// server/discover, whatever the reason.
func (t *wrappedTransport) initialize(
	ctx context.Context,
	r transport.JSONRPCRequest,
) (*transport.JSONRPCResponse, error) {
	refused := t.initializeRefused
	if refused == nil && sdk.IsModernProtocol(t.version) {
		refused = fmt.Errorf("it does not speak version %s of the protocol, the one that is configured", t.version)
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

// noteDiscovery returns the error of server/discover. One that says that somebody has to sign in first says nothing about
// the era of the server: initialize is then refused with the same error.
func (t *wrappedTransport) noteDiscovery(err error) error {
	if errors.As(err, new(authorizationError)) {
		t.initializeRefused = err
	}
	t.isSilent = errors.Is(err, context.DeadlineExceeded)
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

// sendOnce sends one request. To a server of an older protocol over HTTP it sends a cancel notification when ctx ends
// first: by the specification such a server should not take a closed stream for a cancelled request.
func (t *wrappedTransport) sendOnce(
	ctx context.Context,
	r transport.JSONRPCRequest,
) (*transport.JSONRPCResponse, error) {
	response, err := t.Interface.SendRequest(ctx, r)
	_, isHTTP := t.Interface.(*transport.StreamableHTTP)
	if err == nil && !isAnswerTo(r.ID, response) {
		return nil, errors.New("it sent the answer to another request") // which may belong to another user
	}
	version := t.conn.info.protocol // "" until the handshake is done
	if err != nil && ctx.Err() != nil && isHTTP && version != "" && !sdk.IsModernProtocol(version) {
		t.conn.runInBackground(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, answerTimeout)
			defer cancel()
			cancelled := sdk.JSONRPCNotification{JSONRPC: sdk.JSONRPC_VERSION}
			cancelled.Method = string(sdk.MethodNotificationCancelled)
			cancelled.Params.AdditionalFields = map[string]any{"requestId": r.ID, "reason": "nobody waits for it any longer"}
			_ = t.Interface.SendNotification(ctx, cancelled) // a lost connection is noticed by the next request
		})
	}
	return response, err
}

// isAnswerTo reports whether a response has the ID of a request, which some servers send back as text. An error may have
// none, where the server could not read the request.
func isAnswerTo(id sdk.RequestId, response *transport.JSONRPCResponse) bool {
	if response.ID.IsNil() {
		return response.Error != nil
	}
	return fmt.Sprint(response.ID.Value()) == fmt.Sprint(id.Value())
}

// postHeader returns the headers of a message to a Streamable HTTP server of an older protocol.
func (t *wrappedTransport) postHeader() http.Header {
	h := http.Header{}
	h.Set(transport.HeaderKeyProtocolVersion, t.conn.info.protocol)
	if session := t.GetSessionId(); session != "" {
		h.Set(transport.HeaderKeySessionID, session)
	}
	return h
}

var errNotModern = errors.New("the server does not speak the newest protocol")

// checkDiscovery returns the response to server/discover only if it names a modern version:
// some old servers answer {} to any request that they do not know (seen 2026-11).
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

// SetRequestHandler ignores the library's handler: the connection answers the server's
// requests itself, since the library would lose parts of them.
func (t *wrappedTransport) SetRequestHandler(transport.RequestHandler) {}

type captureKey struct{}

// withCapture returns a context whose requests leave their raw result; it stays nil without a result.
func withCapture(ctx context.Context) (context.Context, *json.RawMessage) {
	raw := new(json.RawMessage)
	return context.WithValue(ctx, captureKey{}, raw), raw
}
