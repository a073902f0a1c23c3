package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/feature/approval"
	"ravenbot/internal/ops/measure"
	"ravenbot/internal/ops/totals"
	"ravenbot/internal/store"
)

// Calls returns the tool calls that were made.
type Calls interface {
	// ToolCalls returns up to n of those that match, newest first, with a Seq below before (0: the newest).
	ToolCalls(ctx context.Context, before uint64, n int, match func(store.ToolCall) bool) ([]store.ToolCall, error)
	// ToolResult returns the whole of a large result, without secrets.
	ToolResult(ctx context.Context, id string) (store.ToolResult, error)
}

// Approvals returns calls that wait for a decision, and decides them.
type Approvals interface {
	All() []store.Approval
	Decide(ctx context.Context, id string, scope approval.Scope, by chat.User, at chat.Address) (store.Approval, error)
}

// callView is a call as the API shows it.
type callView struct {
	ID         string          `json:"id"`
	Call       string          `json:"call"` // id given by the model, unique within the turn; also in the log
	Time       time.Time       `json:"time"`
	Server     string          `json:"server"`
	Tool       string          `json:"tool"`
	Args       json.RawMessage `json:"arguments"`
	Result     string          `json:"result"`
	ResultID   string          `json:"resultId,omitempty"` // GET /tool-usage/results/{id} returns the whole
	Error      string          `json:"error"`
	NotRun     bool            `json:"notRun,omitempty"` // it was refused, or nobody approved it
	Note       string          `json:"note,omitempty"`
	DurationMs float64         `json:"durationMs"`         // without waitedMs
	WaitedMs   float64         `json:"waitedMs,omitempty"` // for a person's decision
	Channel    string          `json:"channel"`
	User       string          `json:"user"`
	Turn       string          `json:"turn"`
	Origin     origin.Origin   `json:"origin,omitzero"` // whose words the turn had read before
}

// newCallView returns a tool call as page and API show it. Its address in lists is its sequence number, for the ids of
// calls are the model's.
func newCallView(c store.ToolCall) callView {
	v := callView{
		ID:         strconv.FormatUint(c.Seq, 10),
		Call:       c.ID,
		Time:       c.Began,
		Server:     c.Server,
		Tool:       c.Tool,
		Args:       c.Args,
		Result:     c.Result,
		ResultID:   c.ResultID,
		Error:      c.Error,
		NotRun:     c.NotRun,
		Note:       c.Note,
		DurationMs: float64(c.Took.Microseconds()) / 1000,
		WaitedMs:   float64(c.Waited.Microseconds()) / 1000,
		User:       c.User,
		Turn:       c.Turn,
		Origin:     c.Origin,
	}
	if !c.Conversation.IsZero() {
		v.Channel = c.Conversation.String()
	}
	// A call without arguments is shown like one with an empty object.
	if len(v.Args) == 0 {
		v.Args = json.RawMessage("{}")
	}
	return v
}

// callsView is the page of calls.
type callsView struct {
	Filter filter
	Open   []Approval
	Grants []approval.Grant
	Calls  []numberedCall
	// Made and Times are the calls of the last days, and how long they took.
	Made, Times picture
	Unread      bool // what was counted in the last days could not be read
}

// State returns how a call ended, in words.
func (v callView) State() string {
	switch {
	case v.NotRun:
		return "not run"
	case v.Error != "":
		return "failed"
	}
	return "done"
}

type numberedCall struct {
	callView
	Seq uint64
}

// maxShownCalls is how many calls the page shows.
const maxShownCalls = 50

// callsPage shows the page of calls, or only its list when the page refreshes itself.
func (s *Server) callsPage(w http.ResponseWriter, r *http.Request) {
	f := newFilter(r, "/calls", "done", "failed", "not run")
	tool, who := f.add(r, "tool", "Tool or server"), f.add(r, "who", "User or channel")
	contains := func(part string, texts ...string) bool {
		return strings.Contains(strings.ToLower(strings.Join(texts, " ")), part)
	}
	list, err := s.o.Calls.ToolCalls(r.Context(), 0, maxShownCalls, func(c store.ToolCall) bool {
		v := newCallView(c)
		return (f.State == "" || f.State == v.State()) && contains(tool, c.Tool, c.Server) &&
			contains(who, c.User, v.Channel) && f.has(c.Tool, c.Server, c.User, v.Channel, string(c.Args), c.Result, c.Error, c.Note)
	})
	if err != nil {
		s.showListError(w, r, "calls", err)
		return
	}
	v := callsView{Grants: s.o.Grants.List(), Filter: f}
	for _, c := range list {
		v.Calls = append(v.Calls, numberedCall{newCallView(c), c.Seq})
	}
	for _, a := range s.o.Approvals.All() {
		if a.Decision == "" {
			v.Open = append(v.Open, newApprovalView(a))
		}
	}
	days, isUnread := s.lastDays(r)
	all := func(d totals.Day) measure.Total { return d.All(totals.ToolCalls) }
	v.Made, v.Times, v.Unread = days.drawCalls("", all), days.drawCallTimes(all), isUnread
	name := "calls"
	if r.Header.Get("HX-Request") != "" {
		name = "call-list"
	}
	s.page(w, http.StatusOK, name, v)
}

// decideOnPage decides an approval from the page, as far as ?scope says.
func (s *Server) decideOnPage(yes bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		scope := approval.Denied
		if yes {
			scope = cmp.Or(approval.Scope(r.URL.Query().Get("scope")), approval.Once)
		}
		a, err := s.o.Approvals.Decide(r.Context(), r.PathValue("id"), scope, chat.Operator(), s.here())
		s.showResult(w, r, err, a.Tool+" is "+string(a.Decision)+".")
	}
}

// listCalls writes calls, newest first: those that match ?server, ?tool, ?channel, ?user and ?turn, ?limit of
// them, after the page that returned ?cursor (or ?after) as next.
func (s *Server) listCalls(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	n, cursor, ok := parsePage(w, r)
	if !ok {
		return
	}
	before, err := parseNumber(cmp.Or(cursor, q.Get("after")), 0)
	if err != nil {
		writeBadCursor(w)
		return
	}
	list, err := s.o.Calls.ToolCalls(r.Context(), uint64(before), n, func(c store.ToolCall) bool {
		is := func(key, value string) bool { return !q.Has(key) || q.Get(key) == value }
		return is("server", c.Server) && is("tool", c.Tool) && is("user", c.User) && is("turn", c.Turn) &&
			is("channel", newCallView(c).Channel)
	})
	if err != nil {
		s.writeFailure(w, r, "the calls could not be listed", err)
		return
	}
	items, next := make([]callView, len(list)), ""
	for i, c := range list {
		items[i] = newCallView(c)
	}
	// A full page may be the last one; the next page is then empty.
	if len(list) == n {
		next = strconv.FormatUint(list[n-1].Seq, 10)
	}
	writePage(w, items, next)
}

// parseNumber returns the whole number in s, or otherwise when s is empty. It fails below 0.
func parseNumber(s string, otherwise int) (int, error) {
	if s == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(s)
	if err == nil && n < 0 {
		err = fmt.Errorf("%d is below 0", n)
	}
	return n, err
}

// getResult writes the whole of a large result.
func (s *Server) getResult(w http.ResponseWriter, r *http.Request) {
	res, err := s.o.Calls.ToolResult(r.Context(), r.PathValue("id"))
	switch {
	case errors.Is(err, store.ErrNotFound):
		writeError(w, http.StatusNotFound, "not_found", "no result is stored under this id",
			"only the newest large results are stored; the list of calls has their ids")
	case err != nil:
		s.writeFailure(w, r, "the result could not be read", err)
	default:
		writeJSON(w, http.StatusOK, map[string]string{"id": res.ID, "text": res.Text})
	}
}

// Approval is an approval as the API shows it.
type Approval struct {
	ID       string          `json:"id"`
	Tool     string          `json:"tool"`
	Server   string          `json:"server"`
	Args     json.RawMessage `json:"arguments"`
	Reason   string          `json:"reason"`
	Line     string          `json:"line,omitempty"` // of config.json that would end such questions
	Scopes   []approvalScope `json:"scopes"`         // how far an approval may reach
	Channel  string          `json:"channel"`
	User     string          `json:"user"`
	Turn     string          `json:"turn"`
	Asked    time.Time       `json:"asked"`
	Expires  time.Time       `json:"expires"`
	Decision string          `json:"decision"` // pending, approved, denied, expired
	By       string          `json:"by"`
}

// approvalScope is how far an approval may reach, and the words of its button.
type approvalScope struct {
	Scope approval.Scope `json:"scope"`
	Label string         `json:"label"`
}

// newApprovalView returns an approval as page and API show it.
func newApprovalView(a store.Approval) Approval {
	v := Approval{
		ID:       a.ID,
		Tool:     a.Tool,
		Server:   a.Server,
		Args:     a.Args,
		Reason:   a.Reason,
		Line:     a.Line,
		Scopes:   []approvalScope{{approval.Once, "Approve"}},
		User:     a.Asker.ID,
		Turn:     a.Turn,
		Asked:    a.At,
		Expires:  a.Expires,
		Decision: string(a.Decision),
		By:       a.By,
	}
	if a.Grantable && !a.Shared && a.Asker.ID != "" {
		v.Scopes = append(v.Scopes, approvalScope{approval.InConversation, "In this conversation"})
	}
	if a.Grantable {
		v.Scopes = append(v.Scopes, approvalScope{approval.Always, "Always here"})
	}
	if a.Reading {
		v.Scopes = append(v.Scopes, approvalScope{approval.Reading, "Reading tools of " + a.Server + " here"})
	}
	if a.Decision == "" {
		v.Decision = "pending"
	}
	if !a.Conversation.IsZero() {
		v.Channel = a.Conversation.String()
	}
	return v
}

// listApprovals writes the approvals that wait for a decision, oldest first. ?all=true adds those decided in
// the last days.
func (s *Server) listApprovals(w http.ResponseWriter, r *http.Request) {
	items := []Approval{}
	for _, a := range s.o.Approvals.All() {
		if a.Decision == "" || r.URL.Query().Get("all") == "true" {
			items = append(items, newApprovalView(a))
		}
	}
	writeList(w, r, items, func(v Approval) string { return v.ID })
}

// getApproval serves GET /api/v1/approvals/{id}, for one that was decided lately as well.
func (s *Server) getApproval(w http.ResponseWriter, r *http.Request) {
	all := s.o.Approvals.All()
	i := slices.IndexFunc(all, func(a store.Approval) bool { return a.ID == r.PathValue("id") })
	if i < 0 {
		writeNoApproval(w)
		return
	}
	writeJSON(w, http.StatusOK, newApprovalView(all[i]))
}

// writeNoApproval answers a request for an approval that is not there.
func writeNoApproval(w http.ResponseWriter) {
	writeHints(w, http.StatusNotFound, "not_found", approval.ErrUnknown.Error(),
		"GET /api/v1/approvals lists the open ones", "")
}

// Grants are the standing approvals.
type Grants interface {
	List() []approval.Grant
	Revoke(ctx context.Context, id string) error
}

func (s *Server) listGrants(w http.ResponseWriter, r *http.Request) {
	writeList(w, r, s.o.Grants.List(), func(g approval.Grant) string { return g.ID })
}

// revokeGrant ends a standing approval.
func (s *Server) revokeGrant(w http.ResponseWriter, r *http.Request) {
	err := s.o.Grants.Revoke(r.Context(), r.PathValue("id"))
	switch {
	case errors.Is(err, store.ErrNotFound):
		writeHints(w, http.StatusNotFound, "not_found", "there is no such standing approval", "GET /api/v1/grants lists them", "")
	case err != nil:
		s.writeFailure(w, r, "the standing approval could not be revoked", err)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// here is where whoever uses the pages and the API decides.
func (s *Server) here() chat.Address { return chat.Address{Platform: s.o.Rooms.Name()} }

// decideApproval decides an approval.
func (s *Server) decideApproval(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Decision string         `json:"decision"`
		Scope    approval.Scope `json:"scope"`
	}
	yes := map[string]bool{"approve": true, "approved": true, "allow": true, "deny": false, "denied": false}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		writeHints(w, http.StatusBadRequest, "bad_json", err.Error(), `send {"decision":"approve"} or {"decision":"deny"}`, "")
		return
	}
	is, known := yes[strings.ToLower(in.Decision)]
	if !known {
		writeHints(w, http.StatusBadRequest, "bad_request", fmt.Sprintf("decision is %.40q", in.Decision),
			`send {"decision":"approve"} or {"decision":"deny"}`, "")
		return
	}
	scopes := []approval.Scope{approval.Once, approval.InConversation, approval.Always, approval.Reading}
	if in.Scope = cmp.Or(in.Scope, approval.Once); !slices.Contains(scopes, in.Scope) {
		writeError(w, http.StatusBadRequest, "bad_request", fmt.Sprintf("scope is %.40q", in.Scope),
			"leave it out, or send once, conversation, always or reading")
		return
	}
	if !is {
		in.Scope = approval.Denied
	}
	a, err := s.o.Approvals.Decide(r.Context(), r.PathValue("id"), in.Scope, chat.Operator(), s.here())
	switch {
	case errors.Is(err, approval.ErrScope):
		writeError(w, http.StatusConflict, "scope", err.Error(), `leave "scope" out`)
	case errors.Is(err, approval.ErrUnknown):
		writeNoApproval(w)
	case errors.Is(err, approval.ErrDecided):
		writeError(w, http.StatusConflict, "decided", "this was already decided", "it is "+string(a.Decision))
	case err != nil:
		s.writeFailure(w, r, "the decision could not be saved", err)
	default:
		writeJSON(w, http.StatusOK, newApprovalView(a))
	}
}
