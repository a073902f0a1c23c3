package discord

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/google/go-cmp/cmp"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/turn/markdown"
)

// idleShard is a shard without a connection that keeps what it hands over.
type idleShard struct {
	*shard
	got chan chat.Message
}

func idle(t testing.TB) idleShard {
	d := New(Options{Token: "token", APIBaseURL: "http://127.0.0.1:1", Log: slog.New(slog.DiscardHandler),
		MessageContent: true,
		Former:         func(context.Context, chat.Message) (*chat.Form, error) { return nil, nil }})
	d.ending = true // nothing is started
	d.self = wireUser{ID: "1", Username: "raven"}
	got := make(chan chat.Message, 10_000)
	accept := func(_ context.Context, m chat.Message) error { got <- m; return nil }
	s := newShard(context.Background(), d, 0, 1, accept)
	s.connectedSince = time.Now()
	t.Cleanup(s.queues.Wait)
	return idleShard{s, got}
}

// handed returns the messages that the shard has handed over since the last call.
func (d idleShard) handed() []chat.Message {
	for d.isWaiting() {
		runtime.Gosched()
	}
	var list []chat.Message
	for len(d.got) > 0 {
		list = append(list, <-d.got)
	}
	return list
}

func (d idleShard) isWaiting() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting > 0
}

// one returns the only message that was handed over.
func (d idleShard) one(t *testing.T) chat.Message {
	t.Helper()
	list := d.handed()
	if len(list) != 1 {
		t.Fatalf("%d messages were handed over, want 1", len(list))
	}
	return list[0]
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"id":"5","channel_id":"2","guild_id":"3","type":0,"content":"<@1> hi <#2> <:x:9>",` +
		`"author":{"id":"4"},"mentions":[{"id":"1"}]}`))
	f.Add([]byte(`{"id":"5","application_id":"1","type":2,"token":"t","channel_id":"2","guild_id":"3",` +
		`"member":{"user":{"id":"4"},"permissions":"32"},"data":{"name":"raven","options":[{"name":"ask",` +
		`"options":[{"name":"text","value":"x"}]}]}}`))
	f.Add([]byte(`{"id":"5","channel_id":"2","type":0,"content":"","author":{"id":"4"},"attachments":[{"id":"6",` +
		`"filename":"a.png","content_type":"image/png","size":3,"url":"https://cdn.discordapp.com/a"}]}`))
	f.Add([]byte(`{"id":"5","application_id":"1","type":3,"token":"t","channel_id":"2","user":{"id":"4"},` +
		`"data":{"custom_id":"good","component_type":2},"message":{"id":"7"}}`))
	f.Add([]byte(`{"id":"5","application_id":"1","type":4,"token":"t","channel_id":"2","user":{"id":"4"},` +
		`"data":{"name":"raven","options":[{"name":"digest","options":[{"name":"name","value":"m","focused":true}]}]}}`))
	f.Add([]byte(`{"id":"5","application_id":"1","type":5,"token":"t","channel_id":"2","user":{"id":"4"},` +
		`"data":{"custom_id":"form","components":[{"type":18,"component":{"type":4,"custom_id":"a","value":"b"}},` +
		`{"type":18,"component":{"type":3,"custom_id":"c","values":["d"]}}]}}`))
	f.Add([]byte(`{"type":3,"data":null,"member":null,"user":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, state := idle(t), discordgo.NewState()
		d.onMessage(state, data)
		d.onInteraction(t.Context(), state, data)
		d.onUpdate(state, data)
		d.onDelete(state, data)
		d.onReady(t.Context(), newSession(), data)
		var w wirePost
		p := &postJob{d: d.Discord, draft: chat.Draft{Key: "k"}, pieces: []piece{{embeds: make([]embed, 1)}}}
		if json.Unmarshal(data, &w) == nil && p.isNext(w) &&
			(w.Author.ID != d.self.ID || len(w.Embeds) != 1 && len(w.Nonce) == 0) {
			t.Errorf("%s was taken for a post of the bot", data)
		}
		for _, m := range d.handed() {
			if _, err := json.Marshal(m); err != nil {
				t.Error(err)
			}
		}
	})
}

// A component that is newer than discordgo makes it drop the whole message.
func TestUnknownComponentLosesNoMessage(t *testing.T) {
	d := idle(t)
	d.onMessage(discordgo.NewState(), []byte(`{"id":"5","channel_id":"2","type":19,"content":"hi","author":{"id":"4"},
		"referenced_message":{"id":"6","author":{"id":"1"},"components":[{"type":99}]}}`))
	if m := d.one(t); m.Text != "hi" || m.Conversation.String() != "discord:@me/2" {
		t.Errorf("message %+v", m)
	}
}

func TestWhatIsForwardedIsRead(t *testing.T) {
	d := idle(t)
	d.onMessage(discordgo.NewState(), []byte(`{"id":"5","channel_id":"2","type":0,"content":"","author":{"id":"4"},"message_reference":{"type":1,"message_id":"9","channel_id":"8"},
		"message_snapshots":[{"message":{"content":" the train is late ","type":0}}]}`))
	if m := d.one(t); m.Text != "[forwarded message: the train is late]" {
		t.Errorf("message %+v", m)
	}
}

// Discord returns a bot a role of its own, which people mention instead of it.
func TestMentionOfTheBotsRole(t *testing.T) {
	d, state := idle(t), discordgo.NewState()
	err := state.GuildAdd(&discordgo.Guild{ID: "3", OwnerID: "4",
		Roles:   []*discordgo.Role{{ID: "30", Name: "raven", Managed: true}, {ID: "31", Name: "crew"}},
		Members: []*discordgo.Member{{GuildID: "3", User: &discordgo.User{ID: "1"}, Roles: []string{"30", "31"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for role, want := range map[string]chat.Message{
		"30": {Reach: chat.Addressed, Text: "hi"},
		"31": {Reach: chat.Overheard, Text: "@crew hi", ForOther: true},
	} {
		d.onMessage(state, []byte(`{"id":"5","channel_id":"2","guild_id":"3","content":"<@&`+role+
			`> hi","author":{"id":"4"},"mention_roles":["`+role+`"]}`))
		if got := d.one(t); got.Reach != want.Reach || got.Text != want.Text || got.ForOther != want.ForOther ||
			!got.Author.Admin {
			t.Errorf("role %s: %+v", role, got)
		}
	}
}

func TestPanicInAHandlerIsContained(t *testing.T) {
	d := idle(t)
	var log bytes.Buffer
	d.o.Log = slog.New(slog.NewTextHandler(&log, nil))
	d.handle(t.Context(), nil, frame{Type: "MESSAGE_CREATE"})
	if !strings.Contains(log.String(), "panic") {
		t.Errorf("log %q", log.String())
	}
}

func TestIdentifyBudget(t *testing.T) {
	b := newBudget(gatewayPlan{Shards: 1}, time.Time{})
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var all []time.Time
	if b.maxPerDay != 900 {
		t.Errorf("%d in a day", b.maxPerDay)
	}
	for i := range 3 * 900 {
		if b.claim(now, 0) == 0 {
			b.finishClaim(now, 0, false) // what came to nothing does not count
		}
		for p := b.claim(now, 0); p > 0; p = b.claim(now, 0) {
			now = now.Add(p)
		}
		b.finishClaim(now, 0, true)
		all = append(all, now)
		if i > 0 && now.Sub(all[i-1]) < identifyEvery {
			t.Errorf("session %d after %v", i, now.Sub(all[i-1]))
		}
		if i >= b.maxPerDay && now.Sub(all[i-b.maxPerDay]) < 24*time.Hour {
			t.Errorf("session %d is one too many in a day", i)
		}
	}
}

// Discord's own count includes what the bot began before a restart.
func TestIdentifiesLeftByDiscordsCount(t *testing.T) {
	p := gatewayPlan{Shards: 4}
	p.Limit.Total, p.Limit.Remaining, p.Limit.ResetAfter, p.Limit.Concurrency = 2000, 3, time.Hour.Milliseconds(), 2
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b := newBudget(p, now)
	for i, want := range []time.Duration{0, 0, identifyEvery, time.Hour} {
		got := b.claim(now, i)
		if got != want {
			t.Errorf("shard %d waits %v, want %v", i, got, want)
		}
		if got == identifyEvery && b.claim(now.Add(got), i) != 0 {
			t.Errorf("shard %d waits for ever", i)
		}
		b.finishClaim(now, i, true)
	}
	if got := b.claim(now.Add(time.Hour), 0); got != 0 || b.maxPerDay != 1800 {
		t.Errorf("after the reset %v, %d in a day", got, b.maxPerDay)
	}
}

func TestReconnectPauses(t *testing.T) {
	for range 100 {
		for failures, most := range map[int]time.Duration{0: 500 * time.Millisecond, 1: time.Second, 3: 4 * time.Second,
			50: time.Minute} {
			if p := (connectionEnd{}).pause(failures); p > most || failures > 0 && p < most/2 {
				t.Errorf("after %d failures: %v", failures, p)
			}
		}
		if p := (connectionEnd{invalid: true}).pause(0); p < time.Second || p > 5*time.Second {
			t.Errorf("after an invalid session: %v", p)
		}
	}
}

func TestLimits(t *testing.T) {
	cases := []struct {
		status int
		header map[string]string
		body   string
		pause  time.Duration
		global bool
	}{
		{status: 200, header: map[string]string{"X-Ratelimit-Remaining": "3", "X-Ratelimit-Reset-After": "2"}},
		{status: 200, header: map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset-After": "2.5"}, pause: 2500 * time.Millisecond},
		{status: 429, header: map[string]string{"Retry-After": "3"}, body: `{"retry_after":2.25,"global":false}`, pause: 2250 * time.Millisecond},
		{status: 429, header: map[string]string{"Retry-After": "3"}, body: `{"retry_after":3,"global":true}`, pause: 3 * time.Second, global: true},
		{status: 429, header: map[string]string{"Retry-After": "7"}, body: `<html>`, pause: 7 * time.Second, global: true},
		{status: 429, header: map[string]string{"Retry-After": "soon"}, body: ``, pause: unnamedPause, global: true},
		{status: 429, body: `{"retry_after":9e9,"global":true}`, pause: kit.MaxRest, global: true},
		{status: 429, body: `{"retry_after":9e99,"global":false}`, pause: kit.MaxRest},
		{status: 429, body: `{"retry_after":-1,"global":false}`, pause: unnamedPause},
		{status: 429, header: map[string]string{"Retry-After": "999999"}, body: `<html>`, pause: kit.MaxRest, global: true},
		{status: 200, header: map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset-After": "9e17"},
			pause: kit.MaxRest},
	}
	for _, c := range cases {
		h := map[string][]string{}
		for k, v := range c.header {
			h[k] = []string{v}
		}
		if pause, global := rateLimit(c.status, h, []byte(c.body)); pause != c.pause || global != c.global {
			t.Errorf("%+v: %v %v", c, pause, global)
		}
	}
}

func TestLiteral(t *testing.T) {
	for in, want := range map[string]string{
		"web_fetch and __dunder__": `web_fetch and \__dunder_\_`,
		"*a* `b` ~~c~~ ||d||":      "\\*a\\* \\`b\\` \\~\\~c\\~\\~ \\|\\|d\\|\\|",
		"[x](https://e.org)":       `[x\]\(https://e.org)`,
		"# h\n> q\n-# s":           "\\# h\n\\> q\n\\-\\# s",
		"<@1> a < b":               `\<@1> a \< b`,
		"plain, 1-2 (a) [b] a|b ~": "plain, 1-2 (a) [b] a|b ~",
	} {
		if got := escapeText(in); got != want {
			t.Errorf("literal(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestRenderKeepsTheLimits(t *testing.T) {
	if got := render(chat.Draft{Text: " "}); len(got) != 1 || got[0].text == "" {
		t.Errorf("an empty draft is %+v", got)
	}
	if got := render(chat.Draft{Text: "no luck", Failed: true}); got[0].text != "⚠️ no luck" {
		t.Errorf("an error is %+v", got)
	}
	dir := os.Getenv("RAVENBOT_CORPORA")
	if dir == "" {
		t.Skip("RAVENBOT_CORPORA is not set")
	}
	spec, err := os.ReadFile(filepath.Join(dir, "text/commonmark/spec.txt"))
	if err != nil {
		t.Fatal(err)
	}
	d := chat.Draft{Text: string(spec), Footer: strings.Repeat("a long footer ", 100), Cards: []chat.Card{
		{Title: strings.Repeat("𝔸", 500), Text: strings.Repeat("𝔸", 9000), URL: "ftp://example.org", Source: strings.Repeat("s", 3000)},
		{URL: "https://example.org/" + strings.Repeat("x", 3000), Also: make([]chat.Link, 2000)},
	}}
	var pieces []piece
	for _, text := range withSmallLine(markdown.Discord(d.Text), smallLine(d)) {
		pieces = append(pieces, piece{text: text})
	}
	if len(pieces) < 80 {
		t.Fatalf("%d pieces", len(pieces))
	}
	pieces = append(pieces, render(d)...)
	for _, p := range pieces {
		if markdown.Length(p.text) > maxText || p.text == "" && len(p.embeds) == 0 {
			t.Errorf("a piece of %d: %q", markdown.Length(p.text), p.text)
		}
		total := 0
		for _, e := range p.embeds {
			total += e.length()
			if markdown.Length(e.Title) > maxTitle || markdown.Length(e.Description) > maxDescription || e.URL != "" {
				t.Errorf("embed %+v", e)
			}
		}
		if total > maxEmbedsText {
			t.Errorf("%d characters of embeds", total)
		}
	}
}

func TestTokensAreNotShown(t *testing.T) {
	d := idle(t)
	err := d.api.do(t.Context(), request{method: "POST", path: "/interactions/12/SECRET/callback", free: true,
		body: noteCallback("x")}, nil)
	if err == nil || strings.Contains(err.Error(), "SECRET") ||
		!strings.Contains(err.Error(), "/interactions/12/***/callback") {
		t.Errorf("error %v", err)
	}
}

// Whoever answers over an encrypted connection does not name a gateway without.
func TestDialable_KeepsTheTokenEncrypted(t *testing.T) {
	d := New(Options{Token: "token"})
	for address, want := range map[string]string{
		"wss://gateway.discord.gg":            "wss://gateway.discord.gg/?encoding=json&v=10",
		"wss://gateway.discord.gg/x?region=n": "wss://gateway.discord.gg/x?encoding=json&region=n&v=10",
		"ws://gateway.discord.gg":             "",
		"https://gateway.discord.gg":          "",
		"":                                    "",
	} {
		if got, err := d.dialable(address); got != want || (err == nil) != (want != "") {
			t.Errorf("%q became %q, %v", address, got, err)
		}
	}
}

func TestMark(t *testing.T) {
	full, small := strings.Repeat("x", maxText), chat.Draft{Text: "words", Footer: "a footer"}
	for _, c := range []struct {
		draft chat.Draft
		want  []string
	}{
		{chat.Draft{Text: "words"}, []string{"words\n-# " + chat.MayRepeat}},
		{small, []string{"words\n-# a footer · " + chat.MayRepeat}},
		{chat.Draft{Text: full}, []string{full, "-# " + chat.MayRepeat}},
		{chat.Draft{Cards: []chat.Card{{Title: "a story"}}}, []string{"-# " + chat.MayRepeat}},
	} {
		p := &postJob{draft: c.draft, pieces: render(c.draft)}
		plain := render(c.draft)
		p.markRepeat()
		p.markRepeat()
		var got []string
		for i, piece := range p.pieces {
			got = append(got, piece.text)
			if i < len(plain) && withoutMark(piece.text) != plain[i].text {
				t.Errorf("%q without its mark is %q, want %q", piece.text, withoutMark(piece.text), plain[i].text)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// Discord may leave out of an update what has not changed. Nothing is looked up
// for a change.
func TestPartialUpdates(t *testing.T) {
	d, state := idle(t), discordgo.NewState()
	for _, data := range []string{
		`{"id":"5","channel_id":"2","guild_id":"3","embeds":[{"title":"x"}]}`,
		`{"id":"5","channel_id":"2","guild_id":"3","edited_timestamp":"2026-01-02T03:04:05.678901+00:00","flags":4}`,
		`{"id":"5","channel_id":"2","guild_id":"3","edited_timestamp":null,"content":"x","author":{"id":"4"}}`,
		`{"id":"5","channel_id":"2","guild_id":"3","edited_timestamp":"2026-01-02T03:04:05.678901+00:00","content":"x",` +
			`"author":{"id":"1","bot":false}}`,
	} {
		d.onUpdate(state, []byte(data))
		if list := d.handed(); len(list) > 0 {
			t.Errorf("%s was taken for an edit: %+v", data, list)
		}
	}
	d.onUpdate(state, []byte(`{"id":"5","channel_id":"2","guild_id":"3",`+
		`"edited_timestamp":"2026-01-02T03:04:05.6+00:00","content":"x"}`))
	want := chat.Message{ID: "5", Change: chat.Edited, Revision: "2026-01-02T03:04:05.600000Z", Text: "x",
		Reach:        chat.Overheard,
		Conversation: chat.Address{Platform: "discord", Workspace: "3", Channel: "2"}, Reply: chat.Reply{MessageID: "5"}}
	if diff := cmp.Diff(want, d.one(t)); diff != "" {
		t.Error(diff)
	}
}

// A connection may be given up while READY is read: the race detector sees what is not guarded.
func TestReadyWhileTheConnectionIsGivenUp(t *testing.T) {
	d, s := idle(t), newSession()
	var reading sync.WaitGroup
	reading.Go(func() {
		d.onReady(t.Context(), s, []byte(`{"session_id":"a","resume_gateway_url":"ws://127.0.0.1:1","user":{"id":"1"}}`))
	})
	_ = s.canResume()
	reading.Wait()
	if id, address := s.resumption(); id != "a" || address != "ws://127.0.0.1:1" || !s.canResume() {
		t.Errorf("resumed as %q at %q", id, address)
	}
}

// Discord documents the token of a session as it is, without the word that requests have before it.
func TestGreetingsHaveThePlainToken(t *testing.T) {
	d, resumed := idle(t), newSession()
	resumed.setResumption("a", "")
	for op, s := range map[int]*session{opIdentify: newSession(), opResume: resumed} {
		f, err := d.greeting(s)
		var got struct {
			Token string `json:"token"`
		}
		if json.Unmarshal(f.Data, &got) != nil || err != nil || f.Op != op || got.Token != "token" {
			t.Errorf("opcode %d with token %q: %v", f.Op, got.Token, err)
		}
	}
}

func TestResumeAddresses(t *testing.T) {
	for _, c := range []struct {
		api, address string
		isUsed       bool
	}{
		{"https://discord.com", "wss://gateway-us-east1-b.discord.gg", true},
		{"https://discord.com", "ws://gateway-us-east1-b.discord.gg", false}, // would show the token
		{"https://discord.com", "https://gateway.discord.gg", false},
		{"https://discord.com", "", false},
		{"http://127.0.0.1:1", "ws://127.0.0.1:1/resume", true},
		{"http://127.0.0.1:1", "ws://127.0.0.1:2", true},
		{"http://127.0.0.1:1", "wss://gateway-us-east1-b.discord.gg", false}, // past what stands in for Discord
		{"http://127.0.0.1:1", "wss://GATEWAY.discord.gg:443/", false},
	} {
		d, s := idle(t), newSession()
		d.base, _ = url.Parse(c.api)
		d.onReady(t.Context(), s, []byte(`{"session_id":"a","resume_gateway_url":"`+c.address+`","user":{"id":"1"}}`))
		if _, got := s.resumption(); (got == c.address && got != "") != c.isUsed || !s.canResume() {
			t.Errorf("%s with %q: resumed at %q", c.api, c.address, got)
		}
	}
}

// What no shard covers is not caught up, what two cover is read twice.
func TestEachServerIsCoveredByOneShard(t *testing.T) {
	d := idle(t).Discord
	for guild, want := range map[string]int{directGuild: 0, "81384788765712384": 2, strconv.Itoa(5 << 22): 1,
		strconv.Itoa(6<<22 + 1): 2, "none": 0} {
		for id := range 4 {
			if got := newShard(t.Context(), d, id, 4, nil).isCovering(guild); got != (id == want) {
				t.Errorf("shard %d covers %s: %v", id, guild, got)
			}
		}
	}
}

func TestMentionsOf_IDsThatAreNone_AreLeftOut(t *testing.T) {
	d := chat.Draft{Text: "call Bert", Notify: []string{"user:42", "user:@everyone", "role:7> <@8", "43"}}
	if text := render(d)[0].text; text != "<@42> call Bert" {
		t.Errorf("Discord is sent %q", text)
	}
	if _, rule := mentionsOf(d); len(rule.Users) != 1 || len(rule.Roles) != 0 || rule.Parse == nil || len(rule.Parse) > 0 {
		t.Errorf("it may notify %+v", rule)
	}
}

// The bot was removed from a server: Discord is asked once for a while, and who wants to know gets an empty picture.
func TestAskedGuild_Refused_IsNotAskedForAtEveryMessage(t *testing.T) {
	d := New(Options{Token: "token", APIBaseURL: "http://discord.test", Log: slog.New(slog.DiscardHandler), Now: time.Now})
	defer d.askedGuilds.Close()
	asked := 0
	d.api.client.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		asked++
		return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Request: r,
			Body: io.NopCloser(strings.NewReader(`{"code":10004,"message":"Unknown Guild"}`))}, nil
	})
	for range 3 {
		if state, err := d.askedGuilds.Get(t.Context(), "7"); err != nil || state == nil || len(state.Guilds) != 0 {
			t.Errorf("got %v, %v, want an empty picture", state, err)
		}
	}
	if asked != 1 {
		t.Errorf("Discord was asked %d times, want once", asked)
	}
}

// Processes that share a bot share its rate: each takes its part of the table's replicas.
func TestSetShared_Replicas_ShareThePace(t *testing.T) {
	for replicas, want := range map[int]int{0: 11, 1: 11, 2: 6, 5: 3} {
		d := idle(t).Discord
		// No slot comes back while the test runs, so that what is let in at once shows the part.
		d.api.pace = &kit.Pacer{Every: time.Hour, Burst: 10 * time.Hour}
		(&sharedShards{Discord: d}).setShared(store.ShardTable{Count: 1, Replicas: replicas})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		let := 0
		for ; ; let++ {
			turn, err := d.api.pace.Enter(ctx, "a", false)
			if wait := (*kit.WaitError)(nil); errors.As(err, &wait) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			turn.Leave(0, false)
		}
		if let != want {
			t.Errorf("with %d replicas %d requests are let in at once, want %d", replicas, let, want)
		}
	}
}
