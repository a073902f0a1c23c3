package app

import (
	"context"
	_ "embed"
	"net/url"
	"slices"
	"strings"

	"ravenbot/internal/chat"
)

// zoneNames are the names of the IANA database (2025), a line each: Go reads zones
// by their names and does not list them.
//
//go:embed zones.txt
var zoneNames string

// suggest completes what somebody types of an option: names of digests, feeds that
// the operator names or this conversation follows, time zones, and settings.
func (a *App) suggest(ctx context.Context, at chat.Address, command, option, typed string) []string {
	switch {
	case command == "digest" && option == "name":
		return matching(a.digests.Names(at), typed)
	case option == "feed":
		return matching(a.feedsFor(ctx, at), typed)
	case option == "zone":
		return matching(strings.Fields(zoneNames), typed)
	case command == "settings":
		return a.settings.Suggest(typed)
	}
	return nil
}

// feedsFor gives the feeds that may be named in a conversation: a feed with a query
// or a password may hold a secret of the operator's.
func (a *App) feedsFor(ctx context.Context, at chat.Address) []string {
	var feeds []string
	for _, f := range a.digests.Known() {
		if u, err := url.Parse(f); err == nil && u.RawQuery == "" && u.User == nil {
			feeds = append(feeds, f)
		}
	}
	list, err := a.store.Subscriptions(ctx)
	if err != nil {
		a.o.Log.Warn("subscriptions not read to complete a feed", "error", err)
	}
	for _, s := range list {
		if s.To.Base() == at.Base() && !slices.Contains(feeds, s.URL) {
			feeds = append(feeds, s.URL)
		}
	}
	return feeds
}

// matching gives the names that hold what was typed, those that begin with it, or
// have a part that does, first.
func matching(names []string, typed string) []string {
	typed = strings.ToLower(strings.ReplaceAll(strings.TrimSpace(typed), " ", "_"))
	rank := func(name string) int {
		name = strings.ToLower(name)
		switch at := strings.Index(name, typed); {
		case at <= 0:
			return at
		case name[at-1] == '/' || name[at-1] == '-' || name[at-1] == '.':
			return 1
		}
		return 2
	}
	found := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return rank(name) < 0 })
	slices.SortFunc(found, func(x, y string) int {
		if d := rank(x) - rank(y); d != 0 {
			return d
		}
		return strings.Compare(x, y)
	})
	return found
}
