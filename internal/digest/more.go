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

// posted is a run that posted something, and of which digest.
type posted struct {
	spec
	past
}

// postedHere gives what digests posted where something was said: in the thread of a
// post only that, else all of the channel, newest first.
func (s *Service) postedHere(ctx context.Context, at chat.Address) ([]posted, error) {
	var list []posted
	for _, d := range s.all() {
		if !d.here(at) {
			continue
		}
		runs, err := s.pasts(ctx, d.Name)
		if err != nil {
			return nil, err
		}
		for _, p := range runs {
			list = append(list, posted{d, p})
		}
	}
	slices.SortStableFunc(list, func(a, b posted) int { return b.Due.Compare(a.Due) })
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
				return []posted{p}, nil
			}
		}
	}
	return list, nil
}

// Follows reports whether a message asks for more in a thread below a digest, where
// nobody has to be mentioned.
func (s *Service) Follows(m chat.Message) bool { return m.Conversation.Thread != "" && s.asksMore(m) }

// more tells an entry of the digest that was last posted where it is asked.
func (s *Service) more(ctx context.Context, m chat.Message) chat.Draft {
	n, _ := strconv.Atoi(moreOn.FindStringSubmatch(m.Text)[1]) // digits
	list, err := s.postedHere(ctx, m.Conversation)
	if err != nil {
		s.o.Log.Error("entry of a digest not read", "conversation", m.Conversation.String(), "error", err)
		return refuse("That could not be looked up; the bot's log has the reason.")
	}
	if len(list) == 0 {
		return refuse("No digest was posted here yet, or it is forgotten.")
	}
	for _, e := range list[0].Entries {
		if e.N == n {
			return s.told(ctx, list[0].spec, e)
		}
	}
	return refuse(fmt.Sprintf("The last digest here, **%s** of %s, has %d entries.", escape(list[0].title), list[0].Due.In(list[0].zone).Format("2 Jan 15:04"), len(list[0].Entries)))
}

// told is an entry in full.
func (s *Service) told(ctx context.Context, d spec, e entry) chat.Draft {
	text := e.Text
	if s.o.Pages != nil {
		limited, cancel := context.WithTimeout(ctx, pageTimeout)
		defer cancel()
		if page, err := s.o.Pages.Article(limited, e.Link); err == nil && len(page) > len(text) && about(e.Title, page) {
			text = strings.ToValidUTF8(page[:min(len(page), mostPage)], "")
		}
	}
	c := e.card(shorten(strings.Join(summary.Summarize(e.Title, text, moreSentences), " "), moreLength))
	for _, a := range e.Also {
		c.Also = append(c.Also, chat.Link{Title: a.Source, URL: a.Link})
	}
	return chat.Draft{Text: fmt.Sprintf("Entry %d of **%s**", e.N, escape(d.title)), Cards: []chat.Card{c}}
}

// unmerged shows what was put together with the entries of a run, and has it count as
// stories of its own from now on.
func (s *Service) unmerged(ctx context.Context, m chat.Message, turn string) chat.Draft {
	list, err := s.postedHere(ctx, m.Conversation.Base())
	if err != nil {
		s.o.Log.Error("merged items not read", "conversation", m.Conversation.String(), "error", err)
		return refuse("That could not be looked up; the bot's log has the reason.")
	}
	at := slices.IndexFunc(list, func(p posted) bool { return p.Turn == turn })
	if at < 0 {
		return refuse("This post is too long ago to be taken apart.")
	}
	return s.apart(ctx, list[at].spec, list[at].past, 0)
}

// apart shows what was put together with entry n; 0: with any.
func (s *Service) apart(ctx context.Context, d spec, p past, n int) chat.Draft {
	var cards []chat.Card
	for _, e := range p.Entries {
		if n != 0 && e.N != n {
			continue
		}
		for _, a := range e.Also {
			cards = append(cards, a.card(shorten(strings.Join(summary.Summarize(a.Title, a.Text, cardSentences), " "), cardLength)))
		}
	}
	for _, a := range p.Aside {
		if n == 0 {
			cards = append(cards, a.card(shorten("Put together with “"+a.With+"”, which was posted before. "+a.Text, cardLength)))
		}
	}
	if len(cards) == 0 {
		return refuse("Nothing was put together there.")
	}
	p.Apart = true
	if err := s.save(ctx, pastKind+d.Name, p.Due.UTC().Format(time.RFC3339Nano), p); err != nil {
		s.o.Log.Error("what was taken apart is not remembered", "digest", d.Name, "error", err)
	}
	return chat.Draft{Text: "Put together in **" + escape(d.title) + "**, and on their own from now on:", Cards: cards}
}

// unsubscribed ends the subscription of a channel to a feed, named by its address or
// its title.
func (s *Service) unsubscribed(ctx context.Context, m chat.Message, which string) (string, error) {
	subs, err := s.subscriptions(ctx, m.Conversation)
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

// subscriptions are those of a channel.
func (s *Service) subscriptions(ctx context.Context, at chat.Address) ([]store.Subscription, error) {
	all, err := s.o.Store.Subscriptions(ctx)
	return slices.DeleteFunc(all, func(sub store.Subscription) bool { return sub.To.Base() != at.Base() }), err
}
