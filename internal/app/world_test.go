package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ravenbot/internal/app"
	"ravenbot/internal/ops/config"
	simdiscord "ravenbot/internal/testing/sim/discord"
	simfeeds "ravenbot/internal/testing/sim/feeds"
	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

// world is everything around a bot, simulated on loopback.
type world struct {
	t   *testing.T
	dir string
	// tools is where the test's tool server writes. An ordinary user's server makes no files beside those of the bot.
	tools   string
	discord *simdiscord.Server
	slack   *simslack.Server
	model   *simmodel.Server
	feeds   *simfeeds.Server
	guild   simdiscord.Guild
	news    simdiscord.Channel
	channel simslack.Channel
	anna    simdiscord.User
	berit   simslack.User
	now     func() time.Time
}

func newWorld(t *testing.T) *world { return newWorldWith(t, simslack.Options{}, simdiscord.Options{}) }

func newWorldWith(t *testing.T, slack simslack.Options, discord simdiscord.Options) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), tools: t.TempDir(), now: time.Now}
	w.discord = must(simdiscord.New(discord))
	w.slack = must(simslack.New(slack))
	w.model = must(simmodel.New(simmodel.Options{}))
	w.feeds = must(simfeeds.New())
	t.Cleanup(func() {
		w.discord.Close()
		w.slack.Close()
		w.model.Close()
		w.feeds.Close()
	})
	w.guild = w.discord.AddGuild("guild")
	w.news = w.discord.AddChannel(w.guild, "news")
	w.anna = w.discord.AddUser("anna")
	w.channel = w.slack.AddChannel("news")
	w.berit = w.slack.AddUser("berit")
	return w
}

// must is for what cannot fail unless the test itself is wrong.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// base is a configuration with every platform and the simulated model.
func (w *world) base() map[string]any {
	return map[string]any{
		"http": map[string]any{"listen": "127.0.0.1:0", "adminToken": "admin-token"},
		"platforms": map[string]any{
			"discord": map[string]any{"token": "token", "apiBaseURL": w.discord.URL()},
			"slack":   map[string]any{"botToken": "xoxb-token", "appToken": "xapp-token", "apiBaseURL": w.slack.APIURL()},
		},
		"models": map[string]any{"default": map[string]any{"provider": "gemini", "model": "gemini-3.8-flash", "apiKey": "key",
			"baseURL": w.model.GeminiURL(), "timeout": "20s"}},
		"agents": map[string]any{"default": map[string]any{"systemPrompt": "You are a test."}},
		"feeds":  map[string]any{"allowPrivateHosts": []string{"127.0.0.1"}},
	}
}

// withOpenTools lets tools run unasked in tests that are not about safe mode.
func withOpenTools(settings map[string]any) map[string]any {
	tools, ok := settings["tools"].(map[string]any)
	if !ok {
		tools = map[string]any{}
		settings["tools"] = tools
	}
	if tools["mode"] == nil {
		tools["mode"] = "open"
	}
	return settings
}

// bot is a running bot.
type bot struct {
	*app.App
	t    *testing.T
	log  *logBuffer
	stop func()
	host string // of a daemon of its own; empty: App has it
}

// Addr returns the address of the HTTP server.
func (b *bot) Addr() string {
	if b.host != "" {
		return b.host
	}
	return b.App.Addr()
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// run starts a bot on a configuration, and waits until it is ready. It is
// stopped at the end of the test, if it was not before.
func (w *world) run(settings map[string]any) *bot {
	w.t.Helper()
	b := w.runUnready(settings)
	b.ready()
	return b
}

func (w *world) runUnready(settings map[string]any) *bot {
	w.t.Helper()
	path := filepath.Join(w.dir, "config.json")
	data := must(json.Marshal(withOpenTools(settings)))
	if err := os.WriteFile(path, data, 0o600); err != nil {
		w.t.Fatal(err)
	}
	cfg, err := config.Load(path, config.Options{Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		w.t.Fatal(err)
	}
	b := &bot{t: w.t, log: &logBuffer{}}
	b.App, err = app.New(app.Options{Config: cfg, Token: "admin-token", Version: "test", Now: w.now,
		Log: slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := b.Listen(); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				w.t.Errorf("the bot ended with %v", err)
			}
		case <-time.After(30 * time.Second):
			w.t.Error("the bot does not end")
		}
		if err := b.Close(); err != nil {
			w.t.Error(err)
		}
		if w.t.Failed() {
			w.t.Logf("log of the bot:\n%s", b.log)
		}
	})
	w.t.Cleanup(b.stop)
	return b
}

// ready waits until /readyz says that every platform is connected.
func (b *bot) ready() {
	b.t.Helper()
	within(b.t, "the bot is ready", func() bool {
		res, err := http.Get("http://" + b.Addr() + "/readyz")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// within polls a condition that has no event to wait for.
func within(t *testing.T, what string, is func() bool) {
	t.Helper()
	if !poll(60*time.Second, is) {
		t.Fatalf("waited in vain until %s", what)
	}
}

// poll polls a condition, and reports whether it came about in time.
func poll(patience time.Duration, is func() bool) bool {
	end := time.NewTimer(patience)
	defer end.Stop()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for !is() {
		select {
		case <-end.C:
			return false
		case <-look.C:
		}
	}
	return true
}

// call makes a request to the API and decodes the answer into out, unless nil.
func (b *bot) call(method, path string, body, out any) int {
	b.t.Helper()
	var in io.Reader
	if body != nil {
		in = bytes.NewReader(must(json.Marshal(body)))
	}
	req := must(http.NewRequest(method, "http://"+b.Addr()+path, in))
	req.Header.Set("Authorization", "Bearer admin-token")
	req.Header.Set("Content-Type", "application/json")
	res := must(http.DefaultClient.Do(req))
	defer res.Body.Close()
	raw := must(io.ReadAll(res.Body))
	if s, ok := out.(*string); ok {
		*s = string(raw)
	} else if out != nil {
		if err := json.Unmarshal(raw, out); err != nil {
			b.t.Fatalf("%s %s: %v in %s", method, path, err, raw)
		}
	}
	return res.StatusCode
}

// ask says something in a web room through the API and gives the whole stream.
func (b *bot) ask(room, text string) string {
	b.t.Helper()
	var stream string
	path := "/api/v1/conversations/" + url.PathEscape("web:/"+room) + "/messages"
	if status := b.call(http.MethodPost, path, map[string]string{"text": text}, &stream); status != http.StatusOK {
		b.t.Fatalf("asking gave status %d: %s", status, stream)
	}
	return stream
}

// answerIn gives the text of the answer at the end of a stream.
func answerIn(t *testing.T, stream string) string {
	t.Helper()
	_, last, found := strings.Cut(stream, "event: answer\ndata: ")
	if !found {
		t.Fatalf("no answer in the stream:\n%s", stream)
	}
	data, _, _ := strings.Cut(last, "\n")
	var answer struct{ Text string }
	if err := json.Unmarshal([]byte(data), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Text
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// inDiscord and inSlack match posts that hold a text.
func inDiscord(text string) func(simdiscord.Post) bool {
	return func(p simdiscord.Post) bool { return strings.Contains(p.Content+embeds(p), text) }
}

func inSlack(text string) func(simslack.Post) bool {
	return func(p simslack.Post) bool { return strings.Contains(p.Shown(), text) }
}

func embeds(p simdiscord.Post) string {
	var all string
	for _, e := range p.Embeds {
		all += string(e)
	}
	return all
}
