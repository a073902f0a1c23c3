package feed

import (
	"net/url"
	"slices"
	"strings"

	"ravenbot/internal/core/text"
)

// atomXML and rssXML are the media types of feeds at documented addresses.
const atomXML, rssXML = "application/atom+xml", "application/rss+xml"

// documentedFeeds returns the feeds that a page has at addresses which its site documents (as of November 2026). It
// returns nil for other sites.
func documentedFeeds(page *url.URL) []Link {
	host := strings.TrimPrefix(strings.ToLower(page.Hostname()), "www.")
	parts := strings.FieldsFunc(page.EscapedPath(), func(r rune) bool { return r == '/' })
	switch {
	case host == "youtube.com" || host == "m.youtube.com":
		return youTube(parts, page.Query())
	case host == "github.com":
		return gitHub(parts)
	case host == "gitlab.com" && len(parts) >= 2:
		return atomLinks("https://gitlab.com/"+strings.Join(parts[:2], "/"), "/-/tags?format=atom", "tags")
	case host == "reddit.com" || strings.HasSuffix(host, ".reddit.com"):
		return reddit(parts)
	case host == "bsky.app" && len(parts) == 2 && parts[0] == "profile":
		return []Link{{URL: "https://bsky.app/profile/" + parts[1] + "/rss", Title: "posts", Type: rssXML}}
	}
	return nil
}

// atomLinks returns Atom feeds below an address, from pairs of path and title.
func atomLinks(base string, pairs ...string) (list []Link) {
	for i := 0; i+1 < len(pairs); i += 2 {
		list = append(list, Link{URL: base + pairs[i], Title: pairs[i+1], Type: atomXML})
	}
	return list
}

// channelID matches the ids of YouTube's channels.
var channelID = text.Pattern(`^UC[\w-]{22}$`)

// youTube returns the feeds of a channel or playlist. A feed's address needs the channel's id; pages of handles name
// their feed themselves.
func youTube(parts []string, query url.Values) (list []Link) {
	const videos = "https://www.youtube.com/feeds/videos.xml?"
	if len(parts) >= 2 && parts[0] == "channel" && channelID().MatchString(parts[1]) {
		list = atomLinks(videos, "channel_id="+parts[1], "videos of the channel")
	}
	if id := query.Get("list"); id != "" {
		list = append(list, atomLinks(videos, "playlist_id="+url.QueryEscape(id), "videos of the playlist")...)
	}
	return list
}

// gitHub returns the feeds of an account or a repository, by the parts of the path of its page.
func gitHub(parts []string) []Link {
	switch {
	// These paths are not accounts.
	case len(parts) == 0 || parts[0] == "features" || parts[0] == "topics" || parts[0] == "orgs":
		return nil
	case len(parts) == 1:
		return atomLinks("https://github.com/"+parts[0], ".atom", "public activity")
	}
	return atomLinks("https://github.com/"+parts[0]+"/"+strings.TrimSuffix(parts[1], ".git"),
		"/releases.atom", "releases", "/tags.atom", "tags", "/commits.atom", "commits")
}

// reddit returns the feed of a community or a user, by the parts of the path of its page.
func reddit(parts []string) []Link {
	if len(parts) < 2 || parts[0] != "r" && parts[0] != "user" && parts[0] != "u" {
		return nil
	}
	kind := strings.Replace(parts[0], "user", "u", 1)
	path := "/" + strings.Replace(kind, "u", "user", 1) + "/" + parts[1] + "/.rss"
	return atomLinks("https://www.reddit.com", path, kind+"/"+parts[1])
}

// usualAddresses returns where to look for a feed when a page names none. A path such as /@name may be a Mastodon
// profile.
func usualAddresses(page *url.URL) (addresses []string) {
	paths := []string{"/feed", "/rss.xml", "/atom.xml", "/feed.xml", "/index.xml", "/rss", "/feed.json"}
	if name := strings.Trim(page.Path, "/"); strings.HasPrefix(name, "@") && !strings.Contains(name, "/") {
		paths = slices.Concat([]string{"/" + name + ".rss"}, paths)
	}
	for _, path := range paths {
		addresses = append(addresses, (&url.URL{Scheme: page.Scheme, Host: page.Host, Path: path}).String())
	}
	return addresses
}
