package feed

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/ops/egress"
)

func TestFreshFor(t *testing.T) {
	now := time.Date(2026, 2, 3, 8, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		headers string
		ttl     time.Duration
		want    time.Duration
	}{
		{"", 0, 0},
		{"", time.Hour, time.Hour},
		{"Cache-Control: public, max-age=600", 0, 10 * time.Minute},
		{"Cache-Control: max-age=600", time.Hour, time.Hour},
		{"Cache-Control: max-age=7200", time.Hour, 2 * time.Hour},
		{"Cache-Control: no-cache, max-age=600", 0, 0},
		{"Cache-Control: max-age=oops", 0, 0},
		{"Cache-Control: max-age=600|Expires: Tue, 03 Feb 2026 20:00:00 GMT", 0, 10 * time.Minute},
		{"Expires: Tue, 03 Feb 2026 09:00:00 GMT", 0, time.Hour},
		{"Expires: Tue, 03 Feb 2026 09:00:00 GMT|Date: Tue, 03 Feb 2026 08:45:00 GMT", 0, 15 * time.Minute},
		{"Expires: Tue, 03 Feb 2026 07:00:00 GMT", 0, 0},
		{"Expires: 0", 0, 0},
		{"Cache-Control: max-age=31536000", 0, maxFresh},
	} {
		h := http.Header{}
		for line := range strings.SplitSeq(tc.headers, "|") {
			if name, value, ok := strings.Cut(line, ": "); ok {
				h.Set(name, value)
			}
		}
		if got := freshFor(h, tc.ttl, now); got != tc.want {
			t.Errorf("%q, ttl %s: fresh for %s, want %s", tc.headers, tc.ttl, got, tc.want)
		}
	}
}

func TestPaceOfAFeed(t *testing.T) {
	for text, want := range map[string]Pace{
		"<ttl> 90 </ttl>": {TTL: 90 * time.Minute},
		"<skipHours><hour>0</hour><hour>24</hour><hour>5</hour><hour>99</hour></skipHours>":             {SkipHours: 1<<0 | 1<<5},
		"<skipDays><day>Saturday</day><day> sunday</day><day>Doomsday</day></skipDays>":                 {SkipDays: 1<<0 | 1<<6},
		"<ttl>often</ttl><item><ttl>5</ttl></item>":                                                     {},
		"<skipDays>" + days("Monday Tuesday Wednesday Thursday Friday Saturday Sunday") + "</skipDays>": {},
	} {
		doc := mustParse(t, "<rss version='2.0'><channel><title>x</title>"+text+"</channel></rss>", Hint{})
		if doc.Pace != want {
			t.Errorf("%s: %+v, want %+v", text, doc.Pace, want)
		}
	}
}

func days(names string) (b string) {
	for _, name := range strings.Fields(names) {
		b += "<day>" + name + "</day>"
	}
	return b
}

func TestPollAsksOnlyWhenItIsTime(t *testing.T) {
	s, f := newSite(t)
	var asked atomic.Int64
	s.mux.HandleFunc("/feed", func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Cache-Control", "max-age=3600")
		w.Header().Set("ETag", `"v1"`)
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprint(w, strings.Replace(rss, "<channel>", "<channel><skipHours><hour>12</hour></skipHours>", 1))
	})
	for _, step := range []struct {
		later time.Duration
		poll  bool
		asked int64
		why   string
	}{
		{0, true, 1, "the first time"},
		{30 * time.Minute, true, 1, "it is fresh"},
		{0, false, 2, "a person asks"},
		{50 * time.Minute, true, 2, "not modified is fresh as well"},
		{30 * time.Minute, true, 3, "no longer fresh"},
		{130 * time.Minute, true, 3, "an hour to skip"}, // 12:00
		{0, false, 4, "a person asks in an hour to skip"},
		{90 * time.Minute, true, 5, "another hour"},
	} {
		s.now = s.now.Add(step.later)
		get := f.Fetch
		if step.poll {
			get = f.Poll
		}
		res, err := get(t.Context(), s.URL+"/feed")
		if err != nil || len(res.Items) != 2 || res.Items[0].Source != "Harbour & Town" {
			t.Fatalf("%s: %+v, %v", step.why, res, err)
		}
		if asked.Load() != step.asked {
			t.Errorf("%s: asked %d times, want %d", step.why, asked.Load(), step.asked)
		}
	}
}

// TestFailingFeed polls a feed that fails for weeks and then recovers by itself.
func TestFailingFeed(t *testing.T) {
	s, f := newSite(t)
	var asked, broken atomic.Int64
	s.mux.HandleFunc("/feed", func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		if code := broken.Load(); code != 0 {
			w.WriteHeader(int(code))
			return
		}
		fmt.Fprint(w, rss)
	})
	address, began := s.URL+"/feed", s.now
	pollFor := func(d time.Duration) {
		for end := s.now.Add(d); s.now.Before(end); s.now = s.now.Add(30 * time.Minute) {
			_, err := f.Poll(t.Context(), address)
			if failing, ok := errors.AsType[*FailingError](err); ok &&
				(failing.Times < 1 || !strings.Contains(failing.Last, "status 500")) {
				t.Fatalf("error %v", err)
			}
		}
	}
	broken.Store(500)
	pollFor(28 * 24 * time.Hour)
	if n := asked.Load(); n < 15 || n > 30 {
		t.Errorf("asked %d times in four weeks of failure", n)
	}
	state, err := f.State(t.Context(), address)
	if since, times := state.FailingSince, state.Failures; err != nil || !since.Equal(began) || int64(times) != asked.Load() {
		t.Errorf("failing since %s, %d times, %v", since, times, err)
	}
	if _, err := f.Fetch(t.Context(), address); err == nil || strings.Contains(err.Error(), "next attempt after") {
		t.Errorf("a person's wish was not served: %v", err)
	}
	broken.Store(0)
	pollFor(3 * 24 * time.Hour)
	if state, err := f.State(t.Context(), address); err != nil || state.Failures != 0 {
		t.Errorf("after it healed: %+v, %v", state, err)
	}
}

func TestGoneFeed(t *testing.T) {
	s, f := newSite(t)
	var asked atomic.Int64
	s.mux.HandleFunc("/feed", func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusGone)
	})
	for range 7 {
		if _, err := f.Poll(t.Context(), s.URL+"/feed"); err == nil {
			t.Fatal("a feed that is gone was read")
		}
		s.now = s.now.Add(23 * time.Hour)
	}
	state, err := f.State(t.Context(), s.URL+"/feed")
	if asked.Load() != 1 || err != nil || !state.Gone || !strings.Contains(state.LastFailure, "has been removed") {
		t.Errorf("asked %d times in a week; %+v, %v", asked.Load(), state, err)
	}
}

func TestState_OneFailure_IsCounted(t *testing.T) {
	s, f := newSite(t)
	if _, err := f.Fetch(t.Context(), s.URL+"/nothing"); err == nil {
		t.Fatal("no error")
	}
	state, err := f.State(t.Context(), s.URL+"/nothing")
	if times := state.Failures; err != nil || times != 1 {
		t.Errorf("after one failure: %+v, %v", state, err)
	}
}

// TestHostThatIsBusy tells one feed to wait: its others are not polled, but a
// person may ask.
func TestHostThatIsBusy(t *testing.T) {
	s, f := newSite(t)
	s.mux.HandleFunc("/busy", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	s.mux.HandleFunc("/feed", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, rss) })
	var wait *WaitError
	if _, err := f.Poll(t.Context(), s.URL+"/busy"); !errors.As(err, &wait) {
		t.Fatalf("error %v", err)
	}
	if _, err := f.Poll(t.Context(), s.URL+"/feed"); !errors.As(err, &wait) {
		t.Errorf("another feed of the host was polled: %v", err)
	}
	if _, err := f.Fetch(t.Context(), s.URL+"/feed"); err != nil {
		t.Errorf("a person's wish: %v", err)
	}
	s.now = s.now.Add(11 * time.Minute)
	if _, err := f.Poll(t.Context(), s.URL+"/feed"); err != nil {
		t.Errorf("after the wait: %v", err)
	}
}

func TestPollLeavesHostsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := hostLocks{byName: map[string]*host{}}
		begin := time.Now()
		for _, name := range []string{"a", "b", "a", "a"} {
			turn, err := all.acquire(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if err := turn.waitForGap(t.Context(), time.Second, begin); err != nil {
				t.Fatal(err)
			}
			turn.release()
		}
		if took := time.Since(begin); took < time.Second || took > (2+Patience)*time.Second {
			t.Errorf("three requests to one host took %s", took)
		}
	})
}

func TestHostLocks_WhoAskedToWait_IsNotForgotten(t *testing.T) {
	all := hostLocks{byName: map[string]*host{}}
	for _, until := range []time.Time{time.Now().Add(time.Hour), {}} {
		turn, err := all.acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if until.IsZero() {
			var wait *WaitError
			if err := turn.waitForGap(t.Context(), time.Second, time.Now()); !errors.As(err, &wait) {
				t.Errorf("a host that asked to wait an hour is asked again: %v", err)
			}
		} else {
			turn.blockedUntil = until
		}
		turn.release()
	}
}

func TestExplainFailing(t *testing.T) {
	at := time.Date(2026, 2, 3, 8, 0, 0, 0, time.UTC)
	for want, err := range map[string]error{
		"F has failed 4 times since 3 February 08:00 UTC. The next attempt is after 3 February 09:00 UTC. The last " +
			"failure: F answered with status 500.": &FailingError{"F", at, 4, at.Add(time.Hour), "F answered with status 500."},
		"F has been removed, according to its server.": &StatusError{"F", 410},
		"F could not be fetched: the certificate of the server is valid from 2026-02-03T09:00:00Z, and the clock of this " +
			"machine says 2026-02-03T08:00:00Z: set the clock.": fmt.Errorf("fetch: %w", &egress.CertificateError{
			From: at.Add(time.Hour), Until: at.Add(2 * time.Hour), Clock: at}),
		"F did not answer in time.": fmt.Errorf("fetch: %w", egress.ErrTimeout),
	} {
		if got := Explain("F", err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
