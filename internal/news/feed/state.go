package feed

import (
	"cmp"
	"html"
	"net/http"
	"slices"
	"time"

	"ravenbot/internal/core/text"
)

const (
	// stateVersion is to be raised when older states cannot be used any more: they count as absent.
	stateVersion = 1
	maxKeptItems = 120
	maxKeptText  = 4 << 10  // bytes of one text of a kept item
	maxKeptSize  = 96 << 10 // bytes of all texts; maxKeptText is halved until they fit
	minKeptText  = 256      // bytes that each text keeps at least
)

// State is what is kept of a feed between fetches. It is stored as JSON; a state of another version counts as absent.
type State struct {
	Version int `json:"version"`
	// URL is the address that the feed is known by, and the key of the record.
	URL string `json:"url"`
	// MovedTo is the address that requests go to instead of URL.
	MovedTo string `json:"movedTo,omitempty"`
	// MovedOnce is an address that the server has named as the feed's permanent one once. The second time it becomes
	// MovedTo.
	MovedOnce    string `json:"movedOnce,omitempty"`
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"lastModified,omitempty"`
	// FetchedAt is when Document was fetched.
	FetchedAt time.Time `json:"fetchedAt,omitzero"`
	// NextAllowed is until when the server wants no requests.
	NextAllowed time.Time `json:"nextAllowed,omitzero"`
	// FreshUntil is until when Document counts as fresh.
	FreshUntil time.Time `json:"freshUntil,omitzero"`
	Pace       Pace      `json:"pace,omitzero"`
	// IDsRepeat says that the identifiers of items were once of several items each.
	IDsRepeat bool `json:"idsRepeat,omitempty"`
	// FailingSince is when the current row of failures began, Failures their number, and LastFailure the last one in
	// words for people.
	FailingSince time.Time `json:"failingSince,omitzero"`
	Failures     int       `json:"failures,omitempty"`
	LastFailure  string    `json:"lastFailure,omitempty"`
	// Gone says that the server has declared the feed removed for good (status 410).
	Gone bool `json:"gone,omitempty"`
	// TryAgain is when Poll makes a request again after failures.
	TryAgain time.Time `json:"tryAgain,omitzero"`
	// Document is an excerpt of the last document: its newest items, long texts cut. Fetches with a store return it,
	// so that a changed and an unchanged feed look alike.
	Document Document `json:"document"`
}

// addFailure records one more failure and computes when Poll tries again. The stored document
// stays: it is what is known of the feed.
func (s *State) addFailure(now time.Time, gone bool, why string) {
	if s.Failures == 0 {
		s.FailingSince = now
	}
	s.Failures++
	s.Gone, s.LastFailure = gone, shortText(why)
	s.TryAgain = now.Add(backoff(s.Failures))
	if gone {
		s.TryAgain = now.Add(addJitter(goneBackoff))
	}
}

// clearFailures resets the failures and reports whether there were any.
func (s *State) clearFailures() bool {
	was := s.Failures > 0
	s.FailingSince, s.TryAgain, s.Failures, s.Gone, s.LastFailure = time.Time{}, time.Time{}, 0, false, ""
	return was
}

// fetchAddress returns the address that requests go to.
func (s *State) fetchAddress() string { return cmp.Or(s.MovedTo, s.URL) }

// noteMove records a permanent move at the second time that the server names the same address, and reports whether
// the state has changed. One wrong redirect, such as that of a captive portal, must not move a feed.
func (s *State) noteMove(to string) bool {
	was := [2]string{s.MovedTo, s.MovedOnce}
	switch {
	case to == "" || to == s.URL:
		s.MovedOnce = ""
	case to == s.MovedOnce:
		s.MovedTo, s.MovedOnce = to, ""
	case to != s.MovedTo:
		s.MovedOnce = to
	}
	return was != [2]string{s.MovedTo, s.MovedOnce}
}

// resetAddress makes requests go to the address that the feed is known by again.
func (s *State) resetAddress() {
	s.MovedTo, s.MovedOnce, s.ETag, s.LastModified = "", "", "", ""
	s.FetchedAt, s.Document = time.Time{}, Document{}
}

// conditionalHeader returns the header of a conditional request. It is empty for an address that the stored document
// did not come from, whose validators would be somebody else's.
func (s *State) conditionalHeader(address string) http.Header {
	h := http.Header{}
	if s.FetchedAt.IsZero() || address != s.fetchAddress() {
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

// excerpt returns a copy of bounded size.
func (d Document) excerpt() Document {
	items := newestItems(d.Items, maxKeptItems)
	// Long texts are shortened evenly rather than dropping items: an item that is missing would count as new later.
	limit := maxKeptText
	for limit > minKeptText && textSize(items, limit) > maxKeptSize {
		limit /= 2 // four times at the most
	}
	for i := range items {
		for _, text := range items[i].texts() {
			*text = excerptHTML(*text, limit)
		}
		items[i].Enclosures = items[i].Enclosures[:min(len(items[i].Enclosures), 10)]
	}
	d.Items = items
	d.Feed.Description = excerptHTML(d.Feed.Description, maxKeptText)
	return d
}

// newestItems returns the n newest items in the feed's order. Among items without a date, those that come first count
// as newer.
func newestItems(items []Item, n int) []Item {
	if len(items) <= n {
		return slices.Clone(items)
	}
	// The date of the oldest one that is kept; of those with that date the first are.
	byAge := slices.SortedFunc(slices.Values(items), func(a, b Item) int { return b.Time().Compare(a.Time()) })
	oldest := byAge[n-1].Time()
	room := n - slices.IndexFunc(byAge, func(i Item) bool { return i.Time().Equal(oldest) })
	return slices.DeleteFunc(slices.Clone(items), func(i Item) bool {
		isOldest := i.Time().Equal(oldest)
		if isOldest {
			room--
		}
		return i.Time().Before(oldest) || isOldest && room < 0
	})
}

// texts returns the texts of an item that may be long, to be changed in place.
func (i *Item) texts() []*string { return []*string{&i.Title, &i.Summary, &i.Content} }

// textSize returns how many bytes the texts take when each is cut at limit.
func textSize(items []Item, limit int) (sum int) {
	for i := range items {
		for _, text := range items[i].texts() {
			sum += min(len(*text), limit)
		}
	}
	return sum
}

// excerptHTML cuts a long fragment to the beginning of its plain text, because markup cannot be cut at any place.
func excerptHTML(fragment string, limit int) string {
	if len(fragment) <= limit {
		return fragment
	}
	plain := PlainText(fragment)
	if short := text.Cut(plain, limit); short != plain {
		plain = short + "…"
	}
	return html.EscapeString(plain)
}

// setSource sets Source of every item.
func (d *Document) setSource() {
	source := d.Feed.Heading()
	for i := range d.Items {
		d.Items[i].Source = cmp.Or(d.Items[i].Origin, source)
	}
}
