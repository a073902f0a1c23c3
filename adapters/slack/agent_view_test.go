package slack_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"ravenbot/adapters/slack"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/sim"
	simslack "ravenbot/internal/testing/sim/slack"
)

func granted(scopes ...string) simslack.Options { return simslack.Options{Scopes: scopes} }

// did waits until the bot has called a method so many times.
func did(t *testing.T, b *bot, method string, times int) {
	t.Helper()
	_, err := b.sim.WaitRequests(deadline(t), times, func(r sim.Request) bool {
		return strings.HasSuffix(r.Path, "/"+method)
	})
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
}

func TestTheAgentViewOffersQuestionsAndNamesThreads(t *testing.T) {
	b := start(t, granted(slack.Scopes()...), slack.Options{})
	anna := b.sim.AddUser("anna")
	up(t, b)
	opened := b.sim.OpenMessages(anna)
	acked(t, b, opened)
	did(t, b, "assistant.threads.setSuggestedPrompts", 1)
	channel := b.sim.AddDM(anna).ID
	if p := string(b.sim.Assistant(channel, "").Prompts); strings.Count(p, `"title"`) != 3 {
		t.Errorf("offered %s", p)
	}
	e := b.sim.DM(anna, "what   is\nnew in the world of very long questions that go on and on and on?")
	m := b.wait(t, 1)[0]
	if m.Conversation.Thread != e.TS || m.Reach != chat.Addressed {
		t.Errorf("a direct message is %+v", m)
	}
	did(t, b, "assistant.threads.setTitle", 1)
	if title := b.sim.Assistant(channel, e.TS).Title; !strings.HasPrefix(title, "what is new in the world") ||
		len([]rune(title)) > 60 {
		t.Errorf("title %q", title)
	}
	var typist chat.Typist = b.Slack
	if err := typist.Typing(deadline(t), m.Conversation); err != nil {
		t.Fatal(err)
	}
	d := chat.Draft{Key: m.Key(), Text: "The news is that", Partial: true, Reply: m.Reply}
	d = grow(t, b, m.Conversation, d, d.Text)
	if err := typist.Typing(deadline(t), m.Conversation); err != nil { // the answer itself shows it now
		t.Fatal(err)
	}
	whole(t, b, m.Conversation, d)
	if status := b.sim.Assistant(channel, e.TS).Status; !slices.Equal(status, []string{"is thinking…"}) {
		t.Errorf("status %q", status)
	}
	if p := b.sim.Posts(channel); len(p) != 1 || p[0].ThreadTS != e.TS || p[0].Recipient != anna.ID+"/"+simslack.TeamID {
		t.Errorf("answered by %+v", p)
	}
	b.sim.ThreadReply(channel, e.TS, anna, "and then?")
	if m := b.wait(t, 2)[1]; m.Conversation.Thread != e.TS || calls(b, "assistant.threads.setTitle") != 1 {
		t.Errorf("a further question is %+v", m)
	}
}

func TestTheAssistantViewBeforeItIsServedToo(t *testing.T) {
	b := start(t, granted(slack.Scopes()...), slack.Options{})
	anna := b.sim.AddUser("anna")
	up(t, b)
	root := b.sim.StartThread(anna)
	acked(t, b, root)
	did(t, b, "assistant.threads.setSuggestedPrompts", 1)
	b.sim.ThreadReply(root.Channel, root.TS, anna, "my first question")
	b.sim.ThreadReply(root.Channel, root.TS, anna, "my second question")
	b.wait(t, 2)
	did(t, b, "assistant.threads.setTitle", 1)
	if got := b.sim.Assistant(root.Channel, root.TS); got.Prompts == nil || got.Title != "my first question" {
		t.Errorf("%+v", got)
	}
}

func TestClassicMessagesStayAsTheyAre(t *testing.T) {
	b := start(t, granted(without("assistant:write")...), slack.Options{})
	anna, channel := b.sim.AddUser("anna"), b.sim.AddChannel("general").ID
	up(t, b)
	acked(t, b, b.sim.OpenMessages(anna))
	b.sim.DM(anna, "hello")
	m := b.wait(t, 1)[0]
	if m.Conversation.Thread != "" {
		t.Errorf("a direct message is %+v", m)
	}
	b.sim.Mention(channel, anna, "hello")
	for _, m := range b.wait(t, 2) {
		titled := strings.Contains(m.ID, channel)
		if err := b.Typing(deadline(t), m.Conversation); err != nil {
			t.Error(err)
		}
		a := b.sim.Assistant(m.Conversation.Channel, m.Reply.MessageID)
		if got := len(a.Status) > 0; got != titled || a.Title != "" {
			t.Errorf("in %s there is the status %q and the title %q", m.Conversation.Channel, a.Status, a.Title)
		}
	}
}

// Where Slack takes no status, a reaction to the question shows that it was seen, until there is
// an answer.
func TestTyping_WithoutStatus_PutsAReactionAndTakesItBack(t *testing.T) {
	b := start(t, granted(without("assistant:write")...), slack.Options{})
	anna, channel := b.sim.AddUser("anna"), b.sim.AddChannel("general").ID
	up(t, b)
	b.sim.Fail(sim.Fault{Match: sim.MatchPath("POST", "/assistant.threads.setStatus"), Status: 200,
		Body: `{"ok":false,"error":"missing_scope","needed":"assistant:write"}`})
	for i, e := range []simslack.Event{b.sim.DM(anna, "hello"), b.sim.Mention(channel, anna, "hello")} {
		m := handed(t, b, e)
		for range 3 {
			if err := b.Typing(deadline(t), m.Conversation); err != nil {
				t.Error(err)
			}
		}
		if got := b.sim.Reactions(e.Channel, e.TS); len(got["eyes"]) != 1 {
			t.Fatalf("the question has the reactions %v", got)
		}
		if _, err := b.Post(deadline(t), m.Conversation, chat.Draft{
			Key:   m.Key(),
			Text:  "hello",
			Reply: m.Reply,
		}); err != nil {
			t.Fatal(err)
		}
		did(t, b, "reactions.remove", i+1)
		if got := b.sim.Reactions(e.Channel, e.TS); len(got["eyes"]) != 0 {
			t.Errorf("behind the answer the question has the reactions %v", got)
		}
	}
}

func TestTheAgentViewThatIsRefusedIsToldOfOnce(t *testing.T) {
	journal := &journal{}
	b := start(t, granted(slack.Scopes()...), slack.Options{Log: journal.logger()})
	up(t, b)
	b.sim.Fail(sim.Fault{Match: sim.MatchPath("POST", "/assistant."), Status: 200,
		Body: `{"ok":false,"error":"missing_scope","needed":"assistant:write"}`})
	for _, name := range []string{"anna", "berit"} {
		acked(t, b, b.sim.OpenMessages(b.sim.AddUser(name)))
	}
	did(t, b, "assistant.threads.setSuggestedPrompts", 2)
	b.stop()
	if lines := journal.wait(t, "refuses updates"); strings.Count(lines, "refuses updates") != 1 ||
		!strings.Contains(lines, "remedy=") {
		t.Errorf("logged %s", lines)
	}
}

func TestEachMissingScopeIsAFinding(t *testing.T) {
	all := slack.Scopes()
	for _, missing := range append([]string{""}, all...) {
		server := world(t, granted(without(missing)...))
		s := slack.New(slack.Options{BotToken: "xoxb-token", APIBaseURL: server.APIURL()})
		found := s.Check(deadline(t))
		if missing == "" && len(found) == 0 {
			continue
		}
		if len(found) != 1 || !strings.Contains(found[0].Problem, missing) || found[0].Lost == "" ||
			!strings.Contains(found[0].Remedy, missing) {
			t.Errorf("without %q: %+v", missing, found)
		}
	}
	server := world(t, simslack.Options{})
	for name, c := range map[string]struct {
		options         slack.Options
		problem, remedy string
	}{
		"wrong bot token": {slack.Options{BotToken: "xoxb-wrong"}, "Slack refuses the bot token (", "SLACK_BOT_TOKEN"},
		"wrong app token": {slack.Options{BotToken: "xoxb-token", AppToken: "xapp-wrong"}, "Slack refuses the app-level token (",
			"SLACK_APP_TOKEN"},
		"no scopes said": {slack.Options{BotToken: "xoxb-token"}, "does not tell", "compare the scopes"},
		"nobody there": {slack.Options{BotToken: "xoxb-token", APIBaseURL: "http://127.0.0.1:1/api/"}, "Slack could not be asked: ",
			"see that this machine reaches Slack"},
	} {
		c.options.APIBaseURL = cmp.Or(c.options.APIBaseURL, server.APIURL())
		found := slack.New(c.options).Check(deadline(t))
		if len(found) != 1 || !strings.Contains(found[0].Problem, c.problem) || !strings.Contains(found[0].Remedy, c.remedy) {
			t.Errorf("%s: %+v", name, found)
		}
	}
}
