package feed

import (
	"net/url"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"ravenbot/internal/core/text"
)

// tracking are query parameters that say how a reader found the link, not what it leads to.
var tracking = strings.Fields("fbclid gclid dclid msclkid yclid mc_cid mc_eid igshid _hsenc _hsmi wt_mc cmpid")

// CanonicalURL returns the address without what differs between two links to one page: tracking parameters, fragment,
// default port, letter case of the host, trailing slash, order of parameters. It returns anything but a web address
// unchanged, trimmed. The result is for comparing: a server may answer it differently.
func CanonicalURL(address string) string {
	address = strings.TrimSpace(address)
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || !isWebURL(address) {
		return address
	}
	// Only what RFC 3986, 6.2, calls equivalent and what no known site distinguishes is changed.
	u.Scheme = strings.ToLower(u.Scheme)
	u.Host = strings.TrimSuffix(strings.ToLower(u.Host), map[string]string{"http": ":80", "https": ":443"}[u.Scheme])
	u.Fragment, u.RawFragment = "", ""
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = strings.TrimRight(u.RawPath, "/")
	query := u.Query()
	for key := range query {
		if lower := strings.ToLower(key); strings.HasPrefix(lower, "utm_") || slices.Contains(tracking, lower) {
			query.Del(key)
		}
	}
	// Encode sorts by key, so the order of parameters does not matter.
	u.RawQuery = query.Encode()
	return u.String()
}

// unwrapLink returns the address that a link of Google Alerts leads to, such as
// https://www.google.com/url?rct=j&sa=t&url=https://example.org/story&ct=ga (seen 2026-11). It returns other links
// unchanged.
func unwrapLink(link string) string {
	u, err := url.Parse(link)
	if err != nil || u.Path != "/url" || !googleHost().MatchString(u.Host) {
		return link
	}
	for _, key := range []string{"url", "q"} {
		if target := safeLink(u.Query().Get(key)); isWebURL(target) {
			return target
		}
	}
	return link
}

// googleHost matches the hosts of Google in all countries.
var googleHost = text.Pattern(`^www\.google\.[a-z]{2,3}(\.[a-z]{2})?$`)

// titleKey returns a key that is equal for titles that differ only in markup, letter case, white space or punctuation.
func titleKey(title string) string {
	var key strings.Builder
	for _, r := range norm.NFKC.String(strings.ToLower(PlainText(title))) {
		// Sources differ in quotation marks, dashes and full stops, never in letters and digits.
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			key.WriteRune(r)
		case unicode.IsSpace(r) || r == '-' || r == '–' || r == '—' || r == '/':
			key.WriteByte(' ')
		}
	}
	return text.OneLine(key.String())
}
