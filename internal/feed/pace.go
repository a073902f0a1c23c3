package feed

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	maxFresh    = 12 * time.Hour // however long a server says that nothing changes
	minBackoff  = 10 * time.Minute
	maxBackoff  = 48 * time.Hour
	goneBackoff = 7 * 24 * time.Hour
)

// Pace is how often a feed says it is worth reading.
type Pace struct {
	TTL       time.Duration `json:"ttl,omitempty"`
	SkipHours uint32        `json:"skipHours,omitempty"` // bit n: not between n and n+1 o'clock, UTC
	SkipDays  uint8         `json:"skipDays,omitempty"`  // bit n: not on that time.Weekday
}

// skips says that the feed is not worth reading at that time.
func (p Pace) skips(at time.Time) bool {
	at = at.UTC()
	return p.SkipHours&(1<<at.Hour()) != 0 || p.SkipDays&(1<<at.Weekday()) != 0
}

// readElement takes over what an element of a channel says about the pace. A feed that
// names all hours or all days means something else.
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
	if p.SkipHours == 1<<24-1 {
		p.SkipHours = 0
	}
	if p.SkipDays == 1<<7-1 {
		p.SkipDays = 0
	}
}

// freshFor is how long an answer may serve without asking again: the longest that
// the feed's ttl, Cache-Control and Expires say, within reason.
func freshFor(h http.Header, ttl time.Duration, now time.Time) time.Duration {
	fresh := ttl
	if age, said := maxAge(h.Get("Cache-Control")); said {
		fresh = max(fresh, age)
	} else if expires, err := http.ParseTime(h.Get("Expires")); err == nil {
		if date, err := http.ParseTime(h.Get("Date")); err == nil {
			now = date
		}
		fresh = max(fresh, expires.Sub(now))
	}
	return min(fresh, maxFresh)
}

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

// backoff is how long a feed is left alone that failed so many times in a row.
func backoff(failures int) time.Duration {
	return addJitter(min(minBackoff<<min(max(failures-1, 0), 16), maxBackoff))
}

// addJitter is up to a tenth longer, so that what failed or was fresh together is
// not asked for together.
func addJitter(d time.Duration) time.Duration {
	return d + time.Duration(rand.Int64N(int64(d/10)+1))
}
