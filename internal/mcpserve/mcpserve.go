// Package mcpserve offers the bot's tools to other MCP hosts: the native tools and
// the five meta-tools, by which the tools of all MCP servers are found and run. It
// promises that nobody gets in without a token of its own kind, that a token sees and
// runs nothing but the tools that it was made for, and that every call goes through
// the same door as those of the bot's own conversations. Tokens are kept as hashes.
package mcpserve

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/tool"
)

// Platform is the platform of the conversations that calls belong to: one a token,
// which no chat platform shows.
const Platform = "mcp"

// Discovery finds tools among many.
type Discovery interface {
	Sync(all []tool.Named)
	Tools(usable func() []tool.Named) []tool.Named
	Unwrap(name string, args json.RawMessage) (string, json.RawMessage, error)
	Prompt() string
}

// Calls makes tool calls and keeps their records.
type Calls interface {
	// Call returns what became of a call, and its record. shown is how many bytes of a result
	// are shown at once.
	Call(ctx context.Context, in tool.Intent, shown int) (tool.Outcome, store.ToolCall)
	SaveCalls(ctx context.Context, calls []store.ToolCall) error
}

// Servers are the sources of tools that come and go.
type Servers interface {
	// Lease keeps the tools that there are now until release is called.
	Lease() (release func())
}

// Options are what a Server needs. All functions may be called concurrently.
type Options struct {
	Tools     func() []tool.Named // there now
	Discovery Discovery
	// Matches reports whether one of some patterns names a tool.
	Matches func(patterns []string, n tool.Named) bool
	Calls   Calls
	Servers Servers    // nil: tools stay as they are
	Shown   func() int // bytes of a result that are shown at once
	Version string
	Log     *slog.Logger
}

// Server is the bot as an MCP server. It is safe for concurrent use.
type Server struct {
	o   Options
	mcp *server.MCPServer

	mu    sync.Mutex
	names []string // of the tools that mcp has, sorted
}

// New returns a Server.
func New(o Options) *Server {
	s := &Server{o: o}
	s.mcp = server.NewMCPServer("ravenbot", o.Version, server.WithToolCapabilities(false), server.WithRecovery(),
		server.WithInstructions(o.Discovery.Prompt()), server.WithLogger(slog.New(slog.DiscardHandler)), server.WithToolFilter(s.allowedTools))
	return s
}

type grantKey struct{}

// grant is what the caller may do.
type grant struct {
	tokenName string   // the token's name
	owner     string   // and whose it is
	tools     []string // patterns
}

func grantFrom(ctx context.Context) (grant, bool) {
	g, ok := ctx.Value(grantKey{}).(grant)
	return g, ok
}

// Handler serves Streamable HTTP to whoever holds a token. tokens decides; refuse
// answers those that hold none.
func (s *Server) Handler(tokens *Tokens, refuse http.HandlerFunc) http.Handler {
	h := server.NewStreamableHTTPServer(s.mcp, server.WithStateLess(true), server.WithDisableStreaming(true),
		server.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler))) // calls are logged where they are made
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		token, ok := tokens.Check(r.Context(), strings.TrimSpace(secret))
		if !ok || !strings.EqualFold(kind, "Bearer") {
			refuse(w, r)
			return
		}
		s.syncTools()
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), grantKey{}, grant{token.Name, token.Owner, token.Tools})))
	})
}

// Serve speaks MCP over two streams, a message a line, for the operator, until the
// input ends and what was asked before is answered.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer, owner string) error {
	s.syncTools()
	std := server.NewStdioServer(s.mcp)
	std.SetContextFunc(func(ctx context.Context) context.Context {
		return context.WithValue(ctx, grantKey{}, grant{"stdio", owner, []string{"*"}})
	})
	d := newDrainingStream(ctx, in, out)
	return std.Listen(ctx, d, d)
}

// usableTools gives the tools that a caller may use.
func (s *Server) usableTools(g grant) []tool.Named {
	return slices.DeleteFunc(slices.Clone(s.o.Tools()), func(n tool.Named) bool { return !s.o.Matches(g.tools, n) })
}

// listedTools gives the tools that are listed: the native ones and those that find.
func (s *Server) listedTools(ctx context.Context) []tool.Named {
	list := s.o.Discovery.Tools(func() []tool.Named {
		g, ok := grantFrom(ctx)
		if !ok {
			return nil
		}
		return s.usableTools(g)
	})
	for _, n := range s.o.Tools() {
		if n.Tool.Spec().Native {
			list = append(list, n)
		}
	}
	return list
}

// syncTools has the library know the tools that there are now: it looks names up before it
// asks allowed.
func (s *Server) syncTools() {
	all := s.listedTools(context.Background())
	s.o.Discovery.Sync(s.o.Tools())
	names := make([]string, len(all))
	for i, n := range all {
		names[i] = n.Name
	}
	slices.Sort(names)
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Equal(names, s.names) {
		return
	}
	s.names = names
	list := make([]server.ServerTool, len(all))
	for i, n := range all {
		list[i] = server.ServerTool{Tool: sdkTool(n), Handler: s.call}
	}
	s.mcp.SetTools(list...)
}

// allowedTools is the list of tools for one caller.
func (s *Server) allowedTools(ctx context.Context, _ []sdk.Tool) []sdk.Tool {
	list := []sdk.Tool{}
	g, ok := grantFrom(ctx)
	for _, n := range s.listedTools(ctx) {
		if ok && (isDiscovery(n) || s.o.Matches(g.tools, n)) {
			list = append(list, sdkTool(n))
		}
	}
	slices.SortFunc(list, func(a, b sdk.Tool) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// isDiscovery reports that a tool only finds and runs others, which are judged instead, or
// reads on in what they gave.
func isDiscovery(n tool.Named) bool {
	spec := n.Tool.Spec()
	return spec.Native && (spec.Server == "discovery" || spec.Server == "result")
}

func sdkTool(n tool.Named) sdk.Tool {
	spec := n.Tool.Spec()
	schema := spec.Schema
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	t := sdk.NewToolWithRawSchema(n.Name, spec.Description, schema)
	t.Annotations = sdk.ToolAnnotation{ReadOnlyHint: spec.Hints.ReadOnly, DestructiveHint: spec.Hints.Destructive,
		IdempotentHint: spec.Hints.Idempotent, OpenWorldHint: spec.Hints.OpenWorld}
	return t
}

// call makes one call of another host.
func (s *Server) call(ctx context.Context, r sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	g, ok := grantFrom(ctx)
	if !ok {
		return sdk.NewToolResultError("This call comes from nobody."), nil
	}
	if s.o.Servers != nil {
		defer s.o.Servers.Lease()()
	}
	args, err := json.Marshal(r.GetRawArguments())
	if err != nil {
		return sdk.NewToolResultError("The arguments are no JSON."), nil
	}
	name := r.Params.Name
	if name, args, err = s.o.Discovery.Unwrap(name, args); err != nil {
		return sdk.NewToolResultError(err.Error()), nil
	}
	for _, n := range append(s.listedTools(ctx), s.usableTools(g)...) {
		if n.Name == name && (isDiscovery(n) || s.o.Matches(g.tools, n)) {
			return s.makeCall(ctx, g, n, args), nil
		}
	}
	return sdk.NewToolResultError("There is no tool " + name + " that this token may use. discover_tools finds those it may."), nil
}

func (s *Server) makeCall(ctx context.Context, g grant, n tool.Named, args json.RawMessage) *sdk.CallToolResult {
	in := tool.Intent{Tool: n, Args: args, Caller: tool.Caller{
		Conversation: chat.Address{Platform: Platform, Workspace: g.owner, Channel: g.tokenName},
		User:         chat.User{ID: g.owner + "/" + g.tokenName, Name: g.tokenName},
		Servers: func(name string) bool { // as if it had a tool without a name
			return s.o.Matches(g.tools, tool.Named{Name: name, Tool: tool.Func{Described: tool.Spec{Server: name}}})
		}}}
	out, record := s.o.Calls.Call(ctx, in, s.o.Shown())
	keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := s.o.Calls.SaveCalls(keep, []store.ToolCall{record}); err != nil {
		s.o.Log.Error("tool call not recorded", "tool", n.Name, "error", err)
	}
	res := sdk.NewToolResultText(out.Shown)
	res.IsError = out.Result.IsError
	for _, f := range out.Result.Files {
		data := base64.StdEncoding.EncodeToString(f.Data)
		switch {
		case strings.HasPrefix(f.Type, "image/"):
			res.Content = append(res.Content, sdk.NewImageContent(data, f.Type))
		case strings.HasPrefix(f.Type, "audio/"):
			res.Content = append(res.Content, sdk.NewAudioContent(data, f.Type))
		}
	}
	return res
}
