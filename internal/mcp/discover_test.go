package mcp

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	sdk "github.com/mark3labs/mcp-go/mcp"
)

const modernVersions = `{"supportedVersions":["2026-07-28"]}`

// Old servers answer unknown requests in many ways.
func TestCheckDiscovery(t *testing.T) {
	fault := errors.New("lost")
	refusal := &transport.JSONRPCResponse{Error: &sdk.JSONRPCErrorDetails{Code: -32601}}
	for result, isNew := range map[string]bool{
		modernVersions: true, `{"supportedVersions":["2025-06-18","2026-07-28"]}`: true, `{}`: false,
		`{"supportedVersions":["2025-06-18"]}`: false, `{"supportedVersions":"2026-07-28"}`: false, `[]`: false,
	} {
		response := &transport.JSONRPCResponse{Result: json.RawMessage(result)}
		got, err := checkDiscovery(response, nil)
		if isNew && (got != response || err != nil) || !isNew && (got != nil || !errors.Is(err, errNotModern)) {
			t.Errorf("%s: %v, %v", result, got, err)
		}
	}
	if got, err := checkDiscovery(refusal, nil); got != refusal || err != nil {
		t.Errorf("a refusal: %v, %v", got, err)
	}
	if _, err := checkDiscovery(nil, fault); !errors.Is(err, fault) {
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

// The last line of a failed program usually contains the reason.
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
		s.logs.entries = []LogLine{{Stream: "stderr", Text: "of an earlier process"}, {Stream: "stdout", Text: "earlier"}}
		began := time.Now()
		s.logs.add("stderr", []byte(tt.line))
		s.logs.add("stderr", []byte("npm error A complete log of this run can be found in: /tmp/x.log"))
		s.logs.add("bot", []byte("ended"))
		if got := s.explainConnectError(tt.err, began).Error(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
	}
}

// A server that writes something else than messages is not ready, or ends; the first such line shows why.
func TestConnect_NamesTheFirstLineThatIsNoMessage(t *testing.T) {
	waitBesideOthers(t)
	h := running(t, Options{StartTimeout: 2 * time.Second, Servers: []Config{
		fakeServer("indented", "indented"), fakeServer("UTF-16", "UTF-16"), fakeServer("usage", "usage"),
	}})
	for name, want := range map[string]string{
		"indented": "it was not ready within 2s; it wrote a line that is no MCP message: {",
		"UTF-16":   "it was not ready within 2s; it wrote a line that is no MCP message: \uFFFD{␀\"␀j␀",
		"usage": "the process ended (exit status 2); its last error output: one argument is missing; " +
			"it wrote a line that is no MCP message: Usage: server FOLDER",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		// A slow machine may need several attempts.
		if s := must(h.server(name)); !s.awaitState(ctx, func() bool { return s.problem == want }) {
			t.Errorf("%s: error %q, want %q", name, s.status().Error, want)
		}
	}
}

// Fields of the handshake that have a wrong form, or are missing, do not keep a server from being used.
func TestConnect_OddHandshake(t *testing.T) {
	const tools, info = `"capabilities":{"tools":{}}`, `"serverInfo":{"name":"odd","version":"1"}`
	results := map[string]struct{ result, protocol, wrong string }{
		"true as a capability":     {`"protocolVersion":"2025-06-18","capabilities":{"tools":true,"logging":true},` + info, "2025-06-18", ""},
		"capabilities as a list":   {`"protocolVersion":"2025-06-18","capabilities":["tools"],` + info, "2025-06-18", ""},
		"no capabilities":          {`"protocolVersion":"2025-06-18",` + info, "2025-06-18", ""},
		"odd parts":                {`"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":"yes"},"experimental":[],"tasks":true},` + info, "2025-06-18", ""},
		"server as text":           {`"protocolVersion":"2025-06-18",` + tools + `,"serverInfo":"odd 1","instructions":["a"]`, "2025-06-18", ""},
		"no version":               {tools + "," + info, "2025-03-26", ""},
		"a number as version":      {`"protocolVersion":2025,` + tools + "," + info, "2025-03-26", ""},
		"a version of another day": {`"protocolVersion":"2025-06-19",` + tools + "," + info, "", "2025-06-19"},
	}
	var o Options
	for name, tt := range results {
		o.Servers = append(o.Servers, Config{Name: name, URL: serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err == nil && jsonString(jsonObject(body)["method"]) == "initialize" {
				respond(w, body, `"result":{`+tt.result+`}`)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			scripted(answer).ServeHTTP(w, r)
		})).URL})
	}
	o.Servers = append(o.Servers, Config{Name: "no object", URL: serve(t, http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body) // a request that is cut off has no id to answer
			respond(w, body, `"result":"ready"`)
		})).URL})
	h := running(t, o)
	for name, tt := range results {
		st := settled(t, h, name)
		if tt.wrong != "" {
			if !strings.Contains(st.Error, tt.wrong) {
				t.Errorf("%s: error %q, want %q in it", name, st.Error, tt.wrong)
			}
			continue
		}
		if st.State != Connected || st.Protocol != tt.protocol {
			t.Errorf("%s: %+v", name, st)
			continue
		}
		wantText(t, call(t, find1(t, h, name, "do"), `{}`), "done")
	}
	if st := settled(t, h, "no object"); st.Error != "its answer to initialize is no JSON object" {
		t.Errorf("error %q", st.Error)
	}
}

// A learned era is tried first, and a configured version decides.
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
		s.learned = tt.learned
		if got := s.protocolEra(); got != tt.want {
			t.Errorf("%q with %v learned: %v, want %v", tt.protocol, tt.learned, got, tt.want)
		}
	}
	for version, want := range map[string]string{"7": "7", "": "dev"} {
		if got := must(NewHost(Options{Version: version})).o.Version; got != want {
			t.Errorf("our version %q is %q", version, got)
		}
	}
}

// After a failed attempt another program may run there: the next one tries everything.
func TestConnect_Fails_ForgetsWhatWasLearned(t *testing.T) {
	s := must(must(NewHost(Options{Servers: []Config{{Name: "a", Command: "no-such-program"}}})).server("a"))
	s.learned = legacy
	if _, err := s.connect(t.Context()); err == nil || s.learned != unknown {
		t.Errorf("still known is %v; error %v", s.learned, err)
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
