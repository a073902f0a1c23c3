package slack

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"ravenbot/internal/core/text"
)

// maxEmbedded is how much is kept of the text of one attachment, or of all blocks of a message.
const maxEmbedded = 4000

var entities = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&")

// incomingText returns the words of a message to the bot as Markdown, without the mention of the
// bot. Users stay ids, because the same message has the same text whenever it comes.
func (s *Slack) incomingText(m *wireMessage) string {
	words := s.plainMarkdown(m.Text, func(user, label string) string {
		if user == s.self.user {
			return ""
		}
		return "@" + cmp.Or(label, user)
	})
	return strings.TrimSpace(words + s.bracketed(m, incomingKinds))
}

// saidText returns the words of a message that is read back, with the names of users for their ids; a user without a
// name stays an id. Empty: it says nothing, like a notice.
func (s *Slack) saidText(m *wireMessage, names map[string]string) string {
	nameOf := func(user, label string) string {
		if user == s.self.user {
			return "@" + s.self.name
		}
		return "@" + cmp.Or(names[user], label, user)
	}
	words := m.Text
	// Apps may say everything in blocks; the text is then empty, or a short form of them.
	if m.BotID != "" {
		if blocks := blockText(m.Blocks); len(blocks) > len(words) {
			words = blocks
		}
	}
	said := strings.TrimSpace(s.plainMarkdown(words, nameOf) + s.bracketed(m, saidKinds))
	if !mayMention(said) {
		return said
	}
	return strings.TrimSpace(mentionedUser().ReplaceAllStringFunc(said, func(mention string) string {
		return "@" + cmp.Or(names[mention[1:]], mention[1:])
	}))
}

// plainMarkdown turns Slack's text into Markdown as a person would have written it. nameOf returns
// what stands for the mention of a user.
func (s *Slack) plainMarkdown(words string, nameOf func(user, label string) string) string {
	words = replaceAngles(words, func(what, label string) string {
		switch {
		case strings.HasPrefix(what, "@"):
			return nameOf(what[1:], label)
		case strings.HasPrefix(what, "#"):
			return "#" + cmp.Or(label, what[1:])
		case strings.HasPrefix(what, "!"):
			if label != "" {
				return label
			}
			word, _, _ := strings.Cut(what[1:], "^")
			return "@" + word
		case label != "" && label != what &&
			!strings.HasPrefix(what, "mailto:") && !strings.HasSuffix(what, "//"+label):
			return "[" + label + "](" + what + ")"
		}
		return strings.TrimPrefix(what, "mailto:")
	})
	if strings.Contains(words, "&") { // the replacer copies what it does not change, too
		words = entities.Replace(words)
	}
	return strings.TrimSpace(words)
}

// replaceAngles replaces what stands between < and >, such as the mention <@U024BE7LH> or the link <https://x.org|X>, by
// what replace returns for the words before and after its |.
func replaceAngles(words string, replace func(what, label string) string) string {
	var b strings.Builder
	for {
		end := strings.IndexByte(words, '>')
		if end < 0 {
			break
		}
		if begin := strings.LastIndexByte(words[:end], '<'); begin < 0 {
			b.WriteString(words[:end+1])
		} else {
			what, label, _ := strings.Cut(words[begin+1:end], "|")
			b.WriteString(words[:begin])
			b.WriteString(replace(what, label))
		}
		words = words[end+1:]
	}
	if b.Len() == 0 {
		return words
	}
	b.WriteString(words)
	return b.String()
}

// attachmentKind says what an attachment of a message is.
type attachmentKind string

const (
	sharedMessage attachmentKind = "shared message" // that somebody passed on
	appAttachment attachmentKind = "attachment"     // what an app adds to its message
	linkPreview   attachmentKind = "link preview"   // that Slack adds some time later
)

// Which attachments count as words: a preview, which comes with a change of the message, must not
// make a message to the bot another one.
var (
	incomingKinds = map[attachmentKind]bool{sharedMessage: true, appAttachment: true}
	saidKinds     = map[attachmentKind]bool{sharedMessage: true, appAttachment: true, linkPreview: true}
)

// bracketed returns the attachments and files of a message in words, each on a line of its own.
func (s *Slack) bracketed(m *wireMessage, kinds map[attachmentKind]bool) string {
	var b strings.Builder
	plain := func(user, label string) string { return "@" + cmp.Or(label, user) }
	for _, raw := range m.Attachments {
		kind, words := attachmentText(raw)
		if words = s.plainMarkdown(words, plain); kinds[kind] && words != "" {
			fmt.Fprintf(&b, "\n[%s: %s]", kind, text.Shorten(words, maxEmbedded))
		}
	}
	for _, f := range parseWireFiles(m.Files) {
		fmt.Fprintf(&b, "\n[%s]", f.describe())
	}
	return b.String()
}

// attachmentText returns what an attachment is and says; no text where it is of an unexpected form.
func attachmentText(raw json.RawMessage) (attachmentKind, string) {
	var a struct {
		Share    bool   `json:"is_share"`
		FromURL  string `json:"from_url"`
		Pretext  string `json:"pretext"`
		Title    string `json:"title"`
		Link     string `json:"title_link"`
		Text     string `json:"text"`
		Fallback string `json:"fallback"`
		Fields   []struct {
			Title string `json:"title"`
			Value string `json:"value"`
		} `json:"fields"`
		Blocks json.RawMessage `json:"blocks"`
	}
	if json.Unmarshal(raw, &a) != nil {
		return "", ""
	}
	switch {
	case a.Share:
		return sharedMessage, a.Text
	case a.FromURL != "":
		return linkPreview, a.Title
	}
	title := a.Title
	if a.Link != "" {
		title = "<" + a.Link + "|" + cmp.Or(a.Title, a.Link) + ">"
	}
	lines := []string{a.Pretext, title, a.Text}
	for _, f := range a.Fields {
		lines = append(lines, strings.Trim(f.Title+": "+f.Value, ": "))
	}
	words := joinLines(append(lines, blockText(a.Blocks)))
	return appAttachment, cmp.Or(words, a.Fallback)
}

// fillText gives a message of a person the text of its blocks where it has no other, as one that was sent through the
// Web API may.
func (m *wireMessage) fillText() {
	if m.Text == "" && m.BotID == "" && len(m.Blocks) > 0 {
		m.Text = blockText(m.Blocks)
	}
}

// block is a part of a message of an app, or of what a person wrote with formatting.
type block struct {
	Type     string          `json:"type"`
	Text     json.RawMessage `json:"text"` // a string, or a block
	URL      string          `json:"url"`
	Name     string          `json:"name"`
	User     string          `json:"user_id"`
	Alt      string          `json:"alt_text"`
	Fields   []block         `json:"fields"`
	Elements []block         `json:"elements"`
}

// blockText returns the words of a list of blocks in Slack's own form, a block a line, cut to maxEmbedded; empty where
// it is of an unexpected form.
func blockText(raw json.RawMessage) string {
	var list []block
	if json.Unmarshal(raw, &list) != nil {
		return ""
	}
	var lines []string
	for _, b := range list {
		lines = append(lines, b.words())
	}
	return text.Shorten(joinLines(lines), maxEmbedded)
}

// words returns what a block says. Buttons and other controls say nothing.
func (b block) words() string {
	var own string
	if json.Unmarshal(b.Text, &own) != nil {
		var inner block
		if json.Unmarshal(b.Text, &inner) == nil {
			own = inner.words()
		}
	}
	var parts []string
	for _, e := range append(b.Fields, b.Elements...) {
		parts = append(parts, e.words())
	}
	switch b.Type {
	case "link":
		return "<" + b.URL + "|" + cmp.Or(own, b.URL) + ">"
	case "user":
		return "<@" + b.User + ">"
	case "emoji":
		return ":" + b.Name + ":"
	case "image":
		return b.Alt
	case "actions", "button", "input", "divider":
		return ""
	case "rich_text_section", "rich_text_quote", "rich_text_preformatted":
		return strings.Join(parts, "") // of one line, or with line ends of their own
	}
	return joinLines(append([]string{own}, parts...))
}

// joinLines joins the texts that are not empty.
func joinLines(lines []string) string {
	var kept []string
	for _, line := range lines {
		if strings.TrimSpace(line) != "" {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}
