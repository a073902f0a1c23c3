package feed

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// tracking are parameters that say how a reader came, not where to.
var tracking = map[string]bool{"fbclid": true, "gclid": true, "dclid": true, "msclkid": true, "yclid": true, "mc_cid": true,
	"mc_eid": true, "igshid": true, "_hsenc": true, "_hsmi": true, "wt_mc": true, "cmpid": true}

// CanonicalURL is the address without what differs between two links to one
// page: tracking parameters, fragment, default port, letter case of the host,
// trailing slash, order of parameters. What is no web address comes back trimmed.
func CanonicalURL(address string) string {
	address = strings.TrimSpace(address)
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || !isWebURL(address) {
		return address
	}
	u.Scheme = strings.ToLower(u.Scheme)
	u.Host = strings.TrimSuffix(strings.ToLower(u.Host), map[string]string{"http": ":80", "https": ":443"}[u.Scheme])
	u.Fragment, u.RawFragment = "", ""
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = strings.TrimRight(u.RawPath, "/")
	query := u.Query()
	for key := range query {
		if lower := strings.ToLower(key); strings.HasPrefix(lower, "utm_") || tracking[lower] {
			query.Del(key)
		}
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// titleKey is equal for titles that differ only in markup, letter case, white
// space or punctuation.
func titleKey(title string) string {
	var key strings.Builder
	for _, r := range norm.NFKC.String(strings.ToLower(PlainText(title))) {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			key.WriteRune(r)
		case unicode.IsSpace(r) || r == '-' || r == '–' || r == '—' || r == '/':
			key.WriteByte(' ')
		}
	}
	return oneLine(key.String())
}

// Story is an item and those that tell the same.
type Story struct {
	Item Item
	Also []Item
}

// minTitleRunes is how many letters a title needs before it can identify a story:
// "Weekly update" names many.
const minTitleRunes = 20

// Dedupe puts items together that share their canonical link or their title. The
// first of each stays in its place; nothing is lost.
func Dedupe(items []Item) []Story {
	var stories []Story
	known := map[string]int{}
	for _, item := range items {
		keys := sameKeys(item)
		at := -1
		for _, key := range keys {
			if index, ok := known[key]; ok {
				at = index
				break
			}
		}
		if at < 0 {
			at = len(stories)
			stories = append(stories, Story{Item: item})
		} else {
			stories[at].Also = append(stories[at].Also, item)
		}
		for _, key := range keys {
			if _, ok := known[key]; !ok {
				known[key] = at
			}
		}
	}
	return stories
}

func sameKeys(item Item) (keys []string) {
	if link := CanonicalURL(item.Link); link != "" {
		_, rest, _ := strings.Cut(link, "://") // the same page by http and https
		keys = append(keys, "link "+rest)
	}
	if title := titleKey(item.Title); utf8.RuneCountInString(title) >= minTitleRunes {
		keys = append(keys, "title "+title)
	}
	return keys
}
