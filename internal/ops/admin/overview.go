package admin

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"ravenbot/internal/mcp"
	"ravenbot/internal/model/breaker"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/ops/trouble"
	"ravenbot/internal/turn/budget"
	"ravenbot/internal/turn/delivery"
	"ravenbot/internal/turn/platform"
)

// Status is how the bot is: what GET /api/v1/status answers.
type Status struct {
	Version       string            `json:"version"`
	Started       time.Time         `json:"started"`
	UptimeSeconds int               `json:"uptimeSeconds"`
	Platforms     []platform.Health `json:"platforms"`
	Load          delivery.Load     `json:"load"`
	Counts        delivery.Counts   `json:"counts"`
	Models        []string          `json:"models"`
	ModelCircuits []breaker.Status  `json:"modelCircuits"`
	Tools         int               `json:"tools"`
	// RefusedTools are the tools that endpoints of models refuse.
	RefusedTools []RefusedTool `json:"refusedTools,omitempty"`
	Store        any           `json:"store"`
	PostsGivenUp []string      `json:"postsGivenUp"`
	// ConfigurationDiffers are the keys whose values are different in another replica.
	ConfigurationDiffers []string `json:"configurationDiffers"`
}

// RefusedTool is a tool that the endpoint of a model refuses.
type RefusedTool struct {
	Server string `json:"server"`
	Tool   string `json:"tool"` // as the model knows it
	Model  string `json:"model"`
	Reason string `json:"reason"`
}

// getStatus serves GET /api/v1/status.
func (s *Server) getStatus(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.o.Instance.Status())
}

// overviewView is the page Overview.
type overviewView struct {
	State  stateView
	Faults []fault       // of digests and feeds
	Next   []digest.Info // the digests that run next
	Today  *budget.Day
	Cost   *chart
	Turns  *chart
	// Unread says what could not be read, and is missing on the page.
	Unread []string
}

// stateView is the part of the page that is renewed while somebody looks.
type stateView struct {
	Status
	Servers []mcp.Status
	Circuit []modelView
	Faults  []fault
	Asking  int // tool calls that wait for a decision
}

// modelView is what is known of a model: that it answered, that it fails, or nothing yet.
type modelView struct{ Name, Class, Words string }

// viewModel returns what the requests since the start show of a model.
func viewModel(m breaker.Status, now time.Time) modelView {
	switch {
	case m.State != breaker.Closed && m.Until.Before(now):
		return modelView{m.Name, "failed", "failed, is tried at the next question"}
	case m.State != breaker.Closed:
		wait := max(time.Second, m.Until.Sub(now).Round(time.Second))
		return modelView{m.Name, "failed", "failing, next try in " + secondsText(wait.Seconds())}
	case m.Answered.IsZero():
		return modelView{m.Name, "", "no request yet"}
	}
	return modelView{m.Name, "ok", "answered " + secondsText(now.Sub(m.Answered).Round(time.Second).Seconds()) + " ago"}
}

// fault is something that somebody has to look after.
type fault struct {
	What string
	Page string // that shows more; "": none does
}

// overviewPage serves GET /overview: how the bot is, what runs next, and what was used. htmx asks for the state alone.
func (s *Server) overviewPage(w http.ResponseWriter, r *http.Request) {
	state := s.state()
	if r.Header.Get("HX-Request") != "" {
		s.page(w, http.StatusOK, "state", state)
		return
	}
	v := overviewView{State: state}
	noteUnread := func(what string, err error) {
		if err != nil {
			s.o.Log.Error("overview is incomplete", "part", what, "error", err)
			v.Unread = append(v.Unread, what)
		}
	}
	digests, err := s.o.Digests.List(r.Context())
	noteUnread("the digests", err)
	v.Next = nextDigests(digests)
	v.Faults = digestFaults(digests)
	feeds, err := s.o.Digests.KnownFeeds(r.Context())
	noteUnread("the feeds", err)
	v.Faults = append(v.Faults, feedFaults(feeds)...)
	days, err := s.o.Spending.Days(r.Context())
	noteUnread("what was used", err)
	if n := len(days); n > 0 {
		v.Today = &days[n-1]
	}
	v.Turns = drawUsage("Answers of language models a day", days,
		func(d budget.Day) float64 { return float64(d.Turns) }, "%.0f")
	v.Cost = drawUsage("US dollars a day", days, func(d budget.Day) float64 { return d.USD }, "$%.2f")
	s.page(w, http.StatusOK, "overview", v)
}

// state returns how the bot is now.
func (s *Server) state() stateView {
	v := stateView{Status: s.o.Instance.Status(), Servers: s.servers(), Asking: len(s.o.Approvals.All())}
	add := func(page, format string, args ...any) {
		v.Faults = append(v.Faults, fault{What: fmt.Sprintf(format, args...), Page: page})
	}
	if problem := s.o.Store.Problem(); problem != "" {
		add("", "The store: %s", problem)
	}
	for _, p := range v.Platforms {
		if !p.Connected {
			add("", "%s is not connected: %s", p.Name, p.Detail)
		}
	}
	for _, m := range v.ModelCircuits {
		v.Circuit = append(v.Circuit, viewModel(m, s.o.Now()))
		if m.State != breaker.Closed {
			add("", "The model %s fails and is not asked for a while: %s", m.Name, m.Error)
		}
	}
	for _, server := range v.Servers {
		if server.Error != "" {
			add("/servers", "The MCP server %s: %s", server.Name, server.Error)
		}
	}
	for _, t := range s.lastingTroubles() {
		if t.Kind == "backup" || t.Kind == "budget" { // the others are above as soon as they begin
			add(t.Page, "Trouble with %s: %s", t.Title(), t.Reason)
		}
	}
	if n := len(v.PostsGivenUp); n > 0 {
		add("/posts", "%s of the last week could not be delivered.", countText(uint64(n), "post", "posts"))
	}
	if keys := v.ConfigurationDiffers; len(keys) > 0 {
		add("", "Another replica has other values in its config.json: %q", keys)
	}
	return v
}

// lastingTroubles returns the troubles that operators hear of.
func (s *Server) lastingTroubles() []trouble.Trouble {
	if s.o.Troubles == nil {
		return nil
	}
	return s.o.Troubles()
}

// nextDigests returns the digests that run next, soonest first.
func nextDigests(list []digest.Info) []digest.Info {
	const shown = 5
	list = slices.DeleteFunc(slices.Clone(list), func(d digest.Info) bool { return d.Next == nil })
	slices.SortStableFunc(list, func(a, b digest.Info) int { return a.Next.Compare(*b.Next) })
	return list[:min(shown, len(list))]
}

// digestFaults names the digests whose last run failed.
func digestFaults(list []digest.Info) (faults []fault) {
	for _, d := range list {
		if d.Last != nil && !d.Last.OK {
			faults = append(faults, fault{fmt.Sprintf("The last run of the digest %s failed: %s", d.Name, d.Last.Note), "/digests"})
		}
	}
	return faults
}

// feedFaults says how many feeds fail.
func feedFaults(list []digest.FeedInfo) []fault {
	failing := 0
	for _, f := range list {
		if f.FailingSince != nil {
			failing++
		}
	}
	if failing == 0 {
		return nil
	}
	return []fault{{fmt.Sprintf("%d of %d feeds fail.", failing, len(list)), "/feeds"}}
}

// drawUsage returns a chart of what was used each day, or nil where nothing was.
func drawUsage(title string, days []budget.Day, of func(budget.Day) float64, format string) *chart {
	most := 0.0
	figures := make([]figure, len(days))
	for i, d := range days {
		figures[i] = figure{Day: d.Day, Value: of(d), Label: fmt.Sprintf(format, of(d))}
		most = max(most, of(d))
	}
	return newBars(title, "", "at most "+fmt.Sprintf(format, most), figures)
}
