package slack

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	slackgo "github.com/slack-go/slack"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/turn/markdown"
)

// Limits of one message. Slack's own are 12,000 characters of Markdown, of which
// somewhat more in all was refused (slackapi/bolt-js#2509), 50 blocks, 3,000
// characters a section, and 40,000 of text.
const (
	maxText        = 11_000
	maxCards       = 20
	maxSectionText = 2_800
	maxPlainText   = 3_000
	maxContextText = 500
	maxButtonLabel = 75
	// maxImageURL is the longest address of a picture.
	maxImageURL = 3000
)

// plainPattern matches a text that looks the same with and without formatting, and therefore needs
// no block.
var plainPattern = text.Pattern(`^[\pL\pN .,;:?!'"/%+=()-]+$`)

// piece is one message of a draft.
type piece struct {
	body   string          // Markdown
	notes  string          // what stands below, in the text
	simple bool            // the body looks the same as text
	below  []slackgo.Block // what stands below the body
}

// text returns the piece for notifications and screen readers, and for Slack if it takes no blocks: its Markdown in at
// most n characters, and its notes, as mrkdwn.
func (p piece) text(n int) string {
	body := cutText(markdown.SlackText(p.body), max(1, n-len([]rune(p.notes))-1))
	return cmp.Or(strings.TrimSpace(controlEscapes.Replace(body)+"\n"+p.notes), "…")
}

// blocks returns the blocks of the whole message; none if plain text is enough.
func (p piece) blocks() []slackgo.Block {
	switch {
	case p.body == "":
		return p.below
	case len(p.below) == 0 && p.simple:
		return nil
	}
	return append([]slackgo.Block{slackgo.NewMarkdownBlock("", p.body)}, p.below...)
}

// splitText returns a text as Slack's Markdown, cut to the size of messages, with mentions made
// harmless.
func splitText(text string) []string { return markdown.Split(markdown.Slack(text), maxText) }

// render returns the messages of a draft, at least one: its text, then its cards, maxCards a message. Mentions stand in
// the first message, the footer and buttons in the last.
func render(d chat.Draft) []piece {
	text := d.Text
	if d.Failed {
		text = chat.FailureMark + text
	}
	var pieces []piece
	for _, body := range splitText(text) {
		simple := len(body) <= maxPlainText && plainPattern().MatchString(body)
		pieces = append(pieces, piece{body: body, simple: simple})
	}
	if len(pieces) == 0 {
		pieces = []piece{{}}
	}
	for n, c := range d.Cards {
		if n > 0 && n%maxCards == 0 {
			pieces = append(pieces, piece{})
		}
		last := &pieces[len(pieces)-1]
		last.below = append(last.below, cardBlocks(c)...)
		last.notes = cutText(
			strings.TrimSpace(last.notes+"\n• "+c.Label()+escape(c.Title)+" "+controlEscapes.Replace(c.URL)),
			maxPlainText,
		)
	}
	last := &pieces[len(pieces)-1]
	if names := mentionsOf(d); names != "" {
		pieces[0].below = append(pieces[0].below, contextBlock(names))
	}
	if line := smallText(d); line != "" {
		last.below = append(last.below, contextBlock(line))
		// Notifications and screen readers have the text alone.
		last.notes = strings.TrimSpace(
			cutText(last.notes, maxPlainText-maxContextText-1) + "\n" + cutText(line, maxContextText),
		)
	}
	if row := buttonBlock(d.Buttons); row != nil {
		last.below = append(last.below, row)
	}
	return pieces
}

// withoutImages returns the piece without the pictures that Slack has to fetch; false if it has
// none. Slack refuses the whole post for a picture that it cannot fetch.
func (p piece) withoutImages() (piece, bool) {
	had := false
	p.below = slices.Clone(p.below)
	for n, b := range p.below {
		if section, ok := b.(*slackgo.SectionBlock); ok && section.Accessory != nil {
			bare := *section
			bare.Accessory = nil
			p.below[n], had = &bare, true
		}
	}
	return p, had
}

// cardBlocks returns a story as a section with its title, text and picture, and a line with its source and age.
func cardBlocks(c chat.Card) []slackgo.Block {
	text := "*" + c.Label() + linkText(c.Title, c.URL) + "*"
	if c.Text != "" {
		text += "\n" + escape(c.Text)
	}
	section := slackgo.NewSectionBlock(
		slackgo.NewTextBlockObject(slackgo.MarkdownType, cutText(text, maxSectionText), false, true),
		nil,
		nil,
	)
	if c.Image != "" && len(c.Image) <= maxImageURL {
		section.Accessory = slackgo.NewAccessory(
			slackgo.NewImageBlockElement(c.Image, cutText(c.Title, maxContextText)),
		)
	}
	blocks := []slackgo.Block{section}
	var notes []string
	if c.Source != "" {
		notes = append(notes, escape(c.Source))
	}
	if !c.Time.IsZero() {
		notes = append(notes, readerTime(c.Time))
	}
	for _, note := range c.Notes() {
		notes = append(notes, escape(note))
	}
	var also []string
	for _, l := range c.Also {
		also = append(also, linkText(l.Title, l.URL))
	}
	if len(also) > 0 {
		notes = append(notes, "also: "+strings.Join(also, ", "))
	}
	if len(notes) > 0 {
		blocks = append(blocks, contextBlock(strings.Join(notes, " · ")))
	}
	return blocks
}

// idPattern matches an id of Slack.
var idPattern = text.Pattern(`^[A-Z0-9]+$`)

// mentionsOf returns the mentions that a draft asks for, of users and user groups; empty if there are none. Those in
// its text are made harmless, and what is no id of Slack is left out.
func mentionsOf(d chat.Draft) string {
	var names []string
	for _, who := range d.Notify {
		kind, id, _ := strings.Cut(who, ":")
		switch {
		case !idPattern().MatchString(id):
		case kind == "role":
			names = append(names, "<!subteam^"+id+">")
		case kind == "user":
			names = append(names, "<@"+id+">")
		}
	}
	return strings.Join(names, " ")
}

// readerTime returns a time that Slack shows in the zone of whoever reads it, as "Yesterday 11:30 PM"
// (https://docs.slack.dev/messaging/formatting-message-text, 2026-11). Clients that do not know the form show UTC.
func readerTime(t time.Time) string {
	return fmt.Sprintf("<!date^%d^{date_short_pretty} {time}|%s>", t.Unix(), t.UTC().Format("2 Jan 2006 15:04 MST"))
}

// smallText returns the line below an answer: the tools that ran, and the footer.
func smallText(d chat.Draft) string {
	var notes []string
	for _, t := range d.Tools {
		mark := "✓"
		switch t.State {
		case chat.Failed:
			mark = "✗"
		case chat.Running:
			mark = "…"
		}
		line := mark + " `" + t.Name + "`"
		if t.Note != "" {
			line += " (" + escape(t.Note) + ")"
		}
		notes = append(notes, line)
	}
	if d.Footer != "" {
		notes = append(notes, escape(d.Footer))
	}
	return strings.Join(notes, " · ")
}

// joinFooter returns a footer with one more note.
func joinFooter(footer, note string) string {
	if footer == "" {
		return note
	}
	return footer + " · " + note
}

// contextBlock returns a line of small text, in mrkdwn.
func contextBlock(text string) slackgo.Block {
	return slackgo.NewContextBlock(
		"",
		slackgo.NewTextBlockObject(slackgo.MarkdownType, cutText(text, maxSectionText), false, true),
	)
}

// buttonPrefix begins the action ids of our buttons.
const buttonPrefix = "ravenbot-"

// buttonBlock returns a row of buttons; nil if there are none.
func buttonBlock(list []chat.Button) slackgo.Block {
	var row []slackgo.BlockElement
	for n, b := range list {
		one := slackgo.NewButtonBlockElement(
			buttonPrefix+strconv.Itoa(n),
			b.Value,
			slackgo.NewTextBlockObject(slackgo.PlainTextType, cutText(b.Label, maxButtonLabel), true, false),
		)
		switch b.Style {
		case chat.Primary:
			one.Style = slackgo.StylePrimary
		case chat.Danger:
			one.Style = slackgo.StyleDanger
		}
		row = append(row, one)
	}
	if row == nil {
		return nil
	}
	return slackgo.NewActionBlock("", row...)
}

// Replacers are made once: making one takes more memory than most texts.
var (
	controlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	addressEscapes = strings.NewReplacer("|", "%7C", ">", "%3E", "<", "%3C")
)

// escape returns plain text for Slack's mrkdwn, with mentions made harmless.
func escape(s string) string { return controlEscapes.Replace(markdown.Slack(s)) }

// linkText returns a link in Slack's form, in which the title has no line ends; the title alone without an address.
func linkText(title, address string) string {
	if address == "" {
		return strings.ReplaceAll(escape(title), "\n", " ")
	}
	return "<" + addressEscapes.Replace(address) + "|" + strings.ReplaceAll(escape(title), "\n", " ") + ">"
}

// cutText returns the first n characters of a text, the last of which is an ellipsis if it was cut.
func cutText(s string, n int) string {
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return s
}

// isSlackAddress reports whether a response_url leads to Slack, or to where its API is configured
// to be.
func (s *Slack) isSlackAddress(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return false
	}
	if base, err := url.Parse(s.o.APIBaseURL); err == nil && u.Hostname() == base.Hostname() {
		return true
	}
	return u.Scheme == "https" && strings.HasSuffix(u.Hostname(), ".slack.com")
}
