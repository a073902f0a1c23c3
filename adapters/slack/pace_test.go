package slack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
)

// wire answers calls of the Web API without a network, so that time can be
// simulated.
type wire func(method string, form url.Values) (status int, header http.Header, body string)

func (w wire) RoundTrip(r *http.Request) (*http.Response, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(raw))
	if err != nil {
		return nil, err
	}
	status, header, body := w(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:], form)
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: header,
		Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func wired(w wire) *Slack {
	s := New(Options{BotToken: "xoxb-token", APIBaseURL: "https://slack.com/api/", Mode: "http", SigningSecret: "s",
		Log: slog.New(slog.DiscardHandler), Now: time.Now})
	s.client.Transport, s.fileClient.Transport = w, w
	s.self = botIdentity{team: "T1", user: "U1", bot: "B1"}
	close(s.ready)
	return s
}

// limited is a Slack that takes so many messages a second in a channel and refuses
// all until a time; it keeps what it took and counts what it refused.
type limited struct {
	perSecond int
	word      string // by which it refuses with status 200 and no header; empty: as Slack does usually
	closed    time.Time
	window    map[string]time.Time
	in        map[string]int
	taken     []string
	refused   int
}

func (l *limited) answer(_ string, form url.Values) (int, http.Header, string) {
	now, channel := time.Now(), form.Get("channel")
	wait := l.closed.Sub(now)
	if now.Sub(l.window[channel]) >= time.Second {
		l.window[channel], l.in[channel] = now, 0
	}
	if wait <= 0 && l.in[channel] >= l.perSecond {
		wait = l.window[channel].Add(time.Second).Sub(now)
	}
	if wait > 0 {
		l.refused++
		if l.word != "" {
			return http.StatusOK, nil, `{"ok":false,"error":"` + l.word + `"}`
		}
		return http.StatusTooManyRequests, http.Header{"Retry-After": {fmt.Sprint(int((wait +
			time.Second - 1) / time.Second))}}, `{"ok":false,"error":"ratelimited"}`
	}
	l.in[channel]++
	l.taken = append(l.taken, channel+" "+form.Get("text"))
	return http.StatusOK, nil, fmt.Sprintf(`{"ok":true,"channel":%q,"ts":"1700000000.%06d"}`, channel, len(l.taken))
}

func newLimited(perSecond int) *limited {
	return &limited{perSecond: perSecond, window: map[string]time.Time{}, in: map[string]int{}}
}

// deliver posts as delivery does: an attempt takes a minute at most, and the next one
// follows after what the platform asks.
func deliver(t *testing.T, s *Slack, to chat.Address, d chat.Draft) {
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := s.Post(ctx, to, d)
		cancel()
		if err == nil {
			return
		}
		var failed *chat.PostError
		if !errors.As(err, &failed) || failed.Permanent || failed.Maybe {
			t.Errorf("post %s: %v", d.Key, err)
			return
		}
		kit.Sleep(t.Context(), failed.After)
	}
}

func TestAMinuteOfRefusalsLosesNothingAndKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(1_000)
		l.closed = time.Now().Add(time.Minute)
		s := wired(l.answer)
		began := time.Now()
		for n := range 20 {
			deliver(t, s, chat.Address{Channel: "C1"}, chat.Draft{Key: fmt.Sprint(n), Text: fmt.Sprint("post ", n)})
		}
		var want []string
		for n := range 20 {
			want = append(want, fmt.Sprint("C1 post ", n))
		}
		if !slices.Equal(l.taken, want) {
			t.Errorf("taken %q", l.taken)
		}
		if took := time.Since(began); l.refused != 1 || took > 66*time.Second {
			t.Errorf("refused %d times, all taken after %v", l.refused, took)
		}
	})
}

func TestThePaceOfAChannelIsLearnt(t *testing.T) {
	for _, word := range []string{"", "ratelimited", "rate_limited"} {
		testPaceIsLearnt(t, word)
	}
}

func testPaceIsLearnt(t *testing.T, word string) {
	synctest.Test(t, func(t *testing.T) {
		const posts = 60
		l := newLimited(1)
		l.word = word
		s := wired(l.answer)
		began := time.Now()
		for n := range posts {
			deliver(t, s, chat.Address{Channel: "C1"}, chat.Draft{Key: fmt.Sprint(n), Text: fmt.Sprint("post ", n)})
		}
		took := time.Since(began)
		t.Logf("%d posts where one a second is taken: %v, refused %d times", posts, took, l.refused)
		if len(l.taken) != posts || took > posts*1400*time.Millisecond || l.refused > posts/3 {
			t.Errorf("%d taken in %v, refused %d times", len(l.taken), took, l.refused)
		}
		for n, text := range l.taken {
			if text != fmt.Sprint("C1 post ", n) {
				t.Fatalf("post %d is %q", n, text)
			}
		}
		began = time.Now()
		deliver(t, s, chat.Address{Channel: "C2"}, chat.Draft{Key: "other", Text: "elsewhere"})
		if time.Since(began) != 0 {
			t.Error("another channel was made to wait")
		}
	})
}

func TestNothingIsDelayedWhereSlackTakesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := wired(newLimited(1_000).answer)
		began := time.Now()
		for n := range 500 {
			deliver(t, s, chat.Address{Channel: "C1"}, chat.Draft{Key: fmt.Sprint(n), Text: "post"})
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("500 posts took %v", took)
		}
	})
}

// Slack sends what was not stored again and again, which must not fill the log.
func TestTakeMessage_NothingCanBeStored_IsLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := wired(newLimited(1_000).answer)
		var log strings.Builder
		s.o.Log = slog.New(slog.NewTextHandler(&log, nil))
		s.accept = func(context.Context, chat.Message) error { return errors.New("disk full") }
		for n := range 121 {
			ts := fmt.Sprintf("1700000000.%06d", n)
			at := chat.Address{Platform: "slack", Workspace: "T1", Channel: "C1", Thread: ts}
			if s.takeMessage(t.Context(), chat.Message{ID: messageID("T1", "C1", ts), Conversation: at}) {
				t.Error("a message that was not stored was taken")
			}
			time.Sleep(time.Second)
		}
		if lines := strings.Count(log.String(), "failed to store"); lines != 3 || strings.Count(log.String(), "more=59") != 2 {
			t.Errorf("logged %d lines:\n%s", lines, &log)
		}
	})
}

// A week in which 6,000 questions are asked and answered, some refused, repeated or
// left unfinished, leaves no more behind than an hour.
func TestAWeekLeavesMemoryFlat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		s := wired(func(method string, form url.Values) (int, http.Header, string) {
			if calls++; calls%97 == 0 {
				return http.StatusTooManyRequests, http.Header{"Retry-After": {"1"}}, `{"ok":false,"error":"ratelimited"}`
			}
			return http.StatusOK, nil, fmt.Sprintf(`{"ok":true,"channel":%q,"ts":"1700000000.%06d"}`, form.Get("channel"), calls)
		})
		s.accept = func(_ context.Context, m chat.Message) error {
			if strings.HasSuffix(m.ID, "7") {
				return chat.ErrBusy
			}
			return nil
		}
		turn := func(n int) {
			ts := fmt.Sprintf("17%08d.%06d", n, n)
			at := chat.Address{Platform: "slack", Workspace: "T1", Channel: fmt.Sprint("C", n%2000), Thread: ts}
			m := chat.Message{ID: messageID("T1", at.Channel, ts), Conversation: at, Author: chat.User{ID: fmt.Sprint("U", n)},
				Reply: chat.Reply{MessageID: ts}}
			s.takeMessage(t.Context(), m)
			d := chat.Draft{Key: m.Key(), Text: "some words of the answer, and more", Reply: m.Reply, Partial: true}
			if ref, err := s.Post(t.Context(), at, d); err == nil {
				d.Replaces = ref
			}
			if d.Partial = false; n%10 != 3 { // a turn that is never finished
				_, _ = s.Post(t.Context(), at, d)
			}
			s.countResponseUse(ts)
			s.replays.add(ts, time.Now())
			kit.Sleep(t.Context(), 100*time.Second)
		}
		heap := func() int64 {
			runtime.GC()
			var stats runtime.MemStats
			runtime.ReadMemStats(&stats)
			return int64(stats.HeapAlloc)
		}
		n := 0
		for ; n < 3_000; n++ { // until what is remembered is as much as it gets
			turn(n)
		}
		before := heap()
		for ; n < 6_048; n++ {
			turn(n)
		}
		grown := heap() - before
		t.Logf("heap after half a week %d KiB, after a week %+d KiB", before>>10, grown>>10)
		if grown > 2<<20 {
			t.Errorf("the second half of the week left %d KiB", grown>>10)
		}
	})
}

// A wrong number of seconds must not keep the bot from a channel for good, nor count as none.
func TestRetryAfter_AnyNumberOfSeconds_IsAnHourAtMost(t *testing.T) {
	for seconds, want := range map[string]time.Duration{"7": 7 * time.Second, "0": time.Second, "soon": time.Second,
		"999999999": kit.MaxRest, "9223372036854775807": kit.MaxRest} {
		s := wired(func(string, url.Values) (int, http.Header, string) {
			return http.StatusTooManyRequests, http.Header{"Retry-After": {seconds}}, ""
		})
		if got := retryAfter(s.callAPI(t.Context(), "users.info", nil, nil)); got != want {
			t.Errorf("asked to wait %s s: a call waits %v, want %v", seconds, got, want)
		}
		p := &postJob{Slack: s, to: chat.Address{Channel: "C1"}}
		if _, err := p.callOnce(t.Context(), "chat.postMessage", url.Values{}); seconds[0] == '9' && retryAfter(err) != want {
			t.Errorf("asked to wait %s s: a post waits %v (%v), want %v", seconds, retryAfter(err), err, want)
		}
	}
}

// hanging is a Slack that answers nothing, or begins an answer that has no end.
type hanging struct{ begins bool }

func (h hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	if h.begins {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(hangingBody{r.Context()}), Request: r}, nil
	}
	<-r.Context().Done()
	return nil, r.Context().Err()
}

type hangingBody struct{ ctx context.Context }

func (b hangingBody) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

func TestCallAPI_SlackHangs_EndsAtItsLimit(t *testing.T) {
	for _, begins := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := wired(nil)
			s.client.Transport = limitedTransport{hanging{begins}}
			began := time.Now()
			err := s.callAPI(t.Context(), "users.info", nil, nil)
			if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != callTimeout {
				t.Errorf("with an answer begun (%v) the call ended after %v with %v", begins, took, err)
			}
		})
	}
}

// Slack's limits on reading are of a method and a workspace; one that asks for a minute gets it.
func TestReading_WaitsAsSlackAsks_InAllChannels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := map[string]int{}
		s := wired(func(method string, _ url.Values) (int, http.Header, string) {
			if asked[method]++; method == "conversations.history" && asked[method] == 1 {
				return http.StatusTooManyRequests, http.Header{"Retry-After": {"60"}}, ""
			}
			return http.StatusOK, nil, `{"ok":true,"messages":[]}`
		})
		read := func(q historyQuery) time.Duration {
			q.pageSize = 1
			_, _, err := s.fetchPage(t.Context(), q, "")
			return retryAfter(err)
		}
		began := time.Now()
		for _, channel := range []string{"C1", "C2", "C1"} {
			if wait := read(historyQuery{channel: channel}); wait != time.Minute-time.Since(began) {
				t.Errorf("%s has to wait for %v", channel, wait)
			}
			time.Sleep(10 * time.Second)
		}
		if wait := read(historyQuery{channel: "C1", thread: "1700000000.000001"}); wait != 0 {
			t.Errorf("another method has to wait for %v", wait)
		}
		time.Sleep(30 * time.Second)
		if wait := read(historyQuery{channel: "C1"}); wait != 0 || asked["conversations.history"] != 2 {
			t.Errorf("wait %v, asked %v", wait, asked)
		}
	})
}
