package invoke

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"ravenbot/internal/store"
	"ravenbot/internal/tool"
)

// DefaultPage is how many bytes of a result are shown at once where nothing says.
const DefaultPage = 5 << 10

// Results keeps what tools returned beyond what is shown at once.
type Results interface {
	// ToolResult gives a text; store.ErrNotFound: it is not kept any more.
	ToolResult(ctx context.Context, id string) (store.ToolResult, error)
}

// Page gives the part of a text that begins at a byte offset, and says how to read on
// under its id. With 256 bytes or more both keep within size.
func Page(text, id string, offset, size int) string {
	if id == "" {
		return cut(text[runeStart(text, offset):], size)
	}
	return pageWith(text, fmt.Sprintf("id %q", id), offset, size)
}

// pageWith does what Page says; with says what result_read is to be called with.
func pageWith(text, with string, offset, size int) string {
	offset = runeStart(text, offset)
	if len(text)-offset <= size {
		return text[offset:]
	}
	more := func(end int) string {
		return fmt.Sprintf("\n[bytes %d to %d of %d; for more call result_read with %s and offset %d]", offset, end, len(text), with, end)
	}
	end := offset + len(cut(text[offset:], max(size-len(more(len(text))), minHead)))
	return text[offset:end] + more(end)
}

// Reader is the native tool result_read: pages of a result too large to be shown at
// once, and a search in it, within the conversation that it was made in.
func Reader(results Results) tool.Tool {
	yes := true
	return tool.Func{
		Described: tool.Spec{Server: "result", Name: "read", Native: true,
			Description: "Reads on in a tool result that was too large to be shown at once: a page of it, or the places where it says something.",
			Schema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string","description":"the id named at the end of the result"},` +
				`"offset":{"type":"integer","minimum":0,"description":"the byte to begin at"},` +
				`"as":{"type":"string","enum":["markdown"],"description":"of an HTML page: its main text"},` +
				`"search":{"type":"string","description":"words to look for instead; gives the places that hold them with their offsets"}},"required":["id"]}`),
			Hints: tool.Hints{ReadOnly: &yes}},
		Do: func(ctx context.Context, args json.RawMessage) (tool.Result, error) {
			return readResult(ctx, results, args)
		},
	}
}

func readResult(ctx context.Context, results Results, args json.RawMessage) (tool.Result, error) {
	var in struct {
		ID, Search, As string
		Offset         int
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return tool.Failure(err.Error()), nil
	}
	caller := tool.CallerFrom(ctx)
	size := cmp.Or(caller.Shown, DefaultPage)
	r, err := results.ToolResult(ctx, in.ID)
	switch {
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
	maxMatches   = 20  // places
	matchContext = 160 // bytes shown on both sides of a place
)

// searchText gives the places of a text that hold some words, capitals apart, in as many
// bytes as one page has.
func searchText(text, words string, size int) string {
	low, word := strings.ToLower(text), strings.ToLower(words)
	if len(low) != len(text) { // a few letters change their length with their case
		low, word = text, words
	}
	var b strings.Builder
	shown := 0
	for at := 0; ; {
		n := strings.Index(low[at:], word)
		if n < 0 {
			break
		}
		n += at
		from, to := runeStart(text, n-matchContext), runeStart(text, n+len(word)+matchContext)
		piece := fmt.Sprintf("[at byte %d] …%s…\n", from, strings.Join(strings.Fields(text[from:to]), " "))
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

// runeStart is the beginning of the character at or before a byte of text.
func runeStart(text string, n int) int {
	n = min(max(n, 0), len(text))
	for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}
