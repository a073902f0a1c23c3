package slack_test

import (
	"strings"
	"testing"
	"time"

	"ravenbot/adapters/slack"
	"ravenbot/internal/core/chat"
	simslack "ravenbot/internal/testing/sim/slack"
)

// In a channel that is shared with another company all stands in the app's workspace, whoever did it: else one thread
// were two conversations, and what was missed there were read, and answered, twice.
func TestSharedChannel_PeopleOfAnotherCompany_StandInTheAppsWorkspace(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel, anna, otto := b.sim.AddChannel("shared").ID, b.sim.AddUser("anna"), b.sim.AddOutsider("otto", "T0OTHER")
	up(t, b)
	asked := b.sim.Mention(channel, anna, "what is this?")
	b.sim.ThreadReply(channel, asked.TS, otto, simslack.BotMention+" and that?")
	first := b.wait(t, 4)
	d := chat.Draft{Key: "k", Text: "That.", Buttons: []chat.Button{{Label: "👍", Value: chat.PressGood + "turn"}}}
	ref, err := b.Post(deadline(t), first[0].Conversation, d)
	if err != nil {
		t.Fatal(err)
	}
	b.sim.React(channel, ref.IDs[0], otto, "thumbsup")
	b.wait(t, 5)
	b.sim.Click(channel, ref.IDs[0], otto, "ravenbot-0")
	for _, m := range b.wait(t, 6) {
		if m.Conversation.Workspace != simslack.TeamID {
			t.Errorf("%s stands in the workspace %s", m.ID, m.Conversation.Workspace)
		}
	}
	if was, now := first[0].Conversation, first[3].Conversation; was != now {
		t.Errorf("one thread is %s and %s", was, now)
	}
}

func TestSharedChannel_Stream_NamesTheWorkspaceOfItsReader(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel, otto := b.sim.AddChannel("shared").ID, b.sim.AddOutsider("otto", "T0OTHER")
	up(t, b)
	e := b.sim.Mention(channel, otto, "tell me")
	m := b.wait(t, 2)[1]
	for end := time.Now().Add(5 * time.Second); calls(b, "users.info") == 0 && time.Now().Before(end); {
		b.Context(deadline(t), m, chat.ContextQuery{}) // who it is has been asked meanwhile
	}
	d := chat.Draft{Key: m.Key(), Partial: true, Reply: chat.Reply{MessageID: e.TS}, Text: "A beginning of it"}
	if _, err := b.Post(deadline(t), m.Conversation, d); err != nil {
		t.Fatal(err)
	}
	if p := b.sim.Posts(channel); len(p) != 1 || !strings.HasSuffix(p[0].Recipient, otto.ID+"/T0OTHER") {
		t.Errorf("posts %+v", p)
	}
}

// Of a file that a person of another company shares, the event tells the id alone.
func TestSharedChannel_File_IsRead(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel, otto := b.sim.AddChannel("shared").ID, b.sim.AddOutsider("otto", "T0OTHER")
	up(t, b)
	b.sim.Share(channel, "", otto, simslack.BotMention+" what is this?",
		simslack.File{Name: "a.txt", Type: "text/plain", Body: []byte("zebra")})
	m := b.wait(t, 1)[0]
	if len(m.Files) != 1 || m.Files[0].Name != "a.txt" || m.Files[0].Type != "text/plain" || m.Files[0].Size != 5 {
		t.Fatalf("the files are %+v", m.Files)
	}
	if data, err := b.Fetch(deadline(t), m.Files[0], 100); err != nil || string(data) != "zebra" {
		t.Errorf("read %q, %v", data, err)
	}
}
