package simdiscord_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/bwmarrin/discordgo"

	simdiscord "ravenbot/internal/testing/sim/discord"
)

// What happens in an outage reaches no session, and is read over REST alone.
func TestOutage(t *testing.T) {
	t.Parallel()
	s := open(t, simdiscord.Options{})
	general := s.AddChannel(s.AddGuild("home"), "general")
	thread := s.AddThread(general, "side")
	ann := s.AddUser("ann")
	seen := make(chan string, 10)
	last := make(chan string, 10)
	dg := client(t, s, "token")
	dg.ShouldReconnectOnError = true
	dg.AddHandler(func(_ *discordgo.Session, m *discordgo.MessageCreate) { seen <- m.ID })
	dg.AddHandler(func(_ *discordgo.Session, g *discordgo.GuildCreate) { last <- g.Threads[0].LastMessageID })
	connect(t, s, dg)
	if id := receive(t, last); id != "" {
		t.Errorf("an empty thread ends with %s", id)
	}
	end := s.Outage()
	missed := s.Say(thread.ID, ann, s.Mention()+" missed")
	end()
	if id := receive(t, last); id != missed.ID {
		t.Errorf("the thread ends with %s, want %s", id, missed.ID)
	}
	live := s.Say(thread.ID, ann, "live")
	if id := receive(t, seen); id != live.ID {
		t.Errorf("event of %s, want %s", id, live.ID)
	}
	if list, err := dg.ChannelMessages(thread.ID, 100, "", "", ""); err != nil || len(list) != 2 {
		t.Errorf("%d messages: %v", len(list), err)
	}
	if n := len(s.Identifies()); n != 2 {
		t.Errorf("%d sessions", n)
	}
}

func TestHistoryThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	s := open(t, simdiscord.Options{})
	general := s.AddChannel(s.AddGuild("home"), "general")
	asked := s.Say(general.ID, s.AddUser("ann"), "hello")
	path := "/channels/" + general.ID + "/messages"
	if status, m := post(t, s, "POST", path, `{"content":"x","nonce":"n"}`); status != 200 || m["nonce"] != "n" {
		t.Errorf("posted %d %v", status, m)
	}
	if status, m := post(t, s, "GET", path+"/"+s.Posts(general.ID)[0].ID, ""); status != 200 || m["nonce"] != nil {
		t.Errorf("read %d %v, want it without its nonce", status, m)
	}
	s.HideHistory(general.ID)
	if status, m := post(t, s, "GET", path+"/"+asked.ID, ""); status != 403 || m["code"] != 50001.0 {
		t.Errorf("one message: %d %v", status, m)
	}
	reply := `{"content":"x","message_reference":{"message_id":"` + asked.ID + `"}}`
	if status, m := post(t, s, "POST", path, reply); status != 400 || m["code"] != 160002.0 {
		t.Errorf("a reply: %d %v", status, m)
	}
	dg := client(t, s, "token")
	if list, err := dg.ChannelMessages(general.ID, 100, "", "", ""); err != nil || len(list) != 0 {
		t.Errorf("a hidden history shows %d messages: %v", len(list), err)
	}
}

func TestDeletedAtOnceAndUnfurled(t *testing.T) {
	t.Parallel()
	s := open(t, simdiscord.Options{})
	general := s.AddChannel(s.AddGuild("home"), "general")
	ann := s.AddUser("ann")
	updates, deleted := make(chan *discordgo.MessageUpdate, 10), make(chan []string, 10)
	dg := client(t, s, "token")
	dg.AddHandler(func(_ *discordgo.Session, m *discordgo.MessageUpdate) { updates <- m })
	dg.AddHandler(func(_ *discordgo.Session, m *discordgo.MessageDeleteBulk) { deleted <- m.Messages })
	connect(t, s, dg)
	one, two := s.Say(general.ID, ann, s.Mention()+" https://example.org"), s.Say(general.ID, ann, "two")
	s.Unfurl(one.ID, "Example")
	if m := receive(t, updates); m.EditedTimestamp != nil || len(m.Embeds) != 1 ||
		!strings.HasSuffix(m.Content, "example.org") {
		t.Errorf("update %+v", m.Message)
	}
	s.DeleteBulk(one.ID, two.ID)
	if got := receive(t, deleted); !slices.Equal(got, []string{one.ID, two.ID}) {
		t.Errorf("deleted %v", got)
	}
}
