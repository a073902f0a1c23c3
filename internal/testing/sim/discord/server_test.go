package simdiscord_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/testing/sim"
	simdiscord "ravenbot/internal/testing/sim/discord"
)

func open(t *testing.T, opts simdiscord.Options) *simdiscord.Server {
	t.Helper()
	s, err := simdiscord.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// redirect sends every request to the simulated server.
type redirect struct{ to *url.URL }

func (r redirect) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.URL.Scheme, req.URL.Host = r.to.Scheme, r.to.Host
	return http.DefaultTransport.RoundTrip(req)
}

func client(t *testing.T, s *simdiscord.Server, token string) *discordgo.Session {
	t.Helper()
	dg, err := discordgo.New("Bot " + token)
	if err != nil {
		t.Fatal(err)
	}
	base, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	dg.Client = &http.Client{Transport: redirect{base}, Timeout: 10 * time.Second}
	dg.SyncEvents = true
	// Its own reconnecting, which reading and heartbeats begin without knowing of one another (v0.29.0), is for the tests
	// that need it.
	dg.ShouldReconnectOnError = false
	dg.LogLevel = -1
	dg.Identify.Intents = simdiscord.IntentGuilds | simdiscord.IntentGuildMessages | simdiscord.IntentDirectMessages |
		simdiscord.IntentGuildReactions
	return dg
}

func connect(t *testing.T, s *simdiscord.Server, dg *discordgo.Session) {
	t.Helper()
	if err := dg.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dg.Close() })
	if err := s.WaitSessions(within(t), 1); err != nil {
		t.Fatal(err)
	}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-within(t).Done():
		t.Fatal("nothing arrived in time")
		panic("unreachable")
	}
}

func openAPI(t *testing.T) []byte {
	t.Helper()
	dir := os.Getenv("RAVENBOT_CORPORA")
	if dir == "" {
		t.Skip("RAVENBOT_CORPORA is not set: Discord's OpenAPI document is not at hand")
	}
	f, err := os.Open(filepath.Join(dir, "discord", "openapi.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestMentionIsAnswered(t *testing.T) {
	t.Parallel()
	s := open(t, simdiscord.Options{Token: "secret"})
	guild := s.AddGuild("home")
	general := s.AddChannel(guild, "general")
	ann := s.AddManager("ann")
	dg := client(t, s, "secret")
	dg.AddHandler(func(dg *discordgo.Session, m *discordgo.MessageCreate) {
		if m.Author.ID == dg.State.User.ID {
			return
		}
		_, err := dg.ChannelMessageSendComplex(m.ChannelID, &discordgo.MessageSend{
			Content: "hello <@" + ann.ID + "> and @everyone: " + m.Content, Reference: m.Reference(),
			AllowedMentions: &discordgo.MessageAllowedMentions{}})
		if err != nil {
			t.Error(err)
		}
	})
	connect(t, s, dg)
	asked := s.Say(general.ID, ann, s.Mention()+" hi")
	got, err := s.WaitPost(within(t), general.ID, func(p simdiscord.Post) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(got.Content, "hi") || got.ReplyTo != asked.ID {
		t.Errorf("post = %+v", got)
	}
	if diff := cmp.Diff(simdiscord.Pings{}, got.Pings); diff != "" {
		t.Errorf("a post that allows no mention pings:\n%s", diff)
	}
	if _, err := dg.ChannelMessageSend(general.ID, "@here <@"+ann.ID+">"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(simdiscord.Pings{
		Everyone: true,
		Users:    []string{ann.ID},
	}, s.Posts(general.ID)[1].Pings); diff != "" {
		t.Errorf("absent allowed_mentions must ping all:\n%s", diff)
	}
}

func TestContentIntent(t *testing.T) {
	t.Parallel()
	s := open(t, simdiscord.Options{Privileged: simdiscord.IntentMessageContent})
	general := s.AddChannel(s.AddGuild("home"), "general")
	ann := s.AddUser("ann")
	seen := make(chan string, 10)
	dg := client(t, s, "token")
	dg.AddHandler(func(_ *discordgo.Session, m *discordgo.MessageCreate) { seen <- m.Content })
	connect(t, s, dg)
	mine, err := dg.ChannelMessageSend(general.ID, "mine")
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name, want string
		say        func()
	}{
		{"own", "mine", func() {}},
		{"plain", "", func() { s.Say(general.ID, ann, "plain") }},
		{"mention", s.Mention() + " x", func() { s.Say(general.ID, ann, s.Mention()+" x") }},
		{"reply", "re", func() { s.Say(general.ID, ann, "re", simdiscord.ReplyTo(mine.ID)) }},
		{"quiet reply", "", func() { s.Say(general.ID, ann, "re", simdiscord.QuietReplyTo(mine.ID)) }},
		{"direct", "dm", func() { s.Say(s.AddDM(ann).ID, ann, "dm") }},
	}
	for _, c := range cases {
		c.say()
		if got := receive(t, seen); got != c.want {
			t.Errorf("%s: content %q, want %q", c.name, got, c.want)
		}
	}
}

func TestSlashDeferredAndEdited(t *testing.T) {
	t.Parallel()
	s := open(t, simdiscord.Options{OpenAPI: openAPI(t)})
	general := s.AddChannel(s.AddGuild("home"), "general")
	ann := s.AddUser("ann")
	if _, err := s.Slash(general.ID, ann, "raven", "ask", nil); err == nil {
		t.Error("an unregistered command was run")
	}
	dg := client(t, s, "token")
	twice := make(chan error, 1)
	dg.AddHandler(func(dg *discordgo.Session, i *discordgo.InteractionCreate) {
		later := &discordgo.InteractionResponse{Type: discordgo.InteractionResponseDeferredChannelMessageWithSource}
		if err := dg.InteractionRespond(i.Interaction, later); err != nil {
			t.Error(err)
		}
		twice <- dg.InteractionRespond(i.Interaction, later)
		text := "42: " + i.ApplicationCommandData().Options[0].Options[0].StringValue()
		if _, err := dg.InteractionResponseEdit(i.Interaction, &discordgo.WebhookEdit{Content: &text}); err != nil {
			t.Error(err)
		}
		if _, err := dg.FollowupMessageCreate(i.Interaction, true, &discordgo.WebhookParams{
			Content: "more",
			Flags:   discordgo.MessageFlagsEphemeral,
		}); err != nil {
			t.Error(err)
		}
	})
	connect(t, s, dg)
	registered, err := dg.ApplicationCommandBulkOverwrite(s.Bot().ID, "",
		[]*discordgo.ApplicationCommand{{Name: "raven", Description: "the bot",
			Options: []*discordgo.ApplicationCommandOption{{Type: discordgo.ApplicationCommandOptionSubCommand, Name: "ask",
				Description: "ask it",
				Options: []*discordgo.ApplicationCommandOption{{Type: discordgo.ApplicationCommandOptionString, Name: "question",
					Description: "what"}}}}}})
	if err != nil || len(registered) != 1 {
		t.Fatalf("registered %v: %v", registered, err)
	}
	if err := s.WaitCommand(within(t), "raven"); err != nil {
		t.Fatal(err)
	}
	in, err := s.Slash(general.ID, ann, "raven", "ask", map[string]any{"question": "why"})
	if err != nil {
		t.Fatal(err)
	}
	if cb, err := s.WaitCallback(within(t), in.ID); err != nil || cb.Type != simdiscord.CallbackDeferred {
		t.Errorf("callback %+v: %v", cb, err)
	}
	if err := receive(t, twice); err == nil || !strings.Contains(err.Error(), "40060") {
		t.Errorf("second callback: %v", err)
	}
	if _, err := s.WaitAnswer(within(t), in.ID, func(p simdiscord.Post) bool {
		return p.Content == "42: why" && p.Edits == 1
	}); err != nil {
		t.Error(err)
	}
	if p, err := s.WaitAnswer(within(t), in.ID, func(p simdiscord.Post) bool {
		return p.Content == "more"
	}); err != nil || !p.Ephemeral() {
		t.Errorf("follow-up %+v: %v", p, err)
	}
	if v := s.Violations(); len(v) > 0 {
		t.Errorf("violations: %v", v)
	}
}

func TestButtonUpdatesItsMessage(t *testing.T) {
	t.Parallel()
	s := open(t, simdiscord.Options{})
	general := s.AddChannel(s.AddGuild("home"), "general")
	dg := client(t, s, "token")
	dg.AddHandler(func(dg *discordgo.Session, i *discordgo.InteractionCreate) {
		err := dg.InteractionRespond(i.Interaction,
			&discordgo.InteractionResponse{Type: discordgo.InteractionResponseUpdateMessage,
				Data: &discordgo.InteractionResponseData{Content: "chose " + i.MessageComponentData().CustomID,
					Components: []discordgo.MessageComponent{}}})
		if err != nil {
			t.Error(err)
		}
	})
	connect(t, s, dg)
	m, err := dg.ChannelMessageSendComplex(general.ID, &discordgo.MessageSend{Content: "?",
		Components: []discordgo.MessageComponent{
			discordgo.ActionsRow{Components: []discordgo.MessageComponent{discordgo.Button{Label: "Yes", CustomID: "yes"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	in := s.Click(m.ID, s.AddUser("ann"), "yes")
	if cb, err := s.WaitCallback(within(t), in.ID); err != nil || cb.Type != simdiscord.CallbackUpdate {
		t.Errorf("callback %+v: %v", cb, err)
	}
	if got := s.Posts(general.ID); len(got) != 1 || got[0].Content != "chose yes" {
		t.Errorf("posts %+v", got)
	}
}

// post sends a raw body and returns status and Discord's error code.
func post(t *testing.T, s *simdiscord.Server, method, path, body string) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t), method, s.URL()+"/api/v10"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bot token")
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer map[string]any
	_ = json.Unmarshal(raw, &answer) // lists and HTML are not looked at
	return resp.StatusCode, answer
}

func TestMessageLimits(t *testing.T) {
	t.Parallel()
	s := open(t, simdiscord.Options{})
	general := s.AddChannel(s.AddGuild("home"), "general")
	fields := strings.Repeat(`{"name":"a","value":"b"},`, 26)
	cases := []struct {
		name, channel, body string
		status              int
		code                float64
	}{
		{"fits", general.ID, `{"content":"` + strings.Repeat("é", 2000) + `"}`, 200, 0},
		{"too long", general.ID, `{"content":"` + strings.Repeat("é", 2001) + `"}`, 400, 50035},
		{"empty", general.ID, `{"content":" "}`, 400, 50006},
		{"no channel", "1", `{"content":"x"}`, 404, 10003},
		{"fields", general.ID, `{"embeds":[{"fields":[` + strings.TrimSuffix(fields, ",") + `]}]}`, 400, 50035},
		{"embed total", general.ID, `{"embeds":[{"description":"` + strings.Repeat("a", 4000) + `"},{"description":"` + strings.Repeat("a", 2001) + `"}]}`, 400, 50035},
		{"eleven embeds", general.ID, `{"embeds":[` + strings.TrimSuffix(strings.Repeat(`{"title":"a"},`, 11), ",") + `]}`, 400, 50035},
		{"nonce", general.ID, `{"content":"x","nonce":"` + strings.Repeat("n", 26) + `"}`, 400, 50035},
		{"mentions", general.ID, `{"content":"x","allowed_mentions":{"parse":["users"],"users":["1"]}}`, 400, 50035},
		{"reply to nothing", general.ID, `{"content":"x","message_reference":{"message_id":"1"}}`, 400, 50035},
		{"not JSON", general.ID, `{`, 400, 50109},
	}
	for _, c := range cases {
		status, answer := post(t, s, "POST", "/channels/"+c.channel+"/messages", c.body)
		if code, _ := answer["code"].(float64); status != c.status || code != c.code {
			t.Errorf("%s: %d %v, want %d %v", c.name, status, answer, c.status, c.code)
		}
	}
}

func TestNonceReturnsTheSameMessage(t *testing.T) {
	t.Parallel()
	s := open(t, simdiscord.Options{})
	general := s.AddChannel(s.AddGuild("home"), "general")
	path, body := "/channels/"+general.ID+"/messages", `{"content":"once","nonce":"n1","enforce_nonce":true}`
	s.Fail(sim.Fault{Match: sim.MatchPath("POST", "/messages"), Times: 1, Status: 502, Accept: true,
		Body: "<html>bad gateway</html>"})
	if status, _ := post(t, s, "POST", path, body); status != 502 {
		t.Fatalf("status %d, want 502", status)
	}
	if status, answer := post(t, s, "POST", path, body); status != 200 || answer["id"] != s.Posts(general.ID)[0].ID {
		t.Errorf("%d %v", status, answer)
	}
	if n := len(s.Posts(general.ID)); n != 1 {
		t.Errorf("%d posts, want 1", n)
	}
}

func TestRESTHistoryThreadsAndReactions(t *testing.T) {
	t.Parallel()
	s := open(t, simdiscord.Options{OpenAPI: openAPI(t), Privileged: simdiscord.IntentMessageContent})
	general := s.AddChannel(s.AddGuild("home"), "general")
	ann := s.AddUser("ann")
	var said []simdiscord.Post
	for range 5 {
		said = append(said, s.Say(general.ID, ann, "x"))
	}
	dg := client(t, s, "token")
	after, err := dg.ChannelMessages(general.ID, 2, "", said[1].ID, "")
	if err != nil || len(after) != 2 || after[0].ID != said[3].ID || after[1].ID != said[2].ID {
		t.Errorf("after: %v %v", after, err)
	}
	before, err := dg.ChannelMessages(general.ID, 2, said[3].ID, "", "")
	if err != nil || len(before) != 2 || before[0].ID != said[2].ID {
		t.Errorf("before: %v %v", before, err)
	}
	thread, err := dg.MessageThreadStart(general.ID, said[0].ID, "talk", 60)
	if err != nil || thread.ParentID != general.ID {
		t.Fatalf("thread %v: %v", thread, err)
	}
	m, err := dg.ChannelMessageSendComplex(thread.ID, &discordgo.MessageSend{Content: "file",
		Files: []*discordgo.File{{Name: "a.txt", ContentType: "text/plain", Reader: strings.NewReader("abc")}}})
	if err != nil || len(m.Attachments) != 1 || string(s.Posts(thread.ID)[0].Files[0].Body) != "abc" {
		t.Fatalf("upload %v: %v", m, err)
	}
	if err := dg.MessageReactionAdd(thread.ID, m.ID, "👀"); err != nil {
		t.Error(err)
	}
	if got := s.Reactions(m.ID); len(got["👀"]) != 1 {
		t.Errorf("reactions %v", got)
	}
	if err := dg.ChannelTyping(thread.ID); err != nil || s.Typing(thread.ID) != 1 {
		t.Errorf("typing: %v", err)
	}
	if err := dg.ChannelMessageDelete(thread.ID, m.ID); err != nil || !s.Posts(thread.ID)[0].Deleted {
		t.Errorf("delete: %v", err)
	}
	dm, err := dg.UserChannelCreate(ann.ID)
	if err != nil || dm.ID != s.AddDM(ann).ID {
		t.Errorf("direct message channel %v: %v", dm, err)
	}
	if v := s.Violations(); len(v) > 0 {
		t.Errorf("violations: %v", v)
	}
}

func TestViolations(t *testing.T) {
	t.Parallel()
	s := open(t, simdiscord.Options{OpenAPI: openAPI(t)})
	general := s.AddChannel(s.AddGuild("home"), "general")
	messages := "/channels/" + general.ID + "/messages"
	cases := []struct {
		name, method, path, body string
		bad                      bool
	}{
		{"right", "POST", messages, `{"content":"x","nonce":"1","enforce_nonce":true,"flags":4,"allowed_mentions":{"parse":[]}}`, false},
		{"number as string", "POST", messages, `{"content":"x","flags":"4"}`, false},
		{"wrong type", "POST", messages, `{"content":5}`, true},
		{"wrong flag type", "POST", messages, `{"content":"x","flags":"four"}`, true},
		{"unknown path", "GET", "/channel/1", ``, true},
		{"unknown method", "PUT", messages, `{}`, true},
		{"unknown query", "GET", messages + "?since=1", ``, true},
		{"limit too large", "GET", messages + "?limit=101", ``, true},
		{"missing required", "POST", "/applications/" + s.Bot().ID + "/commands", `{"description":"x"}`, true},
		{"path not a snowflake", "GET", "/channels/general", ``, true},
	}
	for _, c := range cases {
		before := len(s.Violations())
		post(t, s, c.method, c.path, c.body)
		if found := s.Violations()[before:]; (len(found) > 0) != c.bad {
			t.Errorf("%s: violations %v", c.name, found)
		}
	}
}
