package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	simdiscord "ravenbot/internal/testing/sim/discord"
	simfeeds "ravenbot/internal/testing/sim/feeds"
	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

func TestMain(m *testing.M) {
	if os.Getenv("RAVENBOT_BARE") != "" {
		bareBot()
		return
	}
	if dir := os.Getenv("RAVENBOT_TOOL_SERVER"); dir != "" {
		toolServer(dir)
		return
	}
	clean := goleak.Cleanup(func(status int) {
		_ = os.RemoveAll(binaries())
		os.Exit(status)
	})
	goleak.VerifyTestMain(m, clean,
		// genai, which the bare bot uses, starts it for the life of the process.
		goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"),
		goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreTopFunction("internal/feature/poll.runtime_pollWait")) // idle connections of clients
}

// binaries is where the daemons of tests are built.
var binaries = sync.OnceValue(func() string { return must(os.MkdirTemp("", "ravenbot-test")) })

// echo answers with what was asked.
func echo(r simmodel.Request) simmodel.Reply { return simmodel.Say("you said: " + r.Asked()) }

func TestDiscordIsAnswered(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(echo)
	w.run(w.base())
	dm := w.discord.AddDM(w.anna)
	asked := w.discord.Say(w.news.ID, w.anna, w.discord.Mention()+" good morning")
	got, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("you said"))
	if err != nil {
		t.Fatal(err)
	}
	if got.ReplyTo != asked.ID || !strings.Contains(got.Content, "good morning") {
		t.Errorf("the mention was answered with %+v", got)
	}
	w.discord.Say(dm.ID, w.anna, "in private")
	if _, err := w.discord.WaitPost(deadline(t), dm.ID, inDiscord("in private")); err != nil {
		t.Error(err)
	}
	w.discord.Say(w.news.ID, w.anna, "and now?", simdiscord.ReplyTo(got.ID))
	if _, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("and now?")); err != nil {
		t.Error(err)
	}
	w.discord.Say(w.news.ID, w.anna, "nobody is asked")
	if err := w.discord.WaitCommand(deadline(t), "raven"); err != nil {
		t.Fatal(err)
	}
	slash, err := w.discord.Slash(w.news.ID, w.anna, "raven", "ask", map[string]any{"text": "by command"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.discord.WaitAnswer(deadline(t), slash.ID, inDiscord("by command")); err != nil {
		t.Error(err)
	}
	for _, p := range w.discord.Posts(w.news.ID) {
		if strings.Contains(p.Content, "nobody is asked") && p.Author.ID == w.discord.Bot().ID {
			t.Error("the bot answered what was not said to it")
		}
	}
}

func TestSlackIsAnswered(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(echo)
	w.run(w.base())
	e := w.slack.Mention(w.channel.ID, w.berit, "good morning")
	got, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("good morning"))
	if err != nil {
		t.Fatal(err)
	}
	if got.ThreadTS != e.TS {
		t.Errorf("the mention was answered in thread %q, want its own, %s", got.ThreadTS, e.TS)
	}
	w.slack.ThreadReply(w.channel.ID, e.TS, w.berit, "without a mention")
	if _, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("you said: without a mention")); err != nil {
		t.Error(err)
	}
	dm := w.slack.DM(w.berit, "in private")
	if _, err := w.slack.WaitPost(deadline(t), dm.Channel, inSlack("you said: in private")); err != nil {
		t.Error(err)
	}
	call := w.slack.Slash(w.channel.ID, w.berit, "/raven", "ask by command")
	if _, err := w.slack.WaitAnswer(deadline(t), call, func(a simslack.Answer) bool {
		return strings.Contains(a.Text, "by command")
	}); err != nil {
		t.Error(err)
	}
	answers := 0
	for _, p := range w.slack.Posts(w.channel.ID) {
		answers += strings.Count(p.Shown(), "you said: good morning")
	}
	if answers != 1 {
		t.Errorf("the mention, which comes as two events, was answered %d times", answers)
	}
}

func TestAThreadIsFollowedWhileItsFirstAnswerIsUnderWay(t *testing.T) {
	w := newWorld(t)
	release := make(chan struct{})
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		<-release
		return echo(r)
	})
	w.run(w.base())
	e := w.slack.Mention(w.channel.ID, w.berit, "first")
	if _, err := w.model.WaitAsked(deadline(t), 1); err != nil {
		t.Fatal(err)
	}
	follow := w.slack.ThreadReply(w.channel.ID, e.TS, w.berit, "and this too")
	if _, err := w.slack.WaitAck(deadline(t), follow.IDs[0]); err != nil {
		t.Fatal(err)
	}
	close(release)
	if _, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("said: and this too")); err != nil {
		t.Error(err)
	}
}

func TestASlowChannelDelaysNoOther(t *testing.T) {
	w := newWorld(t)
	release := make(chan struct{})
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		if strings.Contains(r.Asked(), "slow") {
			<-release
		}
		return echo(r)
	})
	w.run(w.base())
	other := w.discord.AddChannel(w.guild, "other")
	w.discord.Say(w.news.ID, w.anna, w.discord.Mention()+" slow one")
	if _, err := w.model.WaitAsked(deadline(t), 1); err != nil { // else both are answered together
		t.Fatal(err)
	}
	w.discord.Say(w.news.ID, w.anna, w.discord.Mention()+" second one")
	w.discord.Say(other.ID, w.anna, w.discord.Mention()+" elsewhere")
	if _, err := w.discord.WaitPost(deadline(t), other.ID, inDiscord("elsewhere")); err != nil {
		t.Error(err)
	}
	close(release)
	if _, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("second one")); err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, p := range w.discord.Posts(w.news.ID) {
		if strings.HasPrefix(p.Content, "you said: ") {
			order = append(order, strings.TrimPrefix(p.Content, "you said: "))
		}
	}
	if strings.Join(order, ", ") != "slow one, second one" {
		t.Errorf("answered in the order %q", order)
	}
}

func TestAConversationIsTakenUpAfterARestart(t *testing.T) {
	w := newWorld(t)
	settings := w.base()
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		var told []string
		for _, m := range r.Messages {
			if m.Role == simmodel.RoleUser {
				told = append(told, m.Text)
			}
		}
		return simmodel.Say("I know: " + strings.Join(told, " / "))
	})
	b := w.run(settings)
	w.discord.Say(w.news.ID, w.anna, w.discord.Mention()+" my cat is called Mons")
	if _, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("I know")); err != nil {
		t.Fatal(err)
	}
	b.stop()
	w.run(settings)
	w.discord.Say(w.news.ID, w.anna, w.discord.Mention()+" what is it called?")
	if got, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("what is it called?")); err != nil ||
		!strings.Contains(got.Content, "Mons") {
		t.Errorf("after the restart: %q, %v", got.Content, err)
	}
}

func TestAMessageUnderWayIsAnsweredOnceAfterARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	settings := w.base()
	w.model.SetScript(func(simmodel.Request) simmodel.Reply { return simmodel.Reply{Hang: true} })
	b := w.run(settings)
	w.slack.Mention(w.channel.ID, w.berit, "are you there?")
	if _, err := w.model.WaitAsked(deadline(t), 1); err != nil {
		t.Fatal(err)
	}
	b.stop()
	w.model.SetScript(echo)
	w.run(settings)
	if _, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("are you there?")); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, p := range w.slack.Posts(w.channel.ID) {
		n += strings.Count(p.Shown(), "you said: are you there?")
	}
	if n != 1 {
		t.Errorf("answered %d times, want once", n)
	}
}

func TestAFailingModelIsOnePlainSentence(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(func(simmodel.Request) simmodel.Reply {
		return simmodel.Reply{Status: 400, Message: "secret detail of the inside"}
	})
	b := w.run(w.base())
	w.discord.Say(w.news.ID, w.anna, w.discord.Mention()+" hello")
	got, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("reference"))
	if err != nil {
		t.Fatal(err)
	}
	ref := regexp.MustCompile(`reference ([0-9a-f]+)`).FindStringSubmatch(got.Content)
	if ref == nil || strings.Contains(got.Content, "secret") || !strings.Contains(b.log.String(), ref[1]) {
		t.Errorf("the user saw %q; the log has the reference: %v", got.Content, ref)
	}
}

func TestADigestOfRealFeedsIsPostedEverywhere(t *testing.T) {
	dir := os.Getenv("RAVENBOT_CORPORA")
	if dir == "" {
		t.Skip("RAVENBOT_CORPORA is not set")
	}
	w := newWorld(t)
	base := w.feeds.ServeDir("/real", os.DirFS(filepath.Join(dir, "feeds/real")))
	w.feeds.AddFeed("/own.xml", "Our own", simfeeds.RSS)
	w.feeds.AddItem("/own.xml", simfeeds.Item{ID: "1", Title: "The first story of our own feed",
		Link: "https://own.example/1", Published: time.Now()})
	settings := w.base()
	// Without a pin the worthiest stories of the others would come before it.
	feeds := []any{map[string]any{"url": w.feeds.URL() + "/own.xml", "pin": true}}
	for _, name := range []string{"guardian.rss", "heise.atom", "feedburner.atom", "reddit.rss", "rss-1.rss"} {
		feeds = append(feeds, w.feeds.URL()+"/real/"+name)
	}
	settings["digests"] = map[string]any{"morning": map[string]any{"schedule": "0 3 1 1 *", "timezone": "Europe/Oslo",
		"feeds": feeds, "maxItems": 25,
		"post": []string{"discord:" + w.guild.ID + "/" + w.news.ID, "slack:" + simslack.TeamID + "/" + w.channel.ID,
			"web:/general"}}}
	w.model.SetScript(func(simmodel.Request) simmodel.Reply {
		return simmodel.Say("Our own feed has a first story [1]. Invented news without a source.")
	})
	b := w.run(settings)
	var run struct {
		Posted int
		OK     bool
	}
	if status := b.call(http.MethodPost, "/api/v1/digests/morning/run", nil, &run); status != http.StatusOK ||
		run.Posted != 25 || !run.OK {
		t.Fatalf("status %d, %+v (%s)", status, run, base)
	}
	if _, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("https://own.example/1")); err != nil {
		t.Error(err)
	}
	if _, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("https://own.example/1")); err != nil {
		t.Error(err)
	}
	for _, p := range w.discord.Posts(w.news.ID) {
		if strings.Contains(p.Content, "Invented") {
			t.Error("a sentence without an item was posted")
		}
	}
	w.feeds.AddItem("/own.xml", simfeeds.Item{ID: "2", Title: "The second story of our own feed",
		Link: "https://own.example/2", Published: time.Now()})
	if b.call(http.MethodPost, "/api/v1/digests/morning/run", nil, &run); run.Posted != 1 {
		t.Errorf("the second run posted %d items, want the new one", run.Posted)
	}
	// The bot may have read it at its start already.
	if hits := w.feeds.Hits("/real/heise.atom"); hits.Full != 1 || hits.NotModified < 1 || hits.NotModified > 2 {
		t.Errorf("an unchanged feed was fetched %+v, want all but the first time conditionally", hits)
	}
	if b.call(http.MethodPost, "/api/v1/digests/morning/run", nil, &run); run.Posted != 0 {
		t.Errorf("a run without news posted %d items", run.Posted)
	}
}

func TestAFeedIsSubscribedToFromAChannel(t *testing.T) {
	w := newWorld(t)
	w.feeds.AddFeed("/own.xml", "Our own", simfeeds.RSS)
	w.feeds.AddItem("/own.xml", simfeeds.Item{ID: "1", Title: "The first story of our own feed",
		Link: "https://own.example/1", Published: time.Now()})
	settings := w.base()
	settings["feeds"] = map[string]any{"allowPrivateHosts": []string{"127.0.0.1"}, "pollInterval": "1s"}
	w.model.SetScript(simmodel.CallTool("feeds_subscribe", `{"url":"`+w.feeds.URL()+`/own.xml"}`))
	w.run(settings)
	w.slack.Mention(w.channel.ID, w.berit, "tell us what is new there")
	if _, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("Subscribed")); err != nil {
		t.Fatal(err)
	}
	w.feeds.AddItem("/own.xml", simfeeds.Item{ID: "2", Title: "The second story of our own feed",
		Link: "https://own.example/2", Published: time.Now()})
	got, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("https://own.example/2"))
	if err != nil {
		t.Fatal(err)
	}
	if got.ThreadTS != "" || strings.Contains(got.Shown(), "https://own.example/1") {
		t.Errorf("posted %q in thread %q, want the new story alone, in the channel", got.Shown(), got.ThreadTS)
	}
}

func TestADigestIsPostedOnSchedule(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.feeds.AddFeed("/own.xml", "Our own", simfeeds.Atom)
	w.feeds.AddItem("/own.xml", simfeeds.Item{ID: "1", Title: "The first story of our own feed",
		Link: "https://own.example/1", Published: time.Now()})
	settings := w.base()
	settings["digests"] = map[string]any{"minutely": map[string]any{"schedule": "* * * * *",
		"feeds": []string{w.feeds.URL() + "/own.xml"},
		"post":  []string{"slack:" + simslack.TeamID + "/" + w.channel.ID}}}
	w.model.SetScript(func(simmodel.Request) simmodel.Reply { return simmodel.Reply{Status: 500} })
	if testing.Short() {
		t.Skip("waits for the next full minute")
	}
	w.run(settings)
	ctx := deadline(t)
	if _, err := w.slack.WaitPost(ctx, w.channel.ID, inSlack("https://own.example/1")); err != nil {
		if _, err = w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("https://own.example/1")); err != nil {
			t.Error(err)
		}
	}
}

func TestAQuestionIsAnsweredThroughARealServer(t *testing.T) {
	if _, err := exec.LookPath("npx"); err != nil {
		t.Skip("npx is missing")
	}
	w := newWorld(t)
	files := filepath.Join(w.dir, "files")
	if err := os.Mkdir(files, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(files, "menu.txt"), []byte("Thursday: lutefisk"), 0o644); err != nil {
		t.Fatal(err)
	}
	settings := w.base()
	settings["mcpServers"] = map[string]any{
		"filesystem": map[string]any{"command": "npx",
			"args": []string{"-y", "@modelcontextprotocol/server-filesystem@2026.8.31", files}, "timeout": "60s"},
		"missing": map[string]any{"command": "no-such-program-at-all"},
		"hanging": map[string]any{"command": "sleep", "args": []string{"600"}},
	}
	args := must(json.Marshal(map[string]string{"path": filepath.Join(files, "menu.txt")}))
	w.model.SetScript(simmodel.CallTool("filesystem_read_text_file", string(args)))
	b := w.run(settings)
	within(t, "the filesystem server is connected", func() bool {
		var s struct{ State string }
		return b.call(http.MethodGet, "/api/v1/mcp/servers/filesystem", nil, &s) == http.StatusOK && s.State == "connected"
	})
	w.slack.Mention(w.channel.ID, w.berit, "what is for dinner on Thursday?")
	got, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("lutefisk"))
	if err != nil {
		t.Fatal(err)
	}
	// An answer that takes long is streamed, with the tool as a card above it.
	if blocks := string(got.Blocks); !strings.Contains(blocks, "filesystem_read_text_file") && len(got.Tasks) == 0 {
		t.Errorf("the answer does not name the tool: %s", blocks)
	}
	for _, r := range w.model.Rejected() {
		t.Errorf("the model rejected a request: %s", r.Problem)
	}
	var missing struct{ State, Error string }
	b.call(http.MethodGet, "/api/v1/mcp/servers/missing", nil, &missing)
	if missing.State != "error" || !strings.Contains(missing.Error, "no-such-program-at-all") {
		t.Errorf("the missing server is %+v", missing)
	}
}

func TestWithoutAKeyTheOfflineModelAnswers(t *testing.T) {
	w := newWorld(t)
	settings := w.base()
	settings["models"] = map[string]any{"default": map[string]any{"provider": "gemini", "model": "gemini-3.8-flash",
		"apiKey": "", "fallback": []string{"offline"}}}
	b := w.run(settings)
	for text, want := range map[string]string{
		"what is the capital of Norway?":                      "no language model",
		"bundled:feeds-primer":                                "](https://",
		`feeds_fetch {"url":"bundled:mcp-primer"}`:            "`feeds_fetch` says",
		`feeds_fetch {"url":"http://169.254.169.254/latest"}`: "private network",
		`web_fetch {"url":"` + w.feeds.URL() + `/x"}`:         "private network",
		`feeds_fetch {"adress":"x"}`:                          "do not fit",
		`no_such_tool {}`:                                     "There is no tool",
		"/digest list":                                        "No digest is posted here",
		"/tools":                                              "feeds_fetch",
		"/help":                                               "`/ask",
	} {
		if got := answerIn(t, b.ask("general", text)); !strings.Contains(got, want) {
			t.Errorf("%s was answered %q, want %q in it", text, got, want)
		}
	}
}

func TestRefusedCredentialsLeaveTheRestRunning(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(echo)
	settings := w.base()
	settings["platforms"].(map[string]any)["discord"] = map[string]any{"token": "wrong", "apiBaseURL": w.discord.URL()}
	b := w.runUnready(settings)
	within(t, "the refusal and the rest are announced", func() bool {
		log := b.log.String()
		return strings.Contains(log, "msg=ready") && strings.Contains(log, "refused=discord") &&
			strings.Contains(log, "remedy=")
	})
	w.slack.Mention(w.channel.ID, w.berit, "still there?")
	if _, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("still there?")); err != nil {
		t.Error(err)
	}
	res := must(http.Get("http://" + b.Addr() + "/readyz"))
	res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("/readyz answers %d although Discord is refused", res.StatusCode)
	}
}

func TestAFloodIsAnsweredInFull(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(echo)
	w.run(w.base())
	var channels []simslack.Channel
	for n := range 8 {
		channels = append(channels, w.slack.AddChannel(fmt.Sprint("c", n)))
	}
	const each = 10
	for n := range each {
		for _, c := range channels {
			w.slack.Mention(c.ID, w.berit, fmt.Sprintf("number %d", n))
		}
	}
	for _, c := range channels {
		for n := range each {
			if _, err := w.slack.WaitPost(deadline(t), c.ID, inSlack(fmt.Sprintf("said: number %d", n))); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(w.slack.Posts(c.ID)); got != each {
			t.Errorf("%d posts in a channel with %d questions", got, each)
		}
	}
}
