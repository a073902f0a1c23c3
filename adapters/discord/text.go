package discord

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"ravenbot/internal/core/text"
)

// maxEmbedded is how much is kept of one embed, poll or forwarded message, in characters.
const maxEmbedded = 4000

// flagVoice marks a message that somebody spoke.
const flagVoice = 1 << 13

// mentionPattern matches users, roles, channels and custom emoji in a text, with the
// space after them.
var mentionPattern = text.Pattern(`<(@!?|@&|#|a?:)(\w+)(?::\d+)?>([ \t]*)`)

// incomingText returns a message to the bot as people read it, without the mention of the bot.
func (r messageReader) incomingText() string {
	return r.wholeText(func(kind, id, space string) string {
		if id == r.self.ID || kind == "@&" && r.isOwnRole(id) {
			return ""
		}
		return r.mentionName(kind, id) + space
	})
}

// saidText returns a message as people read it.
func (r messageReader) saidText() string { return r.wholeText(r.mention) }

// namedText returns a text with names in the place of mentions.
func (r messageReader) namedText(content string) string { return nameMentions(content, r.mention) }

// mention returns what people read in the place of a mention, with the space behind it.
func (r messageReader) mention(kind, id, space string) string { return r.mentionName(kind, id) + space }

// wholeText returns the words of a message, and in brackets what it holds besides.
func (r messageReader) wholeText(name func(kind, id, space string) string) string {
	lines := append([]string{nameMentions(r.w.Content, name)}, r.w.wireContent.extras()...)
	for _, s := range r.w.Snapshots {
		words := strings.Join(append([]string{nameMentions(s.Message.Content, name)}, s.Message.extras()...), "\n")
		lines = append(lines, bracketed("forwarded message", words))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// nameMentions replaces the mentions in a text.
func nameMentions(content string, name func(kind, id, space string) string) string {
	return strings.TrimSpace(mentionPattern().ReplaceAllStringFunc(content, func(s string) string {
		parts := mentionPattern().FindStringSubmatch(s)
		return name(parts[1], parts[2], parts[3])
	}))
}

// mentionName returns what people read in the place of a mention.
func (r messageReader) mentionName(kind, id string) string {
	switch kind {
	case "#":
		if c, found := findChannel(r.state, r.w.GuildID, id); found {
			return "#" + c.Name
		}
		return "#" + id
	case "@&":
		if role, err := r.state.Role(r.w.GuildID, id); err == nil {
			return "@" + role.Name
		}
		return "@" + id
	case "@", "@!":
		mentioned := wireUser{ID: id}
		if i := slices.IndexFunc(r.w.Mentions, func(u wireUser) bool { return u.ID == id }); i >= 0 {
			mentioned = r.w.Mentions[i]
		} else if id == r.self.ID {
			mentioned = r.self
		}
		return "@" + cmp.Or(r.d.nameOf(r.w.GuildID, mentioned), id)
	}
	return ":" + id + ":" // an emoji's name
}

// extras returns what a message holds beside its words and the files that can be read: a line in
// brackets each. What is of an unexpected form is left out.
func (c wireContent) extras() []string {
	var lines []string
	for _, a := range c.Attachments {
		switch {
		case c.Flags&flagVoice != 0:
			lines = append(lines, fmt.Sprintf("[attached: voice message, %d s]", int(math.Round(a.Seconds))))
		case a.mediaType() == "":
			lines = append(lines, "[attached: "+text.OneLine(a.Name)+"]")
		}
	}
	for _, raw := range c.Embeds {
		if words := embedText(raw); words != "" {
			lines = append(lines, bracketed("embed", words))
		}
	}
	if words := pollText(c.Poll); words != "" {
		lines = append(lines, bracketed("poll", words))
	}
	for _, raw := range c.Stickers {
		var sticker struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(raw, &sticker) == nil && sticker.Name != "" {
			lines = append(lines, bracketed("sticker", sticker.Name))
		}
	}
	return append(lines, componentTexts(c.Components)...)
}

// bracketed returns words as a line of their own that says what they are, cut to maxEmbedded.
func bracketed(kind, words string) string {
	return "[" + kind + ": " + text.Shorten(strings.TrimSpace(words), maxEmbedded) + "]"
}

// embedText returns what an embed says, a part a line; empty where it is of an unexpected form.
func embedText(raw json.RawMessage) string {
	var e struct {
		Title       string `json:"title"`
		URL         string `json:"url"`
		Description string `json:"description"`
		Author      struct {
			Name string `json:"name"`
		} `json:"author"`
		Fields []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"fields"`
		Footer struct {
			Text string `json:"text"`
		} `json:"footer"`
	}
	if json.Unmarshal(raw, &e) != nil {
		return ""
	}
	title := e.Title
	if e.URL != "" && title != "" {
		title = "[" + title + "](" + e.URL + ")"
	}
	lines := []string{e.Author.Name, title, e.Description}
	for _, f := range e.Fields {
		lines = append(lines, f.Name+": "+f.Value)
	}
	lines = append(lines, e.Footer.Text)
	return strings.Join(slices.DeleteFunc(lines, func(s string) bool { return strings.TrimSpace(s) == "" }), "\n")
}

// pollText returns the question of a poll and its answers, with the votes where Discord tells them.
func pollText(raw json.RawMessage) string {
	type media struct {
		Text string `json:"text"`
	}
	var p struct {
		Question media `json:"question"`
		Answers  []struct {
			ID    int   `json:"answer_id"`
			Media media `json:"poll_media"`
		} `json:"answers"`
		Results *struct {
			Counts []struct {
				ID    int `json:"id"`
				Count int `json:"count"`
			} `json:"answer_counts"`
		} `json:"results"`
	}
	if json.Unmarshal(raw, &p) != nil || p.Question.Text == "" {
		return ""
	}
	var answers []string
	for _, a := range p.Answers {
		answer := a.Media.Text
		if p.Results != nil {
			votes := 0 // an answer that nobody chose may be missing
			for _, c := range p.Results.Counts {
				if c.ID == a.ID {
					votes = c.Count
				}
			}
			answer += fmt.Sprintf(" (%d votes)", votes)
		}
		answers = append(answers, answer)
	}
	return p.Question.Text + " Answers: " + strings.Join(answers, "; ")
}

// textDisplay is the type of a component that is a text.
const textDisplay = 10

// componentTexts returns the texts of a message that is made of components.
func componentTexts(raw json.RawMessage) []string {
	type component struct {
		Type    int             `json:"type"`
		Content string          `json:"content"`
		Inner   json.RawMessage `json:"components"`
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	var lines []string
	for _, one := range list {
		var c component
		if json.Unmarshal(one, &c) != nil {
			continue
		}
		if c.Type == textDisplay && c.Content != "" {
			lines = append(lines, text.Shorten(c.Content, maxEmbedded))
		}
		lines = append(lines, componentTexts(c.Inner)...)
	}
	return lines
}
