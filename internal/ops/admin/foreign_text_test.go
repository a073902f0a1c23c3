package admin

import (
	"context"
	"html/template"
	"net/url"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/mcp"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/store"
)

func TestForeignTextOnThePagesStaysText(t *testing.T) {
	for _, s := range []string{`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`,
		`javascript:alert(1)`, `</pre><b>`} {
		_, _, server, client := start(t, func(o *Options) {
			o.Servers, o.Digests, o.Calls, o.Approvals = nasty{s: s}, nastyDigests{s: s}, calls{s}, calls{s}
			var l *listed
			withLists(s, &l)(o)
		})
		for _, route := range []string{"GET /servers", "GET /calls", "GET /digests", "GET /feeds", "GET /posts",
			"GET /jobs", "GET /notes", "GET /usage", "GET /tokens", "GET /webhooks", "GET /backups",
			"GET /settings", "POST /settings", "POST /digests/x/preview", "POST /digests/x/run", "POST /digests/x/explain",
			"GET /login?token=" + url.QueryEscape(s)} {
			method, path, _ := strings.Cut(route, " ")
			r := do(t, client, method, server.URL+path, nil, "Authorization", bearerHeader)
			escaped := template.HTMLEscapeString(s)
			if s != escaped && strings.Contains(r.body, s) {
				t.Errorf("%s shows %s as it is", route, s)
			}
			if r.status == 200 && !strings.Contains(r.body, escaped) {
				t.Errorf("%s does not show %s: %s", route, escaped, r.body)
			}
			if strings.Contains(r.body, `href="javascript`) {
				t.Errorf("%s makes %s a link", route, s)
			}
		}
	}
}

// nastyConversations has a post that could not be delivered because of a text.
type nastyConversations struct {
	*bot
	s string
}

func (n nastyConversations) Undelivered(context.Context) ([]store.Post, error) {
	return []store.Post{{Key: n.s, To: chat.Address{Platform: "web", Channel: "general"}, Draft: chat.Draft{Text: n.s},
		Error: n.s}}, nil
}

// nasty is a text that everything is called.
type nasty struct {
	Servers
	s string
}

func (n nasty) List() []mcp.Status {
	s := n.s
	return []mcp.Status{{Name: s, State: mcp.State(s), Error: s, Description: s, Transport: s, Source: s,
		Tools: []mcp.ToolInfo{{Name: s, Description: s}}}}
}

func (n nasty) Logs(string) ([]mcp.LogLine, error) {
	return []mcp.LogLine{{Stream: n.s, Text: n.s}}, nil
}

func (n nasty) Pending(string) []mcp.Change {
	return []mcp.Change{{Tool: n.s, Diff: n.s, Flags: []string{n.s}}}
}

// nastyDigests is nasty with the other List.
type nastyDigests struct {
	digests
	s string
}

func (n nastyDigests) KnownFeeds(context.Context) ([]digest.FeedInfo, error) {
	return []digest.FeedInfo{{Name: n.s, Title: n.s, Failure: n.s, UsedBy: []string{n.s}}}, nil
}

func (n nastyDigests) LastVerdicts(context.Context, string) (digest.RunVerdicts, bool, error) {
	return digest.RunVerdicts{Items: []digest.Verdict{{Title: n.s, Link: n.s, Feed: n.s, Verdict: n.s,
		Reason: n.s}}}, true, nil
}

func (n nastyDigests) List(context.Context) ([]digest.Info, error) {
	return []digest.Info{{Name: n.s, Schedule: n.s, Timezone: n.s, Feeds: []string{n.s}, Post: []string{n.s},
		Last: &store.Run{Note: n.s}}}, nil
}

func (n nastyDigests) Preview(context.Context, string) (digest.Preview, error) {
	return digest.Preview{Digest: n.s, Draft: chat.Draft{Text: n.s}, Items: []digest.Verdict{{Title: n.s, Verdict: n.s}},
		Faults: []string{n.s}}, nil
}

func (n nastyDigests) Run(context.Context, string, time.Time, bool) (store.Run, error) {
	return store.Run{Note: n.s}, nil
}
