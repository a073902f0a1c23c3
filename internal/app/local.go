package app

import (
	"context"
	"io"
	"iter"
	"net/http"

	"ravenbot/adapters/web"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/turn/agent"
	"ravenbot/internal/turn/budget"
	"ravenbot/internal/turn/roster"
)

// What the command line does with a store that no daemon has open.

// Ask says something in a web room and yields what happens until the answer has come.
func (a *App) Ask(ctx context.Context, room string, user chat.User, text string) iter.Seq2[web.Event, error] {
	return a.web.Ask(ctx, room, user, text)
}

// ServeMCP speaks MCP over two streams until the input or ctx ends. The app has to run meanwhile.
func (a *App) ServeMCP(ctx context.Context, in io.Reader, out io.Writer) error {
	return a.endpoint.Serve(ctx, in, out, "operator")
}

// API returns the handler of the API for callers in this process, who need no token.
func (a *App) API() http.Handler { return a.admin.LocalAPI() }

// Replay answers a stored turn again. It changes and posts nothing.
func (a *App) Replay(ctx context.Context, at chat.Address, turn string, o agent.ReplayOptions) (agent.Replay, error) {
	return a.agent.Replay(ctx, at, turn, o)
}

// Digests returns the bot's digests.
func (a *App) Digests() *digest.Service { return a.digests }

// Roster returns the agents and tools.
func (a *App) Roster() *roster.Roster { return a.roster }

// Usage returns what was used in the last days.
func (a *App) Usage(ctx context.Context) ([]budget.Usage, error) { return a.spending.Usage(ctx) }
