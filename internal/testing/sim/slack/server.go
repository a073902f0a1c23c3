// Package simslack is a simulated Slack for tests: Web API, response URLs, Socket Mode and signed HTTP delivery for
// one app in one workspace, on a real socket of 127.0.0.1, written from Slack's developer documents.
//
// Actions (Mention, DM, Slash, Click …) do what people do. Each is delivered by Socket Mode, or by HTTP after
// DeliverHTTP. Observations (Posts, WaitPost, WaitAnswer, Deliveries …) return the results. SetFaults, Drop,
// Disconnect and Outage cause faults of delivery, and Fail causes faults of the API.
//
// It promises Slack's answers for a chat app's use of channels, threads, direct messages, streams, slash commands,
// buttons, forms and the agent view. It leaves out OAuth, Enterprise Grid, and rate limits other than
// Options.ChannelPerSecond.
package simslack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/testing/sim"
)

// Options of a server; the zero value of a field takes the default given.
type Options struct {
	BotToken         string          // default "xoxb-token"
	AppToken         string          // default "xapp-token"
	SigningSecret    string          // default "signing-secret"
	Scopes           []string        // granted to the bot token; nil: all
	AckWithin        time.Duration   // default 3 s
	RetryDelays      []time.Duration // of events not acknowledged; default 0, 1 min, 5 min
	PingInterval     time.Duration   // default 5 s
	RefreshGrace     time.Duration   // from disconnect message to cut; default 10 s
	TriggerLife      time.Duration   // default 3 s
	ResponseLife     time.Duration   // default 30 min
	ChannelPerSecond int             // messages a channel takes a second before 429; 0: no limit
}

// Server is the simulated platform.
type Server struct {
	*sim.HTTPServer
	opts   Options
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	client *http.Client   // of HTTP delivery
	live   sync.WaitGroup // pings and deliveries
	state  sim.Watch      // guards all below

	closed bool
	world
	delivery
	responses map[string]*response // by token of the response URL
	triggers  map[string]time.Time
	recent    map[string][]time.Time // posts by channel
}

// New starts a server with one workspace, one app and its bot user.
func New(opts Options) (*Server, error) {
	setDefault(&opts.BotToken, "xoxb-token")
	setDefault(&opts.AppToken, "xapp-token")
	setDefault(&opts.SigningSecret, "signing-secret")
	setDefault(&opts.AckWithin, 3*time.Second)
	setDefault(&opts.PingInterval, 5*time.Second)
	setDefault(&opts.RefreshGrace, 10*time.Second)
	setDefault(&opts.TriggerLife, 3*time.Second)
	setDefault(&opts.ResponseLife, 30*time.Minute)
	if opts.RetryDelays == nil {
		opts.RetryDelays = []time.Duration{0, time.Minute, 5 * time.Minute}
	}
	s := &Server{opts: opts, world: newWorld(), delivery: delivery{tickets: map[string]bool{}},
		client: &http.Client{
			Transport: &http.Transport{},
		}, responses: map[string]*response{}, triggers: map[string]time.Time{}, recent: map[string][]time.Time{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	door, err := sim.NewHTTPServer(s.routes())
	if err != nil {
		s.cancel()
		return nil, err
	}
	s.HTTPServer, s.origin = door, door.URL()
	return s, nil
}

// setDefault sets a field that has the zero value.
func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// APIURL returns the base of the Web API, with its closing slash.
func (s *Server) APIURL() string { return s.URL() + "/api/" }

// Close cuts every connection, gives up all deliveries and waits for their end.
func (s *Server) Close() {
	s.state.Lock()
	s.closed = true
	links := slices.Clone(s.links)
	s.state.Release()
	s.cancel()
	for _, l := range links {
		l.sock.Cut()
	}
	s.HTTPServer.Close()
	s.live.Wait()
	s.client.CloseIdleConnections()
}

// routes returns the Web API, the socket, and the addresses that Slack hands out: for responses, uploads and files.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	methods := s.methods()
	mux.HandleFunc("/api/{method}", func(w http.ResponseWriter, r *http.Request) {
		s.serveMethod(w, r, methods)
	})
	mux.HandleFunc("GET /link", s.serveSocket)
	mux.HandleFunc("POST /commands/{token}", s.serveResponse)
	mux.HandleFunc("POST /upload/{file}", s.serveUpload)
	mux.HandleFunc("GET "+pathFiles+"{file}/{name}", s.serveFile)
	return mux
}

// args are the arguments of a method, whatever their encoding; values other
// than strings are kept as JSON text.
type args map[string]string

func (a args) isSet(key string) bool { return a[key] == "true" || a[key] == "1" }

// slackError is an answer with ok false.
type slackError struct {
	code     string
	needed   string
	provided string
	messages []string
}

func refuse(code string) *slackError { return &slackError{code: code} }

type method struct {
	scope string // required of the token; empty: none
	app   bool   // takes the app token
	run   func(args) (map[string]any, *slackError)
}

// serveMethod calls a method of the Web API. What is wrong with a request is found in Slack's order: its form, the
// method's name, token and scope, the rate, the arguments. Errors have status 200 and ok false, rates 429.
func (s *Server) serveMethod(w http.ResponseWriter, r *http.Request, methods map[string]method) {
	a, err := readArgs(r)
	if err != nil {
		writeError(w, refuse("invalid_form_data"))
		return
	}
	m, ok := methods[r.PathValue("method")]
	if !ok {
		writeError(w, &slackError{code: "unknown_method"})
		return
	}
	if err := s.authorize(m, token(r, a)); err != nil {
		writeError(w, err)
		return
	}
	if wait := s.rateLimitWait(r.PathValue("method"), a["channel"]); wait > 0 {
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": false, "error": "ratelimited"})
		return
	}
	s.state.Lock()
	body, refused := m.run(a)
	s.state.Release()
	if refused != nil {
		writeError(w, refused)
		return
	}
	if s.opts.Scopes != nil {
		w.Header().Set("X-OAuth-Scopes", strings.Join(s.opts.Scopes, ","))
	}
	if body == nil {
		body = map[string]any{}
	}
	body["ok"] = true
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // the caller may have hung up
}

// writeError answers with an error as Slack does: with status 200, the missing scope and the messages where there are
// some.
func writeError(w http.ResponseWriter, e *slackError) {
	body := map[string]any{"ok": false, "error": e.code}
	if e.needed != "" {
		body["needed"], body["provided"] = e.needed, e.provided
	}
	if len(e.messages) > 0 {
		body["response_metadata"] = map[string]any{"messages": e.messages}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

// readArgs returns the arguments of a method, which come as a form, as JSON or as multipart. Values of JSON that are no
// strings stay JSON text.
func readArgs(r *http.Request) (args, error) {
	a := args{}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "application/json" {
		if kind == "multipart/form-data" {
			if err := r.ParseMultipartForm(25 << 20); err != nil {
				return nil, err
			}
		}
		if err := r.ParseForm(); err != nil {
			return nil, err
		}
		for key, values := range r.Form {
			a[key] = values[0]
		}
		return a, nil
	}
	for key, values := range r.URL.Query() {
		a[key] = values[0]
	}
	var fields map[string]json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&fields); err != nil && !errors.Is(err, io.EOF) {
		return nil, err // an empty body is no argument
	}
	for key, raw := range fields {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = string(raw)
		}
		if text != "null" {
			a[key] = text
		}
	}
	return a, nil
}

// token returns the token of a request, from its header or its arguments.
func token(r *http.Request, a args) string {
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return bearer
	}
	return a["token"]
}

// authorize checks the token, of which the app has two kinds, and the scope that the method needs.
func (s *Server) authorize(m method, token string) *slackError {
	want, other := s.opts.BotToken, s.opts.AppToken
	if m.app {
		want, other = other, want
	}
	switch {
	case token == "":
		return refuse("not_authed")
	case token == other:
		return refuse("not_allowed_token_type")
	case token != want:
		return refuse("invalid_auth")
	}
	return s.checkScope(m.scope)
}

// checkScope checks that the bot token has a scope. The empty scope needs none.
func (s *Server) checkScope(scope string) *slackError {
	if scope != "" && s.opts.Scopes != nil && !slices.Contains(s.opts.Scopes, scope) {
		return &slackError{code: "missing_scope", needed: scope, provided: strings.Join(s.opts.Scopes, ",")}
	}
	return nil
}

// rateLimitWait returns how long a message to a channel has to wait.
func (s *Server) rateLimitWait(method, channel string) time.Duration {
	if s.opts.ChannelPerSecond == 0 || method != "chat.postMessage" {
		return 0
	}
	s.state.Lock()
	defer s.state.Unlock()
	now := time.Now()
	recent := slices.DeleteFunc(s.recent[channel], func(t time.Time) bool { return now.Sub(t) >= time.Second })
	s.recent[channel] = recent
	if len(recent) >= s.opts.ChannelPerSecond {
		return recent[0].Add(time.Second).Sub(now)
	}
	s.recent[channel] = append(recent, now)
	return 0
}

// RateLimit answers calls of a method with 429 and the given Retry-After, so
// many times or, if times is 0, until switched off.
func (s *Server) RateLimit(method string, times int, after time.Duration) (off func()) {
	return s.Fail(sim.Fault{Match: sim.MatchPath("", "/api/"+method), Times: times, Status: http.StatusTooManyRequests,
		Header: map[string]string{"Retry-After": fmt.Sprint(int(after.Seconds())), "Content-Type": "application/json"},
		Body:   `{"ok":false,"error":"ratelimited"}`})
}

// methods returns the methods of the Web API that are simulated, with the scope each needs.
func (s *Server) methods() map[string]method {
	return map[string]method{
		"auth.test":                             {run: s.authTest},
		"apps.connections.open":                 {app: true, run: s.openConnection},
		"chat.postMessage":                      {scope: "chat:write", run: s.postMessage},
		"chat.postEphemeral":                    {scope: "chat:write", run: s.postEphemeral},
		"chat.update":                           {scope: "chat:write", run: s.updateMessage},
		"chat.delete":                           {scope: "chat:write", run: s.deleteMessage},
		"chat.startStream":                      {scope: "chat:write", run: s.startStream},
		"chat.appendStream":                     {scope: "chat:write", run: s.appendStream},
		"chat.stopStream":                       {scope: "chat:write", run: s.stopStream},
		"conversations.info":                    {scope: "channels:read", run: s.conversationInfo},
		"conversations.list":                    {scope: "channels:read", run: s.listConversations},
		"conversations.history":                 {run: s.history},
		"conversations.replies":                 {run: s.readReplies},
		"conversations.members":                 {scope: "channels:read", run: s.conversationMembers},
		"conversations.open":                    {scope: "im:write", run: s.openConversation},
		"conversations.join":                    {scope: "channels:join", run: s.joinConversation},
		"users.info":                            {scope: "users:read", run: s.userInfo},
		"users.list":                            {scope: "users:read", run: s.listUsers},
		"bots.info":                             {scope: "users:read", run: s.botInfo},
		"usergroups.list":                       {scope: "usergroups:read", run: s.listUserGroups},
		"team.info":                             {scope: "team:read", run: s.teamInfo},
		"reactions.add":                         {scope: "reactions:write", run: s.addReaction},
		"reactions.remove":                      {scope: "reactions:write", run: s.removeReaction},
		"views.open":                            {run: s.openView},
		"views.update":                          {run: s.updateView},
		"views.publish":                         {run: s.publishView},
		"assistant.threads.setStatus":           {scope: "chat:write", run: s.setStatus},
		"assistant.threads.setTitle":            {scope: "assistant:write", run: s.setTitle},
		"assistant.threads.setSuggestedPrompts": {scope: "assistant:write", run: s.setPrompts},
		"files.info":                            {scope: "files:read", run: s.fileInfo},
		"files.getUploadURLExternal":            {scope: "files:write", run: s.uploadURL},
		"files.completeUploadExternal":          {scope: "files:write", run: s.completeUpload},
	}
}

// authTest serves auth.test.
func (s *Server) authTest(args) (map[string]any, *slackError) {
	return map[string]any{"url": "https://sim.slack.com/", "team": "Simulated", "team_id": TeamID, "user": "ravenbot",
		"user_id": BotUserID, "bot_id": BotID, "is_enterprise_install": false}, nil
}

// botInfo serves bots.info, for the bot alone.
func (s *Server) botInfo(a args) (map[string]any, *slackError) {
	if a["bot"] != BotID {
		return nil, refuse("bot_not_found")
	}
	return map[string]any{
		"bot": map[string]any{"id": BotID, "app_id": AppID, "user_id": BotUserID, "name": "ravenbot", "deleted": false},
	}, nil
}

func (s *Server) teamInfo(args) (map[string]any, *slackError) {
	return map[string]any{"team": map[string]any{"id": TeamID, "name": "Simulated", "domain": "sim"}}, nil
}

// form encodes pairs for a form body.
func form(pairs map[string]string) string {
	v := url.Values{}
	for key, value := range pairs {
		v.Set(key, value)
	}
	return v.Encode()
}
