package digest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/summary"
)

// moreSentences and moreLength (in characters) bound the text of an entry that somebody asks about.
const (
	moreSentences = 8
	moreLength    = 1500
)

// postedRun is what a run posted, with its digest.
type postedRun struct {
	spec
	pastRun
}

// runsPostedTo returns what digests posted to a channel, newest first. In the thread below a
// digest's post it returns only that run.
func (s *Service) runsPostedTo(ctx context.Context, at chat.Address) ([]postedRun, error) {
	var list []postedRun
	for _, d := range s.specs() {
		if !d.postsTo(at) {
			continue
		}
		runs, err := s.pastRuns(ctx, d.Name)
		if err != nil {
			return nil, err
		}
		for _, p := range runs {
			list = append(list, postedRun{d, p})
		}
	}
	slices.SortStableFunc(list, func(a, b postedRun) int { return b.Due.Compare(a.Due) })
	if at.Thread == "" {
		return list, nil
	}
	// A thread begins with the message that it hangs below, so its id is one of the post's.
	for _, p := range list {
		for _, to := range p.post {
			ref, found, err := s.o.Store.PostRef(ctx, postKey(p.Name, p.Due, to))
			if err != nil {
				return nil, err
			}
			if found && to.Base() == at.Base() && slices.Contains(ref.IDs, at.Thread) {
				return []postedRun{p}, nil
			}
		}
	}
	return list, nil
}

// Follows reports whether a message asks for more in a thread, where the bot need not be mentioned.
func (s *Service) Follows(m chat.Message) bool {
	return m.Conversation.Thread != "" && s.isMoreRequest(m)
}

// answerMore answers "more on 3" with an entry of the newest digest in that place.
func (s *Service) answerMore(ctx context.Context, m chat.Message) chat.Draft {
	n, _ := strconv.Atoi(moreRequest().FindStringSubmatch(m.Text)[1]) // digits
	list, err := s.runsPostedTo(ctx, m.Conversation)
	if err != nil {
		s.o.Log.Error("digest entry not read", "conversation", m.Conversation.String(), "error", err)
		return refusalDraft("I could not look that up. The reason is in the bot's log.")
	}
	if len(list) == 0 {
		return refusalDraft("I know of no recent digest here.")
	}
	for _, e := range list[0].Entries {
		if e.N == n {
			return s.entryDraft(ctx, list[0].spec, e)
		}
	}
	return refusalDraft(fmt.Sprintf("The last digest here, **%s** of %s, has %d entries.",
		escape(list[0].title), list[0].Due.In(list[0].zone).Format("2 Jan 15:04"), len(list[0].Entries)))
}

// entryDraft returns an entry with a longer text, of its page where that can be read.
func (s *Service) entryDraft(ctx context.Context, d spec, e pastEntry) chat.Draft {
	text := e.Text
	if s.o.Pages != nil {
		limited, cancel := context.WithTimeout(ctx, pageTimeout)
		defer cancel()
		page, err := s.o.Pages.Article(limited, e.Link)
		if err == nil && len(page) > len(text) && mentionsTitle(e.Title, page) {
			text = strings.ToValidUTF8(page[:min(len(page), maxPageBytes)], "")
		}
	}
	c := e.card(shorten(strings.Join(summary.Summarize(e.Title, text, moreSentences), " "), moreLength))
	for _, a := range e.Also {
		c.Also = append(c.Also, chat.Link{Title: a.Source, URL: a.Link})
	}
	return chat.Draft{Text: fmt.Sprintf("Entry %d of **%s**", e.N, escape(d.title)), Cards: []chat.Card{c}}
}

// unsubscribeChannel ends the subscription of a channel to a feed, by the feed's address or
// title. It returns ErrUnknown where the channel has no such subscription.
func (s *Service) unsubscribeChannel(ctx context.Context, m chat.Message, which string) (string, error) {
	subs, err := s.channelSubscriptions(ctx, m.Conversation)
	if err != nil {
		return "", err
	}
	for _, sub := range subs {
		if sub.URL == which || strings.EqualFold(sub.Title, which) {
			if err := s.Unsubscribe(ctx, sub.To, sub.URL); err != nil && !errors.Is(err, store.ErrNotFound) {
				return "", err
			}
			return "New items of **" + escape(sub.Title) + "** are no longer posted here.", nil
		}
	}
	return "", ErrUnknown
}

// channelSubscriptions returns the subscriptions of a channel.
func (s *Service) channelSubscriptions(ctx context.Context, at chat.Address) ([]store.Subscription, error) {
	all, err := s.o.Store.Subscriptions(ctx)
	return slices.DeleteFunc(all, func(sub store.Subscription) bool { return sub.To.Base() != at.Base() }), err
}
