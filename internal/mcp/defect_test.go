package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	sdk "github.com/mark3labs/mcp-go/mcp"
)

// These tests show what keeps the bot from using more of mcp-go v1.2.1. A failing one means that the library was fixed:
// its replacement can then go.

// overPipe returns the library's transport over pipes, whose server answers each message as a function says.
func overPipe(t *testing.T, answer func(request string) string) *transport.Stdio {
	t.Helper()
	toServer, in := io.Pipe()
	out, fromServer := io.Pipe()
	go func() {
		for lines := bufio.NewScanner(toServer); lines.Scan(); {
			if _, err := io.WriteString(fromServer, answer(lines.Text())+"\n"); err != nil {
				return
			}
		}
	}()
	library := transport.NewIO(out, in, nil)
	if err := library.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		fromServer.Close()
		toServer.Close()
	})
	return library
}

// Why rpcConn reads lines of a process: a server could fill the memory of the bot.
func TestDefect_Stdio_MessagesOfAnySizeAreRead(t *testing.T) {
	huge := strings.Repeat("x", 2*maxMessageBytes)
	library := overPipe(t, func(string) string { return `{"jsonrpc":"2.0","id":1,"result":"` + huge + `"}` })
	response, err := library.SendRequest(t.Context(), request(1))
	if err != nil || len(response.Result) < len(huge) {
		t.Errorf("the library limits messages now: %v", err)
	}
}

// Why rpcConn finds the request of a response: some servers send the number back as a text.
func TestDefect_Stdio_IDAsTextIsNotMatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		library := overPipe(t, func(string) string { return `{"jsonrpc":"2.0","id":"1","result":{}}` })
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := library.SendRequest(ctx, request(1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the library matches ids now: %v", err)
		}
	})
}

// eventsFor returns the address of a server of the older HTTP transport: it answers messages on its stream
// as a function says; "" ends the stream.
func eventsFor(t *testing.T, answer func(request string) string) string {
	t.Helper()
	posted := make(chan string, 9)
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body) // the reader sees the cut
			w.WriteHeader(http.StatusAccepted)
			posted <- string(body)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: endpoint\ndata: /message\n\n")
		w.(http.Flusher).Flush()
		for {
			select {
			case request := <-posted:
				said := answer(request)
				if said == "" {
					return
				}
				fmt.Fprintf(w, "event: message\ndata: %s\n\n", said)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})).URL
}

// startSSE returns the library's transport for server-sent events.
func startSSE(t *testing.T, address string) *transport.SSE {
	t.Helper()
	library, err := transport.NewSSE(address)
	if err != nil {
		t.Fatal(err)
	}
	if err := library.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = library.Close() })
	return library
}

// Why sseTransport exists: a server's own request with the id of a call would end the call with an empty result (mcp-go
// issue 536), and is answered by nobody.
func TestDefect_SSE_RequestOfTheServerIsTakenForAResponse(t *testing.T) {
	library := startSSE(t, eventsFor(t, func(string) string { return `{"jsonrpc":"2.0","id":1,"method":"ping"}` }))
	response, err := library.SendRequest(t.Context(), request(1))
	if err != nil || response.Result != nil || response.Error != nil {
		t.Errorf("the library tells requests from responses now: %+v, %v", response, err)
	}
	if _, ok := any(library).(transport.BidirectionalInterface); ok {
		t.Error("the library answers requests over server-sent events now")
	}
}

// Why sseTransport exists: a call would wait for its deadline when the stream has ended.
func TestDefect_SSE_CallsOutliveTheStream(t *testing.T) {
	library := startSSE(t, eventsFor(t, func(string) string { return "" }))
	lost := make(chan struct{})
	library.SetConnectionLostHandler(func(error) { close(lost) })
	ask := func(ctx context.Context) error { _, err := library.SendRequest(ctx, request(1)); return err }
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _ = ask(ctx) }()
	<-lost
	cancel()
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := ask(ctx); err == nil || ctx.Err() == nil && !strings.HasPrefix(err.Error(), "timeout waiting") {
		t.Errorf("the library ends calls with their stream now: %v", err)
	}
}

// Why listenStream exists: a server that refuses the stream would be asked once a second for ever.
func TestDefect_HTTP_RefusedStreamIsAskedForAgain(t *testing.T) {
	waitBesideOthers(t)
	asked := make(chan struct{}, 9)
	address := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			asked <- struct{}{}
			w.WriteHeader(http.StatusForbidden)
			return
		}
		scripted(answer).ServeHTTP(w, r)
	})).URL
	//lint:ignore SA1019 servers of the older protocols, which have such a stream, are what this is about
	listening := transport.WithContinuousListening()
	library, err := client.NewStreamableHttpClient(address, listening, transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer library.Close()
	if err := library.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := library.Initialize(t.Context(), sdk.InitializeRequest{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case <-asked:
		case <-time.After(soon):
			t.Fatal("the library takes a refusal for an answer now")
		}
	}
}

// Why httpPoster answers requests: a person may take longer than the library gives them.
func TestDefect_HTTP_RequestsAreAnsweredWithin30Seconds(t *testing.T) {
	address := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n\n")
		fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n")
	})).URL
	library, err := transport.NewStreamableHTTP(address)
	if err != nil {
		t.Fatal(err)
	}
	defer library.Close()
	given := make(chan time.Duration, 1)
	library.SetRequestHandler(func(ctx context.Context, _ transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
		deadline, _ := ctx.Deadline() // none: the distant past
		given <- time.Until(deadline)
		return nil, nil
	})
	if _, err := library.SendRequest(t.Context(), request(1)); err != nil {
		t.Fatal(err)
	}
	if got := <-given; got <= 0 || got > 30*time.Second {
		t.Errorf("the library gives %v now", got)
	}
}

// Why answerBody rewrites event streams.
func TestDefect_HTTP_EventStreamsOfTheStandardAreNotRead(t *testing.T) {
	for what, stream := range map[string]string{
		"carriage returns":        "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\r\r",
		"a mark at the beginning": "\uFEFFdata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n",
	} {
		address := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, stream)
		})).URL
		library, err := transport.NewStreamableHTTP(address)
		if err != nil {
			t.Fatal(err)
		}
		defer library.Close()
		if _, err := library.SendRequest(t.Context(), request(1)); err == nil {
			t.Errorf("the library reads streams with %s now", what)
		}
	}
}

// Why tools are read from the raw JSON of the list.
func TestDefect_ListTools_SchemasLoseKeywords(t *testing.T) {
	const schema = `{"type":"object","allOf":[{"required":["a"]}],"$schema":"https://json-schema.org/draft/2020-12/schema"}`
	var list sdk.ListToolsResult
	if err := json.Unmarshal([]byte(`{"tools":[{"name":"x","inputSchema":`+schema+`}]}`), &list); err != nil {
		t.Fatal(err)
	}
	if kept, err := json.Marshal(list.Tools[0]); err != nil || strings.Contains(string(kept), "allOf") {
		t.Errorf("the library keeps schemas now: %s, %v", kept, err)
	}
}

// Why server/discover is checked: some old servers answer {} to any request that they do not know.
func TestDefect_Discover_EmptyAnswerCountsAsModern(t *testing.T) {
	library := client.NewClient(overPipe(t, func(r string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, jsonObject(json.RawMessage(r))["id"])
	}))
	if err := library.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := library.Initialize(t.Context(), sdk.InitializeRequest{}); err != nil ||
		!sdk.IsModernProtocol(library.ProtocolVersion()) {
		t.Errorf("the library takes it for version %q now: %v", library.ProtocolVersion(), err)
	}
}

// metadataFor serves the metadata of a protected resource at each address, with %s for its origin.
func metadataFor(t *testing.T, resource string) (origin string) {
	t.Helper()
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected-resource") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, strings.ReplaceAll(resource, "%s", "http://"+r.Host))
	})).URL
}

// Why package oauth discovers: of several authorization servers the second would not be tried, and the addresses of the
// first one, which does not describe itself, would be guessed.
func TestDefect_OAuth_SecondAuthorizationServerIsNotTried(t *testing.T) {
	second := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"issuer":"http://%s","authorization_endpoint":"http://%[1]s/a","token_endpoint":"http://%[1]s/t"}`, r.Host)
	})).URL
	server := metadataFor(t, `{"resource":"%s","authorization_servers":["%s/dead","`+second+`"]}`)
	library := transport.NewOAuthHandler(transport.OAuthConfig{})
	library.SetBaseURL(server)
	got, err := library.GetServerMetadata(t.Context())
	if err != nil || strings.HasPrefix(got.TokenEndpoint, second) {
		t.Errorf("the library tries the second authorization server now: %+v, %v", got, err)
	}
}

// Why package oauth discovers: a server at a path whose metadata name its whole origin could not be signed in to.
func TestDefect_OAuth_ResourceThatIsTheOriginIsRefused(t *testing.T) {
	server := metadataFor(t, `{"resource":"%s","authorization_servers":["%s"]}`)
	library := transport.NewOAuthHandler(transport.OAuthConfig{
		ProtectedResourceMetadataURL: server + "/.well-known/oauth-protected-resource",
	})
	library.SetBaseURL(server + "/mcp")
	if _, err := library.GetServerMetadata(t.Context()); err == nil || !strings.Contains(err.Error(), "does not match") {
		t.Errorf("the library takes the origin for the resource now: %v", err)
	}
}
