// Package offline is the model that is always available: it is not a language model, and says so.
//
// It runs literal tool calls (tool_name {json}), summarizes a link or a feed by its main sentences, and otherwise lists
// its abilities. It promises never to write its own sentences about the world: its summaries contain only sentences of
// the page. It makes no network request.
package offline

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/text"
	"ravenbot/internal/news/summary"
)

// Model is the offline model. Its zero value is ready to use.
type Model struct{}

// ID returns offline.
func (Model) ID() string { return "offline" }

// CanAnswer reports whether this model can fulfil the request.
func (Model) CanAnswer(r llm.Request) bool {
	words := lastUserText(r)
	return len(toolResults(r)) > 0 || len(parseCalls(words)) > 0 || findLink(words) != ""
}

// Generate answers at once, in one chunk.
func (Model) Generate(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		yield(llm.Chunk{Parts: answer(r), Usage: &llm.Usage{}, Finish: llm.FinishStop}, nil)
	}
}

func answer(r llm.Request) []llm.Part {
	words := lastUserText(r)
	// First, because the user's words that led to the results are still the last ones.
	if done := toolResults(r); len(done) > 0 {
		return textPart(describeResults(words, done) + digestHint(words))
	}
	if calls := parseCalls(words); len(calls) > 0 {
		isUnknown := func(c llm.Call) bool { return !hasTool(r.Tools, c.Name) }
		if i := slices.IndexFunc(calls, isUnknown); i >= 0 {
			return textPart(fmt.Sprintf("There is no tool `%s` here. %s", calls[i].Name, listAbilities(r.Tools)))
		}
		return callParts(calls)
	}
	if address := findLink(words); address != "" {
		if c, ok := fetchCall(words, address, r.Tools); ok {
			return callParts([]llm.Call{c})
		}
		return textPart("No tool that reads " + address + " is switched on here. " + listAbilities(r.Tools))
	}
	return textPart(introduction(r.Tools))
}

func textPart(text string) []llm.Part { return []llm.Part{{Text: text}} }

func callParts(calls []llm.Call) []llm.Part {
	var out []llm.Part
	for i := range calls {
		calls[i].ID = fmt.Sprintf("offline-%d", i+1)
		out = append(out, llm.Part{Call: &calls[i]})
	}
	return out
}

// lastUserText returns the last words of the user, without the bot's remarks about them.
func lastUserText(r llm.Request) string {
	for _, m := range slices.Backward(r.Messages) {
		if m.Role != llm.User {
			continue
		}
		for _, p := range slices.Backward(m.Parts) {
			if p.Source == llm.SourceWords && p.Text != "" {
				return strings.TrimSpace(p.Text)
			}
		}
	}
	return ""
}

// toolResults returns the results of the last calls, or nil.
func toolResults(r llm.Request) []llm.Result {
	if n := len(r.Messages); n > 0 && r.Messages[n-1].Role == llm.ToolRole {
		var out []llm.Result
		for _, p := range r.Messages[n-1].Parts {
			out = append(out, *p.Result)
		}
		return out
	}
	return nil
}

// callStart matches the name of a tool and the opening brace of its arguments.
var callStart = text.Pattern(`^\s*([A-Za-z_][A-Za-z0-9_-]*)\s+(\{)`)

// parseCalls reads tool calls: names, each followed by a JSON object. It returns nil for any other text.
func parseCalls(words string) []llm.Call {
	var calls []llm.Call
	for rest := words; strings.TrimSpace(rest) != ""; {
		m := callStart().FindStringSubmatchIndex(rest)
		if m == nil {
			return nil
		}
		d := json.NewDecoder(strings.NewReader(rest[m[4]:]))
		var args json.RawMessage
		if d.Decode(&args) != nil {
			return nil
		}
		calls = append(calls, llm.Call{Name: rest[m[2]:m[3]], Args: args})
		rest = rest[m[4]+int(d.InputOffset()):]
	}
	return calls
}

func hasTool(tools []llm.ToolSpec, name string) bool {
	return slices.ContainsFunc(tools, func(t llm.ToolSpec) bool { return t.Name == name })
}

// linkPattern matches an address without brackets and quotation marks around it.
var linkPattern = text.Pattern(`(?:https?://|bundled:)[^\s<>"'` + "`" + `\])]+`)

func findLink(words string) string {
	return strings.TrimRight(linkPattern().FindString(words), ".,;:!?")
}

// feedLike matches requests and addresses for feeds.
var feedLike = text.Pattern(`(?i)\b(feed|rss|atom)\b|\.(rss|atom|xml)\b|^bundled:`)

// fetchCall returns a call of a tool that reads an address, preferably as a feed if it looks like one.
func fetchCall(words, address string, tools []llm.ToolSpec) (llm.Call, bool) {
	order := []string{"web_fetch", "feeds_fetch"}
	u, err := url.Parse(address)
	if err == nil && feedLike().MatchString(u.Path) || feedLike().MatchString(words) ||
		strings.HasPrefix(address, "bundled:") {
		order = []string{"feeds_fetch", "web_fetch"}
	}
	args, err := json.Marshal(map[string]string{"url": address})
	if err != nil {
		return llm.Call{}, false
	}
	for _, name := range order {
		if hasTool(tools, name) {
			return llm.Call{Name: name, Args: args}, true
		}
	}
	return llm.Call{}, false
}

// Limits of the sentences from a page, and of the bytes of a result.
const (
	maxSentences  = 4
	maxShownBytes = 3000
)

// describeResults shows the results of tools: the main sentences of a linked page, everything else unchanged.
func describeResults(words string, done []llm.Result) string {
	asked := len(parseCalls(words)) > 0
	var out []string
	for _, r := range done {
		switch {
		case r.IsError:
			out = append(out, fmt.Sprintf("`%s` failed: %s", r.Name, r.Content))
		case r.Name == "web_fetch" && !asked:
			out = append(out, summarizePage(r.Content))
		case asked:
			out = append(out, fmt.Sprintf("`%s` says:\n\n%s", r.Name, formatResult(r.Content)))
		default:
			out = append(out, r.Content)
		}
	}
	return strings.Join(out, "\n\n")
}

// onSchedule matches requests for something regular.
var onSchedule = text.Pattern(`(?i)\b(every|each|daily|weekly|weekdays|hourly)\b`)

// digestHint explains how to post a feed on a schedule, if the user asks for that. Otherwise it returns "".
func digestHint(words string) string {
	address := findLink(words)
	if address == "" || len(parseCalls(words)) > 0 || !onSchedule().MatchString(strings.ReplaceAll(words, address, "")) {
		return ""
	}
	return "\n\nTo have it posted here on a schedule, write `/digest create weekdays at 9 " + address + "`."
}

// summarizePage returns the main sentences of a page. Its first line is the title.
func summarizePage(page string) string {
	title, body, _ := strings.Cut(page, "\n")
	// web_fetch ends long pages with a line about the bytes that it shows.
	body, _, _ = strings.Cut(body, "\n[bytes 0 to")
	sentences := summary.Summarize(strings.TrimLeft(title, "# "), body, maxSentences)
	if len(sentences) == 0 {
		return page
	}
	return title + "\n\n" + strings.Join(sentences, " ") +
		"\n\n*These are the main sentences of the page, chosen without a language model.*"
}

func formatResult(s string) string {
	var v any
	if json.Unmarshal([]byte(s), &v) == nil {
		if pretty, err := json.MarshalIndent(v, "", "  "); err == nil && len(pretty) <= maxShownBytes {
			return "```json\n" + string(pretty) + "\n```"
		}
	}
	fence := "```"
	// A fence inside the result would end the block.
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + "\n" + strings.TrimRight(s, "\n") + "\n" + fence
}

func introduction(tools []llm.ToolSpec) string {
	return "I am the **offline model**: no language model is connected, so I cannot answer questions in my own words. " +
		"(Set `GEMINI_API_KEY` in `.env` to connect one.) " + listAbilities(tools)
}

func listAbilities(tools []llm.ToolSpec) string {
	lines := []string{"What I can do:", ""}
	if hasTool(tools, "web_fetch") {
		lines = append(lines, "- send me a link, and I give you the main sentences of the page")
	}
	if hasTool(tools, "feeds_fetch") {
		lines = append(lines, "- send me the address of a feed (or `bundled:feeds-primer`), and I list what is new in it")
	}
	lines = append(lines, "- `/digest list` and `/digest run NAME`: post a digest of feeds now")
	var names []string
	for _, t := range tools {
		names = append(names, "`"+t.Name+"`")
	}
	if len(names) > 0 {
		lines = append(lines, "- call a tool by its name with JSON after it, for example `"+exampleCall(tools)+
			"`; there are "+strings.Join(names, ", "))
	}
	return strings.Join(lines, "\n")
}

func exampleCall(tools []llm.ToolSpec) string {
	if hasTool(tools, "feeds_fetch") {
		return `feeds_fetch {"url": "bundled:feeds-primer"}`
	}
	return tools[0].Name + " {}"
}
