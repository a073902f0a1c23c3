package feed

import (
	"html"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	stateVersion = 1
	maxKeptItems = 120
	maxKeptText  = 4 << 10  // bytes of a field of a kept item,
	maxKeptSize  = 96 << 10 // of all of them, unless
	minKeptText  = 256      // each has no more
)

// State is what is kept of a feed between fetches. It is stored as JSON; a state
// of another version is treated as if there were none.
type State struct {
	Version int `json:"version"`
	// URL is the address the feed is known by, and the key.
	URL string `json:"url"`
	// MovedTo is where it is asked for instead.
	MovedTo string `json:"movedTo,omitempty"`
	// MovedOnce is where it was said to have moved for good, once.
	MovedOnce    string `json:"movedOnce,omitempty"`
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"lastModified,omitempty"`
	// FetchedAt is when the document below came.
	FetchedAt time.Time `json:"fetchedAt,omitzero"`
	// NextAllowed is until when the server wants no request.
	NextAllowed time.Time `json:"nextAllowed,omitzero"`
	// FreshUntil is until when the document need not be asked for again.
	FreshUntil time.Time `json:"freshUntil,omitzero"`
	Pace       Pace      `json:"pace,omitzero"`
	// FailingSince is when the first of the latest failures in a row was, Failures
	// how many they are, LastFailure what the last of them was, for people.
	FailingSince time.Time `json:"failingSince,omitzero"`
	Failures     int       `json:"failures,omitempty"`
	LastFailure  string    `json:"lastFailure,omitempty"`
	// Gone says that the server declared the feed removed for good.
	Gone bool `json:"gone,omitempty"`
	// TryAgain is when Poll asks again after failures.
	TryAgain time.Time `json:"tryAgain,omitzero"`
	// Told is who was told of failures, and of those since when.
	Told map[string]time.Time `json:"told,omitempty"`
	// Document is an excerpt of the last one: its newest items, long texts cut. It is
	// what a fetch gives, so that it does not matter whether the server had something
	// new.
	Document Document `json:"document"`
}

const (
	tellAfter  = 3              // failures in a row
	tellWithin = 24 * time.Hour // or failures for so long
	mostTold   = 100
)

// Failing is since when the feed has failed at every attempt, and how often; zero
// when the last attempt was good.
func (s *State) Failing() (since time.Time, times int) { return s.FailingSince, s.Failures }

// News is what a reader of the feed has not been told of yet.
type News int

// What there is to tell.
const (
	NoNews News = iota
	// Fails: the feed fails, and not by a passing fault.
	Fails
	// Heals: it failed, the reader was told so, and it is well again.
	Heals
)

// News says what a reader, such as the address of a channel, is to be told of the
// feed's health. Fetcher.Told notes that it was.
func (s *State) News(reader string) News {
	told, knows := s.Told[reader]
	switch {
	case s.Failures == 0 && knows:
		return Heals
	case s.Failures == 0 || told.Equal(s.FailingSince):
		return NoNews
	case s.Gone || s.Failures >= tellAfter || s.Failures > 1 && s.TryAgain.Sub(s.FailingSince) >= tellWithin:
		return Fails
	}
	return NoNews
}

// tell notes that a reader knows how the feed is.
func (s *State) tell(reader string) {
	if s.Failures == 0 {
		delete(s.Told, reader)
		return
	}
	if s.Told == nil {
		s.Told = map[string]time.Time{}
	}
	if _, knows := s.Told[reader]; knows || len(s.Told) < mostTold {
		s.Told[reader] = s.FailingSince
	}
}

// addFailure counts a failure.
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

// clearFailures forgets the failures, and tells whether there were any.
func (s *State) clearFailures() bool {
	was := s.Failures > 0
	s.FailingSince, s.TryAgain, s.Failures, s.Gone, s.LastFailure = time.Time{}, time.Time{}, 0, false, ""
	return was
}

func (s *State) fetchAddress() string { return firstOf(s.MovedTo, s.URL) }

// noteMove takes over where a server says that the feed is for good, at the second
// time it says so, and tells whether that is worth remembering.
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

// resetAddress begins again at the address the feed is known by.
func (s *State) resetAddress() {
	s.MovedTo, s.MovedOnce, s.ETag, s.LastModified = "", "", "", ""
	s.FetchedAt, s.Document = time.Time{}, Document{}
}

// conditionalHeader ask for nothing when nothing changed. They belong to the address
// the remembered document came from.
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

// excerpt is a copy of bounded size.
func (d Document) excerpt() Document {
	items := newestItems(d.Items, maxKeptItems)
	limit := maxKeptText
	for limit > minKeptText && textSize(items, limit) > maxKeptSize {
		limit /= 2
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

// newestItems are the n youngest items, in the feed's order, which for items without a
// date is that of their age.
func newestItems(items []Item, n int) []Item {
	if len(items) <= n {
		return slices.Clone(items)
	}
	byAge := make([]int, len(items))
	for i := range byAge {
		byAge[i] = i
	}
	slices.SortStableFunc(byAge, func(a, b int) int { return items[b].Time().Compare(items[a].Time()) })
	byAge = byAge[:n]
	slices.Sort(byAge)
	kept := make([]Item, n)
	for i, index := range byAge {
		kept[i] = items[index]
	}
	return kept
}

func (i *Item) texts() []*string { return []*string{&i.Title, &i.Summary, &i.Content} }

// textSize is what the texts take when they are cut at the limit.
func textSize(items []Item, limit int) (sum int) {
	for i := range items {
		for _, text := range items[i].texts() {
			sum += min(len(*text), limit)
		}
	}
	return sum
}

// excerptHTML cuts a long fragment to the beginning of its plain text, since
// markup cannot be cut anywhere.
func excerptHTML(fragment string, limit int) string {
	if len(fragment) <= limit {
		return fragment
	}
	text := PlainText(fragment)
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return html.EscapeString(text)
}

// setSource tells every item which feed it is from.
func (d *Document) setSource() {
	source := d.Feed.Heading()
	for i := range d.Items {
		d.Items[i].Source = source
	}
}
