package compat

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"ravenbot/internal/core/llm"
)

// tags are the tags, in lower case, around the reasoning of models, unless their server removes them: Qwen and
// DeepSeek-R1, others, and Magistral (vllm-project/vllm#12999, #13125, #13375).
var tags = [][2]string{
	{"<think>", "</think>"}, {"<thinking>", "</thinking>"}, {"<reasoning>", "</reasoning>"},
	{"<thought>", "</thought>"}, {"<seed:think>", "</seed:think>"}, {"[think]", "[/think]"}, {"◁think▷", "◁/think▷"},
	{"<|start_thinking|>", "<|end_thinking|>"},
}

// callTag begins a call in the text of Hermes and Qwen, if their server has no parser for calls.
const callTag = "<tool_call>"

// tagReader separates reasoning and calls from the text of an answer. Reasoning comes first. It may have only a closing
// tag, because some chat templates put the opening tag into the request.
type tagReader struct {
	endsThought bool // an answer without an opening tag counts as reasoning until a closing tag
	takesCall   bool // calls in the text count

	state     tagState
	end       string          // the tag at the end of the reasoning; "": any
	held      string          // text that may contain the beginning of a tag
	shown     strings.Builder // text that was returned
	isTagged  bool            // later tags are text
	isBroken  bool            // a call in the text could not be read
	onlyEnded bool            // the reasoning had only a closing tag
}

// tagState is what a tagReader expects next.
type tagState int

const (
	atStart   tagState = iota // anything but spaces
	inThought                 // the tag that ends the reasoning
	inText                    // the end of reasoning that began without a tag, and a call
	inCall                    // the end of the answer
)

// read converts reasoning and calls in a piece of an answer.
func (r *tagReader) read(c llm.Chunk) llm.Chunk {
	var parts []llm.Part
	for _, p := range c.Parts {
		if p.Call != nil {
			parts = append(parts, r.flush()...)
		}
		if p.Text == "" || p.Thought || p.Call != nil || len(p.Raw) > 0 {
			parts = append(parts, p)
			continue
		}
		r.held += p.Text
		wasThought := c.WasThought
		more := r.take(&c)
		for i := range parts {
			if c.WasThought && !wasThought && parts[i].Text != "" && len(parts[i].Raw) == 0 {
				parts[i].Thought = true
			}
		}
		parts = append(parts, more...)
	}
	if c.Finish != "" {
		parts = append(parts, r.finish(&c)...)
	}
	c.Parts = parts
	return c
}

// take returns the certain part of the held text.
func (r *tagReader) take(c *llm.Chunk) (parts []llm.Part) {
	for {
		state, length := r.state, len(r.held)
		switch r.state {
		case atStart:
			r.begin()
		case inThought:
			parts = append(parts, r.takeThought()...)
		case inText:
			parts = append(parts, r.takeText(c)...)
		}
		if r.state == state && len(r.held) == length {
			return parts
		}
	}
}

// begin decides whether an answer begins with reasoning, if enough of it has come.
func (r *tagReader) begin() {
	text := strings.TrimLeft(r.held, space)
	for _, t := range tags {
		if strings.HasPrefix(lower(text), t[0]) {
			r.state, r.end, r.held = inThought, t[1], text[len(t[0]):]
			return
		}
		if strings.HasPrefix(t[0], lower(text)) { // including the empty text
			return
		}
	}
	r.state = inText
	if r.endsThought && !r.isTagged {
		r.state, r.end = inThought, ""
	}
}

const space = " \t\r\n"

// lower converts ASCII letters to lower case, which keeps all positions.
func lower(s string) string {
	b := []byte(s) // the text may end within a character
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] += 'a' - 'A'
		}
	}
	return string(b)
}

var openTags, closeTags = func() (opening, closing []string) {
	for _, t := range tags {
		opening, closing = append(opening, t[0]), append(closing, t[1])
	}
	return opening, closing
}()

func (r *tagReader) takeThought() []llm.Part {
	ends := closeTags
	if r.end != "" {
		ends = []string{r.end}
	}
	at, tag := findFirst(r.held, ends)
	switch {
	case at >= 0:
		return r.endThought(at, tag)
	case r.end == "": // not certain yet that this is reasoning
		return nil
	}
	return partsOf(r.release(tag), true)
}

// endThought returns the reasoning before a tag. The rest is the answer.
func (r *tagReader) endThought(at int, tag string) []llm.Part {
	thought := r.held[:at]
	r.onlyEnded = r.onlyEnded || r.end == ""
	// More reasoning may follow at once.
	r.state, r.isTagged, r.held = atStart, true, r.held[at+len(tag):]
	return partsOf(thought, true)
}

// takeText returns the text up to a call. A closing tag marks all earlier text as reasoning.
func (r *tagReader) takeText(c *llm.Chunk) []llm.Part {
	var watched []string
	if !r.isTagged {
		watched = slices.Concat(openTags, closeTags)
	} else if r.shown.Len() == 0 { // space after the reasoning
		r.held = strings.TrimLeft(r.held, space)
	}
	if r.takesCall {
		watched = append(watched, callTag)
	}
	at, tag := findFirst(r.held, watched)
	said := ""
	switch {
	case at < 0:
		said = r.release(tag)
	case isCode(r.shown.String() + r.held[:at]): // the answer is about the tag
		said, r.held = r.held[:at+len(tag)], r.held[at+len(tag):]
	case slices.Contains(openTags, tag): // after text: the answer is about tags
		said, r.held, r.isTagged = r.held[:at+len(tag)], r.held[at+len(tag):], true
	case tag == callTag:
		said, r.held, r.state = r.held[:at], r.held[at:], inCall
	default:
		c.WasThought, r.end = true, ""
		r.shown.Reset()
		return r.endThought(at, tag)
	}
	r.shown.WriteString(said)
	return partsOf(said, false)
}

// isCode reports whether a text ends inside of code.
func isCode(s string) bool {
	line := s[strings.LastIndex(s, "\n")+1:]
	return strings.Count(s, "```")%2 == 1 || strings.Count(line, "`")%2 == 1
}

func partsOf(s string, isThought bool) []llm.Part {
	if s == "" {
		return nil
	}
	return []llm.Part{{Text: s, Thought: isThought}}
}

func (r *tagReader) flush() []llm.Part {
	said := r.held
	r.held = ""
	if r.state == inCall { // there are real calls
		return nil
	}
	return partsOf(said, r.state == inThought && r.end != "")
}

// finish returns the held text or calls at the end of an answer.
func (r *tagReader) finish(c *llm.Chunk) []llm.Part {
	calls := readCalls(r.held)
	end := strings.LastIndex(r.held, "</tool_call>") + len("</tool_call>")
	switch {
	case r.state != inCall || r.held == "":
		return r.flush()
	case end > len("</tool_call>") && strings.TrimSpace(r.held[end:]) != "": // a quotation
		return partsOf(r.held, false)
	case c.Finish != llm.FinishStop: // cut within a call
		return nil
	case calls == nil: // the model is asked again
		c.Finish, r.isBroken = llm.FinishMalformed, true
	}
	return calls
}

var callBlock = regexp.MustCompile(`(?s)<tool_call>\s*(\{.*?\})\s*</tool_call>\s*`)

// readCalls returns the calls in a text, or nil if there is other text.
func readCalls(text string) []llm.Part {
	// Some servers omit the last tag.
	if text = strings.TrimRight(text, space); !strings.HasSuffix(text, "</tool_call>") {
		text += "</tool_call>"
	}
	if strings.TrimSpace(callBlock.ReplaceAllString(text, "")) != "" {
		return nil
	}
	var parts []llm.Part
	for _, block := range callBlock.FindAllStringSubmatch(text, -1) {
		var call struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}
		if json.Unmarshal([]byte(block[1]), &call) != nil || call.Name == "" {
			return nil
		}
		if len(call.Arguments) == 0 {
			call.Arguments = json.RawMessage("{}")
		}
		parts = append(parts, llm.Part{Call: &llm.Call{Name: call.Name, Args: call.Arguments}})
	}
	return parts
}

// findFirst returns the position of the first tag in a text, and the tag. Without a tag it returns -1 and the end of
// the text that may begin a tag.
func findFirst(text string, tags []string) (at int, tag string) {
	at = -1
	for _, t := range tags {
		if i := strings.Index(lower(text), t); i >= 0 && (at < 0 || i < at) {
			at, tag = i, t
		}
	}
	if at >= 0 {
		return at, tag
	}
	for _, t := range tags {
		for n := min(len(t)-1, len(text)); n > len(tag); n-- {
			if strings.HasSuffix(lower(text), t[:n]) {
				tag = text[len(text)-n:]
				break
			}
		}
	}
	return -1, tag
}

// release returns the held text without its end that may begin a tag.
func (r *tagReader) release(begun string) string {
	said := r.held[:len(r.held)-len(begun)]
	r.held = begun
	return said
}
