package feed

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxFresh bounds what a server may ask for: a feed is read twice a day at least. The delays after failures double
// from minBackoff to maxBackoff; a feed that is gone (HTTP 410) is asked once a week.
const (
	maxFresh    = 12 * time.Hour // a server's longer freshness counts as this
	minBackoff  = 10 * time.Minute
	maxBackoff  = 48 * time.Hour
	goneBackoff = 7 * 24 * time.Hour
)

// Pace is how often a feed says that it changes.
type Pace struct {
	TTL       time.Duration `json:"ttl,omitempty"`       // 0: the feed does not say
	SkipHours uint32        `json:"skipHours,omitempty"` // bit n: not between n and n+1 o'clock, UTC
	SkipDays  uint8         `json:"skipDays,omitempty"`  // bit n: not on that time.Weekday
}

// skips reports whether the feed asks not to be read at that time.
func (p Pace) skips(at time.Time) bool {
	at = at.UTC()
	return p.SkipHours&(1<<at.Hour()) != 0 || p.SkipDays&(1<<at.Weekday()) != 0
}

// readElement reads what an element of a channel says about the pace. A feed that names all hours or all days cannot
// mean it, so that is ignored.
func (p *Pace) readElement(parent, element, text string) {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 16)
	switch {
	case parent == "channel" && element == "ttl" && err == nil:
		p.TTL = time.Duration(n) * time.Minute
	case parent == "skiphours" && element == "hour" && err == nil && n <= 24:
		p.SkipHours |= 1 << (n % 24)
	case parent == "skipdays" && element == "day":
		for d := time.Sunday; d <= time.Saturday; d++ {
			if strings.EqualFold(d.String(), strings.TrimSpace(text)) {
				p.SkipDays |= 1 << d
			}
		}
	}
	// Checked after each element: the list may be complete at any of them.
	if p.SkipHours == 1<<24-1 {
		p.SkipHours = 0
	}
	if p.SkipDays == 1<<7-1 {
		p.SkipDays = 0
	}
}

// freshFor returns how long an answer counts as fresh: the longest that the feed's ttl, Cache-Control and Expires
// say, up to maxFresh.
func freshFor(h http.Header, ttl time.Duration, now time.Time) time.Duration {
	fresh := ttl
	// Cache-Control overrides Expires (RFC 9111, 5.3).
	if age, said := maxAge(h.Get("Cache-Control")); said {
		fresh = max(fresh, age)
	} else if expires, err := http.ParseTime(h.Get("Expires")); err == nil {
		// Expires is relative to the server's clock, which may be wrong but is consistent with itself.
		if date, err := http.ParseTime(h.Get("Date")); err == nil {
			now = date
		}
		fresh = max(fresh, expires.Sub(now))
	}
	return min(fresh, maxFresh)
}

// maxAge reads the max-age of a Cache-Control header. said is false where the header says nothing about freshness.
func maxAge(header string) (age time.Duration, said bool) {
	for directive := range strings.SplitSeq(strings.ToLower(header), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch name {
		case "no-cache", "no-store":
			return 0, true
		case "max-age":
			if n, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31); err == nil {
				age, said = time.Duration(n)*time.Second, true
			}
		}
	}
	return age, said
}

// backoff returns how long a feed is left alone after a number of failures in a row.
func backoff(failures int) time.Duration {
	return addJitter(min(minBackoff<<min(max(failures-1, 0), 16), maxBackoff))
}

// addJitter returns a duration up to a tenth longer, so that feeds that failed or were fetched together are not asked
// for together again.
func addJitter(d time.Duration) time.Duration {
	return d + time.Duration(rand.Int64N(int64(d/10)+1))
}
