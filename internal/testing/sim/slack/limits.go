package simslack

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"ravenbot/internal/core/text"
)

// Pings is whom a message notifies. Every text of a message counts, the
// fallback text beside blocks too: which one Slack takes is not documented.
type Pings struct {
	Channel, Here, Everyone bool
	Users, Groups           []string
}

// Any reports whether anyone is notified.
func (p Pings) Any() bool {
	return p.Channel || p.Here || p.Everyone || len(p.Users) > 0 || len(p.Groups) > 0
}

var (
	special     = text.Pattern(`<!(channel|here|everyone)(\|[^>]*)?>`)
	userRef     = text.Pattern(`<@([UW][A-Z0-9]+)(\|[^>]*)?>`)
	groupRef    = text.Pattern(`<!subteam\^([A-Z0-9]+)(\|[^>]*)?>`)
	bareSpecial = text.Pattern(`(?:^|[^\w<!])@(channel|here|everyone)\b`)
)

// broadcast notes that a whole group of people is called: channel, here or everyone.
func (p *Pings) broadcast(word string) {
	switch word {
	case "channel":
		p.Channel = true
	case "here":
		p.Here = true
	case "everyone":
		p.Everyone = true
	}
}

// scan notes whom a text calls. With bare, words such as @here count without angle brackets, as Slack's parse=full and
// link_names have it.
func (p *Pings) scan(text string, bare bool) {
	for _, m := range special().FindAllStringSubmatch(text, -1) {
		p.broadcast(m[1])
	}
	if bare {
		for _, m := range bareSpecial().FindAllStringSubmatch(text, -1) {
			p.broadcast(m[1])
		}
	}
	for _, m := range userRef().FindAllStringSubmatch(text, -1) {
		p.Users = addNew(p.Users, m[1])
	}
	for _, m := range groupRef().FindAllStringSubmatch(text, -1) {
		p.Groups = addNew(p.Groups, m[1])
	}
}

// addNew returns a list with s at its end, unless it is there already.
func addNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// scanBlocks looks into everything but plain_text objects.
func (p *Pings) scanBlocks(v any, bare bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			p.scanBlocks(e, bare)
		}
	case map[string]any:
		text, _ := v["text"].(string)
		switch v["type"] {
		case "plain_text":
			return
		case "mrkdwn", "markdown", "markdown_text":
			p.scan(text, bare)
		case "broadcast":
			word, _ := v["range"].(string)
			p.broadcast(word)
		case "user":
			if id, ok := v["user_id"].(string); ok {
				p.Users = addNew(p.Users, id)
			}
		case "usergroup":
			if id, ok := v["usergroup_id"].(string); ok {
				p.Groups = addNew(p.Groups, id)
			}
		}
		for _, e := range v {
			p.scanBlocks(e, bare)
		}
	}
}

// pingsOf returns whom a message calls, in its text, its blocks and its attachments.
func pingsOf(a args) Pings {
	var p Pings
	bare := a["parse"] == "full" || a.isSet("link_names")
	p.scan(a["text"], bare)
	p.scan(a["markdown_text"], bare)
	for _, field := range []string{"blocks", "attachments", "chunks"} {
		var v any
		if json.Unmarshal([]byte(a[field]), &v) == nil {
			p.scanBlocks(v, bare)
		}
	}
	return p
}

const (
	maxText     = 40000
	maxMarkdown = 12000
	maxBlocks   = 50
)

// checkContent applies Slack's limits to what a message shows.
func checkContent(a args) *slackError {
	if a["markdown_text"] != "" && (a["text"] != "" || hasBlocks(a)) {
		return refuse("markdown_text_conflict")
	}
	if a["text"] == "" && a["markdown_text"] == "" && !hasBlocks(a) && a["attachments"] == "" {
		return refuse("no_text")
	}
	if runes(a["text"]) > maxText || runes(a["markdown_text"]) > maxMarkdown {
		return refuse("msg_too_long")
	}
	return checkStructure(a)
}

// checkStructure looks at the arguments that are JSON.
func checkStructure(a args) *slackError {
	if a["attachments"] != "" && !json.Valid([]byte(a["attachments"])) {
		return refuse("invalid_attachments")
	}
	if meta := a["metadata"]; meta != "" {
		var m struct {
			Type    string         `json:"event_type"`
			Payload map[string]any `json:"event_payload"`
		}
		if json.Unmarshal([]byte(meta), &m) != nil || m.Type == "" || m.Payload == nil {
			return refuse("invalid_metadata_format")
		}
	}
	return checkBlocks(a["blocks"])
}

func hasBlocks(a args) bool { return a["blocks"] != "" && a["blocks"] != "[]" }

func runes(s string) int { return utf8.RuneCountInString(s) }

type block struct {
	Type    string          `json:"type"`
	BlockID string          `json:"block_id"`
	Text    json.RawMessage `json:"text"`
	Fields  []textObject    `json:"fields"`
	Element []struct {
		Type     string          `json:"type"`
		ActionID string          `json:"action_id"`
		Text     json.RawMessage `json:"text"`
		Value    string          `json:"value"`
	} `json:"elements"`
	AltText string `json:"alt_text"`
}

type textObject struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

var blockTypes = []string{
	"actions",
	"alert",
	"card",
	"carousel",
	"context",
	"context_actions",
	"data_table",
	"data_visualization",
	"divider",
	"file",
	"header",
	"image",
	"input",
	"markdown",
	"plan",
	"rich_text",
	"section",
	"table",
	"task_card",
	"video",
}

// checkBlocks refuses blocks that Slack would refuse: more than 50, too long texts, wrong numbers of elements, and
// Markdown of more than 12,000 characters over all of them.
func checkBlocks(raw string) *slackError {
	if raw == "" {
		return nil
	}
	var list []block
	if err := json.Unmarshal([]byte(raw), &list); err != nil {
		return &slackError{code: "invalid_blocks_format"}
	}
	if len(list) > maxBlocks {
		return invalidBlocks(fmt.Sprintf("no more than %d items allowed [json-pointer:/blocks]", maxBlocks))
	}
	markdown := 0
	var faults []string
	for i, b := range list {
		at := fmt.Sprintf("/blocks/%d", i)
		for _, problem := range b.check() {
			faults = append(faults, problem+" [json-pointer:"+at+"]")
		}
		if b.Type == "markdown" {
			markdown += runes(b.plain())
		}
	}
	if len(faults) > 0 {
		return invalidBlocks(faults...)
	}
	if markdown > maxMarkdown {
		return refuse("msg_blocks_too_long")
	}
	return nil
}

// invalidBlocks returns the error of wrong blocks with a message for each problem, as Slack words them.
func invalidBlocks(problems ...string) *slackError {
	e := refuse("invalid_blocks")
	for _, p := range problems {
		e.messages = append(e.messages, "[ERROR] "+p)
	}
	return e
}

// object returns the text of a block that has a text object.
func (b block) object() textObject {
	var o textObject
	_ = json.Unmarshal(b.Text, &o) // absent or a bare string: stays empty
	return o
}

// plain returns the text of a block whose text is a bare string, such as that of Markdown.
func (b block) plain() string {
	var s string
	_ = json.Unmarshal(b.Text, &s) // absent or an object: stays empty
	return s
}

// check returns what is wrong with a block.
func (b block) check() []string {
	var bad []string
	limit := func(what, text string, minimum, maximum int) {
		if n := runes(text); n > maximum {
			bad = append(bad, fmt.Sprintf("%s must be less than %d characters", what, maximum+1))
		} else if n < minimum {
			bad = append(bad, fmt.Sprintf("%s must be more than %d characters", what, minimum-1))
		}
	}
	limit("block_id", b.BlockID, 0, 255)
	switch b.Type {
	case "section":
		if b.Text != nil || len(b.Fields) == 0 {
			limit("text", b.object().Text, 1, 3000)
			if t := b.object().Type; t != "mrkdwn" && t != "plain_text" {
				bad = append(bad, "unsupported type: "+t)
			}
		}
		for _, f := range b.Fields {
			limit("field", f.Text, 1, 2000)
		}
		if len(b.Fields) > 10 {
			bad = append(bad, "no more than 10 items allowed")
		}
	case "header":
		limit("text", b.object().Text, 1, 150)
		if b.object().Type != "plain_text" {
			bad = append(bad, "must be a plain_text object")
		}
	case "markdown":
		limit("text", b.plain(), 1, maxMarkdown)
	case "image":
		limit("alt_text", b.AltText, 1, 2000)
	case "context":
		bad = append(bad, between(len(b.Element), 1, 10)...)
	case "actions":
		bad = append(bad, between(len(b.Element), 1, 25)...)
	default:
		if !slices.Contains(blockTypes, b.Type) {
			bad = append(bad, "unsupported type: "+b.Type)
		}
	}
	for _, e := range b.Element {
		limit("action_id", e.ActionID, 0, 255)
		if e.Type == "button" {
			var label textObject
			_ = json.Unmarshal(e.Text, &label) // a wrong shape is an empty label, refused next
			limit("button text", label.Text, 1, 75)
			limit("button value", e.Value, 0, 2000)
		}
	}
	return bad
}

// between returns what is wrong with a number of elements; nil: nothing.
func between(n, minimum, maximum int) []string {
	if n < minimum || n > maximum {
		return []string{fmt.Sprintf("between %d and %d elements required", minimum, maximum)}
	}
	return nil
}
