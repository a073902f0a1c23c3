package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"html/template"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/ops/frame"
	"ravenbot/internal/turn/markdown"
)

// parseTemplates returns the parts of the page. isCommand tells commands from other words.
func parseTemplates(isCommand func(said string) bool) *template.Template {
	return template.Must(frame.New().Funcs(template.FuncMap{
		"markdown":  renderMarkdown,
		"clickable": isWebAddress,
		"pretty":    prettyJSON,
		"took":      formatDuration,
		"clock":     formatTime,
		"iso":       formatISO,
		"dom":       domID,
		"shown":     newShownDraft,
		"files":     showFiles,
		"iscommand": isCommand,
		"again":     againValue,
		"chosen":    func(value, lines string) bool { return slices.Contains(strings.Split(lines, "\n"), value) },
		"place":     func(message string, i int, t chat.ToolRun) placedRun { return placedRun{t, message, i} },
	}).ParseFS(files, "templates/*.html"))
}

// draftTemplates are the parts of the page for drafts alone, parsed once.
var draftTemplates = sync.OnceValue(func() *template.Template {
	return parseTemplates(func(string) bool { return false })
})

// Draft renders a post as the page shows it, for other pages in the same look. Its pictures are left out: they are
// served for lines of rooms alone.
func Draft(d chat.Draft) template.HTML {
	var b bytes.Buffer
	if err := draftTemplates().ExecuteTemplate(&b, "draft", shownDraft{Draft: d}); err != nil {
		return template.HTML("<p>" + template.HTMLEscapeString(d.Text) + "</p>")
	}
	return template.HTML(b.String())
}

// linkPattern matches the beginning of a link as markdown.HTML writes it. Text cannot look like
// that, because < and " are escaped in it.
var linkPattern = text.Pattern(`<a href="([^"]*)"( rel="[^"]*")?`)

// alignPattern matches how markdown.HTML aligns a table's cells. The page's security policy allows
// no style attributes.
var alignPattern = text.Pattern(`<(t[hd]) style="text-align:(left|right|center)"`)

// ownImagePattern matches an image of Markdown, which markdown.HTML makes a link, whose address is that of a file of a room.
var ownImagePattern = text.Pattern(`<a href="(/chat/[a-z0-9_-]{1,64}/files/[0-9]+)" rel="[^"]*">([^<]*)</a>`)

// renderMarkdown returns Markdown as HTML. Links lead to the web or to a mail address, and do not
// tell where the reader came from. Images are shown if they are files of a room.
func renderMarkdown(src string) template.HTML {
	out := ownImagePattern().ReplaceAllString(markdown.HTML(src), `<img class="own-image" src="$1" alt="$2" loading="lazy">`)
	out = linkPattern().ReplaceAllStringFunc(out, func(tag string) string {
		target := linkPattern().FindStringSubmatch(tag)[1]
		if !isWebAddress(html.UnescapeString(target)) {
			return "<a"
		}
		return `<a href="` + target + `" target="_blank" rel="noopener noreferrer nofollow"`
	})
	return template.HTML(alignPattern().ReplaceAllString(out, `<$1 class="$2"`))
}

// isWebAddress reports whether an address may become a link.
func isWebAddress(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https":
		return u.Host != ""
	case "mailto":
		return true
	}
	return false
}

const (
	// Bounds of what is indented: indentation grows with the square of the depth.
	maxPrettyBytes = 64 << 10
	maxPrettyDepth = 40
)

// prettyJSON returns indented JSON. What is no JSON, too long, or nested so deeply that indenting
// would make it huge, is returned as it is.
func prettyJSON(v any) string {
	var src []byte
	switch v := v.(type) {
	case json.RawMessage:
		src = v
	case string:
		src = []byte(v)
	}
	var b bytes.Buffer
	if len(src) > maxPrettyBytes || jsonDepth(src) > maxPrettyDepth ||
		json.Indent(&b, bytes.TrimSpace(src), "", "  ") != nil {
		return string(src)
	}
	return b.String()
}

// jsonDepth counts nested brackets. Those inside strings count, too, so the result may be too high
// and is never too low.
func jsonDepth(src []byte) int {
	now, deepest := 0, 0
	for _, c := range src {
		switch c {
		case '{', '[':
			now++
			deepest = max(deepest, now)
		case '}', ']':
			now--
		}
	}
	return deepest
}

// formatDuration returns how long something took, in words; empty where it is not known.
func formatDuration(d time.Duration) string {
	switch {
	case d <= 0:
		return ""
	case d < time.Millisecond:
		return "under 1 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// formatTime returns a time for readers without the script that shows it in their own zone.
func formatTime(t time.Time) string { return t.UTC().Format("2 Jan 2006 15:04 MST") }

// formatISO returns a time for the script that shows it in the reader's zone.
func formatISO(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// domID returns the ID of a message as a part of an element's id.
func domID(id string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-':
			return c
		}
		return '-'
	}, strings.TrimPrefix(id, "room/"))
}
