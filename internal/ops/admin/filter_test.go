package admin

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/model/breaker"
)

func TestFilter_KeepsWhatHasItsWordsAndState(t *testing.T) {
	r := httptest.NewRequest("GET", "/calls?q=Search+web&state=failed&tool=GitHub", nil)
	f := newFilter(r, "/calls", "done", "failed")
	if tool := f.add(r, "tool", "Tool"); tool != "github" {
		t.Errorf("the field is %q", tool)
	}
	if !f.has("a web page", "search") || f.has("search") || f.isState("failed", false) || !f.isState("done", false) {
		t.Errorf("%+v keeps something else", f)
	}
	if got := f.Address(); got != "/calls?q=Search+web&state=failed&tool=github" || !f.IsSet() {
		t.Errorf("its address is %s", got)
	}
	if f := newFilter(httptest.NewRequest("GET", "/calls?state=nonsense", nil), "/calls", "done"); f.IsSet() {
		t.Errorf("an unknown state makes %+v", f)
	}
	list := []int{1, 2, 3, 4}
	sortFailing(list, func(n int) bool { return n%2 == 0 })
	if !slices.Equal(list, []int{2, 4, 1, 3}) {
		t.Errorf("what fails is not first: %v", list)
	}
}

func TestViewModel_ShowsEvidence(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for want, s := range map[modelView]breaker.Status{
		{"m", "", "no request yet"}:                    {State: breaker.Closed},
		{"m", "ok", "answered 5 min 0 s ago"}:          {State: breaker.Closed, Answered: now.Add(-5 * time.Minute)},
		{"m", "failed", "failing, next try in 30.0 s"}: {State: breaker.Open, Until: now.Add(30 * time.Second), Answered: now},
		{"m", "failed", "failing, next try in 1.0 s"}:  {State: breaker.HalfOpen, Until: now},
	} {
		s.Name = "m"
		if got := viewModel(s, now); got != want {
			t.Errorf("%+v is shown as %+v, want %+v", s, got, want)
		}
	}
	for seconds, want := range map[float64]string{688.571: "11 min 28 s", 7500: "2 h 5 min", 59.96: "60.0 s", 0.08: "80 ms"} {
		if got := secondsText(seconds); got != want {
			t.Errorf("%v s are %q, want %q", seconds, got, want)
		}
	}
}

func TestCallsPage_ShowsWhatMatches(t *testing.T) {
	_, _, server, client := start(t, func(o *Options) { o.Calls, o.Approvals = calls{"s_do"}, calls{"s_do"} })
	for query, shown := range map[string]bool{
		"": true, "q=s_do+x": true, "q=nothing": false, "tool=S_D": true, "tool=web": false, "who=s_": true, "who=anna": false,
		"state=done": true, "state=failed": false, "state=not+run": false, "state=done&q=x&who=s_do": true,
	} {
		r := do(t, client, http.MethodGet, server.URL+"/calls?"+query, nil, "Authorization", bearerHeader)
		if strings.Contains(r.body, `id="call-7"`) != shown || strings.Contains(r.body, "Denied at") ||
			!strings.Contains(r.body, "<dt>Expires</dt>") {
			t.Errorf("with %q the call is shown: %v, want %v:\n%s", query, !shown, shown, r.body)
		}
	}
}
