package slack_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ravenbot/adapters/slack"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/chattest"
	"ravenbot/internal/testing/sim"
	simslack "ravenbot/internal/testing/sim/slack"
)

// bot is the platform at work against a simulated Slack; it keeps what it is
// handed.
type bot struct {
	*slack.Slack
	sim *simslack.Server

	mu     sync.Mutex
	got    []chat.Message
	more   chan struct{} // gets a token for each message
	refuse func(chat.Message) error
	ended  chan error
	stop   func()
}

func start(t *testing.T, so simslack.Options, o slack.Options) *bot {
	t.Helper()
	server, err := simslack.New(so)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return join(t, server, o)
}

// join brings a bot to a Slack that is there already.
func join(t *testing.T, server *simslack.Server, o slack.Options) *bot {
	t.Helper()
	o.APIBaseURL = server.APIURL()
	o.Commands, o.MessageCommands = chattest.Commands(), chattest.MessageCommands()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.BotToken == "" {
		o.BotToken = "xoxb-token"
	}
	if o.AppToken == "" {
		o.AppToken = "xapp-token"
	}
	if o.Mode == "" {
		o.Mode = "socket"
	}
	b := &bot{Slack: slack.New(o), sim: server, more: make(chan struct{}, 10_000), ended: make(chan error, 1)}
	ctx, stop := context.WithCancel(context.Background())
	go func() { b.ended <- b.Run(ctx, b.accept) }()
	b.stop = sync.OnceFunc(func() {
		stop()
		select {
		case <-b.ended:
		case <-time.After(20 * time.Second):
			t.Error("Run does not end")
		}
	})
	t.Cleanup(b.stop)
	return b
}

func (b *bot) accept(_ context.Context, m chat.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refuse != nil {
		if err := b.refuse(m); err != nil {
			return err
		}
	}
	b.got = append(b.got, m)
	b.more <- struct{}{}
	return nil
}

func (b *bot) wait(t *testing.T, n int) []chat.Message {
	t.Helper()
	for {
		b.mu.Lock()
		got := slices.Clone(b.got)
		b.mu.Unlock()
		if len(got) >= n {
			return got
		}
		select {
		case <-b.more:
		case <-time.After(20 * time.Second):
			t.Fatalf("%d messages came, want %d", len(got), n)
		}
	}
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func up(t *testing.T, b *bot) {
	t.Helper()
	if err := b.sim.WaitConnections(deadline(t), 1); err != nil {
		t.Fatal(err)
	}
}

func TestAMentionIsOneMessageThoughItComesTwice(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
	up(t, b)
	e := b.sim.Mention(channel, anna, "what is <https://example.org|this> &amp; that?")
	got := b.wait(t, 2)
	want := chat.Message{ID: simslack.TeamID + "/" + channel + "/" + e.TS, Reach: chat.Addressed,
		Author: chat.User{ID: anna.ID},
		Text:   "what is [this](https://example.org) & that?", Reply: chat.Reply{MessageID: e.TS},
		Conversation: chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: channel, Thread: e.TS}}
	for _, m := range got {
		m.Time, m.Author.Name = time.Time{}, "" // the second may have the name already
		if fmt.Sprint(m) != fmt.Sprint(want) {
			t.Errorf("got %+v\nwant %+v", m, want)
		}
	}
	for _, id := range e.IDs {
		if d, err := b.sim.WaitAck(deadline(t), id); err != nil || d.After > 3*time.Second {
			t.Errorf("event %s: %+v, %v", id, d, err)
		}
	}
}

func TestWhoIsSpokenTo(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel, anna, berit := b.sim.AddChannel("general").ID, b.sim.AddUser("anna"), b.sim.AddUser("berit")
	up(t, b)
	b.sim.DM(anna, "hello")
	root := b.sim.Say(channel, anna, "just talking")
	b.sim.ThreadReply(channel, root.TS, berit, "and you?")
	b.sim.ThreadReply(channel, root.TS, berit, "<@"+anna.ID+"> and you?")
	b.sim.Say(channel, anna, "hey <@U2>") // the shortest form of an ID that examples have
	got := b.wait(t, 5)
	slices.SortFunc(got, func(x, y chat.Message) int { return strings.Compare(x.Reply.MessageID, y.Reply.MessageID) })
	own, err := b.Post(deadline(t), chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: channel},
		chat.Draft{Key: "digest", Text: "news"})
	if err != nil {
		t.Fatal(err)
	}
	b.sim.ThreadReply(channel, own.IDs[0], berit, "more on that")
	if below := b.wait(t, 6)[5]; below.Reach != chat.Addressed {
		t.Errorf("a reply below a post of the bot is %s", below.Reach)
	}
	type view struct {
		reach    chat.Reach
		thread   bool
		forOther bool
	}
	want := []view{{chat.Addressed, false, false}, {chat.Overheard, false, false}, {chat.Followed, true, false},
		{chat.Followed, true, true}, {chat.Overheard, false, true}}
	for i, m := range got {
		if v := (view{m.Reach, m.Conversation.Thread == root.TS, m.ForOther}); v != want[i] {
			t.Errorf("message %q: %+v, want %+v", m.Text, v, want[i])
		}
	}
}

func TestASlashCommandIsAnsweredThoughItTakesLong(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
	up(t, b)
	call := b.sim.Slash(channel, anna, "/raven", "ask who are you?")
	m := b.wait(t, 1)[0]
	if m.Command != "ask" || m.Text != "who are you?" || !strings.HasPrefix(m.ID, "cmd/"+call.TriggerID+"/") ||
		m.Conversation.Channel != channel {
		t.Errorf("the command became %+v", m)
	}
	if d, err := b.sim.WaitAck(deadline(t), call.EventID); err != nil || d.After > 3*time.Second {
		t.Errorf("ack %+v, %v", d, err)
	}
	for n := range 6 {
		d := chat.Draft{Key: fmt.Sprint("answer", n), Text: fmt.Sprint("answer ", n), Reply: m.Reply}
		if _, err := b.Post(deadline(t), m.Conversation, d); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.sim.WaitAnswer(deadline(t), call, func(a simslack.Answer) bool {
		return strings.Contains(fmt.Sprint(a), "answer 0")
	}); err != nil {
		t.Error(err)
	}
	if _, err := b.sim.WaitPost(deadline(t), channel, func(p simslack.Post) bool {
		return strings.Contains(p.Shown(), "answer 5")
	}); err != nil {
		t.Error("after its uses the response_url was not left: ", err)
	}
}

func TestSlackIsToldOnlyWhenTheMessageIsStored(t *testing.T) {
	b := start(t, simslack.Options{AckWithin: 200 * time.Millisecond,
		RetryDelays: []time.Duration{10 * time.Millisecond, 10 * time.Millisecond, 10 * time.Millisecond}}, slack.Options{})
	channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
	up(t, b)
	failures := 0
	b.refuse = func(chat.Message) error {
		if failures++; failures <= 2 {
			return errors.New("disk full")
		}
		return nil
	}
	e := b.sim.DM(anna, "hello")
	b.wait(t, 1)
	d, err := b.sim.WaitAck(deadline(t), e.IDs[0])
	if err != nil || d.Attempt == 0 {
		t.Errorf("acknowledged at %+v (%v), want after the store had taken it", d, err)
	}
	_ = channel
}

func TestWhatCannotBeReadIsAcknowledged(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	up(t, b)
	id := b.sim.InjectPayload("events_api", json.RawMessage(`{"type":"event_callback","event":{"type":["not","a",`+
		`"string"]}}`))
	if _, err := b.sim.WaitAck(deadline(t), id); err != nil {
		t.Error(err)
	}
	anna := b.sim.AddUser("anna")
	b.sim.Inject(`{"type":"events_api"`)
	b.sim.DM(anna, "still there?")
	b.wait(t, 1)
}

func corpora(t *testing.T, path string) string {
	t.Helper()
	dir := os.Getenv("RAVENBOT_CORPORA")
	if dir == "" {
		t.Skip("RAVENBOT_CORPORA is not set")
	}
	return filepath.Join(dir, path)
}

// answered are the public sample events that a person wrote.
var answered = map[string]bool{"AppMentionPayload.json": true, "MessagePayload.json": true,
	"MessageFileSharePayload.json": true,
	"MessageMePayload.json":        true, "MessageThreadBroadcastPayload.json": true}

func TestSampleEventsReachTheBotOnlyIfAPersonWroteThem(t *testing.T) {
	files, err := filepath.Glob(corpora(t, "slack/events/*.json"))
	if err != nil || len(files) < 90 {
		t.Fatalf("%d samples, %v", len(files), err)
	}
	b := start(t, simslack.Options{}, slack.Options{})
	up(t, b)
	want := 0
	for i, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var payload map[string]any
		if err := json.Unmarshal(raw, &payload); err != nil {
			t.Fatal(err)
		}
		payload["type"], payload["team_id"] = "event_callback", simslack.TeamID
		if event, ok := payload["event"].(map[string]any); ok {
			for key, value := range map[string]string{"user": "U777", "channel": "C777", "ts": fmt.Sprintf("1700000000.%06d", i),
				"text": filepath.Base(file)} {
				if _, isText := event[key].(string); isText {
					event[key] = value
				}
			}
			if answered[filepath.Base(file)] {
				event["bot_id"] = ""
			}
		}
		full, err := json.Marshal(payload)
		if err != nil {
			t.Fatal(err)
		}
		id := b.sim.InjectPayload("events_api", full)
		if _, err := b.sim.WaitAck(deadline(t), id); err != nil {
			t.Errorf("%s was not acknowledged: %v", filepath.Base(file), err)
		}
		if answered[filepath.Base(file)] {
			want++
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.got {
		if !answered[strings.TrimSpace(m.Text)] && !strings.Contains(m.Text, "attached file") {
			t.Errorf("a sample that nobody wrote reached the bot: %q", m.Text)
		}
	}
	if len(b.got) != want {
		t.Errorf("%d samples reached the bot, want %d", len(b.got), want)
	}
}

func TestALongAnswerIsSplitAndPingsNobody(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel := b.sim.AddChannel("general").ID
	up(t, b)
	text := "<!channel> <!here> <@U1> @everyone\n\n" +
		strings.Repeat("```go\nfmt.Println(1)\n```\n\n| a | b |\n|---|---|\n| 1 | [x](https://example.org/a) "+
			"|\n\nSome words. ", 300)
	ref, err := b.Post(deadline(t), chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: channel},
		chat.Draft{Key: "k", Text: text})
	if err != nil {
		t.Fatal(err)
	}
	posts := b.sim.Posts(channel)
	if len(posts) < 2 || len(ref.IDs) != len(posts) {
		t.Fatalf("%d posts and %d ids, want several", len(posts), len(ref.IDs))
	}
	for i, p := range posts {
		if p.Pings.Any() {
			t.Errorf("post %d pings %+v", i, p.Pings)
		}
		if n := strings.Count(p.Markdown, "```"); n%2 != 0 {
			t.Errorf("post %d has %d fences", i, n)
		}
	}
}

func TestNaughtyStringsPingNobody(t *testing.T) {
	raw, err := os.ReadFile(corpora(t, "text/naughty-strings/blns.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	b := start(t, simslack.Options{}, slack.Options{})
	channel := b.sim.AddChannel("general").ID
	up(t, b)
	to := chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: channel}
	for n, s := range list {
		d := chat.Draft{
			Key:   fmt.Sprint(n),
			Text:  s,
			Cards: []chat.Card{{Title: s, URL: "https://example.org", Text: s, Source: s}},
		}
		if _, err := b.Post(deadline(t), to, d); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, p := range b.sim.Posts(channel) {
		if p.Pings.Any() {
			t.Errorf("%q pings %+v", p.Text, p.Pings)
		}
	}
}

func TestADigestKeepsToTheLimits(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel := b.sim.AddChannel("news").ID
	up(t, b)
	d := chat.Draft{Key: "digest", Text: "**News**: 60 stories", Footer: "summary by nobody"}
	for n := range 60 {
		d.Cards = append(d.Cards, chat.Card{Title: fmt.Sprintf("Story %d <b> | & more", n),
			URL:  fmt.Sprintf("https://example.org/%d?a=1&b=2", n),
			Text: strings.Repeat("word ", 100), Source: "Feed", Time: time.Now(), Also: []chat.Link{{
				Title: "Other",
				URL:   "https://example.com",
			}}})
	}
	if _, err := b.Post(deadline(t), chat.Address{
		Platform:  "slack",
		Workspace: simslack.TeamID,
		Channel:   channel,
	}, d); err != nil {
		t.Fatal(err)
	}
	shown := ""
	for _, p := range b.sim.Posts(channel) {
		if len(p.Blocks) == 0 {
			t.Error("a post of the digest has no blocks")
		}
		shown += p.Shown()
	}
	for n := range 60 {
		if !strings.Contains(shown, fmt.Sprintf("https://example.org/%d?", n)) {
			t.Errorf("story %d is missing", n)
		}
	}
}

// Slack fetches pictures itself, and refuses a post for one that it cannot get.
func TestAPictureThatSlackCannotGetCostsThePictureAlone(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel := b.sim.AddChannel("news").ID
	up(t, b)
	to := chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: channel}
	d := chat.Draft{
		Key:   "1",
		Text:  "**News**",
		Cards: []chat.Card{{N: 3, Title: "A story", URL: "https://example.org/1", Image: "https://example.org/1.png"}},
	}
	if _, err := b.Post(deadline(t), to, d); err != nil {
		t.Fatal(err)
	}
	b.sim.Fail(sim.Fault{
		Match:  sim.MatchPath("POST", "chat.postMessage"),
		Times:  1,
		Status: 200,
		Body:   `{"ok":false,"error":"invalid_blocks"}`,
	})
	d.Key = "2"
	if _, err := b.Post(deadline(t), to, d); err != nil {
		t.Fatal(err)
	}
	posts := b.sim.Posts(channel)
	if len(posts) != 2 {
		t.Fatalf("%d posts, want 2", len(posts))
	}
	for n, p := range posts {
		blocks := string(p.Blocks)
		if strings.Contains(blocks, `"image_url":"https://example.org/1.png"`) != (n == 0) ||
			!strings.Contains(blocks, `*3. \u003chttps://example.org/1|A story\u003e*`) &&
				!strings.Contains(blocks, `*3. <https://example.org/1|A story>*`) {
			t.Errorf("post %d has the blocks %s", n, blocks)
		}
	}
}

func TestAThreadIsBelowItsPost(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	at := chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: b.sim.AddChannel("news").ID}
	up(t, b)
	head, err := b.Post(deadline(t), at, chat.Draft{Key: "head", Text: "head"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		post chat.Ref
		want string
	}{{head, head.IDs[0]}, {chat.Ref{IDs: []string{"response/abc"}}, ""}, {chat.Ref{}, ""}} {
		if to, err := b.Thread(deadline(t), at, c.post, "News"); err != nil || to.Thread != c.want || to.Base() != at {
			t.Errorf("below %v: %v, %v; want thread %q", c.post.IDs, to, err, c.want)
		}
	}
}

func TestLimitsAreWaitedForInOrder(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel := b.sim.AddChannel("general").ID
	up(t, b)
	b.sim.RateLimit("chat.postMessage", 2, time.Second)
	to := chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: channel}
	for n := range 3 {
		if _, err := b.Post(deadline(t), to, chat.Draft{Key: fmt.Sprint(n), Text: fmt.Sprint("post ", n)}); err != nil {
			t.Fatal(err)
		}
	}
	var texts []string
	for _, p := range b.sim.Posts(channel) {
		texts = append(texts, p.Shown())
	}
	if fmt.Sprint(texts) != "[post 0 post 1 post 2]" {
		t.Errorf("posted %q", texts)
	}
}

func TestAPostThatWasMadeAlthoughItFailedIsNotMadeAgain(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
	up(t, b)
	root := b.sim.Mention(channel, anna, "hi")
	for _, to := range []chat.Address{{Channel: channel}, {Channel: channel, Thread: root.TS}} {
		off := b.sim.Fail(sim.Fault{Match: sim.MatchPath("POST", "chat.postMessage"), Times: 1, Accept: true, Status: 503})
		d := chat.Draft{Key: "once" + to.Thread, Text: "only once " + to.Thread}
		_, err := b.Post(deadline(t), to, d)
		var failed *chat.PostError
		if !errors.As(err, &failed) || !failed.Maybe {
			t.Fatalf("got %v, want an unknown outcome", err)
		}
		off()
		d.Again = true
		ref, err := b.Post(deadline(t), to, d)
		if err != nil || len(ref.IDs) != 1 {
			t.Fatal(ref, err)
		}
	}
	n := 0
	for _, p := range b.sim.Posts(channel) {
		n += strings.Count(p.Shown(), "only once")
	}
	if n != 2 {
		t.Errorf("%d posts were made, want 2", n)
	}
}

func TestARefusedPostSaysWhatToDo(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	secret := b.sim.AddOtherChannel("elsewhere").ID
	up(t, b)
	_, err := b.Post(deadline(t), chat.Address{Channel: secret}, chat.Draft{Key: "k", Text: "hello"})
	var failed *chat.PostError
	if !errors.As(err, &failed) || !failed.Permanent || !strings.Contains(err.Error(), "/invite") {
		t.Errorf("got %v, want a refusal with its remedy", err)
	}
}

func TestARefusedTokenEndsRunWithItsRemedy(t *testing.T) {
	for _, o := range []slack.Options{{BotToken: "xoxb-wrong"}, {AppToken: "xapp-wrong"}, {Mode: "http"}} {
		b := start(t, simslack.Options{}, o)
		select {
		case err := <-b.ended:
			var setup *chat.SetupError
			if !errors.As(err, &setup) || setup.Remedy == "" {
				t.Errorf("%+v: %v, want a refusal with its remedy", o, err)
			}
			b.ended <- nil
		case <-time.After(20 * time.Second):
			t.Errorf("%+v: still running", o)
		}
	}
}

// drops is how many refreshes a test makes: few, or as many as RAVENBOT_DROPS says.
func drops(t *testing.T) int {
	t.Helper()
	text := os.Getenv("RAVENBOT_DROPS")
	if text == "" {
		return 6
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// talk is somebody who talks ten times a second.
type talk struct {
	mu         sync.Mutex
	said       []simslack.Event
	stop, done chan struct{}
}

func chatter(b *bot) *talk {
	anna := b.sim.AddUser("anna")
	c := &talk{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(c.done)
		pace := time.NewTicker(100 * time.Millisecond)
		defer pace.Stop()
		for n := 0; ; n++ {
			c.mu.Lock()
			c.said = append(c.said, b.sim.DM(anna, fmt.Sprint("message ", n)))
			c.mu.Unlock()
			select {
			case <-pace.C:
			case <-c.stop:
				return
			}
		}
	}()
	return c
}

// soFar is what was said up to now; end is all, and nothing follows.
func (c *talk) soFar() []simslack.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.said)
}

func (c *talk) end() []simslack.Event {
	close(c.stop)
	<-c.done
	return c.said
}

// inOrder wants every event acknowledged, and each taken, the first time in order.
func inOrder(t *testing.T, b *bot, events []simslack.Event) (slowest time.Duration, again int) {
	t.Helper()
	for _, e := range events {
		d, err := b.sim.WaitAck(deadline(t), e.IDs[0])
		if err != nil {
			t.Fatalf("lost: %v", err)
		}
		if slowest = max(slowest, d.After); d.Attempt > 0 {
			again++
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	seen, next := map[string]bool{}, 0
	for _, m := range b.got {
		if seen[m.ID] {
			continue
		}
		if seen[m.ID] = true; again == 0 && m.Reply.MessageID != events[next].TS {
			t.Fatalf("message %d came out of order", next)
		}
		next++
	}
	if next != len(events) {
		t.Errorf("%d of %d messages came", next, len(events))
	}
	return slowest, again
}

// Slack warns before it refreshes a connection. The next one is there before the
// old one goes, so that nothing has to be sent twice.
func TestAnAnnouncedRefreshLeavesNoGap(t *testing.T) {
	b := start(t, simslack.Options{RetryDelays: []time.Duration{}, RefreshGrace: 50 * time.Millisecond}, slack.Options{})
	up(t, b)
	talking := chatter(b)
	for n := range drops(t) {
		b.sim.Disconnect(1, "warning")
		if err := b.sim.WaitConnections(deadline(t), 2); err != nil {
			t.Fatal(err)
		}
		b.wait(t, 4*n+2)
		b.sim.Disconnect(1, "refresh_requested")
		b.wait(t, 4*n+4)
		if opened := b.sim.Opened(); opened != n+2 {
			t.Fatalf("%d connections after %d refreshes", opened, n+1)
		}
		if h := b.Health(); !h.Connected {
			t.Errorf("not connected: %s", h.Detail)
		}
	}
	events := talking.end()
	slowest, again := inOrder(t, b, events)
	if again != 0 {
		t.Errorf("%d of %d messages came late", again, len(events))
	}
	t.Logf("%d refreshes, %d messages, none twice, slowest acknowledgement %v", drops(t), len(events), slowest)
}

// Without a warning Slack sends nothing more by the old connection; what comes
// before the next one is there it sends again.
func TestARefreshWithoutWarningLosesNothing(t *testing.T) {
	b := start(t, simslack.Options{
		RetryDelays:  []time.Duration{50 * time.Millisecond, 50 * time.Millisecond, time.Second},
		RefreshGrace: time.Second,
	}, slack.Options{})
	up(t, b)
	talking := chatter(b)
	for n := range drops(t) {
		b.wait(t, 2*n+1)
		b.sim.Disconnect(0, "refresh_requested")
		if err := b.sim.WaitConnections(deadline(t), 1); err != nil || b.sim.Opened() != n+2 {
			t.Fatalf("%d connections after %d refreshes, %v", b.sim.Opened(), n+1, err)
		}
	}
	events := talking.end()
	slowest, again := inOrder(t, b, events)
	if n := b.sim.Connections(); n > 5 {
		t.Errorf("%d connections are left", n)
	}
	t.Logf("%d refreshes, %d messages, %d of them sent again, slowest acknowledgement %v", drops(t), len(events),
		again, slowest)
}

func TestDropsLoseNothing(t *testing.T) {
	b := start(t, simslack.Options{RetryDelays: slices.Repeat([]time.Duration{500 * time.Millisecond}, 30)},
		slack.Options{})
	up(t, b)
	talking := chatter(b)
	for range drops(t) {
		acked(t, b, talking.soFar()...) // the next drop comes when what the last one cost is made good
		b.wait(t, len(b.wait(t, 0))+2)
		b.sim.Drop(0)
	}
	events := talking.end()
	slowest, again := inOrder(t, b, events)
	t.Logf("%d drops, %d messages, %d of them sent again, slowest acknowledgement %v", drops(t), len(events),
		again, slowest)
}

func TestHTTPModeTakesSignedRequestsAlone(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{Mode: "http", SigningSecret: "signing-secret"})
	server := httptest.NewServer(b.Handler())
	t.Cleanup(server.Close)
	if err := b.sim.VerifyURL(deadline(t), server.URL); err != nil {
		t.Fatal(err)
	}
	b.sim.DeliverHTTP(server.URL)
	channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
	b.sim.Mention(channel, anna, "hello")
	call := b.sim.Slash(channel, anna, "/raven", "help")
	got := b.wait(t, 3)
	if got[2].Command != "help" && got[0].Command != "help" && got[1].Command != "help" {
		t.Errorf("no command among %+v", got)
	}
	if d, err := b.sim.WaitAck(deadline(t), call.EventID); err != nil || d.Status != http.StatusOK {
		t.Errorf("command: %+v, %v", d, err)
	}
	body := []byte(`{"type":"event_callback","team_id":"T1","event":{"type":"message","user":"U9","channel":"D9",` +
		`"ts":"1.2","text":"x"}}`)
	good := simslack.SignedRequest{URL: server.URL + "/slack/events", ContentType: "application/json", Body: body}
	parcels := map[string]func(*simslack.SignedRequest){
		"wrong secret": func(p *simslack.SignedRequest) { p.Secret = "another" },
		"stale":        func(p *simslack.SignedRequest) { p.At = time.Now().Add(-6 * time.Minute) },
		"future":       func(p *simslack.SignedRequest) { p.At = time.Now().Add(6 * time.Minute) },
		"unsigned":     func(p *simslack.SignedRequest) { p.Header = map[string]string{"X-Slack-Signature": ""} },
	}
	for name, change := range parcels {
		p := good
		change(&p)
		if status := post(t, b, p); status != http.StatusUnauthorized {
			t.Errorf("%s: status %d", name, status)
		}
	}
	if status := post(t, b, good); status != http.StatusOK {
		t.Errorf("a good request: status %d", status)
	}
}

func post(t *testing.T, b *bot, p simslack.SignedRequest) int {
	t.Helper()
	status, _, err := b.sim.Post(deadline(t), p)
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// Of those who are turned away each is told once, alone, also where many are; a
// command is told of each time.
func TestBusyIsSaidOnceToEach(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	turned := make(chan struct{}, 1000)
	b.refuse = func(chat.Message) error { turned <- struct{}{}; return chat.ErrBusy }
	up(t, b)
	channel := b.sim.AddChannel("general").ID
	users := []simslack.User{}
	for n := range 100 {
		users = append(users, b.sim.AddUser(fmt.Sprint("user", n)))
	}
	for range 3 {
		for _, u := range users {
			b.sim.Mention(channel, u, "hi")
		}
	}
	for range 600 { // a mention comes as two events
		<-turned
	}
	told := map[string]int{}
	if _, err := b.sim.WaitEphemeral(deadline(t), func(p simslack.Post) bool {
		told[p.EphemeralTo]++
		return len(told) == len(users)
	}); err != nil {
		t.Fatalf("%d of %d were told: %v", len(told), len(users), err)
	}
	for n := range 2 {
		call := b.sim.Slash(channel, users[0], "/raven", "help")
		if a, err := b.sim.WaitAnswer(deadline(t), call, func(simslack.Answer) bool {
			return true
		}); err != nil || a.InChannel || !strings.Contains(a.Text, "busy right now") {
			t.Errorf("command %d is answered %+v: %v", n, a, err)
		}
	}
	for _, p := range b.sim.Ephemerals() {
		if p.ThreadTS != "" || !strings.Contains(p.Shown(), "try again") ||
			!strings.Contains(p.Shown(), "“hi”") && !strings.Contains(p.Shown(), "help") {
			t.Errorf("told with %+v", p)
		}
	}
	if n := len(b.sim.Ephemerals()); n != len(users) || len(b.sim.Posts(channel)) != 0 {
		t.Errorf("%d whispers to %d people, and %d posts for all to see", n, len(users), len(b.sim.Posts(channel)))
	}
}

// Each reader sees the time of an item in their own zone, and what is said of it in small print.
func TestPost_Card_ShowsTimeInTheReadersZone(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel := b.sim.AddChannel("news").ID
	up(t, b)
	at := time.Date(2026, 11, 21, 23, 30, 0, 0, time.UTC)
	d := chat.Draft{Key: "1", Text: `**News**: [Weekly links \#212](https://example.org/1) is out \[1\]`,
		Cards: []chat.Card{{
			Title: "A story", URL: "https://example.org/1", Source: "A & B", Time: at, Minutes: 4, Why: "told by 2 sources",
		}}}
	if _, err := b.Post(deadline(t), chat.Address{
		Platform:  "slack",
		Workspace: simslack.TeamID,
		Channel:   channel,
	}, d); err != nil {
		t.Fatal(err)
	}
	post := b.sim.Posts(channel)[0]
	want := fmt.Sprintf("A &amp; B · <!date^%d^{date_short_pretty} {time}|21 Nov 2026 23:30 UTC> · 4 min read · told "+
		"by 2 sources", at.Unix())
	var blocks []struct {
		Elements []struct{ Text string }
	}
	if err := json.Unmarshal(post.Blocks, &blocks); err != nil {
		t.Fatal(err)
	}
	if last := blocks[len(blocks)-1].Elements; len(last) != 1 || last[0].Text != want {
		t.Errorf("below the card stands %q, want %q", last, want)
	}
	if strings.Contains(post.Text, `\`) || !strings.Contains(post.Text, "Weekly links #212") {
		t.Errorf("the text for notifications is %q", post.Text)
	}
}

// A post names whom it is to notify; names in its text notify nobody.
func TestPost_Notify_IsInABlockOfItsOwn(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel := b.sim.AddChannel("news").ID
	up(t, b)
	d := chat.Draft{Key: "1", Text: "News for <!channel> and <@U9>", Notify: []string{"role:S1", "user:U2"}}
	if _, err := b.Post(deadline(t), chat.Address{
		Platform:  "slack",
		Workspace: simslack.TeamID,
		Channel:   channel,
	}, d); err != nil {
		t.Fatal(err)
	}
	var blocks []struct {
		Text     any
		Elements []struct{ Text string }
	}
	if err := json.Unmarshal(b.sim.Posts(channel)[0].Blocks, &blocks); err != nil {
		t.Fatal(err)
	}
	if last := blocks[len(blocks)-1]; len(last.Elements) != 1 || last.Elements[0].Text != "<!subteam^S1> <@U2>" {
		t.Errorf("blocks %s", b.sim.Posts(channel)[0].Blocks)
	}
	if text := fmt.Sprint(blocks[0].Text); strings.Contains(text, "<!channel>") || strings.Contains(text, "<@U9>") {
		t.Errorf("the text notifies: %s", text)
	}
}
