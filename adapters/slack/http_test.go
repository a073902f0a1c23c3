package slack_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"

	"ravenbot/adapters/slack"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/sim"
	simslack "ravenbot/internal/testing/sim/slack"
)

func inHTTPMode(t *testing.T) *bot {
	t.Helper()
	return start(t, simslack.Options{}, slack.Options{Mode: "http", SigningSecret: "signing-secret"})
}

// signedRequest is a request as Slack makes it.
func signedRequest(path string, body []byte, at time.Time) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("X-Slack-Request-Timestamp", strconv.FormatInt(at.Unix(), 10))
	r.Header.Set("X-Slack-Signature", simslack.Sign("signing-secret", at, body))
	return r
}

func status(b *bot, r *http.Request) int {
	w := httptest.NewRecorder()
	b.Handler().ServeHTTP(w, r)
	return w.Code
}

var event = []byte(`{"type":"event_callback","team_id":"T1","event":{"type":"message","user":"U9","channel":"D9",` +
	`"ts":"1700000000.000002","text":"hello"}}`)

// mutate changes one byte into another printable one.
func mutate(random *rand.Rand, s string) string {
	raw := []byte(s)
	i := random.IntN(len(raw))
	for was := raw[i]; raw[i] == was; raw[i] = byte('!' + random.IntN('~'-'!'+1)) {
	}
	return string(raw)
}

func TestNoMutatedRequestIsTaken(t *testing.T) {
	b := inHTTPMode(t)
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Now()
	for n := range 10_000 {
		r := signedRequest("/slack/events", event, now)
		switch n % 4 {
		case 0, 1:
			r.Header.Set("X-Slack-Signature", mutate(random, r.Header.Get("X-Slack-Signature")))
		case 2:
			other := signedRequest("/slack/events", []byte(mutate(random, string(event))), now)
			other.Header = r.Header
			r = other
		case 3:
			r.Header.Set("X-Slack-Request-Timestamp", strconv.FormatInt(now.Unix()+int64(1+random.IntN(200)), 10))
		}
		if code := status(b, r); code != http.StatusUnauthorized {
			t.Fatalf("mutation %d: status %d", n, code)
		}
	}
	for _, header := range []string{"X-Slack-Signature", "X-Slack-Request-Timestamp"} {
		r := signedRequest("/slack/events", event, now)
		r.Header.Del(header)
		if code := status(b, r); code != http.StatusUnauthorized {
			t.Errorf("without %s: status %d", header, code)
		}
	}
	if len(b.got) != 0 {
		t.Errorf("taken %+v", b.got)
	}
}

func TestARequestIsGoodForFiveMinutes(t *testing.T) {
	b := inHTTPMode(t)
	for age, want := range map[time.Duration]int{0: 200, 4 * time.Minute: 200, -4 * time.Minute: 200, 6 * time.Minute: 401,
		-6 * time.Minute: 401, 24 * time.Hour: 401} {
		if code := status(b, signedRequest("/slack/events", event, time.Now().Add(-age))); code != want {
			t.Errorf("signed %v ago: status %d, want %d", age, code, want)
		}
	}
}

func TestAReplayHasNoSecondEffect(t *testing.T) {
	b := inHTTPMode(t)
	form := func(pairs ...string) []byte {
		v := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			v.Set(pairs[i], pairs[i+1])
		}
		return []byte(v.Encode())
	}
	now := time.Now()
	for i, c := range []struct {
		path string
		body []byte
	}{
		{"/slack/events", event},
		{"/slack/commands", form("channel_id", "C1", "user_id", "U1", "text", "help", "trigger_id", "1")},
		{"/slack/interactive", form("payload", `{"type":"block_actions","trigger_id":"2","user":{"id":"U1"},"channel":{"id":"C1"},"container":{"message_ts":"1.1"},"actions":[{"action_id":"ravenbot-0","value":"stop"}]}`)},
	} {
		b.refuse = func(chat.Message) error { return errors.New("disk full") }
		if code := status(b, signedRequest(c.path, c.body, now)); code != http.StatusServiceUnavailable {
			t.Errorf("%s: status %d for what was not stored", c.path, code)
		}
		b.refuse = nil
		for n := range 3 { // what was not taken may come again
			if code := status(b, signedRequest(c.path, c.body, now)); code != http.StatusOK || len(b.got) != i+1 {
				t.Errorf("%s, time %d: status %d, taken %d", c.path, n, code, len(b.got))
			}
		}
	}
}

// The time until Slack is answered does not depend on how long an answer takes: here
// every post, as with a model that thinks for half a minute, hangs.
func TestSlackIsAnsweredAtOnceWhileAnswersTakeLong(t *testing.T) {
	b := inHTTPMode(t)
	door := httptest.NewServer(b.Handler())
	t.Cleanup(door.Close)
	b.sim.DeliverHTTP(door.URL)
	channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
	b.sim.Fail(sim.Fault{Match: sim.MatchPath("POST", "chat.postMessage"), Hang: 30 * time.Second})
	posted := make(chan error, 1)
	go func() {
		_, err := b.Post(t.Context(), chat.Address{Channel: channel}, chat.Draft{Key: "slow", Text: "an answer"})
		posted <- err
	}()
	if err := b.sim.WaitArrival(deadline(t), sim.MatchPath("POST", "chat.postMessage")); err != nil {
		t.Fatal(err)
	}
	var events []simslack.Event
	for n := range 200 {
		events = append(events, b.sim.Say(channel, anna, fmt.Sprint("message ", n)))
	}
	var took []time.Duration
	for _, e := range events {
		d, err := b.sim.WaitAck(deadline(t), e.IDs[0])
		if err != nil {
			t.Fatal(err)
		}
		took = append(took, d.After)
	}
	slices.Sort(took)
	p50, p99 := took[len(took)/2], took[len(took)*99/100]
	t.Logf("200 messages at once: acknowledged after %v (half), %v (99 of 100)", p50, p99)
	if p99 > 3*time.Second { // after which Slack sends a message again
		t.Errorf("99 of 100 acknowledged after %v", p99)
	}
	select {
	case err := <-posted:
		t.Errorf("the post did not hang: %v", err)
	default:
	}
	b.sim.Close()
	<-posted
}

// A trigger is what opens a form; nothing says that no two commands share one.
func TestCommandsThatShareATriggerAreSeveral(t *testing.T) {
	b := inHTTPMode(t)
	now := time.Now()
	for n, form := range []url.Values{
		{"text": {"help"}, "response_url": {"https://hooks.example/1"}},
		{"text": {"usage"}, "response_url": {"https://hooks.example/1"}},
		{"text": {"usage"}, "response_url": {"https://hooks.example/2"}},
		{"text": {"usage"}, "response_url": {"https://hooks.example/2"}}, // the same once more
	} {
		for key, value := range map[string]string{"channel_id": "C1", "user_id": "U1", "command": "/raven",
			"trigger_id": "1.2.abc"} {
			form.Set(key, value)
		}
		if code := status(b, signedRequest("/slack/commands", []byte(form.Encode()),
			now.Add(time.Duration(n)*time.Second))); code != http.StatusOK {
			t.Fatalf("command %d: status %d", n, code)
		}
	}
	ids := map[string]bool{}
	for _, m := range b.wait(t, 4) {
		ids[m.ID] = true
	}
	if len(ids) != 3 {
		t.Errorf("%d different messages, want 3: %v", len(ids), ids)
	}
}

// A message that is shared with the bot says what it says; the preview of a link does not.
func TestWhatIsSharedIsRead(t *testing.T) {
	b := inHTTPMode(t)
	shared := []byte(`{"type":"event_callback","team_id":"T1","event":{"type":"message","user":"U9","channel":"D9","ts":"1700000000.000002","text":"and this?",
		"attachments":[{"is_share":true,"text":"the train to <https://example.org|Oslo> is late","from_url":"https://x.slack.com/archives/C1/p1"},
		{"from_url":"https://example.org","text":"a preview"},7]}}`)
	if code := status(b, signedRequest("/slack/events", shared, time.Now())); code != http.StatusOK {
		t.Fatalf("status %d", code)
	}
	if got := b.wait(t, 1)[0].Text; got != "and this?\n[shared message: the train to [Oslo](https://example.org) "+
		"is late]" {
		t.Errorf("read %q", got)
	}
}
