package simslack_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/slack-go/slack"

	"ravenbot/internal/testing/sim"
	simslack "ravenbot/internal/testing/sim/slack"
)

func open(t *testing.T, opts simslack.Options) *simslack.Server {
	t.Helper()
	s, err := simslack.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func client(s *simslack.Server) *slack.Client {
	return slack.New("xoxb-token", slack.OptionAppLevelToken("xapp-token"), slack.OptionAPIURL(s.APIURL()))
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestPostsAndHistory(t *testing.T) {
	t.Parallel()
	s := open(t, simslack.Options{})
	general, ann := s.AddChannel("general"), s.AddAdmin("ann")
	api := client(s)
	asked := s.Say(general.ID, ann, "hello")
	_, ts, err := api.PostMessage(general.ID, slack.MsgOptionText("hi <!channel> <@"+ann.ID+"> <!subteam^S1>", false),
		slack.MsgOptionTS(asked.TS),
		slack.MsgOptionMetadata(slack.SlackMetadata{EventType: "turn", EventPayload: map[string]any{"key": "k1"}}))
	if err != nil {
		t.Fatal(err)
	}
	p := s.Posts(general.ID)[0]
	if diff := cmp.Diff(simslack.Pings{
		Channel: true,
		Users:   []string{ann.ID},
		Groups:  []string{"S1"},
	}, p.Pings); diff != "" {
		t.Errorf("pings:\n%s", diff)
	}
	if _, _, _, err := api.UpdateMessage(general.ID, ts, slack.MsgOptionText("edited", false)); err != nil {
		t.Error(err)
	}
	replies, more, _, err := api.GetConversationReplies(&slack.GetConversationRepliesParameters{ChannelID: general.ID,
		Timestamp: asked.TS, IncludeAllMetadata: true})
	if err != nil || more || len(replies) != 2 || replies[1].Text != "edited" ||
		replies[1].Metadata.EventPayload["key"] != "k1" || replies[0].ReplyCount != 1 {
		t.Errorf("replies %+v: %v", replies, err)
	}
	h, err := api.GetConversationHistory(&slack.GetConversationHistoryParameters{ChannelID: general.ID})
	if err != nil || len(h.Messages) != 1 || h.Messages[0].Text != "hello" {
		t.Errorf("history %+v: %v", h, err)
	}
	if err := api.AddReaction("eyes", slack.NewRefToMessage(general.ID, asked.TS)); err != nil ||
		len(s.Reactions(general.ID, asked.TS)["eyes"]) != 1 {
		t.Errorf("reaction: %v", err)
	}
	if _, _, err := api.DeleteMessage(general.ID, ts); err != nil || !s.Posts(general.ID)[0].Deleted {
		t.Errorf("delete: %v", err)
	}
	if u, err := api.GetUserInfo(ann.ID); err != nil || !u.IsAdmin {
		t.Errorf("user %+v: %v", u, err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	s := open(t, simslack.Options{})
	general, other := s.AddChannel("general"), s.AddOtherChannel("other")
	asked := s.Say(general.ID, s.AddUser("ann"), "hello")
	long := func(n int) string { return strings.Repeat("é", n) }
	section := func(n int) slack.Block {
		return slack.NewSectionBlock(slack.NewTextBlockObject("mrkdwn", long(n), false, false), nil, nil)
	}
	var many []slack.Block
	for range 51 {
		many = append(many, slack.NewDividerBlock())
	}
	cases := []struct {
		name, channel string
		opts          []slack.MsgOption
		want          string
	}{
		{"fits", general.ID, []slack.MsgOption{slack.MsgOptionText(long(40000), false)}, ""},
		{"long", general.ID, []slack.MsgOption{slack.MsgOptionText(long(40001), false)}, "msg_too_long"},
		{"markdown fits", general.ID, []slack.MsgOption{slack.MsgOptionMarkdownText(long(12000))}, ""},
		{"markdown long", general.ID, []slack.MsgOption{slack.MsgOptionMarkdownText(long(12001))}, "msg_too_long"},
		{"empty", general.ID, nil, "no_text"},
		{"no channel", "C999", []slack.MsgOption{slack.MsgOptionText("x", false)}, "channel_not_found"},
		{"not in it", other.ID, []slack.MsgOption{slack.MsgOptionText("x", false)}, "not_in_channel"},
		{"section fits", general.ID, []slack.MsgOption{slack.MsgOptionBlocks(section(3000))}, ""},
		{"section long", general.ID, []slack.MsgOption{slack.MsgOptionBlocks(section(3001))}, "invalid_blocks"},
		{"header long", general.ID, []slack.MsgOption{slack.MsgOptionBlocks(slack.NewHeaderBlock(slack.NewTextBlockObject("plain_text", long(151), false, false)))}, "invalid_blocks"},
		{"many blocks", general.ID, []slack.MsgOption{slack.MsgOptionBlocks(many...)}, "invalid_blocks"},
		{"markdown blocks", general.ID, []slack.MsgOption{slack.MsgOptionBlocks(slack.NewMarkdownBlock("", long(7000)), slack.NewMarkdownBlock("", long(7000)))}, "msg_blocks_too_long"},
		{"no thread", general.ID, []slack.MsgOption{slack.MsgOptionText("x", false), slack.MsgOptionTS("1.000000")}, "thread_not_found"},
	}
	for _, c := range cases {
		_, _, err := client(s).PostMessage(c.channel, c.opts...)
		if got := text(err); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if _, _, _, err := client(s).UpdateMessage(general.ID, asked.TS,
		slack.MsgOptionText("x", false)); text(err) != "cant_update_message" {
		t.Errorf("update of another's message: %v", err)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestTokensAndScopes(t *testing.T) {
	t.Parallel()
	s := open(t, simslack.Options{Scopes: []string{"chat:write"}})
	general := s.AddChannel("general")
	if _, err := slack.New("xoxb-wrong", slack.OptionAPIURL(s.APIURL())).AuthTest(); text(err) != "invalid_auth" {
		t.Errorf("wrong token: %v", err)
	}
	if _, err := slack.New("xapp-token", slack.OptionAPIURL(s.APIURL())).AuthTest(); text(err) != "not_allowed_token_type" {
		t.Errorf("app token: %v", err)
	}
	if _, err := client(s).AuthTest(); err != nil {
		t.Errorf("auth.test: %v", err)
	}
	_, err := client(s).GetConversationHistory(&slack.GetConversationHistoryParameters{ChannelID: general.ID})
	var refused slack.SlackErrorResponse
	if !errors.As(err, &refused) || refused.Err != "missing_scope" || refused.Needed != "channels:history" {
		t.Errorf("missing scope: %#v", err)
	}
}

func TestBarePingsAndBlocks(t *testing.T) {
	t.Parallel()
	s := open(t, simslack.Options{})
	general := s.AddChannel("general")
	rich := `[{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[{"type":"broadcast","range":"here"},{"type":"user","user_id":"U1"}]}]},
		{"type":"section","text":{"type":"plain_text","text":"<!everyone>"}},{"type":"markdown","text":"<!channel>"}]`
	var blocks slack.Blocks
	if err := json.Unmarshal([]byte(rich), &blocks); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name string
		opts []slack.MsgOption
		want simslack.Pings
	}{
		{"bare", []slack.MsgOption{slack.MsgOptionText("@channel", false)}, simslack.Pings{}},
		{"link names", []slack.MsgOption{slack.MsgOptionText("@channel @here", false), slack.MsgOptionLinkNames(true)}, simslack.Pings{Channel: true, Here: true}},
		{"parse full", []slack.MsgOption{slack.MsgOptionText("oh @everyone", false), slack.MsgOptionParse(true)}, simslack.Pings{Everyone: true}},
		{"escaped", []slack.MsgOption{slack.MsgOptionText("&lt;!channel&gt;", false)}, simslack.Pings{}},
		{"labelled", []slack.MsgOption{slack.MsgOptionText("<!here|here> <@U1|ann>", false)}, simslack.Pings{Here: true, Users: []string{"U1"}}},
		{"markdown", []slack.MsgOption{slack.MsgOptionMarkdownText("<!everyone>")}, simslack.Pings{Everyone: true}},
		{"blocks", []slack.MsgOption{slack.MsgOptionBlocks(blocks.BlockSet...)}, simslack.Pings{Here: true, Channel: true, Users: []string{"U1"}}},
	}
	for i, c := range cases {
		if _, _, err := client(s).PostMessage(general.ID, c.opts...); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, s.Posts(general.ID)[i].Pings); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}

func TestStream(t *testing.T) {
	t.Parallel()
	s := open(t, simslack.Options{})
	general, ann := s.AddChannel("general"), s.AddUser("ann")
	asked := s.Mention(general.ID, ann, "tell me")
	api := client(s)
	if _, _, err := api.StartStream(general.ID, slack.MsgOptionTS(asked.TS)); text(err) != "missing_recipient_user_id" {
		t.Errorf("start without recipient: %v", err)
	}
	_, ts, err := api.StartStream(general.ID, slack.MsgOptionTS(asked.TS), slack.MsgOptionRecipientUserID(ann.ID),
		slack.MsgOptionRecipientTeamID(simslack.TeamID))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"one ", "two ", strings.Repeat("x", 11000)} {
		if _, _, err := api.AppendStream(general.ID, ts, slack.MsgOptionMarkdownText(part)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := api.AppendStream(general.ID, ts,
		slack.MsgOptionMarkdownText(strings.Repeat("x", 12001))); text(err) != "msg_too_long" {
		t.Errorf("long append: %v", err)
	}
	if _, _, err := api.StopStream(general.ID, ts); err != nil {
		t.Fatal(err)
	}
	if _, _, err := api.AppendStream(general.ID, ts,
		slack.MsgOptionMarkdownText("late")); text(err) != "message_not_in_streaming_state" {
		t.Errorf("append after stop: %v", err)
	}
	if p := s.Posts(general.ID)[0]; p.Streaming || p.Appends != 3 || !strings.HasPrefix(p.Markdown, "one two x") ||
		p.ThreadTS != asked.TS {
		t.Errorf("post %+v", p)
	}
}

func TestFaultsOfTheAPI(t *testing.T) {
	t.Parallel()
	s := open(t, simslack.Options{ChannelPerSecond: 2})
	general := s.AddChannel("general")
	post := func() error {
		_, _, err := client(s).PostMessage(general.ID, slack.MsgOptionText("x", false))
		return err
	}
	var limited *slack.RateLimitedError
	off := s.RateLimit("chat.postMessage", 0, 30*time.Second)
	if err := post(); !errors.As(err, &limited) || limited.RetryAfter != 30*time.Second {
		t.Errorf("429: %v", err)
	}
	off()
	s.Fail(sim.Fault{Match: sim.MatchPath("POST", "chat.postMessage"), Times: 1, Status: 503, Accept: true})
	if err := post(); err == nil || len(s.Posts(general.ID)) != 1 {
		t.Errorf("accepted although 503: %v, %d posts", err, len(s.Posts(general.ID)))
	}
	if err := post(); err != nil {
		t.Errorf("second post: %v", err)
	}
	if err := post(); !errors.As(err, &limited) {
		t.Errorf("third post within a second: %v", err)
	}
}

func TestFilesViewsAndAgent(t *testing.T) {
	t.Parallel()
	s := open(t, simslack.Options{})
	general, ann := s.AddChannel("general"), s.AddUser("ann")
	api := client(s)
	if _, err := api.UploadFileContext(within(t), slack.UploadFileParameters{
		Filename: "a.txt",
		FileSize: 3,
		Reader:   strings.NewReader("abc"),
		Channel:  general.ID,
	}); err != nil {
		t.Fatal(err)
	}
	if p := s.Posts(general.ID)[0]; len(p.Files) != 1 || string(p.Files[0].Body) != "abc" || p.Files[0].Name != "a.txt" {
		t.Errorf("upload %+v", p)
	}
	view := slack.ModalViewRequest{Type: slack.VTModal, Title: slack.NewTextBlockObject("plain_text", "Settings", false,
		false), Blocks: slack.Blocks{BlockSet: []slack.Block{slack.NewDividerBlock()}}}
	if _, err := api.OpenView("nonsense", view); text(err) != "invalid_trigger_id" {
		t.Errorf("view without trigger: %v", err)
	}
	call := s.Slash(general.ID, ann, "/raven", "settings")
	opened, err := api.OpenView(call.TriggerID, view)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.UpdateView(view, "", "", opened.ID); err != nil || s.Views()[0].Updates != 1 {
		t.Errorf("update: %v", err)
	}
	dm := s.DM(ann, "hi")
	if err := api.SetAssistantThreadsStatus(slack.AssistantThreadsSetStatusParameters{
		ChannelID: dm.Channel,
		ThreadTS:  dm.TS,
		Status:    "is thinking",
	}); err != nil {
		t.Error(err)
	}
	if err := api.SetAssistantThreadsTitle(slack.AssistantThreadsSetTitleParameters{
		ChannelID: dm.Channel,
		ThreadTS:  dm.TS,
		Title:     "Hi",
	}); err != nil {
		t.Error(err)
	}
	if got := s.Assistant(dm.Channel, dm.TS); len(got.Status) != 1 || got.Title != "Hi" {
		t.Errorf("assistant %+v", got)
	}
}
