package web

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// serve serves the page; what it redirects to is not followed.
func serve(t *testing.T, w *Web) (string, *http.Client) {
	t.Helper()
	server := httptest.NewServer(w.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	c := server.Client()
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return server.URL, c
}

func request(t *testing.T, c *http.Client, method, address string, form url.Values,
	headers ...string) (int, http.Header, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	r, err := c.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, r.Header, string(b)
}

// A message that is sent again under its token, because no answer came, is the same one; others are not.
func TestAMessageSentAgain_IsTheSame(t *testing.T) {
	var ids []string
	w, _ := begin(t, func(_ *Web, m chat.Message) error {
		ids = append(ids, m.ID)
		return nil
	})
	base, c := serve(t, w)
	for _, token := range []string{"one", "one", "two", "", "", "A-B/c!", "A-B/c!"} {
		request(t, c, http.MethodPost, base+"/chat/birds/messages", url.Values{"text": {"kraa"}}, "Idempotency-Key", token)
	}
	if len(ids) != 7 {
		t.Fatalf("taken: %q", ids)
	}
	different := map[string]bool{}
	for _, id := range ids {
		different[id] = true
	}
	if len(different) != 5 || ids[0] != ids[1] {
		t.Errorf("taken: %q", ids)
	}
	_, _, page := request(t, c, http.MethodGet, base+"/chat/birds", nil)
	if n := strings.Count(page, `data-text="kraa"`); n != 5 {
		t.Errorf("the page has %d lines", n)
	}
}

// An empty room offers only commands that need nothing of the configuration.
func TestPage_RoomIsEmpty_OffersCommandsThatWork(t *testing.T) {
	w, _ := begin(t, func(*Web, chat.Message) error { return nil })
	base, c := serve(t, w)
	_, _, page := request(t, c, http.MethodGet, base+"/chat/birds", nil)
	if !strings.Contains(page, `data-text="/digest list"`) || strings.Contains(page, "morning") {
		t.Errorf("the page offers\n%s", page)
	}
}

func TestThePageAndItsForms(t *testing.T) {
	var said []string
	busy := false
	w, _ := begin(t, func(_ *Web, m chat.Message) error {
		if busy {
			return chat.ErrBusy
		}
		said = append(said, m.Conversation.Channel+": "+m.Text)
		return nil
	})
	base, c := serve(t, w)
	for _, q := range []struct {
		method, path string
		form         url.Values
		htmx         string
		busy         bool
		status       int
		location     string
		want         string // part of the answer
	}{
		{method: "GET", path: "/", status: 303, location: "/chat/general"},
		{method: "GET", path: "/chat/general", status: 200, want: `sse-connect="/chat/general/events?since=0&amp;state=`},
		{method: "GET", path: "/chat/a%2Fb", status: 400, want: "a room&#39;s name has"},
		{method: "GET", path: "/chat/general/earlier?before=x", status: 400, want: "the number of a line"},
		{method: "GET", path: "/chat/UP/events", status: 400, want: "a room&#39;s name has"},
		{method: "POST", path: "/chat", form: url.Values{"name": {" My Birds "}}, status: 303, location: "/chat/my-birds"},
		{method: "POST", path: "/chat", form: url.Values{"name": {strings.Repeat("/", 61)}}, status: 400, want: "That did not work"},
		{method: "POST", path: "/chat/birds/messages", form: url.Values{"text": {"kraa"}}, status: 303, location: "/chat/birds"},
		{method: "POST", path: "/chat/birds/messages", form: url.Values{"text": {"kraa?"}}, htmx: "true", status: 204},
		{method: "POST", path: "/chat/birds/messages", form: url.Values{"text": {" "}}, htmx: "true", status: 400, want: `<p class="problem" role="alert">That did not work: the message is empty.</p>`},
		{method: "POST", path: "/chat/birds/messages", form: url.Values{"text": {strings.Repeat("a", maxText+1)}}, htmx: "true", status: 400, want: "at most 65536"},
		{method: "POST", path: "/chat/birds/messages", form: url.Values{"text": {strings.Repeat("a", maxForm)}}, htmx: "true", status: 400, want: "could not be read"},
		{method: "POST", path: "/chat/birds/messages", form: url.Values{"text": {"x"}}, busy: true, status: 503, want: "is busy right now"},
		{method: "GET", path: "/chat/general", status: 200, want: `href="/chat/birds" data-room="birds" data-newest="2">birds<`},
		{method: "GET", path: "/static/app.css", status: 200, want: ":root"},
		{method: "GET", path: "/static/none", status: 404},
		{method: "GET", path: "/static/..%2ftemplates%2fpage.html", status: 404},
		{method: "DELETE", path: "/chat/general", status: 405},
	} {
		busy = q.busy
		status, header, body := request(t, c, q.method, base+q.path, q.form, "HX-Request", q.htmx)
		if status != q.status || header.Get("Location") != q.location || !strings.Contains(body, q.want) {
			t.Errorf("%s %s: %d %s %.300s\nwant %d %s with %s", q.method, q.path, status, header.Get("Location"), body, q.status,
				q.location, q.want)
		}
	}
	if diff := cmp.Diff([]string{"birds: kraa", "birds: kraa?"}, said); diff != "" {
		t.Errorf("said (-want +got):\n%s", diff)
	}
	_, header, _ := request(t, c, "GET", base+"/static/app.js", nil)
	if status, _, _ := request(t, c, "GET", base+"/static/app.js", nil, "If-None-Match",
		header.Get("ETag")); status != 304 {
		t.Errorf("known file: %d, want 304", status)
	}
}

func TestOlderLinesAreLoadedInPages(t *testing.T) {
	w, _ := begin(t, ignore)
	for i := range 120 {
		if _, err := w.Post(t.Context(), general, chat.Draft{
			Key:  fmt.Sprint(i),
			Text: fmt.Sprintf("post-%03d.", i),
		}); err != nil {
			t.Fatal(err)
		}
	}
	base, c := serve(t, w)
	seen := 120
	for path := "/chat/general"; path != ""; {
		status, _, body := request(t, c, "GET", base+path, nil)
		if status != 200 {
			t.Fatalf("%s: %d", path, status)
		}
		n := strings.Count(body, `class="line bot"`)
		for i := range n {
			if want := fmt.Sprintf("post-%03d.", seen-n+i); !strings.Contains(body, want) {
				t.Errorf("%s lacks %s", path, want)
			}
		}
		seen -= n
		_, after, more := strings.Cut(body, `<button type="button" class="quiet" hx-get="`)
		path, _, _ = strings.Cut(after, `"`)
		if more != (seen > 0) {
			t.Fatalf("more: %v with %d lines to come", more, seen)
		}
	}
	if seen != 0 {
		t.Errorf("%d lines were never shown", seen)
	}
}

func TestAMessageLeftByAnEarlierProcessIsShownAsBeingWorkedOn(t *testing.T) {
	w, db := begin(t, ignore)
	for _, e := range []store.Entry{
		{ID: "room/old", At: time.Now().Add(-2 * cacheTime)}, {ID: "room/answered", At: time.Now()}, {ID: "room/left", At: time.Now()}} {
		e.Room, e.User, e.Text = "general", &anna, "?"
		if _, err := db.SaveEntry(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	answer(w, chat.Message{ID: "room/answered", Conversation: general, Reply: chat.Reply{MessageID: "room/answered"}}, "!")
	base, c := serve(t, w)
	_, _, body := request(t, c, "GET", base+"/chat/general", nil)
	for id, want := range map[string]bool{"work-left": true, "work-old": false, "work-answered": false} {
		if strings.Contains(body, `id="`+id+`"`) != want {
			t.Errorf("%s is shown: %v", id, !want)
		}
	}
}

// reader reads events of a stream.
type reader struct {
	t     *testing.T
	lines *bufio.Scanner
	close func() error
}

func open(t *testing.T, c *http.Client, address string, headers ...string) *reader {
	t.Helper()
	// A test that waits for what does not come fails at that line, not by the time-out of the whole run.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	q, err := http.NewRequestWithContext(ctx, "GET", address, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	r, err := c.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("Content-Type %q", got)
	}
	t.Cleanup(func() { r.Body.Close() })
	return &reader{t, bufio.NewScanner(r.Body), r.Body.Close}
}

// next returns the id and the data of the next event.
func (r *reader) next() (id, data string) {
	r.t.Helper()
	for r.lines.Scan() {
		line := r.lines.Text()
		if v, ok := strings.CutPrefix(line, "id: "); ok {
			id = v
		} else if v, ok := strings.CutPrefix(line, "data: "); ok {
			data += v + "\n"
		} else if line == "" && data != "" {
			return id, data
		}
	}
	r.t.Fatalf("the stream ended: %v", r.lines.Err())
	return "", ""
}

// want reads events until one holds all parts.
func (r *reader) want(parts ...string) (id, data string) {
	r.t.Helper()
	for {
		id, data = r.next()
		missing := false
		for _, p := range parts {
			missing = missing || !strings.Contains(data, p)
		}
		if !missing {
			return id, data
		}
	}
}

func TestTheStreamShowsATurn(t *testing.T) {
	asked := make(chan chat.Message, 1)
	w, _ := begin(t, func(_ *Web, m chat.Message) error { asked <- m; return nil })
	base, c := serve(t, w)
	s := open(t, c, base+"/chat/general/events?since=0")
	s.want(`id="working" hx-swap-oob="innerHTML"`)
	m, err := w.Say(t.Context(), "general", anna, "a\r\n\r\nb")
	if err != nil {
		t.Fatal(err)
	}
	<-asked
	id := domID(m.ID)
	s.want(`hx-swap-oob="beforeend:#log"`, "<div class=\"said prose\" data-text=\"a\n\nb\"><p>a</p>\n<p>b</p>\n</div>")
	s.want(`hx-swap-oob="beforeend:#working"`, `id="work-`+id+`"`)
	for i, state := range []chat.RunState{chat.Running, chat.Failed} {
		w.Show(general, chat.Progress{Message: m.ID, Tool: &chat.ToolRun{ID: "1", Name: "t", State: state}})
		s.want([]string{`beforeend:#tools-` + id, `id="tool-` + id + `-0" hx-swap-oob="true"`}[i],
			`class="tool `+string(state))
	}
	w.Show(general, chat.Progress{Message: m.ID, Text: "so"})
	w.Show(general, chat.Progress{Message: m.ID, Reset: true, Note: "The model asks for a pause of 2s."})
	s.want(`id="note-`+id+`"`, "a pause of 2s")
	answer(w, m, "an *answer*")
	last, _ := s.want("<em>answer</em>", `id="work-`+id+`" hx-swap-oob="delete"`)
	if last != "2" {
		t.Errorf("event id %s, want the line's Seq 2", last)
	}
}

func TestAfterAReconnectNothingIsMissing(t *testing.T) {
	w, _ := begin(t, ignore)
	base, c := serve(t, w)
	post := func(key string) {
		t.Helper()
		if _, err := w.Post(t.Context(), general, chat.Draft{Key: key, Text: key}); err != nil {
			t.Fatal(err)
		}
	}
	post("first")
	s := open(t, c, base+"/chat/general/events?since=1")
	if _, data := s.next(); strings.Contains(data, "first") {
		t.Errorf("what is shown was sent again: %s", data)
	}
	post("second")
	id, _ := s.want("second")
	s.close()
	post("third")
	w.Show(general, chat.Progress{Message: "room/x", Text: "half an answer"})
	for _, again := range []*reader{
		open(t, c, base+"/chat/general/events?since=1", "Last-Event-ID", id), // by the browser
		open(t, c, base+"/chat/general/events?since=1"),                      // by the page's script
	} {
		again.want(`id="log" hx-swap-oob="innerHTML"`, "first", "second", "third", "half an answer")
	}
}

func TestAStreamEndsWithItsReaderAndWithTheBot(t *testing.T) {
	w := New(Options{Log: &memory{}, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ran := make(chan struct{})
	go func() { defer close(ran); w.Run(ctx, nil) }()
	ended := make(chan struct{}, 2)
	inner := w.Handler()
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(rw, r)
		ended <- struct{}{}
	}))
	t.Cleanup(server.Close)
	gone := open(t, server.Client(), server.URL+"/chat/general/events")
	gone.next()
	gone.close()
	<-ended
	if n := len(w.room("general").subs); n != 0 {
		t.Errorf("%d readers are left", n)
	}
	open(t, server.Client(), server.URL+"/chat/general/events").next()
	cancel()
	<-ended
	<-ran
}

// memory is a log in memory, without files and titles.
type memory struct {
	Log
	mu      sync.Mutex
	entries []store.Entry
}

func (m *memory) SaveEntry(_ context.Context, e store.Entry) (store.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.Seq = uint64(len(m.entries) + 1)
	m.entries = append(m.entries, e)
	return e, nil
}

func (m *memory) Entries(_ context.Context, _ string, _ uint64, n int) ([]store.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]store.Entry(nil), m.entries[max(0, len(m.entries)-n):]...), nil
}

func (m *memory) Rooms(context.Context) ([]string, error) { return nil, nil }

func (m *memory) SaveRoomFile(context.Context, string, chat.File) (uint64, error) { return 1, nil }

func (m *memory) DeleteRoomFile(context.Context, string, uint64) error { return nil }

func (m *memory) RoomFile(context.Context, string, uint64) (chat.File, error) {
	return chat.File{}, store.ErrNotFound
}

func (m *memory) RoomFilePart(context.Context, string, uint64, int64, int) (chat.File, error) {
	return chat.File{}, store.ErrNotFound
}

// stuck is a connection that takes nothing until it is let go.
type stuck struct {
	http.ResponseWriter
	free chan struct{}

	mu   sync.Mutex
	sent bytes.Buffer
}

func (s *stuck) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent.String()
}

func (s *stuck) Header() http.Header              { return http.Header{} }
func (s *stuck) WriteHeader(int)                  {}
func (s *stuck) SetWriteDeadline(time.Time) error { return nil }
func (s *stuck) Flush()                           {}
func (s *stuck) Write(b []byte) (int, error) {
	<-s.free
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent.Write(b)
}

func TestASlowBrowserHoldsNobodyUpAndMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Options{Log: &memory{}, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		go w.Run(ctx, nil)
		out := &stuck{free: make(chan struct{})}
		q := httptest.NewRequestWithContext(ctx, "GET", "/chat/general/events", nil)
		ended := make(chan struct{})
		go func() { defer close(ended); w.Handler().ServeHTTP(out, q) }()
		synctest.Wait()
		for i := range 2 * maxWaitingEvents {
			w.Show(general, chat.Progress{Message: "room/m", Text: "x"})
			if i%100 == 0 {
				if _, err := w.Post(ctx, general, chat.Draft{Key: fmt.Sprint(i), Text: fmt.Sprintf("post-%d.", i)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		close(out.free)
		synctest.Wait()
		for i := 0; i < 2*maxWaitingEvents; i += 100 {
			if want := fmt.Sprintf("post-%d.", i); !strings.Contains(out.text(), want) {
				t.Errorf("%s was never sent", want)
			}
		}
		if !strings.Contains(out.text(), strings.Repeat("x", 2*maxWaitingEvents)) {
			t.Error("the text was not sent as a whole")
		}
		before := len(out.text())
		time.Sleep(keepAliveEvery)
		synctest.Wait()
		if got := out.text()[before:]; got != ": here\n\n" {
			t.Errorf("after a quiet while %q was sent", got)
		}
		cancel()
		<-ended
	})
}
