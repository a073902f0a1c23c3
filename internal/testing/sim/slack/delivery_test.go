package simslack_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slack-go/slack"
	"github.com/slack-go/slack/slackevents"
	"github.com/slack-go/slack/socketmode"

	simslack "ravenbot/internal/testing/sim/slack"
)

// listen runs a Socket Mode client and hands over what it gets, unacknowledged.
func listen(t *testing.T, s *simslack.Server) (*socketmode.Client, <-chan socketmode.Event) {
	t.Helper()
	client := socketmode.New(client(s))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = client.RunContext(ctx) // ends with the test
	}()
	got := make(chan socketmode.Event, 100)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case e := <-client.Events:
				if e.Request != nil && e.Request.EnvelopeID != "" || e.Type == socketmode.EventTypeErrorBadMessage {
					got <- e
				}
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	if err := s.WaitConnections(within(t), 1); err != nil {
		t.Fatal(err)
	}
	return client, got
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-within(t).Done():
		t.Fatal("nothing arrived in time")
		panic("unreachable")
	}
}

func TestMentionArrivesTwiceAndIsAcked(t *testing.T) {
	t.Parallel()
	s := open(t, simslack.Options{PingInterval: 50 * time.Millisecond})
	general, ann := s.AddChannel("general"), s.AddUser("ann")
	sm, events := listen(t, s)
	sent := s.Mention(general.ID, ann, "hi")
	types := map[string]bool{}
	for range 2 {
		e := receive(t, events)
		api := e.Data.(slackevents.EventsAPIEvent)
		types[api.InnerEvent.Type] = true
		if m, ok := api.InnerEvent.Data.(*slackevents.AppMentionEvent); ok &&
			(m.TimeStamp != sent.TS || m.Text != simslack.BotMention+" hi") {
			t.Errorf("mention %+v", m)
		}
		if err := sm.Ack(*e.Request); err != nil {
			t.Error(err)
		}
	}
	if !types["app_mention"] || !types["message"] || len(sent.IDs) != 2 {
		t.Errorf("types %v, ids %v", types, sent.IDs)
	}
	for _, id := range sent.IDs {
		if d, err := s.WaitAck(within(t), id); err != nil || d.Attempt != 0 {
			t.Errorf("ack of %s: %+v %v", id, d, err)
		}
	}
}

func TestUnackedEventIsRetried(t *testing.T) {
	t.Parallel()
	s := open(t, simslack.Options{AckWithin: 50 * time.Millisecond, RetryDelays: []time.Duration{0, time.Millisecond}})
	ann := s.AddUser("ann")
	sm, events := listen(t, s)
	sent := s.DM(ann, "hi")
	for attempt := range 3 {
		e := receive(t, events)
		if e.Request.RetryAttempt != attempt {
			t.Errorf("attempt %d marked %d %q", attempt, e.Request.RetryAttempt, e.Request.RetryReason)
		}
		if attempt == 2 {
			if err := sm.Ack(*e.Request); err != nil {
				t.Fatal(err)
			}
		}
	}
	if d, err := s.WaitAck(within(t), sent.IDs[0]); err != nil || d.Attempt != 2 {
		t.Errorf("%+v %v", d, err)
	}
}

func TestSlashIsAnsweredByItsURL(t *testing.T) {
	t.Parallel()
	s := open(t, simslack.Options{})
	general, ann := s.AddChannel("general"), s.AddUser("ann")
	sm, events := listen(t, s)
	call := s.Slash(general.ID, ann, "/raven", "ask why")
	e := receive(t, events)
	cmd := e.Data.(slack.SlashCommand)
	if cmd.Text != "ask why" || cmd.ResponseURL != call.ResponseURL {
		t.Fatalf("command %+v", cmd)
	}
	if err := sm.Ack(*e.Request); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		err := slack.PostWebhook(cmd.ResponseURL, &slack.WebhookMessage{Text: fmt.Sprint("answer ", i),
			ResponseType: "in_channel"})
		if (err != nil) != (i == 5) {
			t.Errorf("use %d: %v", i, err)
		}
	}
	if a, err := s.WaitAnswer(within(t), call, func(a simslack.Answer) bool {
		return a.Text == "answer 4"
	}); err != nil || !a.InChannel {
		t.Errorf("%+v %v", a, err)
	}
	if n := len(s.Posts(general.ID)); n != 5 {
		t.Errorf("%d posts in the channel, want 5", n)
	}
}

func TestClick(t *testing.T) {
	t.Parallel()
	s := open(t, simslack.Options{})
	general, ann := s.AddChannel("general"), s.AddUser("ann")
	sm, events := listen(t, s)
	button := slack.NewButtonBlockElement("approve", "42", slack.NewTextBlockObject("plain_text", "Approve", false, false))
	_, ts, err := client(s).PostMessage(general.ID, slack.MsgOptionText("?", false),
		slack.MsgOptionBlocks(slack.NewActionBlock("b", button)))
	if err != nil {
		t.Fatal(err)
	}
	receive(t, events) // the bot's own message
	call := s.Click(general.ID, ts, ann, "approve")
	e := receive(t, events)
	cb := e.Data.(slack.InteractionCallback)
	if a := cb.ActionCallback.BlockActions[0]; a.ActionID != "approve" || a.Value != "42" || a.BlockID != "b" ||
		cb.User.ID != ann.ID {
		t.Errorf("callback %+v", cb)
	}
	if err := sm.Ack(*e.Request); err != nil {
		t.Fatal(err)
	}
	if err := slack.PostWebhook(call.ResponseURL, &slack.WebhookMessage{
		Text:            "approved",
		ReplaceOriginal: true,
	}); err != nil || s.Posts(general.ID)[0].Text != "approved" {
		t.Errorf("replace: %v", err)
	}
}

func TestSocketFaults(t *testing.T) {
	t.Parallel()
	s := open(t, simslack.Options{RefreshGrace: time.Millisecond})
	ann := s.AddUser("ann")
	sm, events := listen(t, s)
	s.SetFaults(simslack.Faults{Repeat: 2})
	s.DM(ann, "twice")
	first, second := receive(t, events), receive(t, events)
	for _, e := range []socketmode.Event{first, second} {
		if err := sm.Ack(*e.Request); err != nil {
			t.Fatal(err)
		}
	}
	id := func(e socketmode.Event) string {
		var p struct {
			EventID string `json:"event_id"`
		}
		if err := json.Unmarshal(e.Request.Payload, &p); err != nil {
			t.Fatal(err)
		}
		return p.EventID
	}
	if id(first) != id(second) || first.Request.EnvelopeID == second.Request.EnvelopeID {
		t.Errorf("repeat: events %s %s", id(first), id(second))
	}
	s.SetFaults(simslack.Faults{})
	if s.Disconnect(0, "refresh_requested") != 1 {
		t.Error("nobody was told to go")
	}
	if err := s.WaitConnections(within(t), 1); err != nil || s.Opened() != 2 {
		t.Errorf("after refresh: %d opened, %v", s.Opened(), err)
	}
	s.SetFaults(simslack.Faults{LinkDisabled: true})
	if _, _, err := client(s).StartSocketModeContext(within(t)); err == nil {
		t.Error("a disabled app got a socket")
	}
}

func TestEventWithoutConnectionWaits(t *testing.T) {
	t.Parallel()
	s := open(t, simslack.Options{RetryDelays: []time.Duration{500 * time.Millisecond}})
	ann := s.AddUser("ann")
	sent := s.DM(ann, "early")
	sm, events := listen(t, s)
	e := receive(t, events)
	if err := sm.Ack(*e.Request); err != nil {
		t.Fatal(err)
	}
	if d, err := s.WaitAck(within(t), sent.IDs[0]); err != nil || d.Attempt != 1 {
		t.Errorf("%+v %v", d, err)
	}
}

func TestInjected(t *testing.T) {
	t.Parallel()
	s := open(t, simslack.Options{})
	_, events := listen(t, s)
	id := s.InjectPayload(simslack.KindEvent, json.RawMessage(`[1,2]`))
	if e := receive(t, events); e.Type != socketmode.EventTypeErrorBadMessage {
		t.Errorf("type %s", e.Type)
	}
	if d, err := s.WaitDelivery(within(t), func(d simslack.Delivery) bool {
		return d.EventID == id
	}); err != nil || d.Acked {
		t.Errorf("%+v %v", d, err)
	}
	if !s.Inject(`{"type":"unheard_of"}`) {
		t.Error("no connection took the frame")
	}
}

func TestHTTPDelivery(t *testing.T) {
	t.Parallel()
	s := open(t, simslack.Options{RetryDelays: []time.Duration{0, 0}})
	general, ann := s.AddChannel("general"), s.AddUser("ann")
	var fails atomic.Int32
	retries := make(chan string, 10)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		v, err := slack.NewSecretsVerifier(r.Header, "signing-secret")
		if err == nil {
			_, _ = v.Write(body)
			err = v.Ensure()
		}
		switch {
		case err != nil:
			w.WriteHeader(http.StatusUnauthorized)
		case strings.Contains(string(body), "url_verification"):
			var c struct{ Challenge string }
			_ = json.Unmarshal(body, &c)
			_, _ = w.Write([]byte(c.Challenge))
		case r.URL.Path == simslack.PathCommands:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"text":"at once"}`))
		case fails.Add(-1) >= 0:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			retries <- r.Header.Get("X-Slack-Retry-Num") + r.Header.Get("X-Slack-Retry-Reason")
		}
	}))
	defer app.Close()
	s.DeliverHTTP(app.URL)
	if err := s.VerifyURL(within(t), app.URL); err != nil {
		t.Error(err)
	}
	fails.Store(1)
	sent := s.DM(ann, "hi")
	if got := receive(t, retries); got != "1http_error" {
		t.Errorf("retry marks %q", got)
	}
	if d, err := s.WaitAck(within(t), sent.IDs[0]); err != nil || d.Attempt != 1 || d.Status != 200 {
		t.Errorf("%+v %v", d, err)
	}
	call := s.Slash(general.ID, ann, "/raven", "help")
	if _, err := s.WaitAnswer(within(t), call, func(a simslack.Answer) bool { return a.Text == "at once" }); err != nil {
		t.Error(err)
	}
	for name, p := range map[string]simslack.SignedRequest{
		"wrong secret": {Secret: "other"},
		"stale":        {At: time.Now().Add(-6 * time.Minute)},
	} {
		p.URL, p.Body = app.URL+simslack.PathEvents, []byte(`{}`)
		if status, _, err := s.Post(within(t), p); err != nil || status != http.StatusUnauthorized {
			t.Errorf("%s: status %d, %v", name, status, err)
		}
	}
}
