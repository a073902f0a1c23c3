package slack_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/adapters/slack"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/sim"
	simslack "ravenbot/internal/testing/sim/slack"
)

// handed returns the message that an event became.
func handed(t *testing.T, b *bot, e simslack.Event) chat.Message {
	t.Helper()
	for n := 1; ; n++ {
		if m := b.wait(t, n)[n-1]; m.Reply.MessageID == e.TS {
			return m
		}
	}
}

// spoken are lines of the form "who: what".
func spoken(list []chat.Said) []string {
	lines := []string{}
	for _, one := range list {
		lines = append(lines, one.By+": "+one.Text)
	}
	return lines
}

func TestContext_Channel_TellsPlacePeopleAndWhatWasSaid(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel, anna, berit := b.sim.AddChannel("general").ID, b.sim.AddUser("anna"), b.sim.AddUser("berit")
	b.sim.SetProfile(anna.ID, "Anna 🌻", "America/New_York")
	b.sim.SetTopic(channel, berit, "Lunch & <@"+berit.ID+">")
	up(t, b)
	for _, text := range []string{"too old", "sushi, <@" + anna.ID + ">?", "or pizza"} {
		b.sim.Say(channel, berit, text)
	}
	e := b.sim.Mention(channel, anna, "what does <@"+berit.ID+"> want?")
	m := handed(t, b, e)
	c := b.Context(deadline(t), m, chat.ContextQuery{Messages: 2})
	want := chat.Place{Server: "Simulated", Channel: "general", Topic: "Lunch & @" + berit.ID, TopicBy: berit.ID, Members: 2}
	if c.Place != want {
		t.Errorf("place %+v, want %+v", c.Place, want)
	}
	if diff := cmp.Diff(map[string]string{anna.ID: "Anna 🌻", berit.ID: "berit"}, c.Names); diff != "" {
		t.Errorf("names (-want +got): %s", diff)
	}
	if c.Zone != "America/New_York" || c.Root != nil || c.Reply != nil || len(c.Notes) != 0 {
		t.Errorf("zone %q, root %+v, reply %+v, notes %q", c.Zone, c.Root, c.Reply, c.Notes)
	}
	if diff := cmp.Diff([]string{"berit: sushi, @Anna 🌻?", "berit: or pizza"}, spoken(c.Recent)); diff != "" {
		t.Errorf("recent (-want +got): %s", diff)
	}
	last := c.Recent[1]
	if last.ByID != berit.ID || last.Self || last.Subject != "slack/"+simslack.TeamID+"/"+channel+"/"+last.ID ||
		last.Link != "https://sim.slack.com/archives/"+channel+"/p"+strings.Replace(last.ID, ".", "", 1) {
		t.Errorf("the last one is %+v", last)
	}
	m.ID = simslack.TeamID + "/" + channel + "/" + e.TS
	after := chat.ContextQuery{Messages: 5, After: simslack.TeamID + "/" + channel + "/" + c.Recent[0].ID}
	if got := spoken(b.Context(deadline(t), m, after).Recent); !slices.Equal(got, []string{"berit: or pizza"}) {
		t.Errorf("behind the first: %q", got)
	}
}

func TestContext_Thread_BringsItsRootAndReplies(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel, anna, berit := b.sim.AddChannel("general").ID, b.sim.AddUser("anna"), b.sim.AddUser("berit")
	alerts := b.sim.AddBot("alerts")
	up(t, b)
	root := b.sim.Say(channel, anna, "tea is better")
	b.sim.Say(channel, berit, "beside the thread")
	b.sim.ThreadReply(channel, root.TS, berit, "coffee is")
	b.sim.SayWith(channel, alerts, "", func(p *simslack.Post) {
		p.ThreadTS = root.TS
		p.Blocks = json.RawMessage(`[{"type":"header","text":{"type":"plain_text","text":"Disk full"}},
			{"type":"section","fields":[{"type":"mrkdwn","text":"*host*: db1"}]},{"type":"actions","elements":[{"type":"button","text":{"type":"plain_text","text":"Ack"}}]}]`)
		p.Attachments = json.RawMessage(`[{"title":"Runbook","title_link":"https://example.org/r",` +
			`"fields":[{"title":"Level","value":"high"}]}]`)
	})
	e := b.sim.ThreadReply(channel, root.TS, berit, simslack.BotMention+" who is right?")
	b.sim.ThreadReply(channel, root.TS, anna, "said afterwards")
	m := handed(t, b, e)
	c := b.Context(deadline(t), m, chat.ContextQuery{Messages: 20})
	if c.Root == nil || c.Root.Text != "tea is better" || c.Root.By != "anna" || !c.Place.InThread {
		t.Errorf("root %+v in %+v", c.Root, c.Place)
	}
	want := []string{
		"berit: coffee is",
		"alerts: Disk full\n*host*: db1\n[attachment: [Runbook](https://example.org/r)\nLevel: high]",
	}
	if diff := cmp.Diff(want, spoken(c.Recent)); diff != "" {
		t.Errorf("recent (-want +got): %s", diff)
	}
	own, err := b.Post(deadline(t), m.Conversation, chat.Draft{Key: "k", Text: "both are"})
	if err != nil {
		t.Fatal(err)
	}
	again := handed(t, b, b.sim.ThreadReply(channel, root.TS, anna, simslack.BotMention+" sure?"))
	c = b.Context(deadline(t), again, chat.ContextQuery{Messages: 20, After: m.ID})
	if diff := cmp.Diff([]string{"anna: said afterwards", "ravenbot: both are"}, spoken(c.Recent)); diff != "" {
		t.Errorf("since the first question (-want +got): %s", diff)
	}
	if last := c.Recent[1]; !last.Self || last.ID != own.IDs[0] {
		t.Errorf("the bot's own post is %+v", last)
	}
}

// What the bot answered stands in a history under its question, and must go with it.
func TestContext_OwnAnswers_NameTheirQuestionAndGoWithIt(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
	up(t, b)
	root := b.sim.Mention(channel, anna, "root")
	events := []simslack.Event{root}
	for _, text := range []string{"one", "two"} {
		events = append(events, b.sim.ThreadReply(channel, root.TS, anna, simslack.BotMention+" "+text))
	}
	var asked []chat.Message
	for _, e := range events {
		m := handed(t, b, e)
		if _, err := b.Post(deadline(t), m.Conversation, chat.Draft{
			Key:   m.Key(),
			Text:  "re: " + m.Text,
			Reply: m.Reply,
		}); err != nil {
			t.Fatal(err)
		}
		asked = append(asked, m)
	}
	b.sim.Delete(channel, root.TS)
	b.sim.Delete(channel, asked[1].Reply.MessageID)
	last := handed(t, b, b.sim.ThreadReply(channel, root.TS, anna, simslack.BotMention+" and now?"))
	c := b.Context(deadline(t), last, chat.ContextQuery{Messages: 20})
	if diff := cmp.Diff([]string{"anna: @ravenbot two", "ravenbot: re: two"}, spoken(c.Recent)); diff != "" ||
		c.Root != nil {
		t.Errorf("root %+v, recent (-want +got): %s", c.Root, diff)
	}
	for _, said := range c.Recent {
		if said.Subject != asked[2].Subject() {
			t.Errorf("%q is of %q, want %q", said.Text, said.Subject, asked[2].Subject())
		}
	}
}

func TestContext_Links_AreReadInTheSameChannelAlone(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel, other, anna := b.sim.AddChannel("general").ID, b.sim.AddChannel("secret").ID, b.sim.AddUser("anna")
	up(t, b)
	link := func(channel string, e simslack.Event, thread string) string {
		address := "https://sim.slack.com/archives/" + channel + "/p" + strings.Replace(e.TS, ".", "", 1)
		if thread != "" {
			address += "?thread_ts=" + thread + "&amp;cid=" + channel
		}
		return "<" + address + ">"
	}
	root := b.sim.Say(channel, anna, "the plan")
	reply := b.sim.ThreadReply(channel, root.TS, anna, "a detail")
	hidden := b.sim.Say(other, anna, "nobody's business")
	foreign := "<https://elsewhere.example/archives/" + channel + "/p1234567890123456>"
	e := b.sim.Mention(channel, anna, strings.Join([]string{"compare", link(channel, root, ""),
		link(channel, reply, root.TS),
		link(other, hidden, ""), foreign}, " "))
	c := b.Context(deadline(t), handed(t, b, e), chat.ContextQuery{})
	if diff := cmp.Diff([]string{"anna: the plan", "anna: a detail"}, spoken(c.Linked)); diff != "" {
		t.Errorf("linked (-want +got): %s", diff)
	}
	if len(c.Notes) != 1 || !strings.Contains(c.Notes[0], other) || !strings.Contains(c.Notes[0], "another channel") {
		t.Errorf("notes %q", c.Notes)
	}
	if len(c.Recent) != 0 || c.Root != nil {
		t.Errorf("nothing else was asked for: %+v, %+v", c.Recent, c.Root)
	}
}

func TestContext_MissingScopes_FailNothingAndAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	scopes := []string{"app_mentions:read", "chat:write"}
	b := start(t, simslack.Options{Scopes: scopes}, slack.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
	up(t, b)
	m := handed(t, b, b.sim.Mention(channel, anna, "what is this about?"))
	for range 3 {
		c := b.Context(deadline(t), m, chat.ContextQuery{Messages: 5})
		if c.Place.Server != "Simulated" || len(c.Names) != 0 || len(c.Notes) != 1 ||
			!strings.Contains(c.Notes[0], "lacks a scope") {
			t.Errorf("context %+v", c)
		}
	}
	b.stop()
	for _, scope := range []string{"channels:read", "users:read"} {
		if n := strings.Count(log.String(), "add the scope "+scope); n != 1 {
			t.Errorf("the remedy %s is logged %d times:\n%s", scope, n, log.String())
		}
	}
}

// What is slow is missing, and the rest is there when the time is over.
func TestContext_SlowLookUp_ComesBackInTime(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
	up(t, b)
	off := b.sim.Fail(sim.Fault{Match: sim.MatchPath("", "/api/users.info"), Hang: time.Minute})
	b.sim.Say(channel, anna, "before")
	e := b.sim.Mention(channel, anna, "hello")
	m := handed(t, b, e)
	for _, id := range e.IDs {
		if d, err := b.sim.WaitAck(deadline(t), id); err != nil || d.After > 3*time.Second {
			t.Errorf("acknowledged after %v, %v", d.After, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	c := b.Context(ctx, m, chat.ContextQuery{Messages: 5})
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	if got := fmt.Sprint(spoken(c.Recent)); c.Place.Channel != "general" || len(c.Names) != 0 ||
		got != "["+anna.ID+": before]" {
		t.Errorf("place %+v, names %v, recent %s", c.Place, c.Names, got)
	}
	off()
}

// A question is not kept waiting for a history that Slack will not give in time.
func TestContext_HistoryRateLimited_DoesNotWait(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
	up(t, b)
	b.sim.RateLimit("conversations.history", 0, time.Minute)
	m := handed(t, b, b.sim.Mention(channel, anna, "hello"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	began := time.Now()
	c := b.Context(ctx, m, chat.ContextQuery{Messages: 5})
	if took := time.Since(began); took > 10*time.Second || len(c.Notes) != 1 ||
		!strings.Contains(c.Notes[0], "could not be read in time") {
		t.Errorf("after %v: notes %q", took, c.Notes)
	}
}

func TestMessage_VoiceAndSharedText_AreNamedInWords(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
	up(t, b)
	e := b.sim.Emit(map[string]any{
		"type": "app_mention", "channel": channel, "user": anna.ID, "ts": "1795330610.000100",
		"text": simslack.BotMention + " hear",
		"files": []any{map[string]any{"id": "F1", "name": "audio_message.m4a", "mimetype": "audio/mp4",
			"subtype": "slack_audio", "duration_ms": 12345}},
		"attachments": []any{
			map[string]any{"is_share": true, "text": "shared <words>"},
			map[string]any{"from_url": "https://example.org", "title": "a preview"},
			map[string]any{"fallback": "only this"},
		},
	})
	if _, err := b.sim.WaitAck(deadline(t), e.IDs[0]); err != nil {
		t.Fatal(err)
	}
	want := "hear\n[shared message: shared words]\n[attachment: only this]\n[attached: voice message, 12 s]"
	if got := b.wait(t, 1)[0].Text; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
}
