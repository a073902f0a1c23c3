package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"

	"ravenbot/internal/ops/egress"
	"ravenbot/internal/turn/markdown"
)

// Getter fetches public addresses, as egress.Client does. It returns the errors of package egress.
type Getter interface {
	Get(ctx context.Context, url string, o egress.GetOptions) (*egress.Response, error)
}

// Documents reads PDFs, Office files and the like, as document.Reader does.
type Documents interface {
	// Reads reports whether files of a name or media type are read at all.
	Reads(name, mediaType string) bool
	// Text returns the text of a file. The error is a reason in words.
	Text(ctx context.Context, name, mediaType string, data []byte) (string, error)
}

// Reader reads pages, documents and pictures that strangers name.
type Reader struct {
	Client    Getter
	Documents Documents // nil: they are not read
}

const (
	maxPageBytes    = 4 << 20  // of a page that somebody asks for
	maxFileBytes    = 20 << 20 // of a document, as of a file in chat
	maxArticleBytes = 2 << 20  // of a page of a feed's item
)

// readError is a sentence for people and models.
type readError string

func (e readError) Error() string { return string(e) }

// newReadError returns an error whose text is for the model.
func newReadError(format string, args ...any) error { return readError(fmt.Sprintf(format, args...)) }

// Read fetches a page or a document. The error is a sentence for people and models.
func (r Reader) Read(ctx context.Context, address string) (Page, error) {
	res, err := r.Client.Get(ctx, address, egress.GetOptions{MaxBytes: maxFileBytes,
		Accept: "text/html, application/xhtml+xml, text/plain;q=0.9, application/json;q=0.8, */*;q=0.1"})
	if err != nil {
		return Page{}, fetchError(address, err)
	}
	defer res.Close()
	if res.Status < 200 || res.Status > 299 {
		return Page{}, newReadError("%s answered with status %d.", address, res.Status)
	}
	return r.ReadFile(ctx, res.Body, res.Header.Get("Content-Type"), res.URL, path.Base(res.URL))
}

// ReadFile returns what a file of a name says that was served from address, which may be empty. The error is a sentence
// for people and models.
func (r Reader) ReadFile(ctx context.Context, body []byte, contentType, address, name string) (Page, error) {
	name, _, _ = strings.Cut(name, "?")
	kind, shown := mediaType(body, contentType), cmp.Or(address, "The file")
	if r.Documents != nil && !isText(kind) && r.Documents.Reads(name, kind) {
		words, err := r.Documents.Text(ctx, name, kind, body)
		if err != nil {
			return Page{}, newReadError("%s could not be read: %v.", shown, err)
		}
		return Page{URL: address, Title: name, Text: words, Links: []string{}}, nil
	}
	if len(body) > maxPageBytes {
		return Page{}, newReadError("%s is too large to read.", shown)
	}
	return Parse(body, contentType, address)
}

// fetchError returns one sentence that says why an address could not be fetched. Errors of the network may name
// addresses inside of it, so their text is not shown.
func fetchError(address string, err error) error {
	switch {
	case errors.Is(err, egress.ErrBlocked):
		return newReadError("%s is on a private network, and pages cannot be fetched from there.", address)
	case errors.Is(err, egress.ErrTooLarge):
		return newReadError("%s is too large to read.", address)
	case errors.Is(err, egress.ErrTimeout):
		return newReadError("%s did not answer in time.", address)
	case errors.Is(err, egress.ErrBusy):
		return newReadError("%s is large, and was not read while other large pages were. Try again in a minute.", address)
	case errors.Is(err, egress.ErrRedirects):
		return newReadError("%s redirects again and again.", address)
	case errors.Is(err, egress.ErrURL):
		return newReadError("%q is not an address that can be fetched; it must begin with http:// or https://.", address)
	}
	return newReadError("%s could not be fetched: %s.", address, cmp.Or(egress.Reason(err), "the connection failed"))
}

// Article returns the main text of a page, without its title.
func (r Reader) Article(ctx context.Context, address string) (string, error) {
	res, err := r.Client.Get(ctx, address, egress.GetOptions{MaxBytes: maxArticleBytes,
		Accept: "text/html, application/xhtml+xml"})
	if err != nil {
		return "", err
	}
	defer res.Close()
	kind := res.Header.Get("Content-Type")
	if res.Status < 200 || res.Status > 299 {
		return "", fmt.Errorf("read %s: status %d", res.URL, res.Status)
	}
	p, err := Parse(res.Body, kind, res.URL)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", res.URL, err)
	}
	return markdown.Plain(p.Text), nil
}

// Picture returns a picture of at most limit bytes. Who asks for it counts its memory.
func (r Reader) Picture(ctx context.Context, address string, limit int64) ([]byte, error) {
	res, err := r.Client.Get(ctx, address, egress.GetOptions{MaxBytes: limit,
		Accept: "image/webp, image/png, image/jpeg, image/gif"})
	if err != nil {
		return nil, err
	}
	defer res.Close()
	if res.Status != http.StatusOK {
		return nil, fmt.Errorf("fetch %s: status %d", res.URL, res.Status)
	}
	return res.Body, nil
}
