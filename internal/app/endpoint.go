package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"ravenbot/internal/admin"
	"ravenbot/internal/chat"
	"ravenbot/internal/mcpserve"
	"ravenbot/internal/policy"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
	"ravenbot/internal/tool"
	"ravenbot/internal/toolsearch"
)

// buildEndpoint makes the bot an MCP server for other hosts.
func (a *App) buildEndpoint() error {
	tokens, err := mcpserve.LoadTokens(context.Background(), a.store, a.o.Now)
	if err != nil {
		return err
	}
	a.tokens = tokens
	a.endpoint = mcpserve.New(mcpserve.Options{Tools: a.usableAnywhere, Discovery: toolsearch.NewFinder(toolsearch.New(), a.aboutServer), Matches: policy.MatchesAny,
		Call: a.calls.Call, Record: a.store.RecordCalls, Hold: a.mcp.Hold, Shown: a.shownResult, Version: a.o.Version, Log: a.o.Log})
	return nil
}

// usableAnywhere gives the tools that are there, unless tools are switched off.
func (a *App) usableAnywhere() []tool.Named {
	if !a.conf().Tools.Enabled {
		return nil
	}
	return a.registry.List()
}

// mcpHandler serves /mcp.
func (a *App) mcpHandler(refuse http.HandlerFunc) http.Handler {
	return a.endpoint.Handler(a.tokens, refuse)
}

// ServeMCP speaks MCP over two streams until the input or ctx ends. The app has to
// run meanwhile.
func (a *App) ServeMCP(ctx context.Context, in io.Reader, out io.Writer) error {
	return a.endpoint.Serve(ctx, in, out, "operator")
}

// callTool makes one call for the operator.
func (s servers) Call(ctx context.Context, server, name string, args json.RawMessage) (admin.CallResult, error) {
	if _, err := s.Get(server); err != nil {
		return admin.CallResult{}, err
	}
	defer s.a.mcp.Hold()()
	for _, n := range s.a.registry.List() {
		if spec := n.Tool.Spec(); spec.Native || spec.Server != server || spec.Name != name && n.Name != name {
			continue
		}
		in := tool.Intent{Tool: n, Args: args, Caller: tool.Caller{User: chat.User{ID: "admin", Name: "operator", Admin: true},
			Conversation: chat.Address{Platform: mcpserve.Platform, Workspace: "admin", Channel: "api"}}}
		out, record := s.a.calls.Call(ctx, in, s.a.shownResult())
		keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := s.a.store.RecordCalls(keep, []store.ToolCall{record}); err != nil {
			return admin.CallResult{}, err
		}
		return admin.CallResult{Text: out.Result.Text, Structured: out.Result.Structured, IsError: out.Result.IsError}, nil
	}
	for _, c := range s.a.mcp.Pending(server) {
		if c.Tool == name {
			return admin.CallResult{}, badInput{fmt.Errorf("the tool %q of MCP server %s has changed, and waits until it is approved: ravenbot mcp approve %s", name, server, server)}
		}
	}
	return admin.CallResult{}, badInput{fmt.Errorf("MCP server %s offers no tool %q", server, name)}
}

// The item that keeps when all sessions were ended.
const (
	sessionItems = "sessions"
	endedItem    = "ended"
)

// logouts keeps when all sessions were ended.
type logouts struct{ db *bolt.DB }

func (l logouts) SaveLogout(ctx context.Context, at time.Time) error {
	raw, err := json.Marshal(at)
	if err != nil {
		return err
	}
	return l.db.SaveItem(ctx, sessionItems, endedItem, raw, true)
}

func (l logouts) last(ctx context.Context) (at time.Time, err error) {
	items, err := l.db.Items(ctx, sessionItems)
	if raw, ok := items[endedItem]; ok && err == nil {
		err = json.Unmarshal(raw, &at)
	}
	return at, err
}
