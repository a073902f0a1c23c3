package discord_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/sim"
	simdiscord "ravenbot/internal/testing/sim/discord"
)

// exchange says numbered things and waits for them, in order, each once.
func (s *stage) exchange(t *testing.T, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		s.Say(s.general.ID, s.ann, s.Mention()+strconv.Itoa(i))
	}
	s.expect(t, from, to)
}

func (s *stage) expect(t *testing.T, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if m := receive(t, s.got); m.Text != strconv.Itoa(i) {
			t.Fatalf("message %d is %q", i, m.Text)
		}
	}
}

func TestOrderWithSlowAccept(t *testing.T) {
	t.Parallel()
	got := make(chan chat.Message, 500)
	gate := make(chan struct{})
	s := open(t, script{accept: func(_ context.Context, m chat.Message) error { <-gate; got <- m; return nil },
		sim: simdiscord.Options{HeartbeatInterval: 3 * time.Second}})
	s.got = got
	for i := range 500 {
		s.Say(s.general.ID, s.ann, s.Mention()+strconv.Itoa(i))
	}
	// accept hangs for several intervals: heartbeats go on meanwhile.
	if err := s.WaitHeartbeats(within(t), 3); err != nil {
		t.Fatal(err)
	}
	close(gate)
	s.expect(t, 0, 500)
	if n := len(s.Identifies()) + len(s.Resumes()); n != 1 {
		t.Errorf("connected %d times", n)
	}
}

func TestFailingStoreKeepsOrder(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	got := make(chan chat.Message, 10)
	s := open(t, script{accept: func(_ context.Context, m chat.Message) error {
		if tries.Add(1) < 3 {
			return errors.New("disk full")
		}
		got <- m
		return nil
	}})
	s.got = got
	s.exchange(t, 0, 5)
	if n := tries.Load(); n != 7 {
		t.Errorf("accept called %d times, want 7", n)
	}
}

// Of those who are turned away each is told, with their words, in one note for all of them.
func TestBusyIsSaidOnce(t *testing.T) {
	t.Parallel()
	done := make(chan struct{}, 1000)
	s := open(t, script{accept: func(_ context.Context, m chat.Message) error { done <- struct{}{}; return chat.ErrBusy }})
	bob := s.AddUser("bob")
	for range 5 {
		for _, u := range []simdiscord.User{s.ann, bob} {
			s.Say(s.general.ID, u, s.Mention()+" hi")
			receive(t, done)
		}
	}
	busy := func(p simdiscord.Post) bool { return strings.Contains(p.Content, "busy") && p.Interaction == "" }
	if p, err := s.WaitPost(within(t), s.general.ID, busy); err != nil ||
		!strings.Contains(p.Content, "could not take ann “hi”, bob “hi”, ann “hi”") || p.ReplyTo == "" {
		t.Fatalf("said %q: %v", p.Content, err)
	}
	for n := range 150 {
		s.Say(s.general.ID, s.AddUser("user"+strconv.Itoa(n)), s.Mention()+" hi")
		receive(t, done)
	}
	more := func(p simdiscord.Post) bool { return strings.Contains(p.Content, " more. Please") }
	if _, err := s.WaitPost(within(t), s.general.ID, more); err != nil {
		t.Error(err)
	}
	if err := s.WaitCommand(within(t), "raven"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		in, err := s.Slash(s.general.ID, s.ann, "raven", "ask", map[string]any{"text": "hi"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.WaitAnswer(within(t), in.ID, func(p simdiscord.Post) bool {
			return strings.Contains(p.Content, "busy")
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if n := len(s.Posts(s.general.ID)); n < 4 || n > 5 { // a slow machine may not gather all at once
		t.Errorf("%d posts, want two or three for the messages and one for each command", n)
	}
}

// What was said during an outage comes all at once. Where that is more than a conversation has room for, it waits, as what
// is read from the history does, instead of being refused.
func TestResumed_NoRoomForWhatWasMissed_Waits(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	got := make(chan chat.Message, 100)
	s := open(t, script{accept: func(_ context.Context, m chat.Message) error {
		if m.Missed && tries.Add(1) == 1 {
			return chat.ErrBusy
		}
		got <- m
		return nil
	}})
	s.got = got
	s.exchange(t, 0, 3)
	s.Drop(0, 0)
	s.exchange(t, 3, 6)
	s.resumed(t, 1)
	if n := tries.Load(); n != 4 {
		t.Errorf("what was missed was offered %d times, want 4", n)
	}
	eventually(t, "it is connected again", func() bool { return s.d.Health().Connected })
	s.exchange(t, 6, 8)
	if n := tries.Load(); n != 4 {
		t.Error("what is said after the outage counts as missed")
	}
	if posts := s.Posts(s.general.ID); len(posts) > 0 {
		t.Errorf("said %q", posts[0].Content)
	}
}

// resumed waits for the n-th successful RESUME and checks that nothing else was
// needed.
func (s *stage) resumed(t *testing.T, n int) {
	t.Helper()
	resumes, err := s.WaitResumes(within(t), n)
	if err != nil {
		t.Fatal(err)
	}
	if !resumes[n-1].OK || !resumes[n-1].ByResumeURL || len(s.Identifies()) != 1 {
		t.Fatalf("resumes %+v, identifies %+v", resumes, s.Identifies())
	}
}

func TestLostConnectionsAreResumed(t *testing.T) {
	for name, fault := range map[string]func(*simdiscord.Server){
		"cut":               func(s *simdiscord.Server) { s.Drop(0, 0) },
		"close code":        func(s *simdiscord.Server) { s.Drop(0, 4000) },
		"op 7":              func(s *simdiscord.Server) { s.AskReconnect() },
		"op 9, resumable":   func(s *simdiscord.Server) { s.InvalidateSessions(true) },
		"going away (1001)": func(s *simdiscord.Server) { s.Drop(0, 1001) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, script{})
			s.exchange(t, 0, 3)
			fault(s.Server)
			s.exchange(t, 3, 6) // said while nobody listens, and replayed
			s.resumed(t, 1)
		})
	}
}

func TestDroppedAgainAndAgain(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	for i := range 4 {
		s.connected(t, i+1)
		s.Drop(0, 0)
		s.exchange(t, 10*i, 10*i+10)
	}
	s.resumed(t, 4)
}

// A socket that stays open while Discord no longer answers is what users call
// online but deaf.
func TestZombieIsNoticedAndResumed(t *testing.T) {
	t.Parallel()
	s := open(t, script{sim: simdiscord.Options{HeartbeatInterval: 2 * time.Second}})
	s.exchange(t, 0, 3)
	s.SetFaults(simdiscord.GatewayFaults{NoAcks: true})
	resumes, err := s.WaitResumes(within(t), 1)
	if err != nil || !resumes[0].OK {
		t.Fatalf("resumes %+v: %v", resumes, err)
	}
	s.SetFaults(simdiscord.GatewayFaults{})
	s.exchange(t, 3, 6)
	if n := len(s.Identifies()); n != 1 {
		t.Errorf("%d identifies", n)
	}
}

func TestInvalidSessionIsBegunAnewOnce(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	s.InvalidateSessions(false)
	ids, err := s.WaitIdentifies(within(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	if apart := ids[1].At.Sub(ids[0].At); apart < 4*time.Second {
		t.Errorf("identified again after %v", apart)
	}
	s.connected(t, 2)
	s.exchange(t, 0, 3)
	if len(s.Identifies()) != 2 || len(s.Resumes()) != 0 {
		t.Errorf("identifies %v, resumes %v", s.Identifies(), s.Resumes())
	}
}

func TestRefusedResumeBeginsAnew(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	s.SetFaults(simdiscord.GatewayFaults{RefuseResumes: true})
	s.Drop(0, 0)
	s.connected(t, 2)
	s.exchange(t, 0, 3)
	if len(s.Identifies()) != 2 || len(s.Resumes()) != 1 {
		t.Errorf("identifies %v, resumes %v", s.Identifies(), s.Resumes())
	}
}

func TestSilentGateway(t *testing.T) {
	t.Parallel()
	s := open(t, script{before: func(s *simdiscord.Server) { s.SetFaults(simdiscord.GatewayFaults{NoHello: true}) },
		offline: true, openWithin: 500 * time.Millisecond, sim: simdiscord.Options{HeartbeatInterval: time.Minute}})
	if err := s.log.Wait(within(t), func() bool {
		return strings.Contains(s.log.b.String(), "connection lost")
	}); err != nil {
		t.Fatal(err)
	}
	if h := s.d.Health(); h.Connected || h.Detail == "" {
		t.Errorf("health %+v", h)
	}
	s.SetFaults(simdiscord.GatewayFaults{})
	s.connected(t, 1)
	s.exchange(t, 0, 3)
}

// The bot can be ended while the gateway says nothing.
func TestEndsWhileConnecting(t *testing.T) {
	t.Parallel()
	s := open(t, script{
		before:  func(s *simdiscord.Server) { s.SetFaults(simdiscord.GatewayFaults{NoHello: true}) },
		offline: true,
	})
	asked := func(r sim.Request) bool { return strings.HasSuffix(r.Path, "/gateway") }
	if _, err := s.WaitRequest(within(t), asked); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("ending took %v", took)
	}
}

// A token that is reset while the bot is connected.
func TestTokenRefusedLater(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	s.Drop(0, 4004)
	var setup *chat.SetupError
	if err := s.ended(); !errors.As(err, &setup) {
		t.Errorf("error %v", err)
	}
}

// The gateway's address may have a query of its own, and one of the two places that tell it
// may be unknown.
func TestGatewayOfAnyAddress(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(url string) sim.Fault{
		"a query of its own": func(url string) sim.Fault {
			return sim.Fault{Status: 200, Body: `{"url":"` + strings.Replace(url, "http", "ws", 1) + `/?region=north"}`}
		},
		"only the bot's place": func(string) sim.Fault {
			return sim.Fault{Status: 404, Body: `{"code":0,"message":"404: Not Found"}`}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, script{before: func(s *simdiscord.Server) {
				f := fault(s.URL())
				f.Match = func(r sim.Request) bool { return strings.HasSuffix(r.Path, "/gateway") }
				s.Fail(f)
			}})
			s.exchange(t, 0, 3)
		})
	}
}
