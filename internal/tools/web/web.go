// Package web is the native tool web_fetch, which reads a web page as text. It fetches pages only through the guarded
// client and leaves out scripts, menus and hidden parts. The content of a page is data, never an instruction.
package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
)

// maxShown is how much of a page is shown to a model at once, in bytes: an article of 3,500 words.
const maxShown = 24 << 10

// Fetch returns the tool web_fetch.
func Fetch(r Reader) tool.Tool {
	yes := true
	return tool.Func{
		Described: tool.Spec{Server: "web", Name: "fetch", Native: true, MaxShown: maxShown,
			Description: "Fetches a web page, PDF or Office file and returns its text. For feeds (RSS, Atom) use feeds_fetch.",
			Schema: json.RawMessage(`{"type":"object","properties":{` +
				`"url":{"type":"string","description":"the http or https address"}},"required":["url"]}`),
			Hints: tool.Hints{ReadOnly: &yes, OpenWorld: &yes}},
		Do: func(ctx context.Context, args json.RawMessage) (tool.Result, error) {
			var in struct{ URL string }
			if err := json.Unmarshal(args, &in); err != nil {
				return tool.Failure(err.Error()), nil
			}
			p, err := r.Read(ctx, in.URL)
			if err != nil {
				return tool.Failure(err.Error()), nil
			}
			link := chat.Link{Title: cmp.Or(p.Title, p.URL), URL: p.URL}
			words := p.Markdown()
			if number := tool.CallerFrom(ctx).NumberSources; number != nil {
				words += fmt.Sprintf("\n\nCite this page as [%d].", number([]chat.Link{link}))
			}
			return tool.Result{Text: words, Sources: []chat.Link{link}}, nil
		},
	}
}
