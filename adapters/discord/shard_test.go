package discord_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ravenbot/adapters/discord"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/chattest"
	"ravenbot/internal/testing/sim"
	simdiscord "ravenbot/internal/testing/sim/discord"
)

// sharded is a stage with a channel on each of so many shards.
func sharded(t *testing.T, s script, count int) (*stage, []simdiscord.Channel) {
	t.Helper()
	var channels []simdiscord.Channel
	s.offline = true
	s.before = func(server *simdiscord.Server) {
		for i := range count {
			channels = append(channels, server.AddChannel(server.AddGuildOn(i, count, "guild "+strconv.Itoa(i)), "general"))
		}
	}
	st := open(t, s)
	st.connected(t, count)
	return st, channels
}

// hears says something on every shard and privately, and waits for all of it.
func (s *stage) hears(t *testing.T, channels []simdiscord.Channel) {
	t.Helper()
	want := map[string]string{}
	for _, c := range channels {
		want[s.Say(c.ID, s.ann, s.Mention()+" hi").ID] = "discord:" + c.GuildID + "/" + c.ID
	}
	dm := s.AddDM(s.ann)
	want[s.Say(dm.ID, s.ann, "hi").ID] = "discord:@me/" + dm.ID
	for range len(want) {
		m := receive(t, s.got)
		if at, known := want[m.ID]; !known || m.Conversation.String() != at {
			t.Errorf("message %+v, want it from %q", m, at)
		}
		delete(want, m.ID)
	}
}

func TestShardsAsDiscordAsks(t *testing.T) {
	t.Parallel()
	s, channels := sharded(t, script{sim: simdiscord.Options{Shards: 4, MaxConcurrency: 2}}, 4)
	s.hears(t, channels)
	var shards []int
	for _, i := range s.Identifies() { // one too early would have been refused, and repeated
		shards = append(shards, i.Shard[0])
		if i.Shard[1] != 4 {
			t.Errorf("shard %v", i.Shard)
		}
	}
	slices.Sort(shards)
	if !slices.Equal(shards, []int{0, 1, 2, 3}) {
		t.Errorf("identified as %v", shards)
	}
	if h := s.d.Health(); !h.Connected || !strings.Contains(h.Detail, "4 shards") {
		t.Errorf("health %+v", h)
	}
	if err := s.WaitCommand(within(t), chattest.MessageCommands()[0].Title); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, r := range s.Requests() {
		if r.Method != "GET" && strings.HasSuffix(r.Path, "/commands") {
			n++
		}
	}
	if n != 2 { // /raven, and the entry in the menu of messages
		t.Errorf("commands registered %d times", n)
	}
}

func TestShardsAsConfigured(t *testing.T) {
	t.Parallel()
	s, channels := sharded(t, script{discord: discord.Options{Shards: 2}, sim: simdiscord.Options{MaxConcurrency: 2}}, 2)
	s.hears(t, channels)
	if n := len(s.Identifies()); n != 2 {
		t.Errorf("%d identifies", n)
	}
}

// One shard that is away makes the bot unready, and comes back by itself.
func TestHealthIsThatOfTheWorstShard(t *testing.T) {
	t.Parallel()
	s, channels := sharded(t, script{sim: simdiscord.Options{Shards: 2, MaxConcurrency: 2,
		HeartbeatInterval: time.Minute}}, 2)
	s.SetFaults(simdiscord.GatewayFaults{NoHello: true})
	s.Drop(1, 0)
	s.logged(t, "connection lost")
	if h := s.d.Health(); h.Connected || !strings.Contains(h.Detail, " of 2: ") {
		t.Errorf("health %+v", h)
	}
	s.SetFaults(simdiscord.GatewayFaults{})
	s.AskReconnect() // to the connection that nobody greeted
	s.Drop(0, 0)
	s.connected(t, 4)
	s.hears(t, channels)
	if h := s.d.Health(); !h.Connected || len(s.Identifies()) != 2 {
		t.Errorf("health %+v after %d identifies", h, len(s.Identifies()))
	}
}

// Each shard reads what was missed in its own servers.
func TestShardsCatchUp(t *testing.T) {
	t.Parallel()
	var channels []simdiscord.Channel
	s := open(t, script{sim: simdiscord.Options{Shards: 2, MaxConcurrency: 2}, offline: true,
		missed: func(s *stage) []chat.LastSeen {
			var heard []chat.LastSeen
			for i := range 2 {
				c := s.AddChannel(s.AddGuildOn(i, 2, "guild"), "general")
				channels = append(channels, c)
				s.Say(c.ID, s.ann, s.Mention()+"missed")
				heard = append(heard, all(chat.Address{Platform: "discord", Workspace: c.GuildID, Channel: c.ID}))
			}
			dm := s.AddDM(s.ann)
			s.Say(dm.ID, s.ann, "missed")
			return append(heard, all(chat.Address{Platform: "discord", Workspace: "@me", Channel: dm.ID}))
		}})
	s.connected(t, 2)
	for range 3 {
		if m := receive(t, s.got); m.Text != "missed" {
			t.Errorf("message %+v", m)
		}
	}
	for _, c := range channels {
		n := 0
		for _, r := range s.Requests() {
			if history(c.ID)(r) && strings.HasSuffix(r.Path, "/messages") {
				n++
			}
		}
		if n != 1 {
			t.Errorf("read %d times", n)
		}
	}
}

// What stands before Discord may not know how many shards it wants.
func TestWithoutAWordOnShards(t *testing.T) {
	t.Parallel()
	s := open(t, script{before: func(s *simdiscord.Server) {
		s.Fail(sim.Fault{Match: sim.MatchPath("GET", "/gateway/bot"), Times: 1, Status: 503})
		s.Fail(sim.Fault{Match: sim.MatchPath("GET", "/gateway/bot"), Status: 404,
			Body: `{"message":"404: Not Found","code":0}`})
	}})
	s.exchange(t, 0, 3)
}

// Discord resets the token of a bot that begins more sessions than a day has.
func TestNoSessionIsBegunWhenNoneIsLeft(t *testing.T) {
	t.Parallel()
	s := open(t, script{sim: simdiscord.Options{Shards: 2, MaxConcurrency: 2, Identifies: 1}, offline: true})
	s.connected(t, 1)
	s.logged(t, "too many new discord sessions today")
	if n := len(s.Identifies()); n != 1 {
		t.Errorf("%d identifies", n)
	}
}

// What no attempt of one shard can mend ends them all.
func TestTokenRefusedToOneShard(t *testing.T) {
	t.Parallel()
	s, _ := sharded(t, script{sim: simdiscord.Options{Shards: 2, MaxConcurrency: 2}}, 2)
	s.Drop(1, 4004)
	var setup *chat.SetupError
	if err := s.ended(); !errors.As(err, &setup) {
		t.Errorf("error %v", err)
	}
	tick := time.NewTicker(time.Millisecond) // Discord sees the end a moment later
	defer tick.Stop()
	for ended := time.Now(); s.Connections() > 0; <-tick.C {
		if time.Since(ended) > 20*time.Second {
			t.Fatalf("%d connections are left", s.Connections())
		}
	}
}

// A bot that comes to more servers than its sessions may hold is divided again; what
// it had taken in goes on.
func TestShardsAreReplanned(t *testing.T) {
	t.Parallel()
	s, channels := sharded(t, script{sim: simdiscord.Options{MaxConcurrency: 4}}, 1)
	s.hears(t, channels)
	for range 2 {
		channels = append(channels, s.AddChannel(s.AddGuildOn(len(channels), 3, "guild"), "general"))
	}
	s.WantShards(3)
	s.connected(t, 1+3)
	s.hears(t, channels)
	if h := s.d.Health(); !h.Connected || !strings.Contains(h.Detail, "3 shards") {
		t.Errorf("health %+v", h)
	}
}

func TestShardsAsConfiguredThatAreTooFew(t *testing.T) {
	t.Parallel()
	s := open(t, script{discord: discord.Options{Shards: 1}})
	s.WantShards(3)
	var setup *chat.SetupError
	if err := s.ended(); !errors.As(err, &setup) || !strings.Contains(setup.Remedy, "platforms.discord.shards at 0") {
		t.Errorf("ended with %v", err)
	}
}
