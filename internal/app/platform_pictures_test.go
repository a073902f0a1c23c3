package app_test

import (
	"encoding/json"
	"fmt"
	escaping "html"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/testing/browsertest"
	simdiscord "ravenbot/internal/testing/sim/discord"
	simmail "ravenbot/internal/testing/sim/mail"
	simslack "ravenbot/internal/testing/sim/slack"
)

// TestPictures_OfDigestsOnPlatforms takes the pictures of docs/digests.md of what the simulated Discord and Slack were
// sent, drawn roughly as those show it. It runs with RAVENBOT_PICTURES=1, by `make pictures`.
func TestPictures_OfDigestsOnPlatforms(t *testing.T) {
	if os.Getenv("RAVENBOT_PICTURES") == "" {
		t.Skip("RAVENBOT_PICTURES is not set")
	}
	browser := browsertest.Start(t)
	w := newWorld(t)
	mails := must(simmail.New(""))
	t.Cleanup(mails.Close)
	smtp := map[string]any{"host": "127.0.0.1", "port": mails.Port(), "from": "raven@example.org", "tls": "none"}
	b := w.runPictures(smtp, "slack:"+simslack.TeamID+"/"+w.channel.ID, "discord:"+w.guild.ID+"/"+w.news.ID)
	var shown string
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(rw, shown)
	}))
	defer server.Close()
	slackPosts, discordPosts, mailed := 0, 0, 0
	for _, style := range []string{"brief", "topics", "deep", "weekly"} {
		// People liked what was posted so far, or the round-up of the week would be empty.
		if style == "weekly" {
			for _, p := range w.slack.Posts(w.channel.ID) {
				e := w.slack.React(w.channel.ID, p.TS, w.berit, "+1")
				if _, err := w.slack.WaitAck(deadline(t), e.IDs[0]); err != nil {
					t.Fatal(err)
				}
			}
		}
		within(t, style+" is posted", func() bool {
			if len(w.slack.Posts(w.channel.ID)) == slackPosts {
				b.call(http.MethodPost, "/api/v1/digests/"+style+"/run", nil, nil)
			}
			return len(w.slack.Posts(w.channel.ID)) > slackPosts && len(w.discord.Posts(w.news.ID)) > discordPosts
		})
		within(t, style+" is mailed", func() bool { return len(mails.Mails()) > mailed })
		shown = htmlPart(t, mails.Mails()[mailed].Data)
		mailed++
		page := browser.Page()
		page.Look(browsertest.View{Width: 760, Height: 780})
		page.Go(server.URL)
		page.Wait(`[...document.images].every(i => i.complete)`)
		page.Screenshot("../../docs/images/digest-" + style + "-mail.png")
		for platform, drawn := range map[string]string{
			"slack":   drawAll(w.slack.Posts(w.channel.ID)[slackPosts:], drawSlack),
			"discord": drawAll(w.discord.Posts(w.news.ID)[discordPosts:], drawDiscord),
		} {
			shown = fmt.Sprintf("<!DOCTYPE html><title>%[1]s</title><style>%[2]s</style><body class=%[1]s>%[3]s",
				platform, drawnStyle, drawn)
			page.Go(server.URL)
			page.Wait(`[...document.images].every(i => i.complete)`)
			page.Screenshot("../../docs/images/digest-" + style + "-" + platform + ".png")
		}
		slackPosts, discordPosts = len(w.slack.Posts(w.channel.ID)), len(w.discord.Posts(w.news.ID))
	}
}

// htmlPart returns the page in a mail.
func htmlPart(t *testing.T, raw string) string {
	t.Helper()
	m := must(mail.ReadMessage(strings.NewReader(raw)))
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	for parts := multipart.NewReader(m.Body, params["boundary"]); ; {
		part := must(parts.NextPart()) // decodes quoted-printable
		if strings.HasPrefix(part.Header.Get("Content-Type"), "text/html") {
			return string(must(io.ReadAll(part)))
		}
	}
}

const drawnStyle = `body{font:15px/1.45 Lato,Arial,sans-serif;margin:16px;max-width:700px}
.slack{background:#fff;color:#1d1c1d}.discord{background:#313338;color:#dbdee1}.discord a{color:#00a8fc;text-decoration:none}
a{color:#1264a3;text-decoration:none}.name{font-weight:700}.embed .name{display:block}.small{font-size:12px;opacity:.75}
.section,.embed{display:flex;justify-content:space-between;gap:12px;margin-top:8px}
.embed{background:#2b2d31;border-left:4px solid #1e1f22;border-radius:4px;padding:8px 12px;margin:4px 0;max-width:520px}
img{width:88px;height:88px;object-fit:cover;border-radius:4px}.embed img{width:80px;height:80px}
button{margin:8px 6px 0 0;padding:4px 12px;border:1px solid #8888;border-radius:4px;background:none;color:inherit;font:inherit}
ul,p,h3{margin:4px 0}`

func drawAll[P any](posts []P, draw func(P) string) string {
	var all strings.Builder
	for _, p := range posts {
		all.WriteString("<div class=name>raven</div>" + draw(p) + "<br>")
	}
	return all.String()
}

// drawSlack draws the blocks of a message.
func drawSlack(p simslack.Post) string {
	var blocks []struct {
		Type      string
		Text      json.RawMessage
		Accessory struct {
			URL string `json:"image_url"`
		}
		Elements []struct {
			Type string
			Text json.RawMessage
		}
	}
	if len(p.Blocks) == 0 {
		return drawMarkup(p.Shown())
	}
	_ = json.Unmarshal(p.Blocks, &blocks) // the simulation has checked them
	var out strings.Builder
	for _, b := range blocks {
		switch b.Type {
		case "markdown", "section":
			out.WriteString("<div class=section><div>" + drawMarkup(textIn(b.Text)) + "</div>")
			if b.Accessory.URL != "" {
				out.WriteString(`<img src="` + escaping.EscapeString(b.Accessory.URL) + `">`)
			}
			out.WriteString("</div>")
		case "context":
			for _, e := range b.Elements {
				out.WriteString("<div class=small>" + drawMarkup(textIn(e.Text)) + "</div>")
			}
		case "actions":
			for _, e := range b.Elements {
				out.WriteString("<button>" + escaping.EscapeString(textIn(e.Text)) + "</button>")
			}
		}
	}
	return out.String()
}

// textIn returns the text of a text object, or of a string.
func textIn(raw json.RawMessage) string {
	var object struct{ Text string }
	var plain string
	if json.Unmarshal(raw, &object) == nil && object.Text != "" {
		return object.Text
	}
	_ = json.Unmarshal(raw, &plain) // neither: nothing is drawn
	return plain
}

// drawDiscord draws the text, the embeds and the buttons of a message.
func drawDiscord(p simdiscord.Post) string {
	var out strings.Builder
	out.WriteString(drawMarkup(p.Content))
	for _, raw := range p.Embeds {
		var e struct {
			Title, URL, Description, Timestamp string
			Footer                             struct{ Text string }
			Thumbnail                          struct{ URL string }
		}
		_ = json.Unmarshal(raw, &e) // the simulation has checked it
		foot := e.Footer.Text
		if at, err := time.Parse(time.RFC3339, e.Timestamp); err == nil {
			foot += " • " + at.Local().Format("Today at 15:04")
		}
		fmt.Fprintf(&out, `<div class=embed><div><a class=name href="%s">%s</a>%s<div class=small>%s</div></div>`,
			escaping.EscapeString(e.URL), escaping.EscapeString(e.Title), drawMarkup(e.Description), escaping.EscapeString(foot))
		if e.Thumbnail.URL != "" {
			out.WriteString(`<img src="` + escaping.EscapeString(e.Thumbnail.URL) + `">`)
		}
		out.WriteString("</div>")
	}
	for _, raw := range p.Components {
		var row struct{ Components []struct{ Label string } }
		_ = json.Unmarshal(raw, &row) // the simulation has checked it
		out.WriteString("<div>")
		for _, b := range row.Components {
			out.WriteString("<button>" + escaping.EscapeString(b.Label) + "</button>")
		}
		out.WriteString("</div>")
	}
	return out.String()
}

// The markup of both platforms that digests use.
var (
	drawnTime  = regexp.MustCompile(`&lt;(?:!date\^(\d+)\^[^|]*\|[^&]*|t:(\d+):R)&gt;`)
	drawnLinks = regexp.MustCompile(`\[((?:\[[^\]]*\]|[^\]\\]|\\.)*)\]\((?:&lt;)?([^)]*?)(?:&gt;)?\)|&lt;(https?:[^|&]*(?:&amp;[^|&]*)*)\|(.*?)&gt;`)
	drawnBold  = regexp.MustCompile(`\*\*(.+?)\*\*|(?m:^|\b)\*([^*\n]+)\*`)
	drawnLines = regexp.MustCompile(`(?m)^(-#|###?#?|[-•*]) (.*)$`)
	drawnSlash = regexp.MustCompile(`\\([^\w\s])`)
)

// drawMarkup draws bold text, links, small lines, headings, lists and times.
func drawMarkup(text string) string {
	out := escaping.EscapeString(escaping.UnescapeString(text))
	out = drawnTime.ReplaceAllStringFunc(out, func(s string) string {
		m := drawnTime.FindStringSubmatch(s)
		seconds, _ := strconv.ParseInt(m[1]+m[2], 10, 64) // digits
		if m[2] != "" {
			return fmt.Sprintf("%d hours ago", int(time.Since(time.Unix(seconds, 0)).Hours()))
		}
		return time.Unix(seconds, 0).Format("Today 15:04")
	})
	out = drawnLinks.ReplaceAllString(out, `<a href="$2$3">$1$4</a>`)
	out = drawnBold.ReplaceAllString(out, "<b>$1$2</b>")
	out = drawnLines.ReplaceAllStringFunc(out, func(s string) string {
		m := drawnLines.FindStringSubmatch(s)
		switch {
		case m[1] == "-#":
			return "<span class=small>" + m[2] + "</span>"
		case m[1][0] == '#':
			return "<h3>" + m[2] + "</h3>"
		}
		return "• " + m[2]
	})
	return strings.ReplaceAll(drawnSlash.ReplaceAllString(out, "$1"), "\n", "<br>")
}
