package mcp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/mark3labs/mcp-go/mcp"
	sdkserver "github.com/mark3labs/mcp-go/server"
)

// library is a server made with the library, with tools echo and grow.
func library() *sdkserver.MCPServer {
	s := sdkserver.NewMCPServer("library", "1", sdkserver.WithToolCapabilities(true))
	s.AddTool(sdk.NewTool("echo", sdk.WithString("text")),
		func(_ context.Context, r sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return sdk.NewToolResultText("you said " + r.GetString("text", "")), nil
		})
	s.AddTool(sdk.NewTool("grow"), func(context.Context, sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		s.AddTool(sdk.NewTool("grown"), func(context.Context, sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return sdk.NewToolResultText("big"), nil
		})
		return sdk.NewToolResultText("grown"), nil
	})
	return s
}

// serve serves on loopback until the test ends, whatever connections are open.
func serve(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// overSSE serves the library's server in the older way, at /sse.
func overSSE(t *testing.T) *httptest.Server {
	t.Helper()
	sse := sdkserver.NewSSEServer(library())
	mux := http.NewServeMux()
	mux.Handle("/sse", sse.SSEHandler())
	mux.Handle("/message", sse.MessageHandler())
	return serve(t, mux)
}

func TestOverHTTP(t *testing.T) {
	new := serve(t, sdkserver.NewStreamableHTTPServer(library()))
	old := overSSE(t)
	tests := []struct {
		name, url, transport string
		want, protocol       string
	}{
		{"url alone", new.URL, "", HTTP, "2026-07-28"},
		{"http", new.URL, HTTP, HTTP, "2026-07-28"},
		{"older url alone", old.URL + "/sse", "", SSE, "2025-11-25"},
		{"sse", old.URL + "/sse", SSE, SSE, "2025-11-25"},
	}
	var o Options
	for _, tt := range tests {
		o.Servers = append(o.Servers, Config{Name: tt.name, URL: tt.url, Transport: tt.transport})
	}
	h := running(t, o)
	for _, tt := range tests {
		st := settled(t, h, tt.name)
		if st.State != Connected || st.Transport != tt.want || st.Protocol != tt.protocol || st.Version != "library 1" {
			t.Errorf("%s: %+v", tt.name, st)
			continue
		}
		wantText(t, call(t, find1(t, h, tt.name, "echo"), `{"text":"hi"}`), "you said hi")
		before := connectionOf(h, tt.name)
		if err := h.Restart(tt.name); err != nil {
			t.Fatal(err)
		}
		reconnected(t, h, tt.name, before)
		if st, _ := h.Get(tt.name); st.Protocol != tt.protocol || st.Transport != tt.want {
			t.Errorf("%s, connected again: %+v", tt.name, st)
		}
		wantText(t, call(t, find1(t, h, tt.name, "echo"), `{"text":"again"}`), "you said again")
	}
}

func TestChangedToolsOverHTTP(t *testing.T) {
	o := Options{HealthInterval: time.Hour, Servers: []Config{
		{Name: "modern", URL: serve(t, sdkserver.NewStreamableHTTPServer(library())).URL},
		{Name: "legacy", URL: serve(t, withoutDiscover(sdkserver.NewStreamableHTTPServer(library()))).URL},
		{Name: "sse", URL: overSSE(t).URL + "/sse", Transport: SSE},
	}}
	h := running(t, o)
	for _, c := range o.Servers {
		if st := settled(t, h, c.Name); st.State != Connected || (c.Name != "modern") != (st.Protocol == "2025-11-25") {
			t.Fatalf("%+v", st)
		}
		for began := time.Now(); !slices.Contains(names(toolsOf(h, c.Name)), c.Name+"/grown"); {
			wantText(t, call(t, find1(t, h, c.Name, "grow"), `{}`), "grown") // notifies the open streams
			if time.Since(began) > soon {
				t.Fatalf("server %s does not offer its new tool", c.Name)
			}
		}
	}
}

// withoutDiscover makes a server one of before the newest protocol.
func withoutDiscover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if strings.Contains(string(body), `"server/discover"`) {
			respond(w, body, `"error":{"code":-32601,"message":"no such method"}`)
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		next.ServeHTTP(w, r)
	})
}

func respond(w http.ResponseWriter, request []byte, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, jsonObject(request)["id"], result)
}

// scripted is a Streamable HTTP server of the older kind whose tool is do.
func scripted(do func(w http.ResponseWriter, r *http.Request, request []byte)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		switch jsonString(jsonObject(body)["method"]) {
		case "initialize":
			w.Header().Set("Mcp-Session-Id", "s1")
			respond(w, body, `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},`+
				`"serverInfo":{"name":"scripted","version":"1"}}`)
		case "notifications/initialized":
			w.WriteHeader(http.StatusAccepted)
		case "tools/list":
			respond(w, body, `"result":{"tools":[{"name":"do","inputSchema":{"type":"object"}}]}`)
		case "tools/call":
			do(w, r, body)
		default:
			respond(w, body, `"error":{"code":-32601,"message":"no such method"}`)
		}
	})
}

func answer(w http.ResponseWriter, _ *http.Request, request []byte) {
	respond(w, request, `"result":{"content":[{"type":"text","text":"done"}]}`)
}

func TestHeadersGoToTheConfiguredOriginAlone(t *testing.T) {
	var leaked, kept atomic.Int32
	seen := func(n *atomic.Int32, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "Bearer sesame-open" {
				n.Add(1)
			}
			next.ServeHTTP(w, r)
		})
	}
	other := serve(t, seen(&leaked, scripted(answer)))
	away := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	lure := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: endpoint\ndata: %s/message\n\n", other.URL)
	}))
	good := serve(t, seen(&kept, scripted(answer)))
	var inside http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/old" {
			http.Redirect(w, r, "/new", http.StatusPermanentRedirect)
			return
		}
		scripted(answer).ServeHTTP(w, r)
	})
	moved := serve(t, seen(&kept, inside))
	headers := map[string]string{"Authorization": "Bearer sesame-open"}
	h := running(t, Options{Servers: []Config{
		{Name: "away", URL: away.URL, Headers: headers, Transport: HTTP},
		{Name: "away sse", URL: away.URL, Headers: headers, Transport: SSE},
		{Name: "lure", URL: lure.URL, Headers: headers, Transport: SSE},
		{Name: "good", URL: good.URL, Headers: headers},
		{Name: "moved", URL: moved.URL + "/old", Headers: headers},
	}})
	for name, want := range map[string]string{
		"away":     "the server redirects to " + other.URL,
		"away sse": "the server redirects to " + other.URL,
		"lure":     "the server named an endpoint on another host",
	} {
		if st := until(t, h, name, Failed); !strings.Contains(st.Error, want) {
			t.Errorf("%s: error %q, want %q in it", name, st.Error, want)
		}
	}
	for _, name := range []string{"good", "moved"} {
		if st := settled(t, h, name); st.State != Connected {
			t.Errorf("%+v", st)
			continue
		}
		wantText(t, call(t, find1(t, h, name, "do"), `{}`), "done")
	}
	if leaked.Load() != 0 || kept.Load() == 0 {
		t.Errorf("the header went to another origin %d times, to its own %d times", leaked.Load(), kept.Load())
	}
}

func TestRefusalsAreExplained(t *testing.T) {
	status := func(code int) string {
		return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "no", code)
		})).URL
	}
	closed := httptest.NewServer(nil)
	closed.Close()
	page := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "<html>welcome</html>")
	}))
	h := running(t, Options{Servers: []Config{
		{Name: "unauthorized", URL: status(401)},
		{Name: "unauthorized sse", URL: status(403), Transport: SSE},
		{Name: "missing", URL: status(404)},
		{Name: "broken", URL: status(500)},
		{Name: "closed", URL: closed.URL + "/?key=sesame-open"},
		{Name: "page", URL: page.URL},
	}})
	for name, want := range map[string]string{
		"unauthorized":     "the server refused the credentials (HTTP 401): check headers",
		"unauthorized sse": "the server refused the credentials (HTTP 403): check headers",
		"missing": "it takes neither Streamable HTTP (it refuses to initialize) nor SSE (open the event stream: " +
			"the server answered HTTP 404 Not Found)",
		"broken": "500",
		"closed": "connection refused",
		"page":   "unexpected content type",
	} {
		if st := until(t, h, name, Failed); !strings.Contains(st.Error, want) || strings.Contains(st.Error, "sesame") {
			t.Errorf("%s: error %q, want %q in it", name, st.Error, want)
		}
	}
}

func TestFaultsOverHTTP(t *testing.T) {
	waitBesideOthers(t)
	var forgotten, calls atomic.Int32
	tests := []struct {
		name  string
		do    func(w http.ResponseWriter, r *http.Request, request []byte)
		wrong string // "": the call is answered with done
	}{
		{"forgets the session once", func(w http.ResponseWriter, r *http.Request, request []byte) {
			if forgotten.Add(1) == 1 {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			answer(w, r, request)
		}, ""},
		{"endless body", func(w http.ResponseWriter, r *http.Request, _ []byte) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":"`)
			endless(w, r)
		}, "a message was larger than is accepted"},
		{"endless event", func(w http.ResponseWriter, r *http.Request, _ []byte) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: ")
			endless(w, r)
		}, "failed"},
		{"fails", func(w http.ResponseWriter, r *http.Request, request []byte) {
			calls.Add(1)
			http.Error(w, "out of order", http.StatusBadGateway)
		}, "502: out of order. Whether it had an effect is not known"},
		{"refuses", func(w http.ResponseWriter, r *http.Request, request []byte) {
			http.Error(w, "slow down", http.StatusTooManyRequests)
		}, "429: slow down\x00"},
		{"answers with an error", func(w http.ResponseWriter, r *http.Request, request []byte) {
			respond(w, request, `"error":{"code":-32602,"message":"no such tool"}`)
		}, "no such tool\x00"},
		{"accepts and stays silent", func(w http.ResponseWriter, r *http.Request, request []byte) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusAccepted)
		}, "its answer ended before a result. Whether it had an effect is not known"},
		{"ends its stream", func(w http.ResponseWriter, r *http.Request, request []byte) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, ": wait\n\n")
		}, "its answer ended before a result. Whether it had an effect is not known"},
		{"closes the connection", func(w http.ResponseWriter, r *http.Request, request []byte) {
			panic(http.ErrAbortHandler)
		}, "Whether it had an effect is not known"},
		{"answers somebody else", func(w http.ResponseWriter, r *http.Request, request []byte) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, `data: {"jsonrpc":"2.0","id":99999,"result":{"content":[{"type":"text","text":"secret"}]}}`+"\n\n")
		}, "it sent the answer to another request. Whether it had an effect is not known"},
		{"sends its id as text", func(w http.ResponseWriter, r *http.Request, request []byte) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":"%s","result":{"content":[{"type":"text","text":"done"}]}}`, jsonObject(request)["id"])
		}, ""},
		{"hangs", func(w http.ResponseWriter, r *http.Request, request []byte) { <-r.Context().Done() }, "did not answer within 1s"},
	}
	var o Options
	for _, tt := range tests {
		o.Servers = append(o.Servers, Config{Name: tt.name, URL: serve(t, scripted(tt.do)).URL,
			Timeout: map[string]time.Duration{"hangs": time.Second}[tt.name]})
	}
	h := running(t, o)
	for _, tt := range tests {
		settled(t, h, tt.name)
		var res = call(t, find1(t, h, tt.name, "do"), `{}`)
		wrong, isWhole := strings.CutSuffix(tt.wrong, "\x00")
		if tt.wrong == "" {
			wantText(t, res, "done")
		} else {
			wantFailure(t, res, wrong)
		}
		if isWhole && strings.Contains(res.Text, "not known") {
			t.Errorf("%s: %q, though the server has run nothing", tt.name, res.Text)
		}
	}
	if calls.Load() != 1 {
		t.Errorf("a call that failed was sent %d times", calls.Load())
	}
}

// A server that has forgotten the session gets a new one, and the call once more, whatever the status says. Another
// refusal, and a failure of which nobody knows whether the call was run, are not repeated.
func TestHTTP_ForgottenSession_IsRenewed(t *testing.T) {
	waitBesideOthers(t)
	const rpc = `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":%q}}`
	tests := []struct {
		name, body, header string
		status             int
		wrong              string // "": the call is answered with done
	}{
		{"404", "", "", 404, ""},
		{"400 as the TypeScript SDK's examples", fmt.Sprintf(rpc, "Bad Request: No valid session ID provided"), "", 400, ""},
		{"400 of a server that was restarted", fmt.Sprintf(rpc, "Bad Request: Server not initialized"), "", 400, ""},
		{"400 as text", "Invalid session ID", "", 400, ""},
		{"401 as the Rust SDK", "Unauthorized: Session not found", "", 401, ""},
		{"403", fmt.Sprintf(rpc, "Mcp-Session-Id principal mismatch"), "", 403, ""},
		{"503", "session expired", "", 503, ""},
		{"400 for another reason", fmt.Sprintf(rpc, "Bad Request: no such thing"), "", 400, "no such thing"},
		{"401 that asks to sign in", "the session has ended", "Bearer", 401, "refused the credentials"},
		{"503 for another reason", "upstream reset", "", 503, "503: upstream reset. Whether it had an effect is not known"},
		{"500", "session broke", "", 500, "500: session broke. Whether it had an effect is not known"},
	}
	var o Options
	calls := make([]atomic.Int32, len(tests))
	for i, tt := range tests {
		o.Servers = append(o.Servers, Config{Name: tt.name, URL: serve(t, scripted(
			func(w http.ResponseWriter, r *http.Request, request []byte) {
				if calls[i].Add(1) > 1 {
					answer(w, r, request)
					return
				}
				if tt.header != "" {
					w.Header().Set("WWW-Authenticate", tt.header)
				}
				w.WriteHeader(tt.status)
				fmt.Fprint(w, tt.body)
			})).URL})
	}
	h := running(t, o)
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			settled(t, h, tt.name)
			res, want := call(t, find1(t, h, tt.name, "do"), `{}`), int32(2)
			if tt.wrong == "" {
				wantText(t, res, "done")
			} else {
				want = 1
				wantFailure(t, res, tt.wrong)
			}
			if n := calls[i].Load(); n != want {
				t.Errorf("the call was sent %d times, want %d", n, want)
			}
		})
	}
}

// A redirect that would lose the message is named, with its target and without what may be secret in it.
func TestHTTP_Redirect(t *testing.T) {
	moved := func(status int) string {
		return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/mcp" {
				http.Redirect(w, r, "/mcp/?key=sesame", status)
				return
			}
			scripted(answer).ServeHTTP(w, r)
		})).URL
	}
	servers := map[int]string{}
	var o Options
	for _, status := range []int{301, 302, 303, 307, 308} {
		servers[status] = moved(status)
		o.Servers = append(o.Servers, Config{Name: fmt.Sprint(status), URL: servers[status] + "/mcp?key=sesame"})
	}
	h := running(t, o)
	for status, at := range servers {
		name := fmt.Sprint(status)
		if status > 303 {
			settled(t, h, name)
			wantText(t, call(t, find1(t, h, name, "do"), `{}`), "done")
			continue
		}
		want := "the server redirects to " + at + "/mcp/: if that is right, write it as the url"
		if st := until(t, h, name, Failed); !strings.HasSuffix(st.Error, want) {
			t.Errorf("%d: error %q, want %q", status, st.Error, want)
		}
	}
}

// Every request over each transport has a User-Agent, unless the entry has one.
func TestHTTP_UserAgent(t *testing.T) {
	var agents sync.Map
	noting := func(name string, next http.Handler) string {
		return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			agents.Store(name+" "+r.UserAgent(), true)
			next.ServeHTTP(w, r)
		})).URL
	}
	h := running(t, Options{Version: "1.2", Servers: []Config{
		{Name: "http", URL: noting("http", scripted(answer))},
		{Name: "sse", URL: noting("sse", &events{}), Transport: SSE},
		{Name: "own", URL: noting("own", scripted(answer)), Headers: map[string]string{"user-agent": "mine"}},
	}})
	for _, name := range []string{"http", "sse", "own"} {
		settled(t, h, name)
	}
	got := map[string]bool{}
	agents.Range(func(key, _ any) bool { got[key.(string)] = true; return true })
	want := map[string]bool{"http ravenbot/1.2": true, "sse ravenbot/1.2": true, "own mine": true}
	if !maps.Equal(got, want) {
		t.Errorf("servers have seen %v, want %v", got, want)
	}
}

// A call that is refused for the rate is made again after the pause that the server asks for, if the time of the call
// allows that.
func TestHTTP_RefusedForTheRate(t *testing.T) {
	limited := func(pause string, calls *atomic.Int32, next http.Handler) string {
		return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			if strings.Contains(string(body), "tools/call") && calls.Add(1) < 3 {
				w.Header().Set("Retry-After", pause)
				http.Error(w, "slow down", http.StatusTooManyRequests)
				return
			}
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			next.ServeHTTP(w, r)
		})).URL
	}
	var short, long, sse, sseLong atomic.Int32
	older := func() http.Handler {
		return &events{do: func(e *events, id string) {
			e.say(`{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":"done"}]}}`)
		}}
	}
	h := running(t, Options{Servers: []Config{
		{Name: "short", URL: limited("0.01", &short, scripted(answer))},
		{Name: "long", URL: limited("3600", &long, scripted(answer))},
		{Name: "sse", URL: limited("0.01", &sse, older()), Transport: SSE},
		{Name: "sse, long", URL: limited("3600", &sseLong, older()), Transport: SSE},
	}})
	for _, name := range []string{"short", "sse"} {
		settled(t, h, name)
		wantText(t, call(t, find1(t, h, name, "do"), `{}`), "done")
	}
	for _, name := range []string{"long", "sse, long"} {
		settled(t, h, name)
		res := call(t, find1(t, h, name, "do"), `{}`)
		wantFailure(t, res, "429")
		if strings.Contains(res.Text, "not known") {
			t.Errorf("%s: %q, though the server has run nothing", name, res.Text)
		}
	}
	if short.Load() != 3 || sse.Load() != 3 || long.Load() != 1 || sseLong.Load() != 1 {
		t.Errorf("the calls were sent %d, %d, %d and %d times", short.Load(), sse.Load(), long.Load(), sseLong.Load())
	}
}

// Streams may begin with a byte order mark, and end their lines with carriage returns, over each transport.
func TestHTTP_EventStreams_InEachForm(t *testing.T) {
	const done = `"result":{"content":[{"type":"text","text":"done"}]}`
	var o Options
	for name, end := range map[string]string{"line feeds": "\n", "carriage returns": "\r", "both": "\r\n"} {
		reply := func(w http.ResponseWriter, _ *http.Request, request []byte) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "\uFEFFdata: {\"jsonrpc\":\"2.0\",\"id\":%s,%s}%s%s", jsonObject(request)["id"], done, end, end)
		}
		older := &events{end: end, do: func(e *events, id string) { e.say(`{"jsonrpc":"2.0","id":` + id + `,` + done + `}`) }}
		o.Servers = append(o.Servers, Config{Name: name, URL: serve(t, scripted(reply)).URL},
			Config{Name: name + ", sse", URL: serve(t, older).URL, Transport: SSE})
	}
	h := running(t, o)
	for _, c := range o.Servers {
		settled(t, h, c.Name)
		wantText(t, call(t, find1(t, h, c.Name, "do"), `{}`), "done")
	}
}

// A call that is cut off when its server is stopped may have had an effect, as its result explains.
func TestHTTP_StoppedDuringACall_SaysThatItMayHaveRun(t *testing.T) {
	begun := make(chan struct{})
	s := serve(t, scripted(func(_ http.ResponseWriter, r *http.Request, _ []byte) {
		close(begun)
		<-r.Context().Done()
	}))
	h := running(t, Options{Servers: []Config{{Name: "a", URL: s.URL}}})
	settled(t, h, "a")
	tool := find1(t, h, "a", "do")
	stopped := make(chan error)
	go func() {
		<-begun
		stopped <- h.Stop("a")
	}()
	wantFailure(t, call(t, tool, `{}`), "was lost during the call. Whether it had an effect is not known")
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func endless(w http.ResponseWriter, r *http.Request) {
	junk := strings.Repeat("x", 1<<20)
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, junk); err != nil {
			return
		}
	}
}

// events is a server of the older HTTP kind that is written by hand: say sends
// what stands in the events, do what a call leads to.
type events struct {
	mu     sync.Mutex
	stream chan string // nil: closed by drop
	do     func(e *events, id string)
	end    string // of lines; "": as usual, without a byte order mark
}

func (e *events) say(message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stream != nil {
		e.stream <- message
	}
}

func (e *events) drop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.stream)
	e.stream = nil
}

func (e *events) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		stream := make(chan string, 16)
		e.mu.Lock()
		e.stream = stream
		e.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		out := bufio.NewWriter(w)
		form := func(text string) string { return text }
		if e.end != "" {
			fmt.Fprint(out, "\uFEFF")
			form = strings.NewReplacer("\r\n", e.end, "\n", e.end).Replace
		}
		fmt.Fprint(out, form("event: endpoint\r\ndata: /message\r\n\r\n: hello\r\n"))
		for {
			out.Flush()
			w.(http.Flusher).Flush()
			select {
			case m, ok := <-stream:
				if !ok {
					return
				}
				fmt.Fprint(out, form("event: message\nid: 1\ndata: "+strings.ReplaceAll(m, "\n", "\ndata: ")+"\n\n"))
			case <-r.Context().Done():
				return
			}
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.WriteHeader(http.StatusAccepted)
	id := string(jsonObject(body)["id"])
	answer := func(result string) { e.say(fmt.Sprintf("{\"jsonrpc\":\"2.0\",\n\"id\":%s,\"result\":%s}", id, result)) }
	switch jsonString(jsonObject(body)["method"]) {
	case "initialize":
		answer(`{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"events","version":"1"}}`)
	case "tools/list":
		answer(`{"tools":[{"name":"do","inputSchema":{"type":"object"}}]}`)
	case "tools/call":
		e.do(e, id)
	}
}

func TestFaultsOverSSE(t *testing.T) {
	waitBesideOthers(t)
	tests := []struct {
		name  string
		do    func(e *events, id string)
		wrong string
	}{
		// The library takes the request for the answer.
		{"asks under the id of the call", func(e *events, id string) {
			e.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
			e.say(`{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":"done"}]}}`)
		}, ""},
		// The library waits for a minute.
		{"drops the stream", func(e *events, _ string) { e.drop() }, "was lost during the call"},
		{"sends too much", func(e *events, _ string) { e.say(strings.Repeat("x", maxMessageBytes+2)) }, "was lost during the call"},
		{"sends junk", func(e *events, id string) {
			e.say(`junk`)
			e.say(`{"jsonrpc":"2.0","id":"` + id + `","result":{"content":[{"type":"text","text":"done"}]}}`) // the id as text
		}, ""},
	}
	var o Options
	for _, tt := range tests {
		o.Servers = append(o.Servers, Config{Name: tt.name, URL: serve(t, &events{do: tt.do}).URL, Transport: SSE})
	}
	h := running(t, o)
	for _, tt := range tests {
		if st := settled(t, h, tt.name); st.Protocol != "2024-11-05" {
			t.Fatalf("%+v", st)
		}
		before := connectionOf(h, tt.name)
		res := call(t, find1(t, h, tt.name, "do"), `{}`)
		if tt.wrong == "" {
			wantText(t, res, "done")
		} else {
			wantFailure(t, res, tt.wrong)
			reconnected(t, h, tt.name, before)
		}
	}
}

// Calls over HTTP name the version of the protocol that was agreed on, in the older ways, too.
func TestHTTP_CallsNameTheProtocolVersion(t *testing.T) {
	versions := make(chan string, 1)
	noting := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			if jsonString(jsonObject(body)["method"]) == "tools/call" {
				versions <- r.Header.Get("Mcp-Protocol-Version")
			}
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			next.ServeHTTP(w, r)
		})
	}
	older := &events{do: func(e *events, id string) { e.say(`{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[]}}`) }}
	h := running(t, Options{Servers: []Config{
		{Name: "http", URL: serve(t, noting(scripted(answer))).URL},
		{Name: "sse", URL: serve(t, noting(older)).URL, Transport: SSE},
	}})
	for _, name := range []string{"http", "sse"} {
		st := settled(t, h, name)
		call(t, find1(t, h, name, "do"), `{}`)
		if got := <-versions; got != st.Protocol {
			t.Errorf("%s: the call names version %q, want %q", name, got, st.Protocol)
		}
	}
}

// A server that can be reached but no longer works is noticed at the regular
// check, and again when it works.
func TestHealth(t *testing.T) {
	waitBesideOthers(t)
	var sick atomic.Bool
	good := scripted(answer)
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if sick.Load() {
			http.Error(w, "sick", http.StatusServiceUnavailable)
			return
		}
		good.ServeHTTP(w, r)
	}))
	h := running(t, Options{HealthInterval: 50 * time.Millisecond, Servers: []Config{{Name: "a", URL: s.URL}}})
	settled(t, h, "a")
	sick.Store(true)
	if st := until(t, h, "a", Failed); !strings.Contains(st.Error, "503") {
		t.Errorf("error %q", st.Error)
	}
	sick.Store(false)
	until(t, h, "a", Connected)
}

// A status older than its time is checked again when somebody reads it, though
// the next regular check is far off.
func TestOldStatusIsCheckedWhenRead(t *testing.T) {
	var lists atomic.Int32
	asked := make(chan struct{}, 16)
	good := scripted(answer)
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if strings.Contains(string(body), "tools/list") && lists.Add(1) > 1 {
			asked <- struct{}{}
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		good.ServeHTTP(w, r)
	}))
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	h := running(t, Options{HealthInterval: time.Hour, Now: now, Servers: []Config{{Name: "a", URL: s.URL}}})
	settled(t, h, "a")
	h.Servers()
	ahead.Store(int64(301 * time.Second))
	if n := lists.Load(); n != 1 {
		t.Errorf("a fresh status was checked: %d lists", n)
	}
	h.Servers()
	select {
	case <-asked:
	case <-time.After(soon):
		t.Error("an old status was not checked")
	}
}

func TestNewHostRefuses(t *testing.T) {
	_, err := NewHost(Options{Servers: []Config{
		{},
		{Name: "both", Command: "x", URL: "http://x"},
		{Name: "neither"},
		{Name: "off", Disabled: true},
		{Name: "odd", Command: "x", Transport: "carrier pigeon"},
		{Name: "mixed", Command: "x", Transport: SSE},
		{Name: "file", URL: "file:///etc/passwd"},
		{Name: "twice", Command: "x"},
		{Name: "twice", Command: "y"},
	}})
	if err == nil {
		t.Fatal("NewHost accepted everything")
	}
	got := strings.Split(err.Error(), "\n")
	want := []string{
		`MCP server "": it has no name`,
		`MCP server "both": give either a command to start or a url to reach`,
		`MCP server "neither": give either a command to start or a url to reach`,
		`MCP server "odd": unknown transport "carrier pigeon"; known are stdio, http and sse`,
		`MCP server "mixed": transport "sse" does not match: stdio needs a command, http and sse need a url`,
		`MCP server "file": its url is not an http or https address`,
		`MCP server "twice": the name is given twice`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("faults\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
