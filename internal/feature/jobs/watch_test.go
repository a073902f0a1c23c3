package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/tool"
	"ravenbot/internal/feature/jobs"
)

// page is a place that jobs look at: its text, or an error.
type page struct {
	mu    sync.Mutex
	text  string
	err   error
	calls []string
	by    tool.Caller
}

func (p *page) Call(_ context.Context, by tool.Caller, name string, args json.RawMessage) (tool.Result, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, name+" "+string(args))
	p.by = by
	if p.err != nil {
		return tool.Result{}, p.err
	}
	return tool.Text(p.text), nil
}

func (p *page) set(text string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text, p.err = text, err
}

func TestWatch_PostsOncePerChange(t *testing.T) {
	type step struct{ text, want string }
	for name, c := range map[string]struct {
		watch jobs.Watch
		text  string
		steps []step
	}{
		"any change of a page": {jobs.Watch{URL: "https://shop.example/x"}, "", []step{
			{"a lamp\n10 €", ""}, // what is there first is not new
			{"a lamp\n10 €", ""},
			{"a lamp\n\n  8 €", "New at <https://shop.example/x>\n\n> 8 €"},
			{"a lamp\n8 €", ""},
			{"a lamp", ""}, // what is gone is no news
			{"a lamp\n10 €\n*sale*", "New at <https://shop.example/x>\n\n> 10 €\n> \\*sale\\*"},
		}},
		"words of a page": {jobs.Watch{URL: "https://shop.example/x", For: "sold out"}, "The lamp", []step{
			{"a lamp\n10 €", ""},
			{"a lamp, Sold Out\nmuch else", "The lamp (<https://shop.example/x> for “sold out”)\n\n> a lamp, Sold Out"},
			{"a lamp, Sold Out\nthings", ""},
			{"a lamp", ""},
			{"a lamp, Sold Out", "The lamp (<https://shop.example/x> for “sold out”)\n\n> a lamp, Sold Out"},
		}},
		"words that are there already": {jobs.Watch{Feed: "https://shop.example/x", For: "/sold (out|off)/"}, "", []step{
			{"all sold off", "New at <https://shop.example/x> for “/sold (out\\|off)/”\n\n> all sold off"}, {"all sold off", ""},
		}},
		"a tool": {jobs.Watch{Tool: "github_issues", Arguments: json.RawMessage(`{"repo":"a/b"}`), For: "open"}, "", []step{
			{`{"n":1,"state":"open"}`, "New at the tool github\\_issues for “open”\n\n> \"state\": \"open\""}, {`{"n":2,"state":"open"}`, ""}, {`{"n":2,"state":"closed"}`, ""},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBot(t)
				r := jobs.Request{Schedule: "every hour", Post: []string{general.String()}, Watch: &c.watch, Text: c.text}
				if _, err := b.AddRequest(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				stop := b.run(t)
				for n, s := range c.steps {
					b.page.set(s.text, nil)
					<-time.After(time.Hour)
					synctest.Wait()
					got := strings.Join(b.disk.texts(), "|")
					if got != s.want {
						t.Errorf("look %d posts %q, want %q", n, got, s.want)
					}
					if n == 1 { // what was seen outlives a restart
						stop()
						b.restart(t)
						stop = b.run(t)
					}
				}
				stop()
				if c.watch.Tool != "" && b.page.calls[0] != `github_issues {"repo":"a/b"}` {
					t.Errorf("it calls %q", b.page.calls[0])
				}
				if c.watch.URL != "" && (b.page.calls[0] != `web_fetch {"url":"https://shop.example/x"}` ||
					!b.page.by.IsNamed("https://shop.example/x") || b.page.by.IsNamed("https://shop.example/y")) {
					t.Errorf("it calls %q as %+v", b.page.calls[0], b.page.by)
				}
			})
		})
	}
}

func TestWatch_ThatFails_IsToldOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBot(t)
		if d := b.say(t, anna, "jobs", "watch https://shop.example/x sold out"); d.Failed ||
			!strings.Contains(d.Text, "every 30 minutes") {
			t.Fatal(d.Text)
		}
		stop := b.run(t)
		defer stop()
		b.page.set("", errors.New("no such host"))
		<-time.After(10 * time.Hour)
		if got := b.disk.texts(); len(got) != 1 || !strings.Contains(got[0],
			"I could not look at <https://shop.example/x> for “sold out” the last 5 times") {
			t.Errorf("posted %q", got)
		}
		b.page.set("sold out", nil)
		<-time.After(10 * time.Hour)
		if got := b.disk.texts(); len(got) != 1 || !strings.Contains(got[0], "> sold out") {
			t.Errorf("when it works again %q", got)
		}
	})
}

func TestWatch_ThatCannotWork_IsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBot(t)
		post := []string{general.String()}
		for want, r := range map[string]jobs.Request{
			"names a url, a feed or a tool": {Schedule: "hourly", Post: post, Watch: &jobs.Watch{}},
			"is not an address":             {Schedule: "hourly", Post: post, Watch: &jobs.Watch{URL: "file:///etc/passwd"}},
			"is not a regular expression":   {Schedule: "hourly", Post: post, Watch: &jobs.Watch{URL: "https://a.example", For: "/(/"}},
			"go with a tool":                {Schedule: "hourly", Post: post, Watch: &jobs.Watch{URL: "https://a.example", Arguments: json.RawMessage(`{}`)}},
			"goes with a schedule":          {At: "in 1h", Post: post, Watch: &jobs.Watch{URL: "https://a.example"}},
		} {
			if _, err := b.AddRequest(t.Context(), r); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: error %v, want %q", r.Watch, err, want)
			}
		}
		if words := b.say(t, anna, "jobs", "watch"); !words.Failed {
			t.Error(words.Text)
		}
		if list, err := b.List(t.Context()); err != nil || len(list) > 0 {
			t.Errorf("kept %+v (%v)", list, err)
		}
	})
}
