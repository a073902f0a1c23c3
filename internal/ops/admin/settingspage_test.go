package admin

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/feature/settings"
)

// shelf keeps layers in memory.
type shelf struct{ kept map[string][]byte }

func (s shelf) Settings(context.Context) (map[string][]byte, error) { return s.kept, nil }

func (s shelf) SwapSetting(_ context.Context, scope string, was, now []byte) (bool, error) {
	if !bytes.Equal(s.kept[scope], was) {
		return false, nil
	}
	if s.kept[scope] = now; now == nil {
		delete(s.kept, scope)
	}
	return true, nil
}

// The page lays a layer out as a choice, a line, a switch, a number and a text, and
// keeps what differs from what is below it.
func TestTheSettingsPageChangesEveryLayer(t *testing.T) {
	book := settings.New(shelf{map[string][]byte{}}, func() []string {
		return []string{"default", "large"}
	}, nil, slog.New(slog.DiscardHandler))
	_, s, server, client := start(t, func(o *Options) { o.Settings = book })
	enter(t, s, client, server.URL)
	page := func(path string, form url.Values) (int, string) {
		t.Helper()
		r := do(t, client, "GET", server.URL+path, nil)
		if form != nil {
			r = do(t, client, "POST", server.URL+path, strings.NewReader(form.Encode()), "Content-Type", formType,
				"Origin", server.URL)
		}
		return r.status, r.body
	}
	if _, body := page("/settings", nil); !regexp.MustCompile(`name="tools" type="checkbox" role="switch" `+
		`value="on" checked`).MatchString(body) || strings.Count(body, "<option") != 3 ||
		!strings.Contains(body, `type="number"`) || !strings.Contains(body, "<textarea") {
		t.Errorf("the page is %s", body)
	}
	off, five, words, on := false, 5, "Be quick.", true
	const room = "/settings?channel=web%3A%2Fgeneral"
	for _, c := range []struct {
		path  string
		form  url.Values
		scope settings.Scope
		want  settings.Layer
	}{
		{"/settings", url.Values{
			"model":    {"large"},
			"language": {" Norsk "},
			"tools":    {"on"},
			"steps":    {"5"},
			"prompt":   {words},
		}, settings.Instance,
			settings.Layer{Model: "large", Language: "Norsk", Tools: settings.Tools{MaxSteps: &five, SystemPrompt: &words}}},
		{"/settings", url.Values{}, settings.Instance, settings.Layer{Tools: settings.Tools{Enabled: &off}}},
		{room, url.Values{}, "channel/web:/general", settings.Layer{}}, // off, as the bot is
		{room, url.Values{"tools": {"on"}}, "channel/web:/general", settings.Layer{Tools: settings.Tools{Enabled: &on}}},
		{"/settings?user=slack%2FU1", url.Values{"model": {"default"}}, "user/slack/U1", settings.Layer{Model: "default"}},
	} {
		if status, body := page(c.path, c.form); status != http.StatusOK || !strings.Contains(body, "Saved.") {
			t.Errorf("%s %v: %d %s", c.path, c.form, status, body)
		}
		if diff := cmp.Diff(c.want, book.Layer(c.scope)); diff != "" {
			t.Errorf("%s %v (-want +got):\n%s", c.path, c.form, diff)
		}
	}
	_, body := page(room, nil)
	for _, want := range []string{`action="/settings?channel=web%3a%2fgeneral"`, "of <code>web:/general</code>",
		`href="/settings?user=slack%2fU1"`, "checked"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page of a channel lacks %s: %s", want, body)
		}
	}
	for path, want := range map[string]int{"/settings?channel=x": 400, "/settings?user=x": 400,
		"/settings?user=a/b&channel=web:/general": 400} {
		if status, body := page(path, nil); status != want || !strings.Contains(body, "No settings are shown") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body := page("/settings", url.Values{"steps": {"1000"}}); status != 422 ||
		!strings.Contains(body, "want 1 to 100") {
		t.Errorf("too many steps: %d %s", status, body)
	}
}
