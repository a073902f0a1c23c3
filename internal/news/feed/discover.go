package feed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	xhtml "golang.org/x/net/html"

	"ravenbot/internal/ops/egress"
)

const (
	maxSearchedPage = 1 << 20 // bytes of a page that are searched for links
	maxLinks        = 20
	// searchTimeout bounds all of a search, probeTime one of its guesses.
	searchTimeout = 30 * time.Second
	probeTimeout  = 5 * time.Second
)

// Link is a feed that a page offers. Its title is the publisher's text, on one line.
type Link struct {
	URL   string `json:"url"`
	Title string `json:"title"` // as the page or the feed has it; may be empty
	Type  string `json:"type"`  // a media type
}

// ErrNoFeed says that no feed of a page was found.
var ErrNoFeed = errors.New("no feed was found")

// Find returns the feeds that a web page offers, the likeliest first: the address itself where it is a feed, the
// feeds that its site documents (YouTube, GitHub, Reddit and others), those that the page names, and only where there
// is none of these, a feed in one of the usual places. An address without a scheme counts as https. The error wraps
// ErrNoFeed where there is a page and no feed.
func (f *Fetcher) Find(ctx context.Context, address string) ([]Link, error) {
	ctx, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	address = webAddress(address)
	if !strings.Contains(address, ":") || !strings.Contains(address, "//") && !strings.HasPrefix(address, bundledScheme) {
		address = "https://" + address
	}
	if strings.HasPrefix(address, bundledScheme) {
		res, err := f.Fetch(ctx, address)
		return []Link{{URL: address, Title: res.Feed.Heading(), Type: rssXML}}, err
	}
	page, err := url.Parse(address)
	if err != nil || page.Host == "" {
		return nil, fmt.Errorf("find feeds of %.100q: %w", address, egress.ErrURL)
	}
	// Documented addresses are known without a request.
	if list := documentedFeeds(page); len(list) > 0 {
		return list, nil
	}
	res, err := f.getPage(ctx, address, egress.GetOptions{Accept: accept, MaxBytes: maxBytes})
	if err != nil {
		return nil, err
	}
	link, isFeed := parseAsFeed(res)
	list := discoverLinks(res.Body, res.URL)
	res.Close()
	if isFeed {
		return []Link{link}, nil
	}
	if len(list) > 0 {
		return list, nil
	}
	// After a redirect the usual places are those of the host that answered.
	if final, err := url.Parse(res.URL); err == nil {
		page = final
	}
	return f.probeUsualPlaces(ctx, page)
}

// getPage fetches a page while it holds the lock of the page's host. The response is to be closed.
func (f *Fetcher) getPage(ctx context.Context, address string, o egress.GetOptions) (*egress.Response, error) {
	lock, err := f.hosts.acquire(ctx, hostOf(address))
	if err != nil {
		return nil, fmt.Errorf("fetch %s: wait for another request to its host: %w", egress.RedactURL(address), err)
	}
	defer lock.release()
	res, err := f.client.Get(ctx, address, o)
	switch {
	case err != nil:
		return nil, err
	case res.Status == http.StatusTooManyRequests:
		res.Close()
		pause, _ := retryAfter(res.Header.Get("Retry-After"), f.opts.Now())
		return nil, &WaitError{URL: address, Until: f.opts.Now().Add(pause)}
	case res.Status < 200 || res.Status > 299:
		res.Close()
		return nil, &StatusError{address, res.Status}
	}
	return res, nil
}

// parseAsFeed returns a response as a Link, and false where it is not a feed.
func parseAsFeed(res *egress.Response) (Link, bool) {
	doc, err := Parse(res.Body, newHint(res.URL, res.Header))
	if err != nil {
		return Link{}, false
	}
	kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	return Link{URL: res.URL, Title: doc.Feed.Heading(), Type: shortText(kind)}, true
}

// probeUsualPlaces tries the usual places and stops at the first feed, or when the server fails or refuses. It does
// not follow redirects: they lead to front pages.
func (f *Fetcher) probeUsualPlaces(ctx context.Context, page *url.URL) ([]Link, error) {
	for _, address := range usualAddresses(page) {
		o := egress.GetOptions{Accept: accept, MaxBytes: maxBytes, Timeout: probeTimeout, MaxRedirects: -1}
		res, err := f.getPage(ctx, address, o)
		if err == nil {
			link, isFeed := parseAsFeed(res)
			res.Close()
			if isFeed {
				return []Link{link}, nil
			}
			continue
		}
		if status := (*StatusError)(nil); !errors.As(err, &status) || status.Status >= 500 {
			return nil, fmt.Errorf("%s names no feed, and looking in the usual places failed: %w", page, err)
		}
	}
	return nil, fmt.Errorf("find feeds of %s: %w: the page names none, and there is none in the usual places", page, ErrNoFeed)
}

// feedTypes are the media types by which pages name feeds, JSON Feed's own among them.
var feedTypes = []string{"application/atom+xml", "application/rss+xml", "application/rdf+xml", "application/feed+json",
	"application/x-rss+xml", "application/x.atom+xml"}

// discoverLinks returns the feeds that a web page names in link elements, in its order, those of comments last. pageURL is
// the base of relative links.
func discoverLinks(page []byte, pageURL string) []Link {
	base := resolveURL(nil, pageURL)
	links := []Link{}
	z := xhtml.NewTokenizer(bytes.NewReader(page[:min(len(page), maxSearchedPage)]))
	for len(links) < maxLinks {
		kind := z.Next()
		if kind == xhtml.ErrorToken {
			break
		}
		if kind != xhtml.StartTagToken && kind != xhtml.SelfClosingTagToken {
			continue
		}
		token := z.Token()
		attr := attributeMap(token)
		switch token.Data {
		case "base":
			base = resolveURL(base, attr["href"])
		case "link":
			mime := strings.ToLower(strings.TrimSpace(attr["type"]))
			rel := strings.Fields(strings.ToLower(attr["rel"]))
			address := absoluteURL(base, attr["href"])
			known := slices.ContainsFunc(links, func(l Link) bool { return l.URL == address })
			// rel and type are compared in lower case; real pages write them in any.
			if slices.Contains(rel, "alternate") && slices.Contains(feedTypes, mime) && isWebURL(address) && !known {
				links = append(links, Link{URL: address, Title: shortText(attr["title"]), Type: mime})
			}
		}
	}
	// The feed of comments is hardly ever the one that is meant.
	isOfComments := func(l Link) bool { return strings.Contains(strings.ToLower(l.URL+" "+l.Title), "comments") }
	others := slices.DeleteFunc(slices.Clone(links), isOfComments)
	return append(others, slices.DeleteFunc(links, func(l Link) bool { return !isOfComments(l) })...)
}

// attributeMap returns the attributes of a token; the first of a name counts, as in browsers.
func attributeMap(token xhtml.Token) map[string]string {
	attr := map[string]string{}
	for _, a := range token.Attr {
		if _, twice := attr[a.Key]; !twice {
			attr[a.Key] = a.Val
		}
	}
	return attr
}
