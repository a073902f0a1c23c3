package slack

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	slackgo "github.com/slack-go/slack"

	"ravenbot/internal/chat"
	"ravenbot/internal/markdown"
)

// Limits of one message. Slack's own are 12,000 characters of Markdown, of which
// somewhat more in all was refused (slackapi/bolt-js#2509), 50 blocks, 3,000
// characters a section, and 40,000 of text.
const (
	textLimit   = 11_000
	cardsLimit  = 20
	sectionText = 2_800
	plainText   = 3_000
	noteText    = 500
	labelText   = 75
	// imageAddress is the longest address of a picture.
	imageAddress = 3000
)

// plain is a text that looks the same with and without formatting; it needs no
// block.
var plain = regexp.MustCompile(`^[\pL\pN .,;:?!'"/%+=()-]+$`)

// piece is one message of a draft.
type piece struct {
	text   string          // for notifications
	body   string          // Markdown
	simple bool            // the body looks the same as text
	below  []slackgo.Block // what stands below the body
}

// blocks are the whole message; none where plain text is enough.
func (p piece) blocks() []slackgo.Block {
	switch {
	case p.body == "":
		return p.below
	case len(p.below) == 0 && p.simple:
		return nil
	}
	return append([]slackgo.Block{slackgo.NewMarkdownBlock("", p.body)}, p.below...)
}

// bodies cuts a text into what messages show, calling nobody.
func bodies(text string) []string { return markdown.Split(markdown.Slack(text), textLimit) }

// render makes the messages of a draft.
func render(d chat.Draft) []piece {
	text := d.Text
	if d.Failed {
		text = "⚠️ " + text
	}
	var pieces []piece
	for _, body := range bodies(text) {
		one := piece{text: body, body: body, simple: len(body) <= plainText && plain.MatchString(body)}
		if !one.simple {
			one.text = clip(markdown.Slack(markdown.Plain(body)), plainText)
		}
		pieces = append(pieces, one)
	}
	if len(pieces) == 0 {
		pieces = []piece{{}}
	}
	for n, c := range d.Cards {
		if n > 0 && n%cardsLimit == 0 {
			pieces = append(pieces, piece{})
		}
		last := &pieces[len(pieces)-1]
		last.below = append(last.below, card(c)...)
		last.text = clip(strings.TrimSpace(last.text+"\n• "+c.Label()+markdown.Slack(c.Title)+" "+c.URL), plainText)
	}
	last := &pieces[len(pieces)-1]
	if line := small(d); line != "" {
		last.below = append(last.below, note(line))
		// Notifications and screen readers have the text alone.
		last.text = strings.TrimSpace(clip(last.text, plainText-noteText-1) + "\n" + clip(line, noteText))
	}
	if row := buttons(d.Buttons); row != nil {
		last.below = append(last.below, row)
	}
	if last.text == "" {
		last.text = "…"
	}
	return pieces
}

// withoutPictures is the piece without what Slack has to fetch from elsewhere, and
// refuses a post for when it cannot.
func (p piece) withoutPictures() (piece, bool) {
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

func card(c chat.Card) []slackgo.Block {
	text := "*" + c.Label() + anchor(c.Title, c.URL) + "*"
	if c.Text != "" {
		text += "\n" + escape(c.Text)
	}
	section := slackgo.NewSectionBlock(slackgo.NewTextBlockObject(slackgo.MarkdownType, clip(text, sectionText), false, true), nil, nil)
	if c.Image != "" && len(c.Image) <= imageAddress {
		section.Accessory = slackgo.NewAccessory(slackgo.NewImageBlockElement(c.Image, clip(c.Title, noteText)))
	}
	blocks := []slackgo.Block{section}
	var notes []string
	if c.Source != "" {
		notes = append(notes, escape(c.Source))
	}
	if !c.Time.IsZero() {
		notes = append(notes, c.Time.Format("2 Jan 2006 15:04 MST"))
	}
	var also []string
	for _, l := range c.Also {
		also = append(also, anchor(l.Title, l.URL))
	}
	if len(also) > 0 {
		notes = append(notes, "also: "+strings.Join(also, ", "))
	}
	if len(notes) > 0 {
		blocks = append(blocks, note(strings.Join(notes, " · ")))
	}
	return blocks
}

// small is the line below an answer: the tools that ran, and the footer.
func small(d chat.Draft) string {
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

// joined is a footer with one more note.
func joined(footer, note string) string {
	if footer == "" {
		return note
	}
	return footer + " · " + note
}

func note(text string) slackgo.Block {
	return slackgo.NewContextBlock("", slackgo.NewTextBlockObject(slackgo.MarkdownType, clip(text, sectionText), false, true))
}

// pressed begins the action ids of our buttons.
const pressed = "ravenbot-"

// buttons are a row to press; nil: there are none.
func buttons(list []chat.Button) slackgo.Block {
	var row []slackgo.BlockElement
	for n, b := range list {
		one := slackgo.NewButtonBlockElement(pressed+strconv.Itoa(n), b.Value, slackgo.NewTextBlockObject(slackgo.PlainTextType, clip(b.Label, labelText), true, false))
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

// escape writes plain text for Slack's mrkdwn, calling nobody.
func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(markdown.Slack(s))
}

func anchor(title, address string) string {
	return "<" + strings.NewReplacer("|", "%7C", ">", "%3E", "<", "%3C").Replace(address) + "|" + strings.ReplaceAll(escape(title), "\n", " ") + ">"
}

// clip cuts to n characters.
func clip(s string, n int) string {
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return s
}

// ours reports whether a response_url leads to Slack, or to where its API is
// configured to be.
func (s *Slack) ours(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return false
	}
	if base, err := url.Parse(s.o.APIBaseURL); err == nil && u.Hostname() == base.Hostname() {
		return true
	}
	return u.Scheme == "https" && strings.HasSuffix(u.Hostname(), ".slack.com")
}
