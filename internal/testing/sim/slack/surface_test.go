package simslack_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/slack-go/slack"
	"github.com/slack-go/slack/slackevents"
	"github.com/slack-go/slack/socketmode"

	simslack "ravenbot/internal/testing/sim/slack"
)

func TestConversations(t *testing.T) {
	t.Parallel()
	s := open(t, simslack.Options{})
	general, other, ann := s.AddChannel("general"), s.AddOtherChannel("other"), s.AddUser("ann")
	api := client(s)
	list, _, err := api.GetConversations(&slack.GetConversationsParameters{})
	if err != nil || len(list) != 2 || !list[0].IsMember || list[1].IsMember {
		t.Errorf("channels %+v: %v", list, err)
	}
	if _, _, _, err := api.JoinConversation(other.ID); err != nil {
		t.Error(err)
	}
	if c, err := api.GetConversationInfo(&slack.GetConversationInfoInput{ChannelID: other.ID}); err != nil || !c.IsMember {
		t.Errorf("channel %+v: %v", c, err)
	}
	dm, _, _, err := api.OpenConversation(&slack.OpenConversationParameters{Users: []string{ann.ID}})
	if err != nil || dm.ID != s.AddDM(ann).ID {
		t.Errorf("direct message %+v: %v", dm, err)
	}
	if _, err := api.PostEphemeral(general.ID, ann.ID, slack.MsgOptionText("psst", false)); err != nil {
		t.Error(err)
	}
	if p, err := s.WaitEphemeral(within(t), func(p simslack.Post) bool {
		return p.Text == "psst"
	}); err != nil || p.EphemeralTo != ann.ID || len(s.Posts(general.ID)) != 0 {
		t.Errorf("ephemeral %+v: %v", p, err)
	}
	if team, err := api.GetTeamInfo(); err != nil || team.ID != simslack.TeamID {
		t.Errorf("team %+v: %v", team, err)
	}
	if bot, err := api.GetBotInfo(slack.GetBotInfoParameters{Bot: simslack.BotID}); err != nil ||
		bot.UserID != simslack.BotUserID {
		t.Errorf("bot %+v: %v", bot, err)
	}
	home := slack.HomeTabViewRequest{Type: slack.VTHomeTab,
		Blocks: slack.Blocks{BlockSet: []slack.Block{slack.NewDividerBlock()}}}
	if _, err := api.PublishViewContext(within(t),
		slack.PublishViewContextRequest{UserID: ann.ID, View: home}); err != nil {
		t.Error(err)
	}
	if v, err := s.WaitView(within(t), func(v simslack.View) bool { return v.User == ann.ID }); err != nil {
		t.Errorf("view %+v: %v", v, err)
	}
}

func TestEventsOfPeople(t *testing.T) {
	t.Parallel()
	s := open(t, simslack.Options{RetryDelays: []time.Duration{time.Millisecond, time.Second, time.Second}})
	general, ann := s.AddChannel("general"), s.AddUser("ann")
	sm, events := listen(t, s)
	next := func() (e slackevents.EventsAPIEvent, raw map[string]any) {
		t.Helper()
		got := receive(t, events)
		if err := sm.Ack(*got.Request); err != nil {
			t.Fatal(err)
		}
		var payload struct{ Event map[string]any }
		if err := json.Unmarshal(got.Request.Payload, &payload); err != nil {
			t.Fatal(err)
		}
		e, _ = got.Data.(slackevents.EventsAPIEvent)
		return e, payload.Event
	}
	root := s.Say(general.ID, ann, "root")
	next()
	reply := s.ThreadReply(general.ID, root.TS, ann, "reply")
	if e, _ := next(); e.InnerEvent.Data.(*slackevents.MessageEvent).ThreadTimeStamp != root.TS {
		t.Errorf("thread reply %+v", e.InnerEvent.Data)
	}
	s.Edit(general.ID, root.TS, "changed")
	if _, raw := next(); raw["subtype"] != "message_changed" || raw["message"].(map[string]any)["text"] != "changed" ||
		raw["previous_message"].(map[string]any)["text"] != "root" {
		t.Errorf("edit %v", raw)
	}
	s.Unfurl(general.ID, root.TS, "https://example.org")
	if _, raw := next(); raw["subtype"] != "message_changed" ||
		raw["message"].(map[string]any)["text"] != raw["previous_message"].(map[string]any)["text"] {
		t.Errorf("preview %v", raw)
	}
	s.Delete(general.ID, root.TS)
	if _, raw := next(); raw["subtype"] != "message_changed" || raw["message"].(map[string]any)["subtype"] != "tombstone" {
		t.Errorf("delete of what has a thread %v", raw)
	}
	s.Delete(general.ID, reply.TS)
	if _, raw := next(); raw["subtype"] != "message_deleted" || raw["deleted_ts"] != reply.TS {
		t.Errorf("delete %v", raw)
	}
	opened := s.OpenMessages(ann)
	if e, _ := next(); e.InnerEvent.Data.(*slackevents.AppHomeOpenedEvent).Tab != "messages" {
		t.Errorf("home %+v", e.InnerEvent.Data)
	}
	if _, err := s.WaitAck(within(t), opened.IDs[0]); err != nil {
		t.Fatal(err)
	}
	if s.Drop(0) != 1 {
		t.Error("no connection was there to drop")
	}
	s.Emit(map[string]any{"type": "app_mention", "user": ann.ID, "text": "after the drop", "channel": general.ID,
		"ts": "1.000001"})
	if _, raw := next(); raw["text"] != "after the drop" {
		t.Errorf("after the drop %v", raw)
	}
}

func TestFormIsSubmitted(t *testing.T) {
	t.Parallel()
	s := open(t, simslack.Options{})
	general, ann := s.AddChannel("general"), s.AddUser("ann")
	sm, events := listen(t, s)
	call := s.Slash(general.ID, ann, "/raven", "settings")
	if err := sm.Ack(*receive(t, events).Request, map[string]any{"text": "here it is"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.WaitAnswer(within(t), call, func(a simslack.Answer) bool {
		return a.Text == "here it is"
	}); err != nil {
		t.Error(err)
	}
	view := slack.ModalViewRequest{Type: slack.VTModal, CallbackID: "settings",
		Title:  slack.NewTextBlockObject("plain_text", "Settings", false, false),
		Blocks: slack.Blocks{BlockSet: []slack.Block{slack.NewDividerBlock()}}}
	if _, err := client(s).OpenView(call.TriggerID, view); err != nil {
		t.Fatal(err)
	}
	s.SubmitView(s.Views()[0], ann, map[string]map[string]any{"b": {"a": map[string]any{"type": "plain_text_input",
		"value": "v"}}})
	var got socketmode.Event
	for got.Type != socketmode.EventTypeInteractive {
		got = receive(t, events)
	}
	cb := got.Data.(slack.InteractionCallback)
	if cb.Type != slack.InteractionTypeViewSubmission || cb.View.CallbackID != "settings" ||
		cb.View.State.Values["b"]["a"].Value != "v" {
		t.Errorf("submission %+v", cb)
	}
}
