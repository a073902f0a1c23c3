package invoke

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/store"
)

// defaultPage is how many bytes of a result are shown at once by default.
const defaultPage = 5 << 10

// Results stores results of tools that are too large to be shown at once.
type Results interface {
	// ToolResult returns a result, or store.ErrNotFound if it is not kept any more.
	ToolResult(ctx context.Context, id string) (store.ToolResult, error)
}

// Page returns the part of a text that begins at a byte offset, with a note on how to read
// on under its id. From 256 bytes on, both together fit into size.
func Page(s, id string, offset, size int) string {
	if id == "" {
		return text.Cut(s[runeStart(s, offset):], size)
	}
	return pageWith(s, fmt.Sprintf("id %q", id), offset, size)
}

// pageWith returns a page as Page does; with are the arguments that the note names.
func pageWith(s, with string, offset, size int) string {
	offset = runeStart(s, offset)
	if len(s)-offset <= size {
		return s[offset:]
	}
	more := func(end int) string {
		return fmt.Sprintf("\n[bytes %d to %d of %d; for more call result_read with %s and offset %d]",
			offset, end, len(s), with, end)
	}
	end := offset + len(text.Cut(s[offset:], max(size-len(more(len(s))), minHead)))
	return s[offset:end] + more(end)
}

// Reader returns the native tool result_read. It reads pages of a result too large to show at once, or searches it, in
// the conversation of the result.
func Reader(results Results) tool.Tool {
	yes := true
	return tool.Func{
		Described: tool.Spec{
			Server:      "result",
			Name:        "read",
			Native:      true,
			Description: "Reads on in a tool result that was too large to be shown at once.",
			Schema: json.RawMessage(
				`{"type":"object","properties":{"id":{"type":"string","description":"named at the end of the result"},` +
					`"offset":{"type":"integer","minimum":0,"description":"the byte to begin at"},` +
					`"as":{"type":"string","enum":["markdown"],"description":"of an HTML page: its main text"},` +
					`"search":{"type":"string","description":"words to find instead; ` +
					`returns the places with their offsets"}},"required":["id"]}`,
			),
			Hints: tool.Hints{ReadOnly: &yes},
		},
		Do: func(ctx context.Context, args json.RawMessage) (tool.Result, error) {
			return readResult(ctx, results, args)
		},
	}
}

// readResult runs result_read.
func readResult(ctx context.Context, results Results, args json.RawMessage) (tool.Result, error) {
	var in struct {
		ID, Search, As string
		Offset         int
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return tool.Failure(err.Error()), nil
	}
	caller := tool.CallerFrom(ctx)
	size := cmp.Or(caller.Shown, defaultPage)
	r, err := results.ToolResult(ctx, in.ID)
	switch {
	// A conversation's data stays there, even if somebody knows the id.
	case errors.Is(err, store.ErrNotFound) || err == nil && r.Conversation != caller.Conversation:
		return tool.Failure("No result is kept under this id any more; make the first call again."), nil
	case err != nil:
		return tool.Result{}, err
	}
	with := fmt.Sprintf("id %q", in.ID)
	if in.As == markdownForm {
		r.Text, with = toMarkdown(r.Text), with+fmt.Sprintf(", as %q", markdownForm)
	}
	if words := strings.TrimSpace(in.Search); words != "" {
		return tool.Text(searchText(r.Text, words, size)), nil
	}
	return tool.Text(pageWith(r.Text, with, in.Offset, size)), nil
}

const (
	maxMatches   = 20  // shown at once
	matchContext = 160 // bytes shown on both sides of a match
)

// searchText returns the places where a text contains some words, ignoring case, in at most
// size bytes.
func searchText(s, words string, size int) string {
	low, word := strings.ToLower(s), strings.ToLower(words)
	// A few letters change their length with their case: offsets would not fit, so the case
	// has to match then.
	if len(low) != len(s) {
		low, word = s, words
	}
	var b strings.Builder
	shown := 0
	for at := 0; ; {
		n := strings.Index(low[at:], word)
		if n < 0 {
			break
		}
		n += at
		from, to := runeStart(s, n-matchContext), runeStart(s, n+len(word)+matchContext)
		piece := fmt.Sprintf("[at byte %d] …%s…\n", from, strings.Join(strings.Fields(s[from:to]), " "))
		if shown == maxMatches || b.Len()+len(piece) > size {
			b.WriteString("[there are more; search for something narrower]")
			break
		}
		b.WriteString(piece)
		shown++
		at = max(to, n+len(word))
	}
	if shown == 0 {
		return fmt.Sprintf("Nothing in it says %q.", words)
	}
	return b.String()
}

// runeStart returns the index of the beginning of the character that holds byte n.
func runeStart(s string, n int) int {
	n = min(max(n, 0), len(s))
	for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}
