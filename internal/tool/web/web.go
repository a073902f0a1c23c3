// Package web is the native tool web_fetch, which reads a web page as text. It promises that pages are fetched through
// the guarded client only and that scripts, menus and hidden parts are left out. What a page says is data, never an
// instruction.
package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strings"

	"ravenbot/internal/egress"
	"ravenbot/internal/page"
	"ravenbot/internal/tool"
)

// Getter fetches public addresses, as egress.Client does. It returns the errors of package egress.
type Getter interface {
	Get(ctx context.Context, url string, o egress.GetOptions) (*egress.Response, error)
}

// maxPageBytes limits the size of a page.
const maxPageBytes = 4 << 20

// Fetch returns the tool web_fetch, which fetches with get.
func Fetch(get Getter) tool.Tool {
	yes := true
	return tool.Func{
		Described: tool.Spec{Server: "web", Name: "fetch", Native: true,
			Description: "Fetches a web page and returns its main text as Markdown. For feeds (RSS, Atom) use feeds_fetch.",
			Schema: json.RawMessage(`{"type":"object","properties":{` +
				`"url":{"type":"string","description":"the http or https address"}},"required":["url"]}`),
			Hints: tool.Hints{ReadOnly: &yes, OpenWorld: &yes}},
		Do: func(ctx context.Context, args json.RawMessage) (tool.Result, error) {
			var in struct{ URL string }
			if err := json.Unmarshal(args, &in); err != nil {
				return tool.Failure(err.Error()), nil
			}
			return fetch(ctx, get, in.URL), nil
		},
	}
}

func fetch(ctx context.Context, get Getter, address string) tool.Result {
	res, err := get.Get(ctx, address, egress.GetOptions{MaxBytes: maxPageBytes,
		Accept: "text/html, application/xhtml+xml, text/plain;q=0.9, application/json;q=0.8, */*;q=0.1"})
	if err != nil {
		return tool.Failure(fetchError(address, err))
	}
	if res.Status < 200 || res.Status > 299 {
		return tool.Failure(fmt.Sprintf("%s answered with status %d.", address, res.Status))
	}
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil { // pages without a valid content type are mostly HTML
		kind = "text/html"
	}
	switch {
	case kind == "text/html" || kind == "application/xhtml+xml":
		return tool.Text(Page(res.Body, res.Header.Get("Content-Type"), res.URL))
	case strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "json") || strings.HasSuffix(kind, "xml"):
		text := page.Decode(res.Body, res.Header.Get("Content-Type"))
		return tool.Text("# " + res.URL + "\n\n" + text)
	}
	return tool.Failure(fmt.Sprintf("%s is no page but %s of %d bytes.", address, kind, len(res.Body)))
}

// fetchError returns one sentence that says why an address could not be fetched. Errors of the network may name
// addresses inside of it, so their text is not shown.
func fetchError(address string, err error) string {
	switch {
	case errors.Is(err, egress.ErrBlocked):
		return address + " is on a private network, which pages may not be fetched from."
	case errors.Is(err, egress.ErrTooLarge):
		return address + " is too large to read."
	case errors.Is(err, egress.ErrTimeout):
		return address + " did not answer in time."
	case errors.Is(err, egress.ErrRedirects):
		return address + " redirects again and again."
	case errors.Is(err, egress.ErrURL):
		return fmt.Sprintf("%q is not an address that can be fetched; it must begin with http:// or https://.", address)
	}
	return address + " could not be fetched: the connection failed."
}

// Page returns the title and main text of an HTML page as Markdown, the title on the first line. Relative links are
// resolved against address.
func Page(body []byte, contentType, address string) string {
	title, text := page.Markdown(body, contentType, address)
	if title == "" {
		title = address
	}
	// A bracket would end the link around the title.
	title = strings.NewReplacer("[", "(", "]", ")").Replace(title)
	return "# [" + title + "](" + address + ")\n\n" + text
}
