package digest

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/feature"
	"ravenbot/internal/news/schedule"
	"ravenbot/internal/store"
)

// commandName is the word behind /raven.
const commandName = "digest"

// Names of the options that are completed while somebody types.
const (
	optionName = "name"
	optionFeed = "feed"
	optionZone = "zone"
)

// Module returns the ability to make digests.
func (s *Service) Module() feature.Module {
	return feature.Module{
		Features: []feature.Feature{s},
		Tools:    s.tools,
		Shared:   []store.Shared{s},
		Checks:   map[string]feature.Check{"digest": CheckStored, "unsubscription": CheckUnsubscribed, "filter": refuseFilter},
		Tasks: []feature.Task{
			{Name: "schedule", Run: s.runSchedule, Leads: true, Daemon: true},
			{Name: "feeds", Run: s.pollFeeds, Leads: true, Daemon: true},
		},
	}
}

// Commands returns the command that makes, lists and changes digests.
func (*Service) Commands() []chat.CommandSpec {
	return []chat.CommandSpec{{
		Name:    commandName,
		Summary: "Make, list, preview, explain, run and change digests",
		Help: "news on a schedule; `list`, `create`, `preview`, `explain`, `run`, `pause`, `resume`, `edit`, `mute`, " +
			"`share`, `unshare`, `remove`, `unsubscribe`",
		// The answer is the plan of a digest that is posted to the channel, and an administrator may decide about it, too.
		PublicActions: []string{createWord},
		Options: []chat.CommandOption{
			{
				Name:     "action",
				Summary:  "What to do",
				Required: true,
				Choices: []string{"list", "preview", "explain", "run", "create", "pause", "resume", "edit", "mute", "share",
					"unshare", "remove", "unsubscribe"},
			},
			{Name: optionName, Summary: "The digest's name, but for list and create", Complete: true},
			{
				Name:    "more",
				Summary: "For edit: style titles; for create: weekdays at 9 https://example.org/feed",
			},
		},
	}}
}

// Buttons returns those below a plan and below a digest.
func (*Service) Buttons() []feature.Button {
	const who = "the person who asked for the digest, or an administrator"
	return []feature.Button{
		{Word: pressYes, Who: who, Does: "makes a digest that was proposed"},
		{Word: pressNo, Who: who, Does: "drops a digest that was proposed"},
	}
}

// Complete returns the digests, feeds or time zones that fit what somebody types.
func (s *Service) Complete(ctx context.Context, at chat.Address, command, option, typed string) []string {
	switch {
	case command == commandName && option == optionName:
		return matchNames(s.Names(at), typed)
	case option == optionFeed:
		return matchNames(s.completableFeeds(ctx, at), typed)
	case option == optionZone:
		return matchNames(schedule.ZoneNames(), typed)
	}
	return nil
}

// completableFeeds returns the feeds that may be named in a conversation: those that the operator names and that the
// conversation follows. A feed with a query or a password may hold a secret of the operator's, and is left out.
func (s *Service) completableFeeds(ctx context.Context, at chat.Address) []string {
	var feeds []string
	for _, f := range s.FeedURLs() {
		if u, err := url.Parse(f); err == nil && u.RawQuery == "" && u.User == nil {
			feeds = append(feeds, f)
		}
	}
	list, err := s.o.Store.Subscriptions(ctx)
	if err != nil {
		s.o.Log.Warn("failed to read subscriptions for completion", "error", err)
	}
	for _, sub := range list {
		if sub.To.Base() == at.Base() && !slices.Contains(feeds, sub.URL) {
			feeds = append(feeds, sub.URL)
		}
	}
	return feeds
}

// matchNames returns the names that contain what was typed; those that begin with it, or have a part that does, first.
func matchNames(names []string, typed string) []string {
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
