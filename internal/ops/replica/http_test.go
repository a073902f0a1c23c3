package replica_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/ops/replica"
)

// The leader serves the pages, for whichever replica is asked; each answers for itself whether it is well.
func TestPages_AreTheLeaders(t *testing.T) {
	d := newDatabase()
	first, second := d.join(t), d.join(t)
	if !first.IsLeader() || second.IsLeader() {
		t.Fatal("the first replica does not lead, or the second one does")
	}
	host := func(url string) string { return strings.TrimPrefix(url, "http://") }
	for path, by := range map[string]*running{"/api/v1/x?y=1": first, "/": first, "/readyz": second, "/healthz": second,
		"/metrics": second, "/slack/events": second} {
		if status, body := get(t, second.url+path); status != http.StatusOK ||
			!strings.HasPrefix(body, host(by.url)+" says "+path) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, second.url+"/x", nil)
	req.Host = "bot.example.com"
	req.Header.Set("X-Forwarded-For", "203.0.113.9")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	if want := host(first.url) + " says /x of bot.example.com for 203.0.113.9, 127.0.0.1"; string(body) != want {
		t.Errorf("the leader saw %q, want %q", body, want)
	}
}

// A request about what one replica alone keeps in memory goes to that one, whichever is asked.
func TestHeld_GoesToWhoHasIt(t *testing.T) {
	d := newDatabase()
	var all []*running
	for _, has := range []string{"a", "b", "c"} {
		all = append(all, d.joinWith(t, func(n *replica.Node, pages http.Handler) http.Handler {
			return n.Held("/back", func(r *http.Request) bool { return r.URL.Query().Get("state") == has }, pages)
		}))
	}
	for _, asked := range all {
		for query, by := range map[string]*running{"a": all[0], "b": all[1], "c": all[2], "nobody": asked} {
			want := strings.TrimPrefix(by.url, "http://") + " says /back?state=" + query + " "
			if status, body := get(t, asked.url+"/back?state="+query); status != http.StatusOK ||
				!strings.HasPrefix(body, want) {
				t.Errorf("%s was asked: %d %s, want %s", asked.url, status, body, want)
			}
		}
	}
}

// A request waits while the leader changes, and arrives as it was sent.
func TestPages_LeaderIsGone_WaitForTheNext(t *testing.T) {
	d := newDatabase()
	first := d.join(t)
	second := d.joinWith(t, func(_ *replica.Node, _ http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	})
	first.stop()
	sent := &observed{Reader: strings.NewReader("the delivery"), read: make(chan struct{})}
	go func() { <-sent.read; d.end(1) }()
	res, err := http.Post(second.url+"/hooks/ci", "text/plain", sent)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); res.StatusCode != http.StatusOK || string(body) != "the delivery" {
		t.Errorf("%s: %q, %v", res.Status, body, err)
	}
}

// observed is a reader that closes a channel when it was read to its end.
type observed struct {
	io.Reader
	read chan struct{}
}

func (o *observed) Read(p []byte) (int, error) {
	n, err := o.Reader.Read(p)
	if err == io.EOF {
		close(o.read)
	}
	return n, err
}

// What a leader may have taken before its connection broke is not sent to the next one.
func TestPages_LeaderBreaksOff_OnlyHarmlessRequestsAreMadeAgain(t *testing.T) {
	for _, c := range []struct {
		method, path, key string
		want              int
	}{
		{http.MethodPost, "/hooks/ci", "", http.StatusServiceUnavailable},
		{http.MethodPost, "/hooks/ci", "a key", http.StatusOK},
		{http.MethodPost, "/chat/general/messages", "a key", http.StatusOK},
		{http.MethodPost, "/chat/general/messages", "", http.StatusServiceUnavailable},
		{http.MethodPost, "/chat/general/press", "a key", http.StatusServiceUnavailable},
		{http.MethodPost, "/api/v1/conversations/web:%2Fgeneral/messages", "a key", http.StatusServiceUnavailable},
		{http.MethodGet, "/", "", http.StatusOK},
	} {
		d := newDatabase()
		m := &member{database: d}
		var leader *httptest.Server
		leader = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			d.end(m.self.ID)
			leader.CloseClientConnections()
		}))
		defer leader.Close()
		_, _ = m.Join(t.Context(), strings.TrimPrefix(leader.URL, "http://"))
		_, _ = m.Claim(t.Context(), "leader")
		second := d.join(t)
		req, _ := http.NewRequestWithContext(t.Context(), c.method, second.url+c.path, strings.NewReader("text"))
		if c.key != "" {
			req.Header.Set("Idempotency-Key", c.key)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != c.want {
			t.Errorf("%s %s with the key %q: %s", c.method, c.path, c.key, res.Status)
		}
	}
}

// Requests that the leader does not answer end with its membership, also where its connections stay open.
func TestPages_LeaderIsPaused_EndWithItsMembership(t *testing.T) {
	d := newDatabase()
	asked, over := make(chan struct{}), make(chan struct{})
	leader := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(asked); <-over }))
	defer leader.Close()
	defer close(over)
	m := &member{database: d}
	self, _ := m.Join(t.Context(), strings.TrimPrefix(leader.URL, "http://"))
	_, _ = m.Claim(t.Context(), "leader")
	second := d.join(t)
	go func() { <-asked; d.end(self.ID) }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, second.url+"/", nil)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal("no answer after the end of the leader: ", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable {
		t.Error(res.Status)
	}
}

func TestPages_DatabaseIsAway_SaysSo(t *testing.T) {
	d := newDatabase()
	d.join(t)
	second := d.join(t)
	d.fail(errors.New("connection refused"))
	within(t, "a replica notices that the database is away", func() bool {
		status, body := get(t, second.url+"/")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "database does not answer")
	})
	d.fail(nil)
	within(t, "it goes on", func() bool { status, _ := get(t, second.url+"/"); return status == http.StatusOK })
}

// Server-sent events pass as they are made.
func TestPages_EventsPassAtOnce(t *testing.T) {
	d := newDatabase()
	next := make(chan struct{})
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for n := range 2 {
			fmt.Fprintf(w, "data: %d\n\n", n)
			w.(http.Flusher).Flush()
			<-next
		}
	}))
	defer leader.Close()
	m := &member{database: d}
	_, _ = m.Join(t.Context(), strings.TrimPrefix(leader.URL, "http://"))
	_, _ = m.Claim(t.Context(), "leader")
	second := d.join(t)
	events, err := http.Get(second.url + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close()
	lines := bufio.NewScanner(events.Body)
	for n := range 2 { // each event is there before the next is made
		lines.Scan()
		if want := fmt.Sprintf("data: %d", n); lines.Text() != want {
			t.Errorf("event %q, want %q", lines.Text(), want)
		}
		lines.Scan()
		next <- struct{}{}
	}
}

// How long a request may take to arrive, which the server of a replica limits, neither cuts off an answer that takes longer
// nor a large body that the leader is still reading.
func TestPages_LongerThanTheServerReads_AreWhole(t *testing.T) {
	const readTimeout, pause = 300 * time.Millisecond, time.Second
	d := newDatabase()
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		select {
		case <-time.After(pause):
		case <-r.Context().Done():
			t.Error("the request was given up")
		}
		fmt.Fprintf(w, "%d bytes, %v", n, err)
	}))
	defer leader.Close()
	m := &member{database: d}
	_, _ = m.Join(t.Context(), strings.TrimPrefix(leader.URL, "http://"))
	_, _ = m.Claim(t.Context(), "leader")
	second := httptest.NewUnstartedServer(d.join(t).Handler(http.NotFoundHandler()))
	second.Config.ReadTimeout = readTimeout
	second.Start()
	defer second.Close()
	slow := func(words ...string) io.Reader {
		r, w := io.Pipe()
		go func() {
			for i, part := range words {
				if i > 0 {
					<-time.After(pause)
				}
				_, _ = io.WriteString(w, part)
			}
			w.Close()
		}()
		return r
	}
	large := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		body io.Reader
		want string
	}{
		"no body":                    {nil, "0 bytes, <nil>"},
		"a small body":               {strings.NewReader("question"), "8 bytes, <nil>"},
		"a large body":               {strings.NewReader(large + large), "2097152 bytes, <nil>"},
		"a large body that is slow":  {slow(large+large, "y"), "2097153 bytes, <nil>"},
		"a small body that is stuck": {slow("x", "y"), `{"error":{"code":"unavailable","hint":"try again in a few seconds","message":"the request was cut off"}}` + "\n"},
	} {
		res, err := http.Post(second.URL+"/", "text/plain", c.body)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		if string(got) != c.want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
