package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"ravenbot/internal/egress"
	"ravenbot/internal/markdown"
)

// Reader reads pages and pictures that feeds and posts name, through the guarded client.
type Reader struct{ Client *egress.Client }

// maxArticle is how much is read of a page, in bytes.
const maxArticle = 2 << 20

// Article returns the main text of a page.
func (r Reader) Article(ctx context.Context, address string) (string, error) {
	res, err := r.Client.Get(ctx, address, egress.GetOptions{MaxBytes: maxArticle, Accept: "text/html, application/xhtml+xml"})
	if err != nil {
		return "", err
	}
	kind := res.Header.Get("Content-Type")
	if res.Status < 200 || res.Status > 299 || kind != "" && !strings.Contains(kind, "html") {
		return "", fmt.Errorf("read %s: status %d, %s", res.URL, res.Status, kind)
	}
	_, body, _ := strings.Cut(Page(res.Body, kind, res.URL), "\n\n") // the title is known
	return markdown.Plain(body), nil
}

// Picture returns a picture of at most limit bytes.
func (r Reader) Picture(ctx context.Context, address string, limit int64) ([]byte, error) {
	res, err := r.Client.Get(ctx, address, egress.GetOptions{MaxBytes: limit, Accept: "image/webp, image/png, image/jpeg, image/gif"})
	if err != nil {
		return nil, err
	}
	if res.Status != http.StatusOK {
		return nil, fmt.Errorf("fetch %s: status %d", res.URL, res.Status)
	}
	return res.Body, nil
}
