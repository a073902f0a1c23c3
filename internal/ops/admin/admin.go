// Package admin is the bot's HTTP server: health, login and sessions, the REST API under /api/v1, and the dashboard
// around the chat page. It promises that every path except /healthz, /readyz, /login and the mounts with their own
// check requires the admin token or a session (/metrics also accepts its own token); that no other site or unknown
// host name can use a session; that tokens are compared in constant time; and that content never becomes active
// markup. Small interfaces and functions supply the data and the changes of the API. The package knows no platform and
// no store.
//
// Server.serve is the only entrance and shows the order of the checks. api.go has the routes of the API, and pages.go
// the routes of the dashboard. The file of a subject has the handlers of both, which call the same interface in
// Options. Errors of the API have a code, a message and a hint (writeError). Internal errors are logged under a
// reference that the answer includes. Changes are written to the audit log (audit.go) and described in openapi.json,
// which a test compares with the routes.
package admin

import (
	"context"
	"crypto/sha256"
	"fmt"
	"html/template"
	"iter"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/resident"
	"ravenbot/internal/feature/settings"
	"ravenbot/internal/mcp/mcpserve"
	"ravenbot/internal/ops/trouble"
	"ravenbot/internal/store"
	"ravenbot/internal/turn/budget"
	"ravenbot/internal/turn/platform"
)

// Event is a step towards an answer: the progress of the work, or at the end the Entry whose draft is the
// answer. Exactly one of the two is set.
type Event struct {
	Entry    *store.Entry
	Progress *chat.Progress
}

// Rooms gives access to the web rooms. Each room is a conversation.
type Rooms interface {
	Name() string // of their platform
	// Ask says something in a room and yields events until the answer has come. An error with a method BadInput
	// that returns true is for the sender to correct.
	Ask(ctx context.Context, room string, user chat.User, text string) iter.Seq2[Event, error]
	// ChangeRoom gives a room a title and archives it, each unless it is nil. Its errors are like those of Ask.
	ChangeRoom(ctx context.Context, room string, title *string, isArchived *bool) error
	// ForgetRoom is called after the lines of a room were deleted.
	ForgetRoom(ctx context.Context, room string) error
}

// Platforms reports the state of the chat platforms.
type Platforms interface {
	Health() []platform.Health
}

// Spending reports the usage of models.
type Spending interface {
	// Page returns up to n sums behind a cursor, and the cursor behind them; "": there are no more.
	Page(ctx context.Context, cursor string, n int) ([]budget.Usage, string, error)
	// Days returns the last 30 days, oldest first.
	Days(ctx context.Context) ([]budget.Day, error)
	// Usage returns the sums of these days, and Caps the budgets.
	Usage(ctx context.Context) ([]budget.Usage, error)
	Caps() budget.Caps
}

// Agent is notified of conversations that were deleted.
type Agent interface {
	Forget(a chat.Address)
}

// Instance reports on the bot as a whole.
type Instance interface {
	Status() Status
	ToolsEnabled() bool // by the configuration
}

// Conversations reads and removes what is remembered of conversations.
type Conversations interface {
	// Conversations returns up to n conversations behind a cursor, and the cursor behind them; "": there are no more.
	Conversations(ctx context.Context, cursor string, n int) ([]store.ConversationInfo, string, error)
	HasConversation(ctx context.Context, a chat.Address) (bool, error)
	// Turns returns the newest n turns, oldest first.
	Turns(ctx context.Context, a chat.Address, r store.Range) ([]conversation.Turn, error)
	// NewestMessages returns the newest n messages before a cursor that are part of no turn, oldest first, and the cursor
	// of older ones.
	NewestMessages(ctx context.Context, a chat.Address, cursor string, n int) ([]store.Message, string, error)
	DeleteConversation(ctx context.Context, a chat.Address) error
	// Entries returns up to n lines of a web room with Seq below before (0: the newest), oldest first. Rooms returns
	// the rooms that have any.
	Entries(ctx context.Context, room string, before uint64, n int) ([]store.Entry, error)
	Rooms(ctx context.Context) ([]string, error)
	// DeleteRoom removes the lines of a web room.
	DeleteRoom(ctx context.Context, room string) error
	// Undelivered returns the posts that could not be delivered.
	Undelivered(ctx context.Context) ([]store.Post, error)
	// Feedback returns what people think of answers.
	Feedback(ctx context.Context) ([]store.Feedback, error)
}

// Options holds what a Server needs. All functions may be called concurrently.
type Options struct {
	Token string // of the administrator; while it is empty, only one-time links work
	// MetricsToken opens /metrics and nothing else; "": none does.
	MetricsToken string
	Listen       string // the address listened on, host:port
	PublicURL    string // where others reach the bot, or empty
	// TrustedProxies are the networks of proxies whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix

	Chat     http.Handler // the chat page; nil where it is switched off
	ChatBody int64        // the largest body of a request to Chat, in bytes
	// FileMemory bounds what the large bodies of requests take.
	FileMemory *resident.Pool
	Static     http.Handler // what pages load, below /static/; nil where Chat has it
	Render     func(chat.Draft) template.HTML

	Rooms         Rooms
	Platforms     Platforms
	Servers       Servers
	ServerCalls   ServerCalls
	Agents        Agents
	Files         Files
	Tools         Tools
	Digests       Digests
	Conversations Conversations
	Memories      Memories
	History       History
	Transfer      Transfer
	Agent         Agent
	Instance      Instance
	Spending      Spending
	Totals        Totals
	Troubles      func() []trouble.Trouble // returns lasting troubles; may be nil
	Calls         Calls
	Approvals     Approvals
	Grants        Grants
	Audit         Audit // nil: changes are not recorded
	Tokens        Tokens
	Settings      *settings.Repository
	Logouts       Logouts
	// Store says in a few words what is wrong with the store, and with the clock of this machine; "" where nothing is.
	Store interface {
		Problem() string
		Clock() string
	}
	Metrics http.Handler
	// MCP makes the handler of /mcp; refuse answers those without a token of its own.
	// nil: there is none.
	MCP func(refuse http.HandlerFunc) http.Handler
	// HostAccess lets other MCP hosts get a token of /mcp by a sign-in; nil: they need one that was made for them.
	HostAccess *mcpserve.Authorization
	// Backup makes a copy of the store.
	Backup  func(context.Context) (Copy, error)
	Backups Backups

	Jobs Jobs
	// Hooks takes the deliveries of webhooks at /hooks/, and checks itself who calls.
	Hooks     http.Handler
	Published PublishedDigests // nil: no digest has a page

	// Wrap returns what answers in place of the server's handler; nil: that one does.
	Wrap func(http.Handler) http.Handler
	// Mounts are handlers of exact paths. They check themselves who calls.
	Mounts map[string]http.Handler
	Log    *slog.Logger
	Now    func() time.Time
}

// Server is the HTTP server of the bot. It is safe for concurrent use.
type Server struct {
	o        Options
	guard    *guard
	sessions *sessions
	api      *http.ServeMux
	pages    *http.ServeMux
	mcp      http.Handler
	arriving *resident.Pool // large bodies of requests
	backupMu sync.Mutex     // held while a copy of the store is sent
	// wasConnected is whether /readyz has found all platforms connected.
	wasConnected atomic.Bool
	// hostAccess are the handlers of HostAccess, by path.
	hostAccess map[string]http.Handler
}

// New returns a Server. Call Reload before it serves, so that sessions which were ended before stay so.
func New(o Options) *Server {
	s := &Server{o: o, guard: newGuard(o), sessions: newSessions(o.Token, o.Now),
		arriving: resident.SharePool(4, maxArriving)}
	if o.MCP != nil {
		s.mcp = o.MCP(s.refuseWithoutToken)
	}
	if o.HostAccess != nil {
		s.hostAccess = o.HostAccess.Handlers(s.baseURL)
	}
	s.api = s.apiRoutes()
	s.pages = s.dashboard()
	return s
}

// Handler returns the handler of all paths.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// LocalAPI returns the handler of the API for callers in the same process. It asks for no token.
func (s *Server) LocalAPI() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer s.recoverPanic(w, r)
		if readBody(w, r, s.bodyLimit(r)) {
			s.api.ServeHTTP(w, s.withActor(r, "command line"))
		}
	})
}

// serve answers every request. Handlers with a proof of their own come first, then the probes; the checks of host and
// origin come before everything that reads a cookie or a token. A panic in a handler is answered with 500 and logged.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	defer s.recoverPanic(w, r)
	setHeaders(w.Header())
	defer limitReading(w, r)()
	// Before the checks of host and login: these handlers have proofs of their own, such as a signature.
	h, ok := s.o.Mounts[r.URL.Path]
	if own := s.hostAccess[r.URL.Path]; own != nil {
		h, ok = own, true
	}
	if s.o.Hooks != nil && strings.HasPrefix(r.URL.Path, "/hooks/") {
		h, ok = s.o.Hooks, true
	}
	if ok {
		if readBody(w, r, maxBody) {
			h.ServeHTTP(w, r)
		}
		return
	}
	// Clients look there for what a server may offer: that there is nothing must not look like a login that failed.
	if strings.HasPrefix(r.URL.Path, "/.well-known/") {
		writeError(w, http.StatusNotFound, "not_found", fmt.Sprintf("there is no path %.200s", r.URL.Path), "")
		return
	}
	switch r.URL.Path {
	// Probes of orchestrators have no token and may use any host name.
	case "/healthz":
		s.healthz(w, r)
		return
	case "/readyz":
		s.readyz(w, r)
		return
	}
	// Before the login, so that DNS rebinding cannot even try tokens.
	if err := s.guard.checkForeign(r); err != nil {
		writeError(w, http.StatusForbidden, "forbidden", err.Error(),
			"open the bot under its own address, or set http.publicURL to the one in use")
		return
	}
	if s.servePublished(w, r) || s.serveUnsubscribe(w, r) {
		return
	}
	if r.URL.Path == "/login" {
		if readBody(w, r, maxBody) {
			s.login(w, r)
		}
		return
	}
	// It has tokens of its own; the admin token is no good there.
	if r.URL.Path == "/mcp" && s.mcp != nil {
		if readBody(w, r, maxBody) {
			s.mcpEndpoint(w, r)
		}
		return
	}
	// The body is read only for callers that are logged in.
	if !s.authorize(w, r) {
		return
	}
	release, ok := s.receive(w, r)
	if !ok {
		return
	}
	defer release()
	h = s.pages
	if isAPI(r.URL.Path) {
		h = s.api
	}
	h.ServeHTTP(w, s.withActor(r, s.guard.clientAddress(r)))
}

// authorize reports whether a request has the admin token or a session. It answers all other requests itself.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) bool {
	if token, ok := bearer(r); ok {
		if s.sessions.isToken(token) || r.URL.Path == metricsPath && s.isMetricsToken(token) {
			return true
		}
		if !s.guard.bearers.countFailure(s.guard.clientAddress(r), s.o.Now()) {
			writeTooManyAttempts(w)
			return false
		}
	} else if s.sessions.check(w, r, s.guard.isSecure(r)) {
		if err := checkOrigin(r); err != nil {
			writeHints(w, http.StatusForbidden, "forbidden", err.Error(),
				"send Origin or Sec-Fetch-Site as browsers do, or use the admin token", "")
			return false
		}
		return true
	}
	switch {
	// htmx would insert the login page into the page; this header makes it load the page instead.
	case r.Header.Get("HX-Request") != "":
		w.Header().Set("HX-Redirect", "/login")
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/favicon.ico": // browsers ask for it from the login page
		w.WriteHeader(http.StatusNoContent)
	case !isAPI(r.URL.Path) && strings.Contains(r.Header.Get("Accept"), "text/html"): // a browser
		http.Redirect(w, r, loginPath(r), http.StatusSeeOther)
	default:
		w.Header().Set("WWW-Authenticate", `Bearer realm="ravenbot"`)
		writeHints(w, http.StatusUnauthorized, "unauthorized", "this needs the admin token",
			"send Authorization: Bearer TOKEN; the token is http.adminToken, or in the file next to the store", "")
	}
	return false
}

// isMetricsToken reports whether given opens /metrics alone.
func (s *Server) isMetricsToken(given string) bool {
	return s.o.MetricsToken != "" && isHashOf(sha256.Sum256([]byte(s.o.MetricsToken)), given)
}
