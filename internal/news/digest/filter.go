package digest

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"ravenbot/internal/news/feed"
)

// filter is one of a digest's filters: an item must have one of those that include, and none of those that exclude.
type filter struct {
	text    string // as it was written
	exclude bool
	matches func(text string) bool
	until   time.Time // of a mute; zero: for ever
}

// CheckFilter returns what is wrong with a filter, or nil. A filter is a word or a regular
// expression in slashes, either with a leading - to exclude, or mute:WORD until 2026-12-24.
func CheckFilter(text string) error {
	_, err := parseFilter(text, time.UTC)
	return err
}

// parseFilter reads a filter. The day until which a mute holds begins in the given zone.
func parseFilter(text string, zone *time.Location) (filter, error) {
	f := filter{text: text}
	rest := strings.TrimSpace(text)
	if muted, ok := strings.CutPrefix(rest, "mute:"); ok {
		word, day, ok := strings.Cut(muted, " until ")
		last, err := time.ParseInLocation(time.DateOnly, strings.TrimSpace(day), zone)
		if !ok || err != nil {
			return f, fmt.Errorf("%q: write mute:WORD until 2026-12-24", text)
		}
		f.exclude, f.until, rest = true, last, strings.TrimSpace(word)
	} else if word, ok := strings.CutPrefix(rest, "-"); ok {
		f.exclude, rest = true, word
	}
	if rest == "" {
		return f, fmt.Errorf("%q holds no word", text)
	}
	if len(rest) > 1 && rest[0] == '/' && rest[len(rest)-1] == '/' {
		re, err := regexp.Compile("(?i)" + rest[1:len(rest)-1])
		if err != nil {
			return f, fmt.Errorf("%q is not a regular expression: %w", text, plainRegexp(err))
		}
		f.matches = re.MatchString
		return f, nil
	}
	word := strings.ToLower(rest)
	f.matches = func(text string) bool { return strings.Contains(strings.ToLower(text), word) }
	return f, nil
}

// plainRegexp returns an error of regexp without its prefix.
func plainRegexp(err error) error {
	return errors.New(strings.TrimPrefix(err.Error(), "error parsing regexp: "))
}

// maxFilterText bounds the text of an item that filters read, in bytes.
const maxFilterText = 16 << 10

// failedFilter returns the verdict that names the filter which excludes an item, or "".
func failedFilter(i *item, filters []filter, now time.Time) string {
	if len(filters) == 0 {
		return ""
	}
	text := i.Heading() + "\n" + feed.PlainText(i.Summary) + "\n" + strings.Join(i.Categories, "\n")
	text = text[:min(len(text), maxFilterText)]
	var wanted []string
	found := false
	for _, f := range filters {
		switch {
		case !f.until.IsZero() && !now.Before(f.until): // a mute that is over
		case f.exclude:
			if f.matches(text) {
				return "filtered by " + f.text
			}
		default:
			wanted = append(wanted, f.text)
			found = found || f.matches(text)
		}
	}
	if len(wanted) > 0 && !found {
		return "filtered by " + strings.Join(wanted, ", ")
	}
	return ""
}
