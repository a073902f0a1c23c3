package digest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/summary"
)

// moreSentences is how much is told of an entry that somebody asks about, moreLength
// bounds it in characters.
const (
	moreSentences = 8
	moreLength    = 1500
)

// postedRun is a run that posted something, and of which digest.
type postedRun struct {
	spec
	pastRun
}

// runsPostedTo returns what digests posted where something was said: in the thread of a
// post only that, else all of the channel, newest first.
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

// Follows reports whether a message asks for more in a thread below a digest, where
// nobody has to be mentioned.
func (s *Service) Follows(m chat.Message) bool {
	return m.Conversation.Thread != "" && s.isMoreRequest(m)
}

// answerMore tells an entry of the digest that was last posted where it is asked.
func (s *Service) answerMore(ctx context.Context, m chat.Message) chat.Draft {
	n, _ := strconv.Atoi(moreRequest.FindStringSubmatch(m.Text)[1]) // digits
	list, err := s.runsPostedTo(ctx, m.Conversation)
	if err != nil {
		s.o.Log.Error("entry of a digest not read", "conversation", m.Conversation.String(), "error", err)
		return refusalDraft("That could not be looked up; the bot's log has the reason.")
	}
	if len(list) == 0 {
		return refusalDraft("No digest was posted here yet, or it is forgotten.")
	}
	for _, e := range list[0].Entries {
		if e.N == n {
			return s.entryDraft(ctx, list[0].spec, e)
		}
	}
	return refusalDraft(fmt.Sprintf("The last digest here, **%s** of %s, has %d entries.", escapeMarkdown(list[0].title), list[0].Due.In(list[0].zone).Format("2 Jan 15:04"), len(list[0].Entries)))
}

// entryDraft is an entry in full.
func (s *Service) entryDraft(ctx context.Context, d spec, e pastEntry) chat.Draft {
	text := e.Text
	if s.o.Pages != nil {
		limited, cancel := context.WithTimeout(ctx, pageTimeout)
		defer cancel()
		if page, err := s.o.Pages.Article(limited, e.Link); err == nil && len(page) > len(text) && mentionsTitle(e.Title, page) {
			text = strings.ToValidUTF8(page[:min(len(page), maxPageBytes)], "")
		}
	}
	c := e.card(shorten(strings.Join(summary.Summarize(e.Title, text, moreSentences), " "), moreLength))
	for _, a := range e.Also {
		c.Also = append(c.Also, chat.Link{Title: a.Source, URL: a.Link})
	}
	return chat.Draft{Text: fmt.Sprintf("Entry %d of **%s**", e.N, escapeMarkdown(d.title)), Cards: []chat.Card{c}}
}

// unmergeTurn shows what was put together with the entries of a run, and has it count as
// stories of its own from now on.
func (s *Service) unmergeTurn(ctx context.Context, m chat.Message, turn string) chat.Draft {
	list, err := s.runsPostedTo(ctx, m.Conversation.Base())
	if err != nil {
		s.o.Log.Error("merged items not read", "conversation", m.Conversation.String(), "error", err)
		return refusalDraft("That could not be looked up; the bot's log has the reason.")
	}
	at := slices.IndexFunc(list, func(p postedRun) bool { return p.Turn == turn })
	if at < 0 {
		return refusalDraft("This post is too long ago to be taken apart.")
	}
	return s.unmergeEntries(ctx, list[at].spec, list[at].pastRun, 0)
}

// unmergeEntries shows what was put together with entry n; 0: with any.
func (s *Service) unmergeEntries(ctx context.Context, d spec, p pastRun, n int) chat.Draft {
	var cards []chat.Card
	for _, e := range p.Entries {
		if n != 0 && e.N != n {
			continue
		}
		for _, a := range e.Also {
			cards = append(cards, a.card(shorten(strings.Join(summary.Summarize(a.Title, a.Text, cardSentences), " "), cardLength)))
		}
	}
	for _, a := range p.Repeats {
		if n == 0 {
			cards = append(cards, a.card(shorten("Put together with “"+a.MergedInto+"”, which was posted before. "+a.Text, cardLength)))
		}
	}
	if len(cards) == 0 {
		return refusalDraft("Nothing was put together there.")
	}
	p.Unmerged = true
	if err := s.saveItem(ctx, pastRunKind+d.Name, p.Due.UTC().Format(time.RFC3339Nano), p); err != nil {
		s.o.Log.Error("what was taken apart is not remembered", "digest", d.Name, "error", err)
	}
	return chat.Draft{Text: "Put together in **" + escapeMarkdown(d.title) + "**, and on their own from now on:", Cards: cards}
}

// unsubscribeChannel ends the subscription of a channel to a feed, named by its address or
// its title.
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
			return "New items of **" + escapeMarkdown(sub.Title) + "** are no longer posted here.", nil
		}
	}
	return "", ErrUnknown
}

// channelSubscriptions are those of a channel.
func (s *Service) channelSubscriptions(ctx context.Context, at chat.Address) ([]store.Subscription, error) {
	all, err := s.o.Store.Subscriptions(ctx)
	return slices.DeleteFunc(all, func(sub store.Subscription) bool { return sub.To.Base() != at.Base() }), err
}
