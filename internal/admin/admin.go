// Package admin is the bot's HTTP side: health, login and sessions, the REST API
// under /api/v1, and the dashboard around the chat page. It promises that nothing
// but /healthz, /readyz, /login and the mounts that check for themselves answers
// without the admin token or a session, that no foreign page and no foreign host
// name can act with a session, that tokens are compared in constant time, and
// that what is shown is never active markup. What the API tells and does it takes
// as small interfaces and functions; it knows no platform and no store.
package admin

import (
	"context"
	"html/template"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/budget"
	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/platform"
	"ravenbot/internal/settings"
	"ravenbot/internal/store"
)

// Event is a step towards an answer: a passing view of the work, or last the
// Entry whose draft is the answer. One of the two is set.
type Event struct {
	Entry    *store.Entry
	Progress *chat.Progress
}

// Rooms are the web rooms, of which each is a conversation.
type Rooms interface {
	Name() string // of their platform
	// Ask says something in a room and yields events until the answer has come. An error with
	// a method BadInput that reports true is the sender's to correct.
	Ask(ctx context.Context, room string, user chat.User, text string) iter.Seq2[Event, error]
}

// Platforms tells how the chat platforms are.
type Platforms interface {
	Health() []platform.Health
}

// Spending tells what was used of models.
type Spending interface {
	Usage(ctx context.Context) ([]budget.Usage, error)
}

// Agent is told of conversations that were deleted.
type Agent interface {
	Forget(a chat.Address)
}

// Instance tells of the bot as a whole.
type Instance interface {
	Status() any        // becomes JSON
	ToolsEnabled() bool // by the configuration
}

// Conversations reads and removes what is remembered of conversations.
type Conversations interface {
	Conversations(ctx context.Context) ([]store.ConversationInfo, error)
	// Turns gives the newest n turns, oldest first.
	Turns(ctx context.Context, a chat.Address, r store.Range) ([]conversation.Turn, error)
	DeleteConversation(ctx context.Context, a chat.Address) error
	// Entries gives up to n lines of a web room with Seq below before (0: the
	// newest), oldest first; Rooms names the rooms that hold any.
	Entries(ctx context.Context, room string, before uint64, n int) ([]store.Entry, error)
	Rooms(ctx context.Context) ([]string, error)
	// DeleteRoom removes the lines of a web room.
	DeleteRoom(ctx context.Context, room string) error
	// Undelivered returns the posts that could not be delivered.
	Undelivered(ctx context.Context) ([]store.Post, error)
	// Feedback returns what people think of answers.
	Feedback(ctx context.Context) ([]store.Feedback, error)
}

// Options are what a Server needs. All functions may be called concurrently.
type Options struct {
	Token     string // the administrator's; while it is empty only one-time links let in
	Listen    string // the address listened on, host:port
	PublicURL string // where others reach the bot, or empty

	Chat   http.Handler // the chat page; nil where it is switched off
	Static http.Handler // what pages load, below /static/; nil where Chat has it
	Render func(chat.Draft) template.HTML

	Rooms         Rooms
	Platforms     Platforms
	Servers       Servers
	ServerCalls   ServerCalls
	Agents        Agents
	Files         Files
	Tools         Tools
	Digests       Digests
	Conversations Conversations
	Agent         Agent
	Instance      Instance
	Spending      Spending
	Calls         Calls
	Approvals     Approvals
	Audit         Audit // nil: no changes are kept
	Tokens        Tokens
	Settings      *settings.Repository
	Logouts       Logouts
	LoggedOut     time.Time // when all sessions were last ended
	Metrics       http.Handler
	// MCP makes the handler of /mcp; refuse answers those without a token of its own.
	// nil: there is none.
	MCP func(refuse http.HandlerFunc) http.Handler
	// Backup makes a copy of the store.
	Backup func(context.Context) (Copy, error)

	// Mounts are handlers of exact paths that check for themselves who calls.
	Mounts map[string]http.Handler
	Log    *slog.Logger
	Now    func() time.Time
}

// Server is the HTTP side. It is safe for concurrent use.
type Server struct {
	o        Options
	guard    *guard
	sessions *sessions
	api      *http.ServeMux
	pages    *http.ServeMux
	mcp      http.Handler
	backupMu sync.Mutex // held while a copy of the store is sent
}

// New returns a Server.
func New(o Options) *Server {
	s := &Server{o: o, guard: newGuard(o), sessions: newSessions(o.Token, o.Now)}
	s.sessions.endAll(o.LoggedOut)
	if o.MCP != nil {
		s.mcp = o.MCP(s.refuseWithoutToken)
	}
	s.api = s.apiRoutes()
	s.pages = s.dashboard()
	return s
}

// Handler serves everything.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	defer s.recoverPanic(w, r)
	setHeaders(w.Header())
	if h, ok := s.o.Mounts[r.URL.Path]; ok {
		if readBody(w, r) {
			h.ServeHTTP(w, r)
		}
		return
	}
	switch r.URL.Path {
	case "/healthz":
		s.healthz(w, r)
		return
	case "/readyz":
		s.readyz(w, r)
		return
	}
	if err := s.guard.checkForeign(r); err != nil {
		writeError(w, http.StatusForbidden, "forbidden", err.Error(),
			"open the bot under its own address, or set http.publicURL to the one in use")
		return
	}
	if r.URL.Path == "/login" {
		if readBody(w, r) {
			s.login(w, r)
		}
		return
	}
	if r.URL.Path == "/mcp" && s.mcp != nil {
		if readBody(w, r) {
			s.mcpEndpoint(w, r)
		}
		return
	}
	if !s.authorize(w, r) || !readBody(w, r) {
		return
	}
	if isAPI(r.URL.Path) {
		s.serveAudited(w, r, s.api)
		return
	}
	s.serveAudited(w, r, s.pages)
}

// authorize lets pass who holds the token or a session, and answers all others.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) bool {
	if token, ok := bearer(r); ok {
		now := s.o.Now()
		if s.guard.bearers.isFull(r, now) {
			writeTooManyAttempts(w)
			return false
		}
		if s.sessions.isToken(token) {
			return true
		}
		s.guard.bearers.countAttempt(r, now)
	} else if s.sessions.check(w, r, s.guard.isSecure(r)) {
		if err := checkOrigin(r); err != nil {
			writeError(w, http.StatusForbidden, "forbidden", err.Error(),
				"send Origin or Sec-Fetch-Site as browsers do, or use the admin token")
			return false
		}
		return true
	}
	switch {
	case r.Header.Get("HX-Request") != "":
		w.Header().Set("HX-Redirect", "/login")
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/favicon.ico": // browsers ask for it from the login page
		w.WriteHeader(http.StatusNoContent)
	case !isAPI(r.URL.Path) && strings.Contains(r.Header.Get("Accept"), "text/html"): // a browser
		http.Redirect(w, r, "/login", http.StatusSeeOther)
	default:
		w.Header().Set("WWW-Authenticate", `Bearer realm="ravenbot"`)
		writeError(w, http.StatusUnauthorized, "unauthorized", "this needs the admin token",
			"send Authorization: Bearer TOKEN; the token is http.adminToken, or in the file beside the store")
	}
	return false
}

func operator() chat.User {
	return chat.User{ID: "admin", Name: "operator", Admin: true, Operator: true}
}
