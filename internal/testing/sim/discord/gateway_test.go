package simdiscord_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/gorilla/websocket"

	"ravenbot/internal/testing/sim"
	simdiscord "ravenbot/internal/testing/sim/discord"
)

func TestResumeReplaysInOrder(t *testing.T) {
	t.Parallel()
	s := open(t, simdiscord.Options{})
	general := s.AddChannel(s.AddGuild("home"), "general")
	ann := s.AddUser("ann")
	seen := make(chan string, 100)
	dg := client(t, s, "token")
	dg.ShouldReconnectOnError = true
	dg.AddHandler(func(_ *discordgo.Session, m *discordgo.MessageCreate) { seen <- m.Content })
	connect(t, s, dg)
	exchange := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			s.Say(general.ID, ann, s.Mention()+strconv.Itoa(i))
		}
		for i := from; i < to; i++ {
			if got, want := receive(t, seen), s.Mention()+strconv.Itoa(i); got != want {
				t.Fatalf("message %d is %q", i, got)
			}
		}
	}
	exchange(0, 10)
	if s.Drop(0, 0) != 1 {
		t.Fatal("no connection was there to drop")
	}
	exchange(10, 20)
	resumes, err := s.WaitResumes(within(t), 1)
	if err != nil || !resumes[0].OK || resumes[0].Replayed != 10 || len(s.Identifies()) != 1 {
		t.Errorf("resumes %+v, identifies %v: %v", resumes, s.Identifies(), err)
	}
}

func TestReconnectAndInvalidSession(t *testing.T) {
	t.Parallel()
	s := open(t, simdiscord.Options{})
	s.AddGuild("home")
	dg := client(t, s, "token")
	dg.ShouldReconnectOnError = true
	connect(t, s, dg)
	s.AskReconnect()
	if _, err := s.WaitResumes(within(t), 1); err != nil {
		t.Fatal(err)
	}
	if err := s.WaitSessions(within(t), 1); err != nil {
		t.Fatal(err)
	}
	s.InvalidateSessions(false)
	if _, err := s.WaitIdentifies(within(t), 2); err != nil {
		t.Fatal(err)
	}
}

func TestRepeatedEvents(t *testing.T) {
	t.Parallel()
	s := open(t, simdiscord.Options{})
	general := s.AddChannel(s.AddGuild("home"), "general")
	seen := make(chan string, 10)
	dg := client(t, s, "token")
	dg.AddHandler(func(_ *discordgo.Session, m *discordgo.MessageCreate) { seen <- m.ID })
	connect(t, s, dg)
	s.SetFaults(simdiscord.GatewayFaults{Repeat: 3})
	p := s.Say(general.ID, s.AddUser("ann"), "x")
	for range 3 {
		if got := receive(t, seen); got != p.ID {
			t.Fatalf("id %s", got)
		}
	}
}

// dial opens a bare gateway connection.
func dial(t *testing.T, s *simdiscord.Server, path string) *websocket.Conn {
	t.Helper()
	conn, resp, err := websocket.DefaultDialer.DialContext(within(t),
		"ws"+strings.TrimPrefix(s.URL(), "http")+path+"?v=10&encoding=json", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// closeCode reads until the server closes.
func closeCode(t *testing.T, conn *websocket.Conn) int {
	t.Helper()
	for {
		if _, _, err := conn.ReadMessage(); err != nil {
			var closed *websocket.CloseError
			if !errors.As(err, &closed) {
				t.Fatalf("no close frame: %v", err)
			}
			return closed.Code
		}
	}
}

func identify(token string, intents int) string {
	return `{"op":2,"d":{"token":"` + token + `","intents":` + strconv.Itoa(intents) + `,"properties":{"os":"linux"}}}`
}

func TestCloseCodes(t *testing.T) {
	t.Parallel()
	beat := `{"op":1,"d":null}`
	cases := []struct {
		name  string
		sends []string
		want  int
	}{
		{"bad token", []string{identify("wrong", 1)}, 4004},
		{"privileged", []string{identify("token", simdiscord.IntentMessageContent)}, 4014},
		{"not authenticated", []string{`{"op":3,"d":{}}`}, 4003},
		{"twice", []string{identify("token", 1), identify("token", 1)}, 4005},
		{"rubbish", []string{`{`}, 4002},
		{"too large", []string{`{"op":3,"d":"` + strings.Repeat("x", 4096) + `"}`}, 4002},
		{"unknown opcode", []string{`{"op":77}`}, 4001},
		{"silent", nil, 4009},
		{"flood", strings.Split(strings.Repeat(beat+"\n", 121)[:121*(len(beat)+1)-1], "\n"), 4008},
		{"bad shard", []string{`{"op":2,"d":{"token":"token","intents":1,"properties":{},"shard":[2,2]}}`}, 4010},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, simdiscord.Options{HeartbeatInterval: 300 * time.Millisecond})
			conn := dial(t, s, "/")
			for _, text := range c.sends {
				if err := conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
					t.Fatal(err)
				}
			}
			if got := closeCode(t, conn); got != c.want {
				t.Errorf("close code %d, want %d", got, c.want)
			}
		})
	}
}

func TestHelloAndAcksCanStop(t *testing.T) {
	t.Parallel()
	s := open(t, simdiscord.Options{HeartbeatInterval: time.Second})
	s.SetFaults(simdiscord.GatewayFaults{NoHello: true, NoAcks: true})
	conn := dial(t, s, "/")
	beat := func() {
		t.Helper()
		if err := conn.WriteMessage(websocket.TextMessage, []byte(`{"op":1,"d":null}`)); err != nil {
			t.Fatal(err)
		}
	}
	beat()
	if err := s.WaitHeartbeats(within(t), 1); err != nil {
		t.Fatal(err)
	}
	s.SetFaults(simdiscord.GatewayFaults{})
	beat()
	_, first, err := conn.ReadMessage()
	if err != nil || !strings.Contains(string(first), `"op":11`) {
		t.Errorf("first frame %s: %v", first, err)
	}
}

func TestResumeAddressAndRefusal(t *testing.T) {
	t.Parallel()
	s := open(t, simdiscord.Options{})
	s.SetFaults(simdiscord.GatewayFaults{RefuseResumes: true})
	conn := dial(t, s, "/resume/")
	if err := conn.WriteMessage(websocket.TextMessage,
		[]byte(`{"op":6,"d":{"token":"token","session_id":"x","seq":1}}`)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"op":10`, `"op":9,"d":false`} {
		if _, data, err := conn.ReadMessage(); err != nil || !strings.Contains(string(data), want) {
			t.Fatalf("frame %s: %v", data, err)
		}
	}
	if got := s.Resumes(); len(got) != 1 || !got[0].ByResumeURL || got[0].OK {
		t.Errorf("resumes %+v", got)
	}
}

func TestWrongTokenAndRateLimits(t *testing.T) {
	t.Parallel()
	s := open(t, simdiscord.Options{ChannelBurst: 1})
	general := s.AddChannel(s.AddGuild("home"), "general")
	if _, err := client(t, s, "wrong").User("@me"); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("wrong token: %v", err)
	}
	path := "/channels/" + general.ID + "/messages"
	post(t, s, "POST", path, `{"content":"one"}`)
	status, answer := post(t, s, "POST", path, `{"content":"two"}`)
	if wait, _ := answer["retry_after"].(float64); status != 429 || wait <= 0 || wait > 5 {
		t.Errorf("%d %v", status, answer)
	}
	off := s.RateLimit(nil, 0, 1500*time.Millisecond, "global")
	if status, answer = post(t, s, "GET", "/users/@me", ""); status != 429 || answer["retry_after"] != 1.5 ||
		answer["global"] != true {
		t.Errorf("%d %v, want a global 429", status, answer)
	}
	off()
	off = s.Fail(sim.Fault{Match: sim.MatchPath("GET", "/users/"), Status: 429, Body: "<html>"})
	if status, _ = post(t, s, "GET", "/users/@me", ""); status != 429 {
		t.Errorf("status %d, want the fault's 429", status)
	}
	off()
	if status, _ = post(t, s, "GET", "/users/@me", ""); status != 200 {
		t.Errorf("status %d after the fault", status)
	}
}

func TestInteractionDeadlines(t *testing.T) {
	t.Parallel()
	s := open(t, simdiscord.Options{CallbackWithin: time.Nanosecond})
	general := s.AddChannel(s.AddGuild("home"), "general")
	in := s.Submit(general.ID, s.AddUser("ann"), "form", map[string]string{"a": "b"})
	hook := "/webhooks/" + s.Bot().ID + "/" + in.Token
	if status, answer := post(t, s, "POST", hook, `{"content":"early"}`); status != 404 || answer["code"] != 10015.0 {
		t.Errorf("follow-up before the callback: %d %v", status, answer)
	}
	if status, answer := post(t, s, "POST", "/interactions/"+in.ID+"/"+in.Token+"/callback",
		`{"type":5}`); status != 404 || answer["code"] != 10062.0 {
		t.Errorf("late callback: %d %v", status, answer)
	}
}

// Discord resets the token of who begins more sessions than a day has, and ends those that there are.
func TestMoreSessionsThanADayHas(t *testing.T) {
	t.Parallel()
	s := open(t, simdiscord.Options{Identifies: 1})
	s.AddGuild("home")
	first, second := client(t, s, "token"), client(t, s, "token")
	first.ShouldReconnectOnError, second.ShouldReconnectOnError = false, false
	connect(t, s, first)
	_ = second.Open() // it may fail now, or hear of its end later
	if _, err := s.WaitIdentifies(within(t), 2); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ctx := within(t); s.Connections() > 0; <-tick.C {
		if ctx.Err() != nil {
			t.Fatalf("%d connections are left", s.Connections())
		}
	}
}
