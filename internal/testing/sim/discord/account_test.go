package simdiscord_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/bwmarrin/discordgo"

	simdiscord "ravenbot/internal/testing/sim/discord"
)

func TestAccountAndCommands(t *testing.T) {
	t.Parallel()
	s := open(t, simdiscord.Options{OpenAPI: openAPI(t), Privileged: simdiscord.IntentMessageContent})
	home := s.AddGuild("home")
	general := s.AddChannel(home, "general")
	thread := s.AddThread(general, "talk")
	boss := s.AddManager("boss")
	dg := client(t, s, "token")
	if guilds, err := dg.UserGuilds(10, "", "", false); err != nil || len(guilds) != 1 || guilds[0].ID != home.ID {
		t.Errorf("guilds %v: %v", guilds, err)
	}
	if list, err := dg.GuildChannels(home.ID); err != nil || len(list) != 1 || list[0].ID != general.ID {
		t.Errorf("channels %v: %v", list, err)
	}
	if list, err := dg.GuildThreadsActive(home.ID); err != nil || len(list.Threads) != 1 ||
		list.Threads[0].ID != thread.ID {
		t.Errorf("threads %v: %v", list, err)
	}
	member, err := dg.GuildMember(home.ID, boss.ID)
	if err != nil {
		t.Fatal(err)
	}
	roles, err := dg.GuildRoles(home.ID)
	if err != nil {
		t.Fatal(err)
	}
	var granted int64
	for _, r := range roles {
		if r.ID == home.ID || len(member.Roles) == 1 && r.ID == member.Roles[0] {
			granted |= r.Permissions
		}
	}
	if granted&discordgo.PermissionManageGuild == 0 {
		t.Errorf("the manager's roles grant %b", granted)
	}
	if app, err := dg.Application("@me"); err != nil || app.ID != s.Bot().ID || app.Flags&(1<<19) == 0 {
		t.Errorf("application %+v: %v", app, err)
	}
	cmd, err := dg.ApplicationCommandCreate(s.Bot().ID, home.ID,
		&discordgo.ApplicationCommand{Name: "raven", Description: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if edited, err := dg.ApplicationCommandEdit(s.Bot().ID, home.ID, cmd.ID,
		&discordgo.ApplicationCommand{Name: "raven", Description: "y"}); err != nil || edited.Description != "y" ||
		edited.ID != cmd.ID {
		t.Errorf("edited %+v: %v", edited, err)
	}
	if list, err := dg.ApplicationCommands(s.Bot().ID, home.ID); err != nil || len(list) != 1 {
		t.Errorf("commands %v: %v", list, err)
	}
	if _, err := dg.ApplicationCommandCreate(s.Bot().ID, "",
		&discordgo.ApplicationCommand{Name: "Not Valid", Description: "x"}); err == nil {
		t.Error("a bad command name was taken")
	}
	if err := dg.ApplicationCommandDelete(s.Bot().ID, home.ID, cmd.ID); err != nil {
		t.Error(err)
	}
	if _, err := s.Slash(general.ID, boss, "raven", "", nil); err == nil {
		t.Error("a deleted command was run")
	}
	if v := s.Violations(); len(v) > 0 {
		t.Errorf("violations: %v", v)
	}
}

func TestEditsDeletionsAndReactions(t *testing.T) {
	t.Parallel()
	s := open(t, simdiscord.Options{})
	general := s.AddChannel(s.AddGuild("home"), "general")
	ann, other := s.AddUser("ann"), s.AddBot("other")
	seen := make(chan string, 10)
	dg := client(t, s, "token")
	dg.AddHandler(func(_ *discordgo.Session, m *discordgo.MessageUpdate) { seen <- "edit " + m.Content })
	dg.AddHandler(func(_ *discordgo.Session, m *discordgo.MessageDelete) { seen <- "delete " + m.ID })
	dg.AddHandler(func(_ *discordgo.Session, m *discordgo.MessageReactionAdd) { seen <- "react " + m.Emoji.Name })
	dg.AddHandler(func(_ *discordgo.Session, m *discordgo.MessageCreate) {
		if m.Author.Bot && m.Author.ID != dg.State.User.ID {
			seen <- "bot " + m.Attachments[0].URL
		}
	})
	connect(t, s, dg)
	m := s.Say(general.ID, ann, s.Mention()+" one")
	s.Edit(m.ID, s.Mention()+" two")
	s.React(m.ID, ann, "👍")
	s.Delete(m.ID)
	for _, want := range []string{"edit " + s.Mention() + " two", "react 👍", "delete " + m.ID} {
		if got := receive(t, seen); got != want {
			t.Errorf("event %q, want %q", got, want)
		}
	}
	s.Say(general.ID, other, s.Mention(), simdiscord.Attach(simdiscord.File{Name: "a.txt", ContentType: "text/plain",
		Body: []byte("abc")}))
	resp, err := http.Get(receive(t, seen)[len("bot "):])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "abc" {
		t.Errorf("attachment %q: %v", body, err)
	}
	mine, err := dg.ChannelMessageSend(general.ID, "mine")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dg.ChannelMessageEdit(general.ID, mine.ID, "changed"); err != nil ||
		s.Posts(general.ID)[0].Content != "changed" {
		t.Errorf("own edit: %v", err)
	}
	theirs := s.Say(general.ID, ann, "theirs")
	if _, err := dg.ChannelMessageEdit(general.ID, theirs.ID, "x"); err == nil {
		t.Error("another's message was edited")
	}
	if got, err := dg.ChannelMessage(general.ID, theirs.ID); err != nil || got.Content != "" {
		t.Errorf("content over REST without the intent: %q, %v", got.Content, err)
	}
}
