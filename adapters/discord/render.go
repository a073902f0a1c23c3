package discord

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/markdown"
)

// Limits of one message, in characters.
const (
	maxText        = 2000
	maxEmbeds      = 10
	maxEmbedsText  = 6000 // over all embeds
	maxTitle       = 256
	maxDescription = 4096
	maxFooter      = 256 // Discord's is 2,048; a feed's name is shorter
	maxURL         = 2048
	maxSmallLine   = 400
)

// Message flags.
const (
	flagNoPreviews = 1 << 2 // links in a model's words would be fetched, and could carry data away
	flagEphemeral  = 1 << 6
)

// piece is one message.
type piece struct {
	text    string
	embeds  []embed
	buttons []row
	files   []chat.File
}

type embed struct {
	Title       string       `json:"title,omitempty"`
	URL         string       `json:"url,omitempty"`
	Description string       `json:"description,omitempty"`
	Timestamp   string       `json:"timestamp,omitempty"`
	Footer      *embedFooter `json:"footer,omitempty"`
	Thumbnail   *embedImage  `json:"thumbnail,omitempty"`
}

// embedImage is a picture; Discord fetches it, and shows none where it cannot.
type embedImage struct {
	URL string `json:"url"`
}

type embedFooter struct {
	Text string `json:"text"`
}

func (e embed) length() int {
	n := markdown.Length(e.Title) + markdown.Length(e.Description)
	if e.Footer != nil {
		n += markdown.Length(e.Footer.Text)
	}
	return n
}

// manner is how a draft is shown where the bot may not do everything.
type manner struct {
	bare  bool // files are named only
	plain bool // cards are text
}

// render writes a draft as the messages that show it, at least one. What stands
// below all else, buttons and files, is with the last.
func render(d chat.Draft) []piece { return renderAs(d, manner{}) }

func renderAs(d chat.Draft, m manner) []piece {
	text := words(d)
	if m.plain {
		text, d.Cards = strings.TrimSpace(text+"\n\n"+listed(d.Cards)), nil
	}
	if !m.bare {
		parts, files := spread(d, text)
		return assemble(d, parts, files)
	}
	var names []string
	for _, f := range d.Files {
		names = append(names, f.Name)
	}
	if len(names) > 0 {
		d.Footer = joined(d.Footer, "I may not attach files here: "+strings.Join(names, ", "))
	}
	return assemble(d, withSmallLine(text, smallLine(d)), nil)
}

// listed writes cards as text.
func listed(cards []chat.Card) string {
	var all []string
	for _, c := range cards {
		lines := []string{"**" + c.Label() + masked(chat.Link{Title: c.Title, URL: c.URL}) + "**", literal(c.Text)}
		if len(c.Also) > 0 {
			var also []string
			for _, l := range c.Also {
				also = append(also, masked(l))
			}
			lines = append(lines, "also: "+strings.Join(also, ", "))
		}
		if c.Source != "" {
			lines = append(lines, "-# "+literal(c.Source))
		}
		all = append(all, strings.Join(slices.DeleteFunc(lines, func(s string) bool { return s == "" }), "\n"))
	}
	return strings.Join(all, "\n\n")
}

// words is the text of a draft as Discord shows it.
func words(d chat.Draft) string {
	if d.Failed {
		return "⚠️ " + markdown.Discord(d.Text)
	}
	return markdown.Discord(d.Text)
}

// assemble makes pieces of the parts of a text and what comes with them.
func assemble(d chat.Draft, parts []string, files []chat.File) []piece {
	var pieces []piece
	for _, part := range parts {
		pieces = append(pieces, piece{text: part})
	}
	groups := packed(d.Cards)
	if len(pieces) > 0 && len(groups) > 0 {
		pieces[len(pieces)-1].embeds = groups[0]
		groups = groups[1:]
	}
	for _, g := range groups {
		pieces = append(pieces, piece{embeds: g})
	}
	if len(pieces) == 0 && len(files) > 0 {
		pieces = []piece{{}}
	}
	if len(pieces) == 0 {
		pieces = []piece{{text: "*(an empty answer)*"}}
	}
	last := &pieces[len(pieces)-1]
	last.buttons, last.files = rows(d.Buttons), files
	return pieces
}

// spread divides what a draft says between messages and files. While an answer is
// written no file is sent, and what is too long for messages is not shown yet.
func spread(d chat.Draft, text string) ([]string, []chat.File) {
	if d.Partial {
		parts := withSmallLine(text, smallLine(d))
		if len(parts) > maxPieces {
			parts = beginning(text, smallLine(d), maxPieces)
		}
		return parts, nil
	}
	own := d.Footer
	files, left := uploads(d.Files)
	d.Footer = footer(own, left)
	parts := withSmallLine(text, smallLine(d))
	if len(parts) <= maxPieces || len(d.Text) > maxUpload {
		return parts, files
	}
	whole := chat.File{Name: wholeName, Type: "text/markdown; charset=utf-8", Data: []byte(d.Text)}
	files, left = uploads(append([]chat.File{whole}, d.Files...))
	d.Footer = footer(joined("the whole answer is in "+wholeName, own), left)
	return beginning(text, smallLine(d), 1), files
}

// footer ends in the names of files that are too large to be sent.
func footer(own string, left []string) string {
	if len(left) == 0 {
		return own
	}
	return joined(own, "too much to attach: "+strings.Join(left, ", "))
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + " · " + b
}

// beginning is the first messages of a text, the last of them with the small line.
func beginning(text, small string, messages int) []string {
	parts := markdown.Split(text, maxText-1-markdown.Length(small))
	parts = parts[:min(messages, len(parts))]
	parts[len(parts)-1] += "\n" + small
	return parts
}

// withSmallLine cuts a text to messages and ends the last with the small line.
func withSmallLine(text, small string) []string {
	parts := markdown.Split(text, maxText)
	if small == "" {
		return parts
	}
	if len(parts) == 0 {
		return []string{small}
	}
	if markdown.Length(parts[len(parts)-1])+1+markdown.Length(small) > maxText {
		parts = markdown.Split(text, maxText-1-markdown.Length(small))
	}
	parts[len(parts)-1] += "\n" + small
	return parts
}

// stillWriting ends an answer that is not whole.
const stillWriting = "✍️ writing…"

// smallLine names the tools that were called and what the footer says.
func smallLine(d chat.Draft) string {
	var words []string
	if d.Partial {
		d.Footer = stillWriting
	}
	for i := 0; i < len(d.Tools); {
		same := i + 1
		for same < len(d.Tools) && d.Tools[same].Name == d.Tools[i].Name && d.Tools[same].State == d.Tools[i].State && d.Tools[same].Note == d.Tools[i].Note {
			same++
		}
		word := mark(d.Tools[i].State) + " " + d.Tools[i].Name
		if same-i > 1 {
			word += fmt.Sprintf(" ×%d", same-i)
		}
		if note := d.Tools[i].Note; note != "" {
			word += " (" + strings.Join(strings.Fields(note), " ") + ")"
		}
		words, i = append(words, word), same
	}
	if d.Footer != "" {
		words = append(words, strings.Join(strings.Fields(d.Footer), " "))
	}
	if len(words) == 0 {
		return ""
	}
	return "-# " + cut(literal(strings.Join(words, " · ")), maxSmallLine)
}

func mark(s chat.RunState) string {
	switch s {
	case chat.Done:
		return "✓"
	case chat.Failed:
		return "✗"
	}
	return "…"
}

// packed writes cards as embeds, as many to a message as it takes.
func packed(cards []chat.Card) [][]embed {
	var groups [][]embed
	room := 0
	for _, c := range cards {
		e := newEmbed(c)
		n := e.length()
		last := len(groups) - 1
		if last < 0 || len(groups[last]) == maxEmbeds || n > room {
			groups, room = append(groups, nil), maxEmbedsText
			last++
		}
		groups[last], room = append(groups[last], e), room-n
	}
	return groups
}

func newEmbed(c chat.Card) embed {
	title := literal(c.Title)
	if strings.TrimSpace(title) == "" {
		title = c.URL
	}
	e := embed{Title: cut(c.Label()+title, maxTitle)}
	if webPage(c.URL) {
		e.URL = c.URL
	}
	if webPage(c.Image) {
		e.Thumbnail = &embedImage{c.Image}
	}
	lines := []string{literal(c.Text)}
	if len(c.Also) > 0 {
		var also []string
		for _, l := range c.Also {
			also = append(also, masked(l))
		}
		lines = append(lines, "also: "+strings.Join(also, ", "))
		if n := maxDescription - 1 - markdown.Length(lines[1]); n > 0 {
			lines[0] = cut(lines[0], n)
		}
	}
	e.Description = cut(strings.TrimSpace(strings.Join(lines, "\n")), maxDescription)
	if c.Source != "" {
		e.Footer = &embedFooter{Text: cut(c.Source, maxFooter)}
	}
	if !c.Time.IsZero() {
		e.Timestamp = c.Time.UTC().Format(time.RFC3339)
	}
	return e
}

// masked writes a link to one that Discord shows under its title.
func masked(l chat.Link) string {
	title := strings.NewReplacer("[", "(", "]", ")").Replace(literal(l.Title))
	if !webPage(l.URL) || strings.TrimSpace(title) == "" || strings.Contains(title, "://") {
		return strings.TrimSpace(title + " " + l.URL)
	}
	return "[" + title + "](" + strings.NewReplacer("(", "%28", ")", "%29", " ", "%20").Replace(l.URL) + ")"
}

// webPage tells whether Discord takes an address as a link.
func webPage(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && len(address) <= maxURL
}

// marks are what Discord would take for formatting in plain text. Underscores
// within a word are none.
var marks = regexp.MustCompile("[*`\\\\<]|\\|\\||~~|\\]\\(|\\b_|_\\b|(?m:^)(?:#{1,3}|>|-#)")

// literal makes plain text show as it is.
func literal(s string) string {
	return marks.ReplaceAllStringFunc(s, func(m string) string {
		var b strings.Builder
		for _, c := range m {
			b.WriteString(`\` + string(c))
		}
		return b.String()
	})
}

// cut shortens a text to so many characters, with an ellipsis.
func cut(s string, limit int) string {
	if markdown.Length(s) <= limit {
		return s
	}
	n := 1
	for i, c := range s {
		if n += markdown.Length(string(c)); n > limit {
			return strings.TrimRight(s[:i], " \n\\") + "…"
		}
	}
	return s
}
