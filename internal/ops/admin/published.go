package admin

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/xml"
	"html/template"
	"net/http"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/news/digest"
)

// PublishedDigests makes digests readable at private addresses. Errors are those of Digests.
type PublishedDigests interface {
	Publish(ctx context.Context, name string) (token string, err error)
	Unpublish(ctx context.Context, name string) error
	// Published returns the digest that a token stands for, or false.
	Published(ctx context.Context, token string) (digest.Publication, bool, error)
}

// publishDigest makes a digest readable, and writes where.
func (s *Server) publishDigest(w http.ResponseWriter, r *http.Request) {
	token, err := s.o.Published.Publish(r.Context(), r.PathValue("name"))
	page := s.baseURL(r) + digest.PagePath(token)
	s.writeDigest(w, r, http.StatusCreated, map[string]string{"page": page, "feed": page + digest.FeedSuffix}, err)
}

// unpublishDigest ends that a digest can be read at its address.
func (s *Server) unpublishDigest(w http.ResponseWriter, r *http.Request) {
	if err := s.o.Published.Unpublish(r.Context(), r.PathValue("name")); err != nil {
		s.writeDigest(w, r, 0, nil, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// baseURL returns the address under which others reach the bot, else the one that the request came to.
func (s *Server) baseURL(r *http.Request) string {
	if s.o.PublicURL != "" {
		return strings.TrimRight(s.o.PublicURL, "/")
	}
	return "http://" + r.Host
}

//go:embed templates/published.css
var publishedStyle string

// publishedView is the page of a digest.
type publishedView struct {
	Style template.CSS
	Title string
	Feed  string
	Posts []publishedPost
	// Unsubscribe is where the reader of a mail ends such mails.
	Unsubscribe string
}

type publishedPost struct {
	Title string
	Due   time.Time
	HTML  template.HTML
}

// servePublished serves the page and the feed of a digest to whoever has its token. It reports whether the path is one
// of theirs.
func (s *Server) servePublished(w http.ResponseWriter, r *http.Request) bool {
	rest, ours := strings.CutPrefix(r.URL.Path, digest.PagePath(""))
	if !ours || s.o.Published == nil {
		return false
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		writeError(w, http.StatusMethodNotAllowed, "method_not_allowed", "the page of a digest takes GET", "")
		return true
	}
	token, isFeed := strings.CutSuffix(rest, digest.FeedSuffix)
	p, found, err := s.o.Published.Published(r.Context(), token)
	switch {
	case err != nil:
		s.writeFailure(w, r, "the digest could not be read", err)
		return true
	case !found:
		// The token is the only secret here, so guessing is slowed down like at the login.
		if !s.guard.bearers.countFailure(s.guard.clientAddress(r), s.o.Now()) {
			writeTooManyAttempts(w)
			return true
		}
		writeError(w, http.StatusNotFound, "not_found", "there is no digest at this address, or it is no longer shared", "")
		return true
	}
	w.Header().Set("X-Robots-Tag", "noindex")
	w.Header().Set("Referrer-Policy", "no-referrer") // the address is a secret
	if isFeed {
		s.writeAtom(w, r, token, p)
		return true
	}
	s.writePublishedPage(w, r, token, p)
	return true
}

// writePublishedPage shows the posts of a published digest to whoever has its address.
func (s *Server) writePublishedPage(w http.ResponseWriter, r *http.Request, token string, p digest.Publication) {
	v := publishedView{Style: template.CSS(publishedStyle), Title: p.Title,
		Feed: digest.PagePath(token) + digest.FeedSuffix}
	for _, post := range p.Posts {
		v.Posts = append(v.Posts, publishedPost{post.Title, post.Due, s.o.Render(post.Draft)})
	}
	var b bytes.Buffer
	if err := templates().ExecuteTemplate(&b, "published", v); err != nil {
		s.writeFailure(w, r, "the page could not be made", err)
		return
	}
	w.Header().Set("Content-Security-Policy", publicPolicy("'none'"))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // whoever asked may be gone
}

// publicPolicy returns the Content-Security-Policy of pages without a login, whose forms may go to formAction.
func publicPolicy(formAction string) string {
	sum := sha256.Sum256([]byte(publishedStyle))
	// What needs a login may not be loaded, so the style is inline and allowed by its hash.
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; img-src data:; base-uri 'none'; form-action " + formAction + "; frame-ancestors 'none'"
}

// DigestPage returns a post of a digest as a page of its own, such as for a mail. rendered is what it says.
func DigestPage(d chat.Draft, rendered template.HTML) ([]byte, error) {
	var b bytes.Buffer
	v := publishedView{Style: template.CSS(publishedStyle), Title: d.Title, Unsubscribe: d.Unsubscribe,
		Posts: []publishedPost{{HTML: rendered}}}
	err := templates().ExecuteTemplate(&b, "published", v)
	return b.Bytes(), err
}

// The elements of an Atom feed (RFC 4287).
type atomFeed struct {
	XMLName xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
	Title   string      `xml:"title"`
	ID      string      `xml:"id"`
	Updated string      `xml:"updated"`
	Author  atomAuthor  `xml:"author"`
	Links   []atomLink  `xml:"link"`
	Entries []atomEntry `xml:"entry"`
}

type atomAuthor struct {
	Name string `xml:"name"`
}

type atomLink struct {
	Rel  string `xml:"rel,attr"`
	Href string `xml:"href,attr"`
}

type atomEntry struct {
	Title   string   `xml:"title"`
	ID      string   `xml:"id"`
	Updated string   `xml:"updated"`
	Link    atomLink `xml:"link"`
	Content atomText `xml:"content"`
}

type atomText struct {
	Type string `xml:"type,attr"`
	Text string `xml:",chardata"`
}

// writeAtom writes the posts of a published digest as an Atom feed (RFC 4287). A feed without posts has the beginning
// of time as its date, for it has to have one that does not change.
func (s *Server) writeAtom(w http.ResponseWriter, r *http.Request, token string, p digest.Publication) {
	page := s.baseURL(r) + digest.PagePath(token)
	f := atomFeed{
		Title:   p.Title,
		ID:      "urn:ravenbot:digest:" + token,
		Updated: time.Unix(0, 0).UTC().Format(time.RFC3339),
		Author:  atomAuthor{"ravenbot"},
		Links:   []atomLink{{"self", page + digest.FeedSuffix}, {"alternate", page}},
	}
	for n, post := range p.Posts {
		at := post.Due.UTC().Format(time.RFC3339)
		if n == 0 {
			f.Updated = at
		}
		f.Entries = append(f.Entries, atomEntry{
			Title:   post.Title,
			ID:      "urn:ravenbot:" + strings.ReplaceAll(post.ID, "/", ":"),
			Updated: at,
			Link:    atomLink{"alternate", page},
			Content: atomText{"html", string(s.o.Render(post.Draft))},
		})
	}
	raw, err := xml.MarshalIndent(f, "", " ")
	if err != nil {
		s.writeFailure(w, r, "the feed could not be made", err)
		return
	}
	w.Header().Set("Content-Type", "application/atom+xml; charset=utf-8")
	_, _ = w.Write(append([]byte(xml.Header), raw...)) // whoever asked may be gone
}
