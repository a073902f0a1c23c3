// Package feed reads web feeds: RSS, RDF, Atom and JSON Feed, as they really are.
//
// Parse promises that no document, however broken or hostile, takes more than
// bounded time and memory or ends the process: it is brought to UTF-8, repaired
// and limited in depth, length and number of items before the feed parser sees
// it, and what comes out holds absolute links and no active markup. Fetcher asks
// a server politely: only for what changed, one request a host at a time, not
// before the server says so, and remembers where a feed has moved for good and
// since when it fails. Group puts together what tells the same, and says why.
//
// What is new, what is worth telling and how it looks is left to the digest.
package feed

import (
	"errors"
	"time"
)

// ErrNotFeed is the kind of error Parse gives for a document that is no feed.
var ErrNotFeed = errors.New("not a feed")

// Document is a parsed feed. Links are absolute where the document's address was
// known; HTML is sanitised; times are UTC and zero where unknown.
type Document struct {
	Feed  Feed   `json:"feed"`
	Items []Item `json:"items"`
	Pace  Pace   `json:"-"`
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
	// ID is the feed's own identifier, else the link, else a hash of the text. It
	// is stable and never empty.
	ID string `json:"id"`
	// Title may hold inline HTML, sanitised; Heading is its plain text.
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
	// Source is the heading of the feed that the item is from.
	Source string `json:"-"`
}

// Enclosure is a file that belongs to an item.
type Enclosure struct {
	URL    string `json:"url"`
	Type   string `json:"type"`
	Length int64  `json:"length"` // bytes; 0 where unknown
}

// Heading is the title as plain text on one line.
func (f Feed) Heading() string { return oneLine(PlainText(f.Title)) }

// Heading is the title as plain text on one line; empty when there is none.
func (i Item) Heading() string { return oneLine(PlainText(i.Title)) }

// Text is the item's content as plain text, its summary when it has no content.
func (i Item) Text() string {
	if text := PlainText(i.Content); text != "" {
		return text
	}
	return PlainText(i.Summary)
}

// Time is when the item was published, else updated; zero when unknown.
func (i Item) Time() time.Time {
	if i.Published.IsZero() {
		return i.Updated
	}
	return i.Published
}
