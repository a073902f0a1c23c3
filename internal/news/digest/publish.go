package digest

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

const (
	publishKind = "digest page" // items are named after digests
	// maxPublished is how many runs a published digest shows.
	maxPublished = 30
)

// publishRecord is a digest that can be read at a private address.
type publishRecord struct {
	Token string    `json:"token"`
	At    time.Time `json:"at"`
	// Source is where the digest comes from; empty: the record is older than this field.
	Source string `json:"source,omitempty"`
}

// Publication is a digest as its private address shows it.
type Publication struct {
	Name  string
	Title string
	Posts []PublishedPost // newest first
}

// PublishedPost is what one run posted.
type PublishedPost struct {
	ID    string // of the run
	Due   time.Time
	Title string
	Draft chat.Draft
}

// Publish lets whoever has the token that it returns read a digest. A digest that can be read already keeps its token.
// It returns ErrUnknown where there is no such digest, and a BadPlan for a task, which keeps no entries.
func (s *Service) Publish(ctx context.Context, name string) (string, error) {
	d, ok := s.find(name)
	switch {
	case !ok:
		return "", ErrUnknown
	case d.isTask():
		return "", BadPlan{errors.New("a task has no entries to show on a page")}
	}
	r, found, err := loadItem[publishRecord](ctx, s, publishKind, name, "the page of digest")
	if err != nil || found && d.has(r.Source) {
		return r.Token, err
	}
	r = publishRecord{Token: strings.ToLower(rand.Text()), At: s.o.Now().UTC(), Source: d.Source}
	if err := s.saveItem(ctx, publishKind, name, r); err != nil {
		return "", err
	}
	s.o.Log.Info("digest published", "digest", name)
	return r.Token, nil
}

// Unpublish revokes the token of a digest. It returns ErrUnknown where there is none.
func (s *Service) Unpublish(ctx context.Context, name string) error {
	err := s.o.Store.DeleteItem(ctx, publishKind, name)
	if errors.Is(err, store.ErrNotFound) {
		return ErrUnknown
	}
	return err
}

// Published returns the digest that a token stands for, or false.
func (s *Service) Published(ctx context.Context, token string) (Publication, bool, error) {
	all, err := loadItems[publishRecord](ctx, s, publishKind)
	if err != nil {
		return Publication{}, false, err
	}
	found := ""
	// All are compared, whichever it is: the time that it takes must not tell of the tokens.
	for name, r := range all {
		if subtle.ConstantTimeCompare([]byte(r.Token), []byte(token)) == 1 {
			found = name
		}
	}
	// A digest that was removed takes its page with it.
	d, ok := s.find(found)
	if !ok || !d.has(all[found].Source) {
		return Publication{}, false, nil
	}
	// From what is kept of the runs, not from posts: those may be edited or deleted where they were posted.
	runs, err := s.pastRuns(ctx, d)
	if err != nil {
		return Publication{}, false, err
	}
	p := Publication{Name: d.Name, Title: d.title}
	for _, run := range runs {
		if len(p.Posts) < maxPublished && len(run.Entries) > 0 {
			p.Posts = append(p.Posts, d.publishedPost(run))
		}
	}
	return p, true, nil
}

// publishedPost returns what a run posted, as far as it is kept: texts are cut to the length of cards.
func (d spec) publishedPost(run pastRun) PublishedPost {
	post := PublishedPost{ID: run.Turn, Due: run.Due,
		Title: d.title + ", " + run.Due.In(d.zone).Format("2 January 2006 15:04"),
		Draft: chat.Draft{Text: run.Summary, Footer: run.By}}
	for _, e := range run.Entries {
		c := e.card(cmp.Or(e.Said, shorten(e.Text, cardLength)))
		for _, a := range e.Also {
			if a.Link != e.Link {
				c.Also = append(c.Also, chat.Link{Title: a.Source, URL: a.Link})
			}
		}
		post.Draft.Cards = append(post.Draft.Cards, c)
	}
	return post
}

// shareCommand publishes a digest, or ends that.
func (s *Service) shareCommand(ctx context.Context, d spec, share bool) (string, error) {
	if !share {
		if err := s.Unpublish(ctx, d.Name); errors.Is(err, ErrUnknown) {
			return "The digest **" + escape(d.Name) + "** has no page.", nil
		} else if err != nil {
			return "", err
		}
		return "The page of the digest **" + escape(d.Name) + "** is gone; its address will not work again.", nil
	}
	token, err := s.Publish(ctx, d.Name)
	if err != nil {
		return "", err
	}
	address := s.o.PublicURL + PagePath(token)
	return fmt.Sprintf("Everybody with these addresses can read the digest **%s**:\n\n- page: %s\n- Atom feed: %s\n\n"+
		"`digest unshare %s` ends that.", escape(d.Name), address, address+FeedSuffix, d.Name), nil
}

// FeedSuffix is what the address of a published digest's feed has behind that of its page.
const FeedSuffix = "/feed.atom"

// PagePath returns the path of a published digest's page.
func PagePath(token string) string { return "/d/" + token }
