package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/mcp"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/ops/admin"
	"ravenbot/internal/ops/totals"
	"ravenbot/internal/store"
	"ravenbot/internal/store/records"
	"ravenbot/internal/testing/browsertest"
)

// dashboard serves a Web behind the login as the daemon does, and returns a page
// that is logged in.
func dashboard(t *testing.T, bot func(*Web, chat.Message) error) (*Web, *records.Store, *browsertest.Page, string) {
	t.Helper()
	browser := browsertest.Start(t)
	w, db := begin(t, bot)
	s := admin.New(admin.Options{Token: "the token of the operator", Listen: "127.0.0.1:0",
		Chat: w.Handler(), ChatBody: MaxBody, Render: Draft,
		Rooms:   askless{w},
		Servers: servers{}, Instance: instance{},
		Digests: digests{},
		Totals:  counted{},
		Logouts: admin.StoredLogouts{Items: db},
		Log:     slog.New(slog.DiscardHandler),
		Now:     time.Now,
	})
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	p := browser.Page()
	p.Look(browsertest.View{Width: 1100, Height: 800})
	p.Go(s.LoginLink(server.URL))
	return w, db, p, server.URL
}

// askless are the rooms of a page on which nothing is asked over the API.
type askless struct{ *Web }

func (askless) Ask(context.Context, string, chat.User, string) iter.Seq2[admin.Event, error] {
	return nil
}

// counted are the calls of two days.
type counted struct{}

func (counted) Days(context.Context, int) ([]totals.Day, error) {
	return []totals.Day{
		{Day: "2026-11-26", Counts: totals.Counts{totals.ToolCalls: {"filesystem": {Count: 12, Failed: 3, Seconds: 6}}}},
		{Day: "2026-11-27", Counts: totals.Counts{totals.ToolCalls: {"filesystem": {Count: 4, Seconds: 1}}}},
	}, nil
}

type servers struct{ admin.Servers }

func (servers) List() []mcp.Status {
	return []mcp.Status{
		{Name: "filesystem", State: "connected", Description: "Reads and writes files below ./files.", Transport: "stdio",
			Source: "config.json", Since: noon,
			Tools: []mcp.ToolInfo{{Name: "filesystem_read_file", Description: "Read a file."},
				{Name: "filesystem_list_directory", Description: "List a directory."}}},
		{Name: "remote", State: "error", Error: "connect to https://tools.example/mcp: connection refused", Transport: "http", Source: "config.json", Since: noon},
		{Name: "github", State: "disabled", Source: "config.json"},
	}
}

func (servers) Pending(string) []mcp.Change { return nil }

func (servers) Logs(name string) ([]mcp.LogLine, error) {
	if name != "filesystem" {
		return nil, nil
	}
	return []mcp.LogLine{{Time: noon, Text: "Secure MCP Filesystem Server running on stdio"}}, nil
}

type digests struct{ admin.Digests }

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func (digests) List(context.Context) ([]digest.Info, error) {
	next := noon.Add(20 * time.Hour)
	return []digest.Info{{Name: "morning", Schedule: "30 8 * * 1-5", Timezone: "Europe/Oslo", Next: &next,
		Feeds: []string{"bundled:ravenbot-news"}, Post: []string{"web:/general"},
		Last: &store.Run{Digest: "morning", Due: noon, Began: noon, OK: true, Posted: 3}}}, nil
}

func (digests) Preview(context.Context, string) (digest.Preview, error) {
	return digest.Preview{Digest: "morning", Draft: news, Items: looked}, nil
}

func (digests) LastVerdicts(context.Context, string) (digest.RunVerdicts, bool, error) {
	return digest.RunVerdicts{Due: noon, Items: looked, More: 12}, true, nil
}

func (digests) TryFeed(_ context.Context, name string) (int, error) {
	if name == "https://gone.example/feed" {
		return 0, errors.New("the server answered with status 404")
	}
	return 2, nil
}

func (digests) KnownFeeds(context.Context) ([]digest.FeedInfo, error) {
	since := noon.Add(-20 * time.Hour)
	return []digest.FeedInfo{{Name: "https://birds.example/feed", Title: "Bird Letters", LastFetch: &since,
		UsedBy: []string{"morning", "slack:T1/C1"}},
		{Name: "https://gone.example/feed", FailingSince: &since, Failure: "the server answered with status 404", UsedBy: []string{"morning"}}}, nil
}

var looked = []digest.Verdict{
	{Title: "Ravens cache food where nobody looks", Link: "https://birds.example/cache", Feed: "Bird Letters", Verdict: "posted"},
	{Title: "Where ravens hide their food", Link: "https://corvid.example/1", Feed: "The Daily Corvid", Verdict: "merged into Ravens cache food where nobody looks", Reason: "same words in another order"},
	{Title: "A very long title of an advertisement that somebody wrote without thinking of narrow screens", Link: "https://ads.example/1", Feed: "Ads", Verdict: "filtered by -advertisement"},
	{Feed: "https://gone.example/feed", Verdict: "feed failed: https://gone.example/feed was not found"},
}

func (digests) Run(context.Context, string, time.Time, bool) (store.Run, error) {
	return store.Run{Posted: 2, OK: true}, nil
}

var news = chat.Draft{Key: "digest/morning", Text: "**Two stories** about ravens today: they plan ahead, and they " +
	"remember faces.",
	Cards: []chat.Card{
		{Title: "Ravens cache food where nobody looks", URL: "https://birds.example/cache", Source: "Bird Letters",
			Time: noon,
			Text: "In a field study of three winters, ravens moved their caches whenever another raven had a line of sight.",
			Also: []chat.Link{{Title: "The Daily Corvid", URL: "https://corvid.example/1"},
				{Title: "Nature Notes", URL: "https://notes.example/2"}}},
		{Title: "A face is not forgotten", URL: "https://birds.example/faces", Source: "Bird Letters", Time: noon.Add(-time.Hour), Text: "Masks worn once were scolded five years later."},
	}, Footer: "2 of 14 new items · morning"}

// shoot keeps a picture where whoever runs the test asks for it.
func shoot(p *browsertest.Page, name string) {
	if dir := os.Getenv("RAVENBOT_SCREENSHOTS"); dir != "" {
		p.Screenshot(filepath.Join(dir, name+".png"))
	}
}

func TestAConversationInTheBrowser(t *testing.T) {
	asked := make(chan chat.Message, 10)
	w, _, p, base := dashboard(t, func(_ *Web, m chat.Message) error { asked <- m; return nil })
	p.Wait("location.pathname === '/chat/general' && document.querySelector('.empty').checkVisibility()")
	shoot(p, "empty-light")

	p.Type("#text", "what do ravens do")
	p.Enter(true)
	p.Type("#text", "in winter?")
	p.Enter(false)
	m := <-asked
	if m.Text != "what do ravens do\nin winter?" || m.Author.ID != chat.Operator().ID || !m.Author.Operator {
		t.Errorf("asked %+v", m)
	}
	p.Wait("document.querySelector('.person .said')?.innerText === 'what do ravens do\\nin winter?' && text.value === ''")
	p.Wait("!document.querySelector('.empty').checkVisibility() && document.querySelector('.working .spinner')")

	run := chat.ToolRun{ID: "call/1", Name: "web_fetch", State: chat.Running,
		Args: json.RawMessage(`{"url":"https://birds.example/winter"}`)}
	w.Show(general, chat.Progress{Message: m.ID, Tool: &run})
	p.Wait("document.querySelector('.tool.running')?.innerText.includes('web_fetch')")
	shoot(p, "running-light")
	run.State, run.Took, run.Result = chat.Done, 1234*time.Millisecond, `{"title":"Winter","lines":[1,2]}`
	w.Show(general, chat.Progress{Message: m.ID, Tool: &run})
	p.Wait("!document.querySelector('.tool.running') && " +
		"document.querySelector('.tool.done:not([open])')?.innerText.includes('1.2 s')")
	p.Click(".tool.done summary")
	p.Wait(`[...document.querySelectorAll('.tool.done pre')].some(e => e.checkVisibility() && e.innerText.includes('  ` +
		`"title": "Winter",\n'))`)

	w.Show(general, chat.Progress{Message: m.ID, Text: "They **cache"})
	w.Show(general, chat.Progress{Message: m.ID, Text: " food** and"})
	p.Wait("document.querySelector('.working .prose strong')?.innerText === 'cache food'")
	if p.Eval("document.querySelector('.tool.done').open") != true {
		t.Error("the text closed what was opened")
	}
	shoot(p, "streaming-light")
	p.Reload()
	p.Wait("document.querySelector('.working .prose strong')?.innerText === 'cache food' && " +
		"document.querySelector('.working .tool.done')")

	answer := "They **cache food** and play:\n\n| bird | caches |\n|---|---:|\n| raven | 1200 |\n| jay | 4000 " +
		"|\n\n```go\nfmt.Println(\"kraa\")\n```\n\nSee [Bird Letters](https://birds.example/winter)."
	if _, err := w.Post(t.Context(), general, chat.Draft{
		Key:    m.Key(),
		Text:   answer,
		Reply:  m.Reply,
		Tools:  []chat.ToolRun{run},
		Footer: "answered by offline",
	}); err != nil {
		t.Fatal(err)
	}
	p.Wait("document.querySelector('#log .bot table td.right')?.innerText === '1200' && " +
		"!document.querySelector('#working article')")
	if _, err := w.Post(t.Context(), general, news); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Post(t.Context(), general, chat.Draft{
		Key:    "x",
		Failed: true,
		Text:   "The language model could not be reached; please try again in a minute (reference 1a2b3c4d).",
	}); err != nil {
		t.Fatal(err)
	}
	p.Wait("document.querySelectorAll('.card h3 a[rel=\"noopener noreferrer nofollow\"]').length === 2 && " +
		"document.querySelector('.failed')")
	before := p.Text("#log")
	p.Reload()
	p.Wait("document.querySelectorAll('#log article').length === 4")
	p.Wait("![...document.querySelectorAll('time')].some(t => !t.title)")
	if after := p.Text("#log"); after != before {
		t.Errorf("after a reload the page says\n%s\nbefore it said\n%s", after, before)
	}
	pictures(p, base)
	clean(t, p, base)
}

// instance reports a tool that the endpoint of a model refuses.
type instance struct{ admin.Instance }

func (instance) Status() admin.Status {
	return admin.Status{RefusedTools: []admin.RefusedTool{{Server: "filesystem", Tool: "filesystem_read", Model: "default",
		Reason: "status 400: invalid schema"}}}
}

func TestTheOtherPagesInTheBrowser(t *testing.T) {
	_, _, p, base := dashboard(t, ignore)
	p.Go(base + "/servers")
	p.Wait("document.body.innerText.includes('default is asked without the tool filesystem_read')")
	p.Click("#log-of-filesystem summary")
	p.Eval("document.querySelector('section').dataset.old = 'yes'; htmx.ajax('GET', '/servers', {target: '[hx-get]'})")
	p.Wait("document.querySelector('section') && !document.querySelector('section').dataset.old")
	p.Wait("document.querySelector('#log-of-filesystem').open && document.querySelector('#log-of-filesystem " +
		"pre').innerText.includes('running on stdio')")
	// The chart came with the new list: its bars have the colours of the style sheet, and what failed a pattern.
	p.Wait("[...document.querySelectorAll('main .chart rect')].map(r => getComputedStyle(r).fill).join() === " +
		"'url(\"#failed-pattern\"),rgb(47, 93, 148),rgb(47, 93, 148)'")

	p.Go(base + "/digests")
	p.Click(".action.second")
	p.Wait("document.querySelectorAll('.outcome .card').length === 2")
	p.Click("[hx-post='/digests/morning/explain']")
	p.Wait("document.querySelectorAll('.outcome .verdicts tbody tr').length === 4 && " +
		"document.querySelectorAll('.outcome .verdicts a').length === 3")
	p.Go(base + "/feeds")
	p.Wait("document.querySelector('.row .pill.failed') && document.body.innerText.includes('status 404')")
	p.Click(".row [hx-post='/feeds/try'] button")
	p.Wait("document.querySelector('.row .outcome').innerText.includes('Not read: ')")
	p.Click(".row + .row [hx-post='/feeds/try'] button")
	p.Wait("document.querySelector('.row + .row .outcome').innerText.includes('It works: 2 items.')")
	p.Type(".filter [name=q]", "letters")
	p.Enter(false)
	p.Wait("location.search === '?q=letters&state=' && document.querySelectorAll('.row').length === 1 && " +
		"document.querySelector('.row h2').innerText === 'Bird Letters'")
	p.Go(base + "/feeds?state=failing")
	p.Wait("document.querySelectorAll('.row').length === 1 && document.querySelector('.row .failed')")
	p.Go(base + "/digests?q=nothing")
	p.Wait("document.body.innerText.includes('No digest matches.')")
	p.Go(base + "/digests")
	p.Eval("window.confirm = () => true")
	p.Click(".action")
	p.Wait("document.querySelector('.outcome').innerText.includes('2 items are on their way')")
	clean(t, p, base)

	p.Click("form[action='/logout'] button")
	p.Wait("location.pathname === '/login' && getComputedStyle(document.querySelector('main')).maxWidth === '384px'")
	shoot(p, "login")
	p.Type("#token", "the token of the operator")
	p.Enter(false)
	p.Wait("location.pathname === '/chat/general'")
	clean(t, p, base)
}

func TestFilesOfAMessage_WhatIsTooLargeIsTold(t *testing.T) {
	_, _, p, _ := dashboard(t, func(*Web, chat.Message) error { return nil })
	attach := func(bytes int) {
		p.Eval(fmt.Sprintf(`(() => {
			const list = new DataTransfer()
			list.items.add(new File([new Uint8Array(%d).fill(97)], 'letters.txt', { type: 'text/plain' }))
			const files = document.querySelector('input[type=file]')
			files.files = list.files
			files.dispatchEvent(new Event('change'))
		})()`, bytes))
		p.Type("#text", "look")
		p.Enter(false)
	}
	attach(17 << 20)
	p.Wait("document.querySelector('#problem .problem')?.innerText.includes('the request is larger than 16 MiB') && " +
		"text.value === 'look'")
	attach(8 << 20)
	p.Wait("document.querySelector('#log article.person')?.innerText.includes('letters.txt') && " +
		"!document.querySelector('#problem p')")
}

func TestWithoutAConnectionThePageSaysSo(t *testing.T) {
	taken := make(chan struct{}, 1)
	w, _, p, base := dashboard(t, func(*Web, chat.Message) error { taken <- struct{}{}; return chat.ErrBusy })
	p.Type("#text", "hello")
	p.Enter(false)
	<-taken
	p.Wait("document.querySelector('#problem .problem')?.innerText.includes('busy right now') && text.value === 'hello'")
	p.Offline(true)
	p.Type("#text", ", again")
	p.Enter(false)
	p.Wait("document.querySelector('#problem .problem')?.innerText.includes('cannot be reached') && text.value === " +
		"'hello, again'")
	p.Offline(false)
	if _, err := w.Post(t.Context(), general, news); err != nil {
		t.Fatal(err)
	}
	p.Wait("document.querySelector('#log .card')")
	for _, address := range p.Requests() {
		if !strings.HasPrefix(address, base) {
			t.Errorf("the page asked for %s", address)
		}
	}
}

// pictures shows every page in each look.
func pictures(p *browsertest.Page, base string) {
	if os.Getenv("RAVENBOT_SCREENSHOTS") == "" {
		return
	}
	for _, path := range []string{"/chat/general", "/chat/empty", "/servers", "/digests", "/feeds"} {
		for _, v := range []browsertest.View{{Width: 1100, Height: 900}, {Width: 1100, Height: 900, Dark: true},
			{Width: 390, Height: 780, Phone: true}, {Width: 390, Height: 780, Phone: true, Dark: true}} {
			p.Look(v)
			p.Go(base + path)
			if path == "/digests" {
				p.Click(".action.second")
				p.Wait("document.querySelector('.outcome .card')")
				p.Click(".outcome details summary")
			}
			p.Eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
			if path == "/chat/general" {
				p.Eval("document.getElementById('scroll').scrollTop = 0")
				shoot(p, fmt.Sprintf("top-%d-%v", v.Width, v.Dark))
				p.Eval("document.getElementById('scroll').scrollTop = 1e6")
			}
			shoot(p, fmt.Sprintf("%s-%d-%v", strings.ReplaceAll(path[1:], "/", "-"), v.Width, v.Dark))
		}
	}
}

// clean fails where the browser complained or asked another host for anything.
func clean(t *testing.T, p *browsertest.Page, base string) {
	t.Helper()
	if problems := p.Problems(); len(problems) > 0 {
		t.Errorf("the browser complains: %q", problems)
	}
	for _, address := range p.Requests() {
		if !strings.HasPrefix(address, base) {
			t.Errorf("the page asked for %s", address)
		}
	}
}

func TestCopiesAndWhatWasSaidBefore(t *testing.T) {
	asked := make(chan chat.Message, 10)
	w, _, p, _ := dashboard(t, func(_ *Web, m chat.Message) error { asked <- m; return nil })
	p.Wait("document.querySelector('#text')")
	for _, said := range []string{"the **first**", "the second"} {
		p.Type("#text", said)
		p.Enter(false)
		m := <-asked
		if _, err := w.Post(t.Context(), general, chat.Draft{Key: m.Key(), Reply: m.Reply,
			Text: "Run this:\n\n```\nmake\nmake test\n```\n\nThen wait."}); err != nil {
			t.Fatal(err)
		}
	}
	p.Wait("document.querySelectorAll('#log .bot pre > .copy').length === 2 && text.value === ''")
	if bold := p.Text(".person .said strong"); bold != "first" {
		t.Errorf("of one's own message %q is bold", bold)
	}
	p.Eval("navigator.clipboard.writeText = async words => { window.copied = words }")
	for _, c := range []struct{ of, want string }{
		{"#log .bot pre > .copy", "make\nmake test"},
		{"#log .bot header > .copy", "Run this:\n\nmake\nmake test\n\n\nThen wait."},
	} {
		p.Click(c.of)
		p.Wait("document.querySelector('" + c.of + "').textContent === 'Copied'")
		if copied := p.Eval("window.copied"); copied != c.want {
			t.Errorf("%s copies %q, want %q", c.of, copied, c.want)
		}
	}
	press := func(key string) string {
		p.Eval("text.dispatchEvent(new KeyboardEvent('keydown', {key: '" + key + "', bubbles: true, cancelable: true}))")
		return p.Eval("text.value").(string)
	}
	for _, c := range []struct{ key, want string }{
		{"ArrowDown", ""}, {"ArrowUp", "the second"}, {"ArrowUp", "the **first**"}, {"ArrowUp", "the **first**"},
		{"ArrowDown", "the second"}, {"ArrowDown", ""}, {"ArrowUp", "the second"},
	} {
		if got := press(c.key); got != c.want {
			t.Errorf("%s brings %q, want %q", c.key, got, c.want)
		}
	}
	p.Type("#text", " and more")
	before := p.Eval("text.value")
	if got := press("ArrowUp"); got != before {
		t.Errorf("ArrowUp replaces %q, which was written, by %q", before, got)
	}
}
