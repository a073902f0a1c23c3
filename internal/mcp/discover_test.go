package mcp

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	sdk "github.com/mark3labs/mcp-go/mcp"
)

// slowTransport answers each method after a while.
type slowTransport struct {
	*rpcConn
	after   map[string]time.Duration // by method; missing: never
	results map[string]string        // by method; missing: an error
}

func (slowTransport) Start(context.Context) error { return nil }
func (slowTransport) Close() error                { return nil }

func (s slowTransport) SendRequest(ctx context.Context, r transport.JSONRPCRequest) (
	*transport.JSONRPCResponse, error) {
	after, ok := s.after[r.Method]
	if !ok {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	time.Sleep(after)
	if result, ok := s.results[r.Method]; ok {
		return &transport.JSONRPCResponse{ID: r.ID, Result: json.RawMessage(result)}, nil
	}
	return transport.NewJSONRPCErrorResponse(r.ID, sdk.METHOD_NOT_FOUND, "unknown", nil), nil
}

const (
	discoverMethod   = string(sdk.MethodServerDiscover)
	initializeMethod = string(sdk.MethodInitialize)
	modernVersions   = `{"supportedVersions":["2026-07-28"]}`
)

// Which protocol a server speaks is found out as soon as it has shown that.
func TestDiscover_FirstProofCounts(t *testing.T) {
	s := time.Second
	for _, tt := range []struct {
		what    string
		era     era
		silence time.Duration
		after   map[string]time.Duration
		results map[string]string
		want    time.Duration
		isNew   bool
	}{
		{"a new one", unknown, 3 * s, map[string]time.Duration{discoverMethod: s},
			map[string]string{discoverMethod: modernVersions}, s, true},
		{"an old one that answers", unknown, 3 * s, map[string]time.Duration{discoverMethod: s},
			map[string]string{discoverMethod: `{}`}, s, false},
		{"an old one that is silent", unknown, 3 * s, map[string]time.Duration{initializeMethod: s},
			map[string]string{initializeMethod: `{}`}, 4 * s, false},
		{"a slow new one refuses initialize", unknown, 3 * s,
			map[string]time.Duration{discoverMethod: 4500 * time.Millisecond, initializeMethod: s},
			map[string]string{discoverMethod: modernVersions}, 4500 * time.Millisecond, true},
		{"one that refuses both", unknown, 3 * s, map[string]time.Duration{initializeMethod: s}, nil, 5 * s, false},
		{"one that is known to be new", modern, 3 * s, map[string]time.Duration{discoverMethod: 9 * s, initializeMethod: s},
			map[string]string{discoverMethod: modernVersions, initializeMethod: `{}`}, 9 * s, true},
		{"one that is waited for", unknown, 0, map[string]time.Duration{discoverMethod: 9 * s, initializeMethod: s},
			map[string]string{discoverMethod: modernVersions, initializeMethod: `{}`}, 9 * s, true},
	} {
		t.Run(tt.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				w := &wrappedTransport{Interface: slowTransport{after: tt.after, results: tt.results}, era: tt.era,
					silence: tt.silence, initializeParams: func() any { return nil }}
				began := time.Now()
				response, err := w.discover(ctx, transport.JSONRPCRequest{ID: sdk.NewRequestId("d"), Method: discoverMethod})
				took := time.Since(began)
				if took != tt.want || (err == nil && response != nil) != tt.isNew ||
					!tt.isNew && !errors.Is(err, errNotModern) {
					t.Errorf("%v, %v after %v; want it after %v", response, err, took, tt.want)
				}
				cancel()
			})
		})
	}
}

// The answer to an initialize that was sent early is used once.
func TestTakeEarlyInitialize(t *testing.T) {
	w := &wrappedTransport{}
	if _, ok := w.takeEarlyInitialize(t.Context()); ok {
		t.Error("none was sent, and there is an answer")
	}
	want := &transport.JSONRPCResponse{}
	p := &pendingInitialize{done: make(chan struct{}), reply: reply{response: want}}
	close(p.done)
	w.earlyInitialize = p
	if got, ok := w.takeEarlyInitialize(t.Context()); !ok || got.response != want {
		t.Errorf("%+v, %v", got, ok)
	}
	if _, ok := w.takeEarlyInitialize(t.Context()); ok {
		t.Error("the answer was used twice")
	}
	w.earlyInitialize = &pendingInitialize{done: make(chan struct{})}
	ended, end := context.WithCancel(t.Context())
	end()
	if got, ok := w.takeEarlyInitialize(ended); !ok || !errors.Is(got.err, context.Canceled) {
		t.Errorf("when the time is up: %+v, %v", got, ok)
	}
}

// Servers of old answer what they do not know in many ways.
func TestCheckDiscovery(t *testing.T) {
	fault := errors.New("lost")
	refusal := &transport.JSONRPCResponse{Error: &sdk.JSONRPCErrorDetails{Code: -32601}}
	for result, isNew := range map[string]bool{
		modernVersions: true, `{"supportedVersions":["2025-06-18","2026-07-28"]}`: true, `{}`: false,
		`{"supportedVersions":["2025-06-18"]}`: false, `{"supportedVersions":"2026-07-28"}`: false, `[]`: false,
	} {
		response := &transport.JSONRPCResponse{Result: json.RawMessage(result)}
		got, err := checkDiscovery(reply{response: response})
		if isNew && (got != response || err != nil) || !isNew && (got != nil || !errors.Is(err, errNotModern)) {
			t.Errorf("%s: %v, %v", result, got, err)
		}
	}
	if got, err := checkDiscovery(reply{response: refusal}); got != refusal || err != nil {
		t.Errorf("a refusal: %v, %v", got, err)
	}
	if _, err := checkDiscovery(reply{err: fault}); !errors.Is(err, fault) {
		t.Errorf("a fault: %v", err)
	}
}

// signInError is an error of a sign-in.
type signInError struct{ error }

func (signInError) Authorizing() {}

// Errors reach the operator without the words of the library, and without an address that may hold a secret.
func TestUnwrapTransportError(t *testing.T) {
	plain, consent := errors.New("plain"), signInError{errors.New("sign in")}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{plain, "plain"},
		{transport.NewError(plain), "plain"},
		{transport.NewError(&url.Error{Op: "Post", URL: "https://x?key=sesame", Err: plain}), "it cannot be reached: plain"},
		{transport.NewError(&url.Error{URL: "https://x?key=sesame", Err: consent}), "sign in"},
		{transport.NewError(transport.ErrLegacySSEServer), "it refuses to initialize"},
		{transport.ErrAuthorizationRequired, "the server refused the credentials (HTTP 401): check headers"},
	} {
		if got := unwrapTransportError(tt.err); got.Error() != tt.want {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.want)
		}
	}
	expired := x509.CertificateInvalidError{Reason: x509.Expired, Cert: &x509.Certificate{NotAfter: time.Unix(0, 0)}}
	const want = "was valid until 1970-01-01T00:00:00Z, and the clock of this machine says "
	if got := unwrapTransportError(&url.Error{Err: expired}); !strings.Contains(got.Error(), want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The last line of a program that did not start says why, in most cases.
func TestExplainConnectError(t *testing.T) {
	lost := connectionLostError{errors.New("the process ended (exit status 1)")}
	for _, tt := range []struct {
		what string
		c    Config
		line string
		err  error
		want string
	}{
		{"it ended", Config{Name: "a", Command: "x"}, "no token", lost,
			"the process ended (exit status 1); its last error output: no token"},
		{"it was late", Config{Name: "a", Command: "x"}, "loading", errNotReady,
			"it was not ready; its last error output: loading"},
		{"it said nothing", Config{Name: "a", Command: "x"}, " ", lost, "the process ended (exit status 1)"},
		{"it refused", Config{Name: "a", Command: "x"}, "no token", errors.New("refused"), "refused"},
		{"it runs elsewhere", Config{Name: "a", URL: "https://x"}, "no token", lost, "the process ended (exit status 1)"},
	} {
		s := must(must(NewHost(Options{Servers: []Config{tt.c}})).server("a"))
		s.logs.add("stderr", []byte(tt.line))
		s.logs.add("stderr", []byte("npm error A complete log of this run can be found in: /tmp/x.log"))
		s.logs.add("bot", []byte("ended"))
		if got := s.explainConnectError(tt.err).Error(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
	}
}

// What was learned is tried first, and a configured version decides.
func TestProtocolEra(t *testing.T) {
	for _, tt := range []struct {
		protocol string
		learned  era
		want     era
	}{
		{"", unknown, unknown}, {"", legacy, legacy}, {"", modern, modern}, {"2025-06-18", modern, legacy},
		{"2026-07-28", legacy, modern},
	} {
		s := must(must(NewHost(Options{Servers: []Config{{Name: "a", Command: "x", Protocol: tt.protocol}}})).server("a"))
		s.learned.era = tt.learned
		if got := s.protocolEra(); got != tt.want {
			t.Errorf("%q with %v learned: %v, want %v", tt.protocol, tt.learned, got, tt.want)
		}
	}
	h := must(NewHost(Options{Servers: []Config{{Name: "a", Command: "x"}}, Version: "7"}))
	s := must(h.server("a"))
	if got := s.clientVersion(); got != "7" {
		t.Errorf("our version is %q", got)
	}
	if s.o.Version = ""; s.clientVersion() != "dev" {
		t.Errorf("without one our version is %q", s.clientVersion())
	}
}

// After a failed attempt another program may run there: the next one tries everything.
func TestConnect_Fails_ForgetsWhatWasLearned(t *testing.T) {
	s := must(must(NewHost(Options{Servers: []Config{{Name: "a", Command: "no-such-program"}}})).server("a"))
	s.learned = learned{Stdio, legacy}
	if _, err := s.connect(t.Context()); err == nil || s.learned != (learned{}) {
		t.Errorf("still known is %+v; error %v", s.learned, err)
	}
}

// Errors of the transport have the server checked, and a forgotten session is lost at once.
func TestNoteFailure(t *testing.T) {
	for _, tt := range []struct {
		err               error
		isLost, isChecked bool
	}{
		{transport.NewError(transport.ErrSessionTerminated), true, false},
		{transport.NewError(&url.Error{Op: http.MethodPost, Err: errors.New("x")}), false, true},
		{callTimeoutError{time.Second}, false, true},
		{errors.New("the tool failed"), false, false},
	} {
		c := unconnected(t, Options{})
		isLost := false
		c.fail = func(error) { isLost = true }
		c.noteFailure(tt.err)
		if isLost != tt.isLost || len(c.checkWanted) > 0 != tt.isChecked {
			t.Errorf("%v: lost %v, checked %v", tt.err, isLost, len(c.checkWanted) > 0)
		}
	}
}
