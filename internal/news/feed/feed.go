// Package feed reads RSS, RDF, Atom and JSON feeds, including the malformed feeds that real servers send.
//
// It promises that every document takes bounded time and memory and cannot end the process. Parse converts a document
// to UTF-8, repairs it and limits its depth, length and number of items before the feed parser reads it. The result
// holds absolute links and no active markup. Fetcher makes conditional requests, one at a time to a host, waits when
// the server asks for it, and remembers permanent moves and failures. Group finds items of several feeds about the
// same story, with the reason.
//
// Package digest selects new and worthwhile items and formats them.
//
// A document passes these steps: characters (encoding.go, chars.go), structure (clean.go for XML, jsonfeed.go for
// JSON), the parser, and the conversion into Items (convert.go, html.go, date.go, media.go). Fetcher keeps a State for
// each feed, which holds validators, the pause that the server asked for (pace.go), failures and the last items, so
// that several digests of one feed share a request.
package feed

import (
	"errors"
	"time"

	"ravenbot/internal/core/text"
)

// ErrNotFeed is wrapped by the error of Parse for a document that is not a feed.
var ErrNotFeed = errors.New("not a feed")

// errMalformed says that a feed was fetched and could not be read.
var errMalformed = errors.New("the feed is malformed")

// Document is a parsed feed. Links are absolute where the document's address was known; HTML is sanitized; times are
// in UTC, and zero where they are unknown. Items are in the feed's order, at most maxItems.
type Document struct {
	Feed  Feed   `json:"feed"`
	Items []Item `json:"items"`
	Pace  Pace   `json:"-"`
	// IDsRepeat says that the feed's own identifiers are of several items each, and are not used.
	IDsRepeat bool `json:"-"`
}

// Feed describes the feed itself.
type Feed struct {
	Title       string    `json:"title"` // HTML, see Item.Title
	Link        string    `json:"link"`
	Description string    `json:"description"` // HTML
	Language    string    `json:"language"`
	Copyright   string    `json:"copyright"`
	Author      string    `json:"author"` // Name (email)
	Image       string    `json:"image"`  // address
	Published   time.Time `json:"published,omitzero"`
	Updated     time.Time `json:"updated,omitzero"`
	Categories  []string  `json:"categories"`
}

// Item is one entry of a feed.
type Item struct {
	// ID is the feed's own identifier if each item has its own, else the link, else a hash of the text. It is stable and
	// never empty.
	ID string `json:"id"`
	// Title may hold sanitized inline HTML; Heading returns its plain text.
	Title      string      `json:"title"`
	Link       string      `json:"link"`
	Summary    string      `json:"summary"` // HTML
	Content    string      `json:"content"` // HTML
	Author     string      `json:"author"`  // Name (email)
	Image      string      `json:"image,omitempty"`
	Published  time.Time   `json:"published,omitzero"`
	Updated    time.Time   `json:"updated,omitzero"`
	Categories []string    `json:"categories"`
	Enclosures []Enclosure `json:"enclosures"`
	// Origin is the heading of the feed that the item was first in, if this one says so, as planets do.
	Origin string `json:"source,omitempty"`
	// Source is Origin, or else the heading of the item's feed.
	Source string `json:"-"`
}

// Enclosure is a file that belongs to an item.
type Enclosure struct {
	URL    string `json:"url"`
	Type   string `json:"type"`
	Length int64  `json:"length"` // bytes; 0 where unknown
}

// Heading returns the title as plain text on one line.
func (f Feed) Heading() string { return text.OneLine(PlainText(f.Title)) }

// Heading returns the title as plain text on one line. It returns "" when the item has no title.
func (i Item) Heading() string { return text.OneLine(PlainText(i.Title)) }

// Text returns the item's content as plain text, or its summary when it has no content. It is made
// at each call, which costs as much as reading the markup.
func (i Item) Text() string {
	if text := PlainText(i.Content); text != "" {
		return text
	}
	return PlainText(i.Summary)
}

// Time returns when the item was published, or else updated. It returns the zero time when neither is known.
func (i Item) Time() time.Time {
	if i.Published.IsZero() {
		return i.Updated
	}
	return i.Published
}
