package slack_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"ravenbot/adapters/slack"
	"ravenbot/internal/chat"
	simslack "ravenbot/internal/sim/slack"
)

// alone is the Router of a process to which every channel belongs.
type alone struct{}

func (alone) Owns(context.Context, chat.Address) (bool, error) { return true, nil }

func (alone) Processes() int { return 1 }

func (alone) HandOn(context.Context, chat.Address, []byte) ([]byte, bool, error) {
	return nil, true, nil
}

// oneSlack is the Router of several bots on one Slack: each channel belongs to one of them.
type oneSlack struct {
	mu     sync.Mutex
	bots   []*bot
	owner  map[string]int // by channel; others belong to the first
	refuse error          // of HandOn
	handed int            // requests that were handed on
}

// as is the Router of one of the bots.
type as struct {
	*oneSlack
	n int
}

func (a as) ownerOf(channel chat.Address) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.owner[channel.Channel]
}

func (a as) Owns(_ context.Context, channel chat.Address) (bool, error) {
	return a.ownerOf(channel) == a.n, nil
}

func (as) Processes() int { return 2 }

func (a as) HandOn(ctx context.Context, channel chat.Address, request []byte) ([]byte, bool, error) {
	a.mu.Lock()
	owner, err := a.owner[channel.Channel], a.refuse
	if owner == a.n || err != nil {
		a.mu.Unlock()
		return nil, owner == a.n, err
	}
	to := a.bots[owner]
	a.handed++
	a.mu.Unlock()
	answer, err := to.TakeRequest(ctx, request)
	return answer, false, err
}

// requests returns how many requests were handed on.
func (s *oneSlack) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handed
}

// share starts two bots on one Slack, which gives each event to one of them.
func share(t *testing.T, so simslack.Options, o slack.Options) *oneSlack {
	t.Helper()
	s := &oneSlack{owner: map[string]int{}}
	o.Router = as{s, 0}
	first := start(t, so, o)
	o.Router = as{s, 1}
	second := join(t, first.sim, o)
	s.bots = []*bot{first, second}
	if err := first.sim.WaitConnections(deadline(t), 2); err != nil {
		t.Fatal(err)
	}
	return s
}

// Whichever process an event comes to, the one that its channel belongs to takes it, in order.
func TestRoute_EachChannelIsTakenByItsOwner(t *testing.T) {
	s := share(t, simslack.Options{}, slack.Options{})
	sim := s.bots[0].sim
	anna := sim.AddUser("anna")
	var channels []string
	for n := range 2 {
		channel := sim.AddChannel(fmt.Sprint("channel", n)).ID
		s.mu.Lock()
		s.owner[channel] = n
		s.mu.Unlock()
		channels = append(channels, channel)
	}
	const count = 10
	for i := range count {
		for n := range channels {
			channel := channels[(n+i)%2] // Slack takes its connections in turn
			acked(t, s.bots[0], sim.Say(channel, anna, fmt.Sprint("message ", i)))
		}
	}
	for n, b := range s.bots {
		got := b.wait(t, count)
		if len(got) != count {
			t.Errorf("process %d got %d messages, want %d", n, len(got), count)
		}
		for i, m := range got[:count] {
			if m.Conversation.Channel != channels[n] || m.Text != fmt.Sprint("message ", i) {
				t.Errorf("process %d got %q of %s as number %d", n, m.Text, m.Conversation, i)
			}
		}
	}
	if s.requests() == 0 {
		t.Error("Slack gave every event to the process that its channel belongs to: nothing was shown")
	}
}

// What the owner could not take is not acknowledged, and taken when Slack sends it again.
func TestRoute_WhatTheOwnerCannotTake_ComesAgain(t *testing.T) {
	s := share(t, simslack.Options{RetryDelays: []time.Duration{50 * time.Millisecond, 50 * time.Millisecond}},
		slack.Options{})
	sim := s.bots[0].sim
	anna, channel := sim.AddUser("anna"), sim.AddChannel("general").ID
	s.mu.Lock()
	s.owner[channel], s.refuse = 2, errors.New("nobody answers") // neither of them
	s.mu.Unlock()
	e := sim.Say(channel, anna, "is anybody there?")
	if _, err := sim.WaitDelivery(deadline(t), func(d simslack.Delivery) bool { return d.Attempt > 0 }); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.owner[channel], s.refuse = 1, nil
	s.mu.Unlock()
	acked(t, s.bots[0], e)
	if got := s.bots[1].wait(t, 1); got[0].Text != "is anybody there?" {
		t.Errorf("the owner got %+v", got)
	}
}

// Over HTTP, what waits for the owner of its channel is taken in its order, though Slack has hung up meanwhile.
func TestRoute_SlackHangsUpWhileTheOwnerIsAway_EventsAreTakenInOrder(t *testing.T) {
	const count = 20
	b := start(t, simslack.Options{}, slack.Options{Mode: "http", SigningSecret: "signing-secret"})
	owner := &ownerAway{to: b, back: make(chan struct{})}
	asked := join(t, b.sim, slack.Options{Mode: "http", SigningSecret: "signing-secret", Router: owner})
	// It is about no channel, and taken when the bot is ready.
	ready := []byte(`{"type":"event_callback","team_id":"T1","event":{"type":"tokens_revoked"}}`)
	if code := status(asked, signedRequest("/slack/events", ready, time.Now())); code != http.StatusOK {
		t.Fatal(code)
	}
	for n := range count {
		body := strings.Replace(string(event), "hello", fmt.Sprint("message ", n), 1)
		body = strings.Replace(body, "000002", fmt.Sprintf("%06d", n), 1)
		ctx, hangUp := context.WithCancel(t.Context())
		ended := make(chan int)
		go func() {
			ended <- status(asked, signedRequest("/slack/events", []byte(body), time.Now()).WithContext(ctx))
		}()
		hangUp()
		if code := <-ended; code != http.StatusServiceUnavailable {
			t.Fatalf("message %d: status %d", n, code)
		}
	}
	close(owner.back)
	for n, m := range b.wait(t, count) {
		if want := fmt.Sprint("message ", n); m.Text != want {
			t.Errorf("message %d is %q", n, m.Text)
		}
	}
}

// ownerAway is the Router of a process whose channels all belong to another one, which takes nothing until it is back.
type ownerAway struct {
	to   *bot
	back chan struct{}
}

func (*ownerAway) Owns(context.Context, chat.Address) (bool, error) { return false, nil }

func (*ownerAway) Processes() int { return 2 }

func (o *ownerAway) HandOn(ctx context.Context, _ chat.Address, request []byte) ([]byte, bool, error) {
	select {
	case <-o.back:
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	answer, err := o.to.TakeRequest(ctx, request)
	return answer, false, err
}

// A form is opened and checked by the owner of its channel, whichever process Slack asks.
func TestRoute_FaultsOfAForm_ComeBackFromTheOwner(t *testing.T) {
	s := share(t, simslack.Options{}, slack.Options{
		Former: former(allKinds()),
		CheckForm: func(context.Context, chat.Message) map[string]string {
			return map[string]string{"line": "not this one"}
		},
	})
	sim := s.bots[0].sim
	channel, anna := sim.AddChannel("general").ID, sim.AddAdmin("anna")
	s.mu.Lock()
	s.owner[channel] = 1
	s.mu.Unlock()
	sim.Slash(channel, anna, "/raven", "settings")
	view := newView(t, s.bots[0])
	for s.requests() < 4 { // until some were handed on
		sent := must(sim.FillView(view, anna, map[string][]string{"line": {"words"}, "toggle": {}, "choices": {}}))
		d, err := sim.WaitAck(deadline(t), sent.EventID)
		if err != nil || !strings.Contains(string(d.Answer), "not this one") {
			t.Fatalf("the form was acknowledged with %s, %v", d.Answer, err)
		}
	}
}

// After an outage a process reads what was missed in its own channels alone.
func TestRoute_CatchesUpInItsOwnChannels(t *testing.T) {
	sim := must(simslack.New(simslack.Options{}))
	t.Cleanup(sim.Close)
	anna := sim.AddUser("anna")
	s := &oneSlack{owner: map[string]int{}}
	o := slack.Options{CatchUp: time.Hour}
	var channels []string
	for n := range 2 {
		channel := sim.AddChannel(fmt.Sprint("channel", n)).ID
		channels, s.owner[channel] = append(channels, channel), n
		sim.Say(channel, anna, "while nobody was there")
	}
	o.LastSeen = func(context.Context) ([]chat.LastSeen, error) {
		var list []chat.LastSeen
		for _, c := range channels {
			at := chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: c}
			list = append(list, chat.LastSeen{Conversation: at, At: time.Now()})
		}
		return list, nil
	}
	for n := range 2 {
		o.Router = as{s, n}
		s.bots = append(s.bots, join(t, sim, o))
	}
	for n, b := range s.bots {
		for _, m := range b.wait(t, 1) { // Slack may send it again, too
			if m.Conversation.Channel != channels[n] {
				t.Errorf("process %d read %+v", n, m)
			}
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
