package mcp

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdkserver "github.com/mark3labs/mcp-go/server"
)

// witness notes the methods that reach a server, and GET for a stream.
type witness struct {
	next http.Handler
	mu   sync.Mutex
	seen []string
}

func (v *witness) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	method := r.Method
	if method == http.MethodPost {
		method = jsonString(jsonObject(body)["method"])
	}
	v.mu.Lock()
	v.seen = append(v.seen, method)
	v.mu.Unlock()
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	v.next.ServeHTTP(w, r)
}

func (v *witness) methods() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.seen)
}

// stateless is a server of the newest protocol alone.
func stateless(answer func(w http.ResponseWriter, method string, request []byte) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		method := jsonString(jsonObject(body)["method"])
		switch {
		case answer != nil && answer(w, method, body):
		case r.Header.Get("Mcp-Protocol-Version") != "2026-07-28" || r.Header.Get("Mcp-Method") != method:
			w.WriteHeader(http.StatusBadRequest)
		case method == "server/discover":
			respond(w, body, `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],`+
				`"capabilities":{"tools":{"listChanged":true}}}`)
		case method == "tools/list":
			respond(w, body, `"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"do",`+
				`"inputSchema":{"type":"object"}}]}`)
		default:
			respond(w, body, `"error":{"code":-32601,"message":"no such method"}`)
		}
	})
}

// noToken is the error of a SignIns that has no token.
type noToken struct{ text string }

func (r noToken) Error() string { return r.text }
func (noToken) Authorizing()    {}

// authorizeFunc is a SignIns for which nobody has to consent.
type authorizeFunc func(c Config, next http.RoundTripper) http.RoundTripper

func (f authorizeFunc) Authorize(c Config, next http.RoundTripper) http.RoundTripper {
	return f(c, next)
}
func (authorizeFunc) Waiting(Config) *Consent { return nil }

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A refusal that was dealt with by Authorize does not show the era of a server:
// neither the older greeting nor the older transport is tried, and its text is
// shown as it is.
func TestWantOfConsentIsNoSignOfAnOldServer(t *testing.T) {
	var mu sync.Mutex
	var tried []string
	h := running(t, Options{
		Servers: []Config{{Name: "a", URL: serve(t, stateless(nil)).URL}, {Name: "b", URL: serve(t, stateless(nil)).URL}},
		SignIns: authorizeFunc(func(c Config, next http.RoundTripper) http.RoundTripper {
			if c.Name == "b" {
				return next
			}
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return nil, err
				}
				r.Body.Close()
				mu.Lock()
				defer mu.Unlock()
				tried = append(tried, r.Method+" "+jsonString(jsonObject(body)["method"]))
				return nil, noToken{"consent is needed"}
			})
		}),
	})
	if st := until(t, h, "a", Failed); st.Error != "consent is needed" {
		t.Errorf("error %q", st.Error)
	}
	if err := h.Stop("a"); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, what := range tried {
		if what != "POST server/discover" {
			t.Errorf("tried: %q", tried)
		}
	}
	if st := settled(t, h, "b"); st.State != Connected {
		t.Errorf("%+v", st)
	}
}

// A call that needs more consent fails with that, and the connection stays.
func TestACallThatNeedsConsent(t *testing.T) {
	h := running(t, Options{
		Servers: []Config{{Name: "a", URL: serve(t, scripted(answer)).URL}},
		SignIns: authorizeFunc(func(_ Config, next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.Body == nil || r.Body == http.NoBody {
					return next.RoundTrip(r)
				}
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return nil, err
				}
				if jsonString(jsonObject(body)["method"]) == "tools/call" {
					return nil, noToken{"more consent is needed"}
				}
				r = r.Clone(r.Context())
				r.Body = io.NopCloser(strings.NewReader(string(body)))
				return next.RoundTrip(r)
			})
		}),
	})
	settled(t, h, "a")
	wantFailure(t, call(t, find1(t, h, "a", "do"), `{}`), `The call to the MCP server "a" failed: more consent is needed`)
	if st, _ := h.Get("a"); st.State != Connected {
		t.Errorf("%+v", st)
	}
}

func TestAVersionRefusedAndOfferedIsSentAgain(t *testing.T) {
	var once sync.Once
	v := &witness{next: stateless(func(w http.ResponseWriter, method string, request []byte) (done bool) {
		if method != "server/discover" {
			return false
		}
		once.Do(func() {
			done = true
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"no",`+
				`"data":{"supported":["2026-07-28"],"requested":"2026-07-28"}}}`, jsonObject(request)["id"])
		})
		return done
	})}
	h := running(t, Options{Servers: []Config{{Name: "a", URL: serve(t, v).URL, Transport: HTTP}}})
	if st := settled(t, h, "a"); st.State != Connected || st.Protocol != "2026-07-28" {
		t.Errorf("%+v", st)
	}
	if seen := v.methods(); slices.Contains(seen, "initialize") {
		t.Errorf("requests %q", seen)
	}
}

func TestOneVersionAlone(t *testing.T) {
	both := serve(t, sdkserver.NewStreamableHTTPServer(library())).URL
	old := &witness{next: scripted(answer)}
	o := Options{Servers: []Config{{Name: "old", URL: serve(t, old).URL, Protocol: "2026-07-28", Transport: HTTP}}}
	versions := []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}
	for _, v := range versions {
		o.Servers = append(o.Servers, Config{Name: v, URL: both, Protocol: v})
	}
	h := running(t, o)
	for _, v := range versions {
		if st := settled(t, h, v); st.State != Connected || st.Protocol != v {
			t.Errorf("%s: %+v", v, st)
			continue
		}
		wantText(t, call(t, find1(t, h, v, "echo"), `{"text":"hi"}`), "you said hi")
	}
	if st := until(t, h, "old", Failed); st.Error != "it does not speak the configured protocol version 2026-07-28" {
		t.Errorf("%+v", st)
	}
	if seen := old.methods(); slices.Contains(seen, "initialize") {
		t.Errorf("an old server was greeted though it must not be: %q", seen)
	}
	if _, err := NewHost(Options{Servers: []Config{{Name: "a", URL: both, Protocol: "2025"}}}); err == nil ||
		!strings.Contains(err.Error(), "2025-11-25") {
		t.Errorf("an invalid version: %v", err)
	}
}

// Servers over HTTP with odd answers to unknown requests are old ones.
func TestOldServersOverHTTP(t *testing.T) {
	odd := map[string]func(w http.ResponseWriter, request []byte){
		"answers {}": func(w http.ResponseWriter, request []byte) { respond(w, request, `"result":{}`) },
		"answers old versions": func(w http.ResponseWriter, request []byte) {
			respond(w, request, `"result":{"supportedVersions":["2025-06-18"]}`)
		},
		"offers older versions": func(w http.ResponseWriter, request []byte) {
			respond(w, request, `"error":{"code":-32022,"message":"no","data":{"supported":["2025-06-18"]}}`)
		},
		"refuses":            func(w http.ResponseWriter, _ []byte) { w.WriteHeader(http.StatusBadRequest) },
		"wants a session":    func(w http.ResponseWriter, _ []byte) { w.WriteHeader(http.StatusNotFound) },
		"accepts in silence": func(w http.ResponseWriter, _ []byte) { w.WriteHeader(http.StatusAccepted) },
	}
	var o Options
	for name, do := range odd {
		next := scripted(answer)
		o.Servers = append(o.Servers, Config{Name: name, Transport: HTTP,
			URL: serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return
				}
				if jsonString(jsonObject(body)["method"]) == "server/discover" {
					do(w, body)
					return
				}
				r.Body = io.NopCloser(strings.NewReader(string(body)))
				next.ServeHTTP(w, r)
			})).URL})
	}
	h := running(t, o)
	for name := range odd {
		if st := settled(t, h, name); st.State != Connected || st.Protocol != "2025-06-18" {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

// The stream for notifications of an old server is open before its tools
// are listed: a change in between would go unheard.
func TestTheStreamIsOpenBeforeToolsAreListed(t *testing.T) {
	v := &witness{next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		scripted(answer).ServeHTTP(w, r)
	})}
	h := running(t, Options{Servers: []Config{{Name: "a", URL: serve(t, v).URL}}})
	settled(t, h, "a")
	seen := v.methods()
	if get, list := slices.Index(seen, "GET"), slices.Index(seen, "tools/list"); get < 0 || list < 0 || get > list {
		t.Errorf("requests %q", seen)
	}
}

// The stream of changes of a new server is opened again when it ends.
func TestASubscriptionThatEndsIsMadeAgain(t *testing.T) {
	waitBesideOthers(t)
	made := make(chan struct{}, 64)
	h := running(t, Options{Servers: []Config{{Name: "a",
		URL: serve(t, stateless(func(w http.ResponseWriter, method string, request []byte) bool {
			if method != "subscriptions/listen" {
				return false
			}
			made <- struct{}{}
			respond(w, request, `"result":{"resultType":"complete"}`)
			return true
		})).URL}}})
	settled(t, h, "a")
	for range 2 {
		select {
		case <-made:
		case <-time.After(soon):
			t.Fatal("it was not made again")
		}
	}
}
