package discord

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/turn/markdown"
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
	buttons []buttonRow
	files   []chat.File
}

// embed is a card as Discord shows it.
type embed struct {
	Title       string       `json:"title,omitempty"`
	URL         string       `json:"url,omitempty"`
	Description string       `json:"description,omitempty"`
	Timestamp   string       `json:"timestamp,omitempty"`
	Footer      *embedFooter `json:"footer,omitempty"`
	Thumbnail   *embedImage  `json:"thumbnail,omitempty"`
}

// embedImage is a picture. Discord fetches it, and shows none if it cannot.
type embedImage struct {
	URL string `json:"url"`
}

type embedFooter struct {
	Text string `json:"text"`
}

// length returns how many characters of maxEmbedsText an embed takes.
func (e embed) length() int {
	n := markdown.Length(e.Title) + markdown.Length(e.Description)
	if e.Footer != nil {
		n += markdown.Length(e.Footer.Text)
	}
	return n
}

// renderMode is how a draft is shown where the bot may not do everything.
type renderMode struct {
	bare  bool // files are named only
	plain bool // cards are text
}

// render returns the messages that show a draft, at least one. The small line, buttons and files
// are with the last one.
func render(d chat.Draft) []piece { return renderAs(d, renderMode{}) }

// renderAs is render in a mode.
func renderAs(d chat.Draft, m renderMode) []piece {
	text := draftText(d)
	if names, _ := mentionsOf(d); names != "" {
		text = names + " " + text
	}
	if m.plain {
		text, d.Cards = strings.TrimSpace(text+"\n\n"+cardList(d.Cards)), nil
	}
	if !m.bare {
		parts, files := splitOrFile(d, text)
		return assemblePieces(d, parts, files)
	}
	var names []string
	for _, f := range d.Files {
		names = append(names, f.Name)
	}
	if len(names) > 0 {
		d.Footer = joinLines(d.Footer, "I am not allowed to attach files here: "+strings.Join(names, ", "))
	}
	return assemblePieces(d, withSmallLine(text, smallLine(d)), nil)
}

// cardList returns cards as text.
func cardList(cards []chat.Card) string {
	var all []string
	for _, c := range cards {
		lines := []string{
			"**" + c.Label() + linkText(chat.Link{Title: c.Title, URL: c.URL}) + "**",
			escapeText(c.Text),
		}
		if len(c.Also) > 0 {
			var also []string
			for _, l := range c.Also {
				also = append(also, linkText(l))
			}
			lines = append(lines, "also: "+strings.Join(also, ", "))
		}
		if c.Source != "" {
			lines = append(lines, "-# "+strings.Join(cardNotes(c), " · "))
		}
		all = append(all, strings.Join(slices.DeleteFunc(lines, func(s string) bool { return s == "" }), "\n"))
	}
	return strings.Join(all, "\n\n")
}

// cardNotes returns the small print of a card as text, its age in words of the reader's language.
func cardNotes(c chat.Card) []string {
	notes := []string{escapeText(c.Source)}
	if !c.Time.IsZero() {
		notes = append(notes, fmt.Sprintf("<t:%d:R>", c.Time.Unix()))
	}
	for _, note := range c.Notes() {
		notes = append(notes, escapeText(note))
	}
	return notes
}

// draftText returns the text of a draft as Discord shows it.
func draftText(d chat.Draft) string {
	text := markdown.Discord(d.Text)
	if d.Failed {
		text = chat.FailureMark + text
	}
	return text
}

// assemblePieces returns the parts of a text as pieces, with what belongs to the draft.
func assemblePieces(d chat.Draft, parts []string, files []chat.File) []piece {
	var pieces []piece
	for _, part := range parts {
		pieces = append(pieces, piece{text: part})
	}
	groups := packEmbeds(d.Cards)
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
	last.buttons, last.files = buttonRows(d.Buttons), files
	return pieces
}

// splitOrFile divides a text between messages and files. While an answer is being written no file
// is sent, and what is too long for messages is not shown yet.
func splitOrFile(d chat.Draft, text string) ([]string, []chat.File) {
	if d.Partial {
		parts := withSmallLine(text, smallLine(d))
		if len(parts) > maxPieces {
			parts = firstParts(text, smallLine(d), maxPieces)
		}
		return parts, nil
	}
	own := d.Footer
	files, left := chooseFiles(d.Files)
	d.Footer = footerText(own, left)
	parts := withSmallLine(text, smallLine(d))
	if len(parts) <= maxPieces || len(d.Text) > maxUpload {
		return parts, files
	}
	whole := chat.File{Name: answerFile, Type: "text/markdown; charset=utf-8", Data: []byte(d.Text)}
	files, left = chooseFiles(append([]chat.File{whole}, d.Files...))
	d.Footer = footerText(joinLines("the whole answer is in "+answerFile, own), left)
	return firstParts(text, smallLine(d), 1), files
}

// footerText returns the footer, with the names of files that are too large to be sent.
func footerText(own string, left []string) string {
	if len(left) == 0 {
		return own
	}
	return joinLines(own, "too much to attach: "+strings.Join(left, ", "))
}

// joinLines joins two notes of the small line; either may be empty.
func joinLines(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + " · " + b
}

// firstParts returns the first messages of a text, the last of them with the small line.
func firstParts(text, small string, messages int) []string {
	parts := markdown.Split(text, maxText-1-markdown.Length(small))
	parts = parts[:min(messages, len(parts))]
	parts[len(parts)-1] += "\n" + small
	return parts
}

// withSmallLine cuts a text into messages and ends the last one with the small line, for which there is always room.
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

// smallLine returns the line that names the tools that were called, and the footer.
func smallLine(d chat.Draft) string {
	var words []string
	if d.Partial {
		d.Footer = stillWriting
	}
	for i := 0; i < len(d.Tools); {
		same := i + 1
		for same < len(d.Tools) && d.Tools[same].Name == d.Tools[i].Name && d.Tools[same].State == d.Tools[i].State &&
			d.Tools[same].Note == d.Tools[i].Note {
			same++
		}
		word := runMark(d.Tools[i].State) + " " + d.Tools[i].Name
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
	return "-# " + cutText(escapeText(strings.Join(words, " · ")), maxSmallLine)
}

// runMark returns the sign of a tool call: done, failed or still running.
func runMark(s chat.RunState) string {
	switch s {
	case chat.Done:
		return "✓"
	case chat.Failed:
		return "✗"
	}
	return "…"
}

// packEmbeds returns cards as embeds, as many per message as Discord takes.
func packEmbeds(cards []chat.Card) [][]embed {
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

// newEmbed returns a card as an embed, cut to Discord's limits. An address that Discord does not take as a link would
// have the whole message refused, so that it is left out.
func newEmbed(c chat.Card) embed {
	title := escapeText(c.Title)
	if strings.TrimSpace(title) == "" {
		title = c.URL
	}
	e := embed{Title: cutText(c.Label()+title, maxTitle)}
	if isWebPage(c.URL) {
		e.URL = c.URL
	}
	if isWebPage(c.Image) {
		e.Thumbnail = &embedImage{c.Image}
	}
	lines := []string{escapeText(c.Text)}
	if len(c.Also) > 0 {
		var also []string
		for _, l := range c.Also {
			also = append(also, linkText(l))
		}
		lines = append(lines, "also: "+strings.Join(also, ", "))
		if n := maxDescription - 1 - markdown.Length(lines[1]); n > 0 {
			lines[0] = cutText(lines[0], n)
		}
	}
	e.Description = cutText(strings.TrimSpace(strings.Join(lines, "\n")), maxDescription)
	// Footers are plain text; Discord shows the time behind them in the reader's zone.
	notes := slices.DeleteFunc(append([]string{c.Source}, c.Notes()...), func(s string) bool { return s == "" })
	if len(notes) > 0 {
		e.Footer = &embedFooter{Text: cutText(strings.Join(notes, " · "), maxFooter)}
	}
	if !c.Time.IsZero() {
		e.Timestamp = c.Time.UTC().Format(time.RFC3339)
	}
	return e
}

// linkText returns a link as Discord shows it under its title, or as text if it cannot.
func linkText(l chat.Link) string {
	title := strings.NewReplacer("[", "(", "]", ")").Replace(escapeText(l.Title))
	if !isWebPage(l.URL) || strings.TrimSpace(title) == "" || strings.Contains(title, "://") {
		return strings.TrimSpace(title + " " + l.URL)
	}
	return "[" + title + "](" + strings.NewReplacer("(", "%28", ")", "%29", " ", "%20").Replace(l.URL) + ")"
}

// isWebPage reports whether Discord takes an address as a link.
func isWebPage(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && len(address) <= maxURL
}

// markupPattern matches what Discord would take for formatting in plain text. Underscores within a
// word are none.
var markupPattern = text.Pattern("[*`\\\\<]|\\|\\||~~|\\]\\(|\\b_|_\\b|(?m:^)(?:#{1,3}|>|-#)")

// escapeText returns plain text so that Discord shows it as it is.
func escapeText(s string) string {
	return markupPattern().ReplaceAllStringFunc(s, func(m string) string {
		var b strings.Builder
		for _, c := range m {
			b.WriteString(`\` + string(c))
		}
		return b.String()
	})
}

// cutText returns a text of at most so many characters as Discord counts them, with an ellipsis if it was cut.
func cutText(s string, limit int) string {
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
