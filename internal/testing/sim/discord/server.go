// Package simdiscord is a simulated Discord for tests: REST, gateway and interactions of one application, on a real
// socket of 127.0.0.1, written from Discord's developer documents.
//
// Actions (AddGuild, Say, Slash, Click …) do what people do. Observations (Posts, WaitPost, Identifies, Violations …)
// return the results. SetFaults, Drop, AskReconnect and InvalidateSessions cause faults of the gateway, and Fail
// causes faults of REST.
//
// It promises Discord's answers for a chat bot's use of text channels, threads, direct messages, application commands
// and components. It leaves out voice, moderation, permissions of single channels except HideHistory, and real rate
// limits beyond Options.ChannelBurst.
package simdiscord

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/testing/sim"
)

// Intents a gateway session asks for.
const (
	IntentGuilds          = 1 << 0
	IntentGuildMembers    = 1 << 1
	IntentPresences       = 1 << 8
	IntentGuildMessages   = 1 << 9
	IntentGuildReactions  = 1 << 10
	IntentDirectMessages  = 1 << 12
	IntentDirectReactions = 1 << 13
	IntentMessageContent  = 1 << 15

	privilegedIntents = IntentGuildMembers | IntentPresences | IntentMessageContent
)

// Options of a server; the zero value of a field takes the default given.
type Options struct {
	Token             string        // the bot token, without "Bot "; default "token"
	OpenAPI           []byte        // Discord's openapi.json; empty: requests are not validated
	HeartbeatInterval time.Duration // default 41.25 s, as Discord's
	Privileged        int           // privileged intents switched on for the application
	CallbackWithin    time.Duration // first answer to an interaction; default 3 s
	TokenLife         time.Duration // of an interaction token; default 15 minutes
	NonceLife         time.Duration // memory for enforce_nonce; default 5 minutes
	ChannelBurst      int           // messages a channel takes in 5 s before 429; 0: no limit
	Shards            int           // that the gateway asks for; default 1
	// MaxConcurrency is how many shards may identify within 5 s, one of each number
	// modulo it; who does so too early is told that its session is invalid. 0: 1 is
	// told and nothing is checked.
	MaxConcurrency int
	// Identifies is how many sessions are left of the day's, default 1,000. Who begins more loses the token.
	Identifies int
	// NoEmbeds takes Embed Links from the bot: "refuse" refuses its messages with
	// embeds, "drop" takes the embeds out of them.
	NoEmbeds string
}

// Server is the simulated platform.
type Server struct {
	*sim.HTTPServer
	opts      Options
	api       http.Handler
	validator *validator
	state     sim.Watch // guards all below

	world
	gateway
	interactions map[string]*interaction // by id
	commands     map[string][]command    // by guild id, "" for global
	bursts       map[string][]time.Time
	violations   []Violation
}

// New starts a server with one application and its bot user.
func New(opts Options) (*Server, error) {
	setDefault(&opts.Token, "token")
	setDefault(&opts.HeartbeatInterval, 41250*time.Millisecond)
	setDefault(&opts.CallbackWithin, 3*time.Second)
	setDefault(&opts.TokenLife, 15*time.Minute)
	setDefault(&opts.NonceLife, 5*time.Minute)
	setDefault(&opts.Shards, 1)
	setDefault(&opts.Identifies, 1000)
	s := &Server{opts: opts, world: newWorld(), gateway: newGateway(),
		interactions: map[string]*interaction{}, commands: map[string][]command{}, bursts: map[string][]time.Time{}}
	if len(opts.OpenAPI) > 0 {
		v, err := findValidator(opts.OpenAPI)
		if err != nil {
			return nil, fmt.Errorf("load OpenAPI document: %w", err)
		}
		s.validator = v
	}
	s.bot = s.addUser(User{Name: "ravenbot", Bot: true})
	s.api = s.routes()
	door, err := sim.NewHTTPServer(http.HandlerFunc(s.serve))
	if err != nil {
		return nil, err
	}
	s.HTTPServer = door
	return s, nil
}

// setDefault sets a field that has the zero value.
func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Close cuts every connection and waits until all have ended.
func (s *Server) Close() {
	s.state.Lock()
	s.closed = true
	links := s.liveLinks()
	s.state.Release()
	for _, l := range links {
		l.sock.Cut()
	}
	s.HTTPServer.Close()
}

// serve tells files, the gateway and the API apart by their path. Versions 9 and 10 of the API are answered alike.
// Where a path holds the token of an interaction no other authorization is asked for.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/attachments/") {
		s.serveFile(w, r)
		return
	}
	version, path, ok := apiPath(r.URL.Path)
	if !ok {
		s.serveGateway(w, r)
		return
	}
	if version != "v9" && version != "v10" {
		writeJSON(w, http.StatusBadRequest, errorBody(50041, "Invalid API version provided", nil))
		return
	}
	if open := path == "/gateway" || strings.HasPrefix(path, "/webhooks/") ||
		strings.HasPrefix(path, "/interactions/"); !open &&
		r.Header.Get("Authorization") != "Bot "+s.opts.Token {
		writeJSON(w, http.StatusUnauthorized, errorBody(0, "401: Unauthorized", nil))
		return
	}
	http.StripPrefix("/api/"+version, s.api).ServeHTTP(w, r)
}

// apiPath cuts /api/vN off a path; false: it is not a path of the API.
func apiPath(path string) (version, rest string, ok bool) {
	tail, ok := strings.CutPrefix(path, "/api/")
	if !ok {
		return "", "", false
	}
	version, rest, _ = strings.Cut(tail, "/")
	return version, "/" + rest, true
}

// call is one REST request with its JSON body and its files.
type call struct {
	*http.Request
	body  []byte
	files []File
}

// apiError is an answer other than success.
type apiError struct {
	status int
	body   any
	header map[string]string
}

func fail(status, code int, message string) *apiError {
	return &apiError{status: status, body: errorBody(code, message, nil)}
}

// badForm returns an error about a field, nested as Discord nests it: the parts of a.b.0 are objects in each other, the
// innermost has _errors.
func badForm(field, code, message string) *apiError {
	var detail any = map[string]any{"_errors": []any{map[string]string{"code": code, "message": message}}}
	parts := strings.Split(field, ".")
	for i := len(parts) - 1; i >= 0; i-- {
		detail = map[string]any{parts[i]: detail}
	}
	return &apiError{status: http.StatusBadRequest, body: errorBody(50035, "Invalid Form Body", detail)}
}

func tooLong(field string, limit int) *apiError {
	return badForm(field, "BASE_TYPE_MAX_LENGTH", fmt.Sprintf("Must be %d or fewer in length.", limit))
}

// errorBody returns the body of an error as all parts of Discord's API have it.
func errorBody(code int, message string, errors any) map[string]any {
	body := map[string]any{"code": code, "message": message}
	if errors != nil {
		body["errors"] = errors
	}
	return body
}

// writeJSON answers with a body, or without one where it is nil.
func writeJSON(w http.ResponseWriter, status int, body any) {
	if body == nil {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller may have hung up
}

// handler answers a call: with a status and a body, or with an error of Discord's form.
type handler func(*call) (status int, body any, err *apiError)

// handle registers h. Every call is checked against the OpenAPI document first, those that are refused as well.
func (s *Server) handle(mux *http.ServeMux, pattern string, h handler) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		c, err := newCall(r)
		if s.validator != nil {
			s.report(s.validator.check(r, c))
		}
		if err != nil {
			writeJSON(w, err.status, err.body)
			return
		}
		bucketHeaders(w.Header(), pattern)
		status, body, err := h(c)
		if err != nil {
			for k, v := range err.header {
				w.Header().Set(k, v)
			}
			writeJSON(w, err.status, err.body)
			return
		}
		writeJSON(w, status, body)
	})
}

// bucketHeaders describe a bucket that never runs dry; ChannelBurst is what
// makes one run dry, with its own headers.
func bucketHeaders(h http.Header, pattern string) {
	h.Set("X-RateLimit-Limit", "50")
	h.Set("X-RateLimit-Remaining", "49")
	h.Set("X-RateLimit-Reset-After", "1.000")
	h.Set("X-RateLimit-Reset", strconv.FormatFloat(float64(time.Now().Add(time.Second).UnixMilli())/1000, 'f', 3, 64))
	h.Set("X-RateLimit-Bucket", fmt.Sprintf("%x", pattern))
}

// routes returns the API without authorization and faults, which serve looks after.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	s.routeAccount(mux)
	s.routeCommands(mux)
	s.routeMessages(mux)
	s.routeInteractions(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if s.validator != nil {
			c, _ := newCall(r)
			s.report(s.validator.check(r, c))
		}
		writeJSON(w, http.StatusNotFound, errorBody(0, "404: Not Found", nil))
	})
	return mux
}
