// Package mcpserve offers the bot's tools to other MCP hosts: the native tools, and the
// five meta-tools that find and run the tools of all MCP servers. It promises that nobody
// gets in without a token made for this, that a token sees and runs only the tools that it
// was made for, and that every call passes package invoke like those of the bot's own
// conversations. Tokens are stored as hashes.
//
// A request to Handler brings its token, which becomes a grant in its context; a program that was started by the
// operator (Serve) has a grant to everything. The library answers the protocol and asks allowedTools for the list; call
// looks the tool up among those that the grant may use, makes the call and returns its outcome as a result. Tokens are
// made by the operator, over the API or by a sign-in of the host (authorization.go).
package mcpserve

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"

	sdk "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/store"
)

// Discovery finds tools among many, as toolsearch.Finder does. Its methods are called concurrently.
type Discovery interface {
	Sync(all []tool.Named)
	Tools(usable func() []tool.Named) []tool.Named
	Unwrap(name string, args json.RawMessage) (string, json.RawMessage, error)
	Prompt() string
}

// Calls makes tool calls and stores their records, also those of hosts that have left.
type Calls interface {
	// Call makes a call and returns its outcome and its record. shown is how many bytes of a
	// result are shown at once.
	Call(ctx context.Context, in tool.Intent, shown int) (tool.Outcome, store.ToolCall)
	SaveCalls(ctx context.Context, calls []store.ToolCall) error
}

// Servers are the sources of tools that come and go.
type Servers interface {
	// Lease keeps the tools that there are now until release is called.
	Lease() (release func())
	// WhyMissing returns the source of a tool that is not offered now, and what to tell the
	// caller; both are empty where no source has such a tool.
	WhyMissing(name string) (server, why string)
}

// Options are what a Server needs. All functions may be called concurrently.
type Options struct {
	Tools     func() []tool.Named // there now
	Discovery Discovery
	// Matches reports whether any of the patterns matches a tool.
	Matches func(patterns []string, n tool.Named) bool
	Calls   Calls
	Servers Servers    // nil: the tools never change
	Shown   func() int // bytes of a result that are shown at once
	Version string
	Log     *slog.Logger
}

// Server is the bot as an MCP server. It is safe for concurrent use.
type Server struct {
	o   Options
	mcp *server.MCPServer

	mu    sync.Mutex
	names []string // of the tools that mcp knows, sorted
}

// New returns a Server.
func New(o Options) *Server {
	s := &Server{o: o}
	s.mcp = server.NewMCPServer("ravenbot", o.Version,
		server.WithToolCapabilities(false),
		server.WithRecovery(),
		server.WithInstructions(o.Discovery.Prompt()),
		server.WithLogger(slog.New(slog.DiscardHandler)),
		server.WithToolFilter(s.allowedTools))
	return s
}

// grantKey is the key under which a context has the grant of a request.
type grantKey struct{}

// grant is what the caller of a request may do.
type grant struct {
	tokenName string   // the token's name
	owner     string   // of the token
	tools     []string // patterns
}

// grantFrom returns the grant of a request; false: it has none, and may do nothing.
func grantFrom(ctx context.Context) (grant, bool) {
	g, ok := ctx.Value(grantKey{}).(grant)
	return g, ok
}

// Handler returns a handler that serves Streamable HTTP to whoever sends a live token;
// refuse answers all others.
func (s *Server) Handler(tokens *Tokens, refuse http.HandlerFunc) http.Handler {
	// Without sessions nothing grows with the number of hosts; each request has its token.
	h := server.NewStreamableHTTPServer(s.mcp, server.WithStateLess(true), server.WithDisableStreaming(true),
		server.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler))) // calls are logged where they are made
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		token, ok := tokens.Check(r.Context(), strings.TrimSpace(secret))
		if !ok || !strings.EqualFold(kind, "Bearer") {
			refuse(w, r)
			return
		}
		body := bufio.NewReader(r.Body)
		if isBatch(body) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(sdk.NewJSONRPCError(sdk.NewRequestId(nil), sdk.INVALID_REQUEST,
				"this server takes one message a request: send the messages of the batch one by one", nil))
			return
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{body, r.Body}
		s.syncTools()
		g := grant{tokenName: token.Name, owner: token.Owner, tools: token.Tools}
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), grantKey{}, g)))
	})
}

// isBatch reports whether a body is a list of messages, which only protocol version 2025-03-26 allows and the library
// calls invalid JSON (mcp-go v1.2.1, 2026-11). It reads the white space before it.
func isBatch(body *bufio.Reader) bool {
	for {
		c, err := body.ReadByte()
		if err != nil {
			return false
		}
		if !unicode.IsSpace(rune(c)) {
			return body.UnreadByte() == nil && c == '['
		}
	}
}

// Serve serves the operator over two streams, one message per line, with all tools. It
// returns when the input has ended and all requests are answered.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer, owner string) error {
	s.syncTools()
	std := server.NewStdioServer(s.mcp)
	std.SetContextFunc(func(ctx context.Context) context.Context {
		return context.WithValue(ctx, grantKey{}, grant{"stdio", owner, []string{"*"}})
	})
	d := newDrainingStream(ctx, in, out)
	return std.Listen(ctx, d, d)
}

// usableTools returns the tools that a caller may use.
func (s *Server) usableTools(g grant) []tool.Named {
	return slices.DeleteFunc(slices.Clone(s.o.Tools()), func(n tool.Named) bool { return !s.o.Matches(g.tools, n) })
}

// listedTools returns the tools of a list: the native ones, and those that find others.
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

// syncTools gives the library the current tools, also those that are not listed: it looks a
// name up before it calls allowedTools.
func (s *Server) syncTools() {
	tools := s.o.Tools()
	// Without a grant in the context discovery finds nothing, but is listed.
	all := s.listedTools(context.Background())
	for _, n := range tools {
		if !n.Tool.Spec().Native {
			all = append(all, n)
		}
	}
	s.o.Discovery.Sync(tools)
	names := make([]string, len(all))
	for i, n := range all {
		names[i] = n.Name
	}
	slices.Sort(names)
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Equal(names, s.names) { // SetTools copies everything; this runs at every request
		return
	}
	s.names = names
	list := make([]server.ServerTool, len(all))
	for i, n := range all {
		list[i] = server.ServerTool{Tool: sdkTool(n), Handler: s.call}
	}
	s.mcp.SetTools(list...)
}

// allowedTools returns the list of tools for one caller, from the grant in ctx. Before a call the library asks about
// the one tool of the call (mcp-go 1.2): a tool that is not listed may be called by its name all the same.
func (s *Server) allowedTools(ctx context.Context, asked []sdk.Tool) []sdk.Tool {
	list := []sdk.Tool{}
	g, ok := grantFrom(ctx)
	if len(asked) == 1 && ok {
		return asked // call checks it, and says in words what is wrong
	}
	for _, n := range s.listedTools(ctx) {
		if ok && (isDiscovery(n) || s.o.Matches(g.tools, n)) {
			list = append(list, sdkTool(n))
		}
	}
	slices.SortFunc(list, func(a, b sdk.Tool) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// isDiscovery reports whether a tool only finds and runs others, which are checked
// themselves, or reads on in their results.
func isDiscovery(n tool.Named) bool {
	spec := n.Tool.Spec()
	return spec.Native && (spec.Server == "discovery" || spec.Server == "result")
}

// sdkTool returns a tool as the library describes it.
func sdkTool(n tool.Named) sdk.Tool {
	spec := n.Tool.Spec()
	schema := spec.Schema
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	t := sdk.NewToolWithRawSchema(n.Name, spec.Description, schema)
	t.Annotations = sdk.ToolAnnotation{
		ReadOnlyHint:    spec.Hints.ReadOnly,
		DestructiveHint: spec.Hints.Destructive,
		IdempotentHint:  spec.Hints.Idempotent,
		OpenWorldHint:   spec.Hints.OpenWorld,
	}
	return t
}

// call handles a call of another host. What is wrong with it becomes a result, which the
// host's model can read.
func (s *Server) call(ctx context.Context, r sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	g, ok := grantFrom(ctx)
	if !ok {
		return sdk.NewToolResultError("This call has no valid token."), nil
	}
	if s.o.Servers != nil {
		// A reload must not end the server in the middle of the call.
		defer s.o.Servers.Lease()()
	}
	args, err := json.Marshal(r.GetRawArguments())
	if err != nil {
		return sdk.NewToolResultError("The arguments are not valid JSON."), nil
	}
	name := r.Params.Name
	if name, args, err = s.o.Discovery.Unwrap(name, args); err != nil {
		return sdk.NewToolResultError(err.Error()), nil
	}
	// Checked here, because allowedTools lets the library make every call.
	for _, n := range append(s.listedTools(ctx), s.usableTools(g)...) {
		if n.Name == name && (isDiscovery(n) || s.o.Matches(g.tools, n)) {
			return s.makeCall(ctx, g, n, args, r.Params.Meta), nil
		}
	}
	return sdk.NewToolResultError(s.explainMissing(g, name)), nil
}

// explainMissing returns why a caller cannot call a tool. Of a server that the caller may not use nothing is told.
func (s *Server) explainMissing(g grant, name string) string {
	if s.o.Servers != nil {
		if server, why := s.o.Servers.WhyMissing(name); why != "" && s.mayUse(g, server, name) {
			return why
		}
	}
	return "There is no tool " + name + " that this token may use. discover_tools finds those it may."
}

// mayUse reports whether a caller may use a tool of a server by its name.
func (s *Server) mayUse(g grant, server, name string) bool {
	return s.o.Matches(g.tools, tool.Named{Name: name, Tool: tool.Func{Described: tool.Spec{Server: server}}})
}

// reportTo returns what tells a host of the progress of a call; nil: the host has not asked for it.
func (s *Server) reportTo(ctx context.Context, meta *sdk.Meta) func(note string) {
	if meta == nil || meta.ProgressToken == nil {
		return nil
	}
	var step atomic.Int64 // the protocol wants numbers that grow
	return func(note string) {
		if note == "" {
			return
		}
		// The library does not block: where nobody reads any more, the note is dropped.
		err := s.mcp.SendNotificationToClient(ctx, "notifications/progress", map[string]any{
			"progressToken": meta.ProgressToken,
			"progress":      step.Add(1),
			"message":       note,
		})
		if err != nil {
			s.o.Log.Debug("progress of a call not told", "error", err)
		}
	}
}

// makeCall makes a call and records it.
func (s *Server) makeCall(
	ctx context.Context,
	g grant,
	n tool.Named,
	args json.RawMessage,
	progress *sdk.Meta,
) *sdk.CallToolResult {
	in := tool.Intent{Tool: n, Args: args, Caller: tool.Caller{
		Conversation: chat.Address{Platform: chat.HostPlatform, Workspace: g.owner, Channel: g.tokenName},
		User:         chat.User{ID: g.owner + "/" + g.tokenName, Name: g.tokenName},
		// A server may be used where the patterns would match a tool of it without a name.
		Servers: func(name string) bool { return s.mayUse(g, name, name) },
		Report:  s.reportTo(ctx, progress),
	}}
	out, record := s.o.Calls.Call(ctx, in, s.o.Shown())
	if err := s.o.Calls.SaveCalls(ctx, []store.ToolCall{record}); err != nil {
		s.o.Log.Error("failed to record a tool call", "tool", n.Name, "error", err)
	}
	res := sdk.NewToolResultText(out.Shown)
	res.IsError = out.Result.IsError
	// Of a result that is too long to be shown at once the text says how to read on.
	if data := cleanStructured(out.Result.Structured); record.ResultID == "" && data != nil {
		res.StructuredContent = data
	}
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
