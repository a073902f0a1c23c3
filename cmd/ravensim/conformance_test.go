package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	sdk "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// suite is the release of the official suite that is run.
const suite = "@modelcontextprotocol/conformance@0.2.0-alpha.12"

// TestConformanceSuite runs the official suite with this program as the client,
// and prints its table: make conformance.
func TestConformanceSuite(t *testing.T) {
	if os.Getenv("RAVENBOT_CONFORMANCE") != "1" {
		t.Skip("set RAVENBOT_CONFORMANCE=1 to run the official suite; it needs npx, and the network the first time")
	}
	program := filepath.Join(t.TempDir(), "ravensim")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for version, want := range map[string]int{"2025-11-25": 18, "2026-07-28": 32} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		cmd := exec.CommandContext(ctx, "npx", "-y", "-p", "node@22", "-p", suite, "conformance", "client",
			"--command", program+" conformance", "--requirements", version, "-o", t.TempDir())
		said, err := cmd.CombinedOutput()
		cancel()
		_, table, ok := strings.Cut(string(said), "=== SUITE SUMMARY ===")
		if !ok {
			t.Fatalf("%s: the suite did not come to its end: %v\n%s", version, err, said)
		}
		t.Logf("%s%s", version, table)
		scored, others, _ := strings.Cut(table, "Not scored")
		passed := 0
		for _, line := range regexp.MustCompile(`(?m)^([✓✗]) (\S+): `).FindAllStringSubmatch(scored, -1) {
			switch {
			case strings.Contains(others, " "+line[2]+" ("): // an extension, or newer than the version
			case line[1] == "✓":
				passed++
			default:
				t.Errorf("%s: %s failed", version, line[2])
			}
		}
		if passed != want {
			t.Errorf("%s: %d of %d scenarios passed", version, passed, want)
		}
	}
}

func TestConformanceCallsWhatThereIs(t *testing.T) {
	s := server.NewMCPServer("peer", "1", server.WithToolCapabilities(false))
	s.AddTool(sdk.NewTool("add", sdk.WithNumber("a", sdk.Required()), sdk.WithString("unit", sdk.Enum("m", "km"))),
		func(_ context.Context, r sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return sdk.NewToolResultText(strings.Repeat("a", r.GetInt("a", 0)) + r.GetString("unit", "")), nil
		})
	peer := httptest.NewServer(server.NewStreamableHTTPServer(s))
	defer peer.Close()
	tests := []struct {
		args    []string
		env     map[string]string
		status  int
		out, er string
	}{
		{[]string{peer.URL}, nil, 0, `add {"a":1,"unit":"m"}: am`, ""},
		{[]string{peer.URL}, map[string]string{"MCP_CONFORMANCE_PROTOCOL_VERSION": "2025-06-18",
			"MCP_CONFORMANCE_CONTEXT": `{"toolCalls":[{"name":"add","arguments":{"a":3}},{"name":"none"}]}`}, 0,
			`add {"a":3}: aaa`, "protocol=2025-06-18"},
		{[]string{peer.URL}, map[string]string{"MCP_CONFORMANCE_PROTOCOL_VERSION": "1999"}, 1, "", "unknown protocol version"},
		{[]string{peer.URL}, map[string]string{"MCP_CONFORMANCE_CONTEXT": `{`}, 2, "", "MCP_CONFORMANCE_CONTEXT"},
		{[]string{"http://127.0.0.1:1/"}, nil, 1, "", "not connected"},
		{nil, nil, 2, "", "usage"},
	}
	for _, tt := range tests {
		var out, er bytes.Buffer
		status := conformance(t.Context(), world{tt.args, &out, &er, func(key string) string { return tt.env[key] }})
		if status != tt.status || !strings.Contains(out.String(), tt.out) || !strings.Contains(er.String(), tt.er) {
			t.Errorf("%v %v: status %d\n%s\n%s", tt.args, tt.env, status, &out, &er)
		}
	}
}

// guarded lets in who has a token, and gives tokens to whom a person sends.
func guarded(next http.Handler) http.Handler {
	json := func(w http.ResponseWriter, format string, args ...any) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, format, args...)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer let-me-in" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
	mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, r *http.Request) {
		json(w, `{"resource":"http://%s/mcp","authorization_servers":["http://%[1]s"]}`, r.Host)
	})
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, r *http.Request) {
		json(w, `{"issuer":"http://%s","authorization_endpoint":"http://%[1]s/authorize",`+
			`"token_endpoint":"http://%[1]s/token",`+
			`"registration_endpoint":"http://%[1]s/register","code_challenge_methods_supported":["S256"]}`, r.Host)
	})
	mux.HandleFunc("/register", func(w http.ResponseWriter, _ *http.Request) { json(w, `{"client_id":"c"}`) })
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		http.Redirect(w, r, q.Get("redirect_uri")+"?code=yes&state="+q.Get("state"), http.StatusFound)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("code") != "yes" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		json(w, `{"access_token":"let-me-in","token_type":"Bearer"}`)
	})
	return mux
}

func TestConformanceSignsIn(t *testing.T) {
	s := server.NewMCPServer("peer", "1", server.WithToolCapabilities(false))
	s.AddTool(sdk.NewTool("hello"), func(context.Context, sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return sdk.NewToolResultText("world"), nil
	})
	peer := httptest.NewServer(guarded(server.NewStreamableHTTPServer(s)))
	defer peer.Close()
	for _, version := range []string{"2025-03-26", "2025-11-25", "2026-07-28"} {
		var out, er bytes.Buffer
		status := conformance(t.Context(), world{[]string{peer.URL + "/mcp"}, &out, &er, func(key string) string {
			return map[string]string{"MCP_CONFORMANCE_PROTOCOL_VERSION": version}[key]
		}})
		if status != 0 || out.String() != "hello {}: world\n" || !strings.Contains(er.String(), `page="200 OK"`) {
			t.Errorf("%s: status %d\n%s\n%s", version, status, &out, &er)
		}
	}
}

func TestUnknownCommands(t *testing.T) {
	for _, args := range [][]string{nil, {"fly"}} {
		if status := run(t.Context(), args); status != 2 {
			t.Errorf("%q: status %d", args, status)
		}
	}
}
