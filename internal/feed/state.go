package feed

import (
	"html"
	"net/http"
	"strings"
	"time"
)

const (
	stateVersion = 1
	keptItems    = 200
	keptText     = 4 << 10 // bytes of a field of a kept item
)

// State is what is kept of a feed between fetches. It is stored as JSON; a state
// of another version is treated as if there were none.
type State struct {
	Version int `json:"version"`
	// URL is the address the feed is known by, and the key.
	URL string `json:"url"`
	// MovedTo is where it is asked for instead.
	MovedTo      string `json:"movedTo,omitempty"`
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"lastModified,omitempty"`
	// FetchedAt is when the document below came.
	FetchedAt time.Time `json:"fetchedAt,omitzero"`
	// NextAllowed is until when the server wants no request.
	NextAllowed time.Time `json:"nextAllowed,omitzero"`
	// Document is an excerpt of the last one: its first items, long texts cut.
	Document Document `json:"document"`
}

func (s *State) address() string { return firstOf(s.MovedTo, s.URL) }

// conditions ask for nothing when nothing changed. They belong to the address
// the remembered document came from.
func (s *State) conditions(address string) http.Header {
	h := http.Header{}
	if s.FetchedAt.IsZero() || address != s.address() {
		return h
	}
	if s.ETag != "" {
		h.Set("If-None-Match", s.ETag)
	}
	if s.LastModified != "" {
		h.Set("If-Modified-Since", s.LastModified)
	}
	return h
}

// excerpt is a copy of bounded size.
func (d Document) excerpt() Document {
	items := make([]Item, min(len(d.Items), keptItems))
	for i := range items {
		item := d.Items[i]
		for _, text := range []*string{&item.Title, &item.Summary, &item.Content} {
			*text = excerptHTML(*text)
		}
		item.Enclosures = item.Enclosures[:min(len(item.Enclosures), 10)]
		items[i] = item
	}
	d.Items = items
	d.Feed.Description = excerptHTML(d.Feed.Description)
	return d
}

// excerptHTML cuts a long fragment to the beginning of its plain text, since
// markup cannot be cut anywhere.
func excerptHTML(fragment string) string {
	if len(fragment) <= keptText {
		return fragment
	}
	text := Plain(fragment)
	if len(text) > keptText {
		text = strings.ToValidUTF8(text[:keptText], "") + "…"
	}
	return html.EscapeString(text)
}

// attribute tells every item which feed it is from.
func (d *Document) attribute() {
	source := d.Feed.Heading()
	for i := range d.Items {
		d.Items[i].Source = source
	}
}
