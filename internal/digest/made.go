package digest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"ravenbot/internal/chat"
	"ravenbot/internal/feed"
	"ravenbot/internal/store"
)

// The kinds of items by which digests made in chat or through the API are kept, and
// which digests pause, those of the configuration too.
const (
	madeKind  = "digest"
	pauseKind = "digest pause"
	wishKind  = "digest wish"

	// mostMade is how many digests are kept beside those of the configuration, and
	// mostHere how many of them are posted to one channel.
	mostMade = 200
	mostHere = 20
	// leastGap is how often a digest that was made in chat may be due.
	leastGap = 15 * time.Minute
)

// pause says whether a digest pauses, and since when that holds.
type pause struct {
	Paused bool      `json:"paused"`
	Since  time.Time `json:"since"`
}

// Load reads what was made before, and what pauses. A digest that can no longer be
// carried out is logged and left out.
func (s *Service) Load(ctx context.Context) error {
	made, err := items[Plan](ctx, s.o.Store, madeKind)
	if err != nil {
		return err
	}
	paused, err := items[pause](ctx, s.o.Store, pauseKind)
	if err != nil {
		return err
	}
	wishes, err := items[wish](ctx, s.o.Store, wishKind)
	if err != nil {
		return err
	}
	specs := map[string]spec{}
	for name, p := range made {
		d, err := compile(p)
		if err != nil {
			s.o.Log.Error("digest that was made in chat or through the API left out", "digest", name, "error", err)
			continue
		}
		specs[name] = d
	}
	s.mu.Lock()
	s.made, s.paused, s.wishes = specs, paused, wishes
	s.mu.Unlock()
	s.changed()
	return nil
}

// items reads all of a kind.
func items[T any](ctx context.Context, from Items, kind string) (map[string]T, error) {
	raw, err := from.Items(ctx, kind)
	if err != nil {
		return nil, err
	}
	all := map[string]T{}
	for name, data := range raw {
		var v T
		if err := json.Unmarshal(data, &v); err != nil {
			return nil, fmt.Errorf("read %s %q: %w", kind, name, err)
		}
		all[name] = v
	}
	return all, nil
}

// Create keeps a digest and has it run from now on. The errors are BadPlan and
// ErrExists.
func (s *Service) Create(ctx context.Context, p Plan) (Info, error) {
	p.At = s.o.Now().UTC()
	d, err := s.accept(p)
	if err != nil {
		return Info{}, err
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return Info{}, err
	}
	err = s.o.Store.SaveItem(ctx, madeKind, p.Name, raw, false)
	if errors.Is(err, store.ErrExists) {
		return Info{}, ErrExists
	} else if err != nil {
		return Info{}, err
	}
	s.mu.Lock()
	s.made[p.Name] = d
	s.mu.Unlock()
	s.o.Log.Info("digest made", "digest", p.Name, "source", p.Source, "by", p.By.ID, "schedule", p.Schedule)
	s.changed()
	s.begin(ctx, d)
	return s.info(ctx, d)
}

// begin takes what the feeds of a digest hold for known, where that posts what comes
// from now on.
func (s *Service) begin(ctx context.Context, d spec) {
	if !d.instant() {
		return
	}
	if err := s.look(ctx, d); err != nil {
		s.o.Log.Warn("first look at a digest failed; what is there at the next is taken as known", "digest", d.Name, "error", err)
	}
}

// accept judges a plan that is to be kept.
func (s *Service) accept(p Plan) (spec, error) {
	if err := modest(p); err != nil {
		return spec{}, BadPlan{err}
	}
	d, err := compile(p)
	if err != nil {
		return d, BadPlan{err}
	}
	if p.Source == FromChat {
		if err := d.seldom(s.o.Now()); err != nil {
			return d, BadPlan{err}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.findLocked(p.Name); taken {
		return d, ErrExists
	}
	here := 0
	for _, other := range s.made {
		if other.post[0].Base() == d.post[0].Base() {
			here++
		}
	}
	if len(s.made) >= mostMade || here >= mostHere {
		return d, BadPlan{fmt.Errorf("there are too many digests already: %d are kept, %d of one channel", mostMade, mostHere)}
	}
	return d, nil
}

// seldom judges how often a digest is due.
func (d spec) seldom(now time.Time) error {
	if d.instant() {
		return nil
	}
	last, ok := d.when.Next(now)
	for range 10 {
		next, more := d.when.Next(last)
		if !ok || !more {
			break
		}
		if next.Sub(last) < leastGap {
			return fmt.Errorf("schedule: %q is due more often than every %d minutes; on-new posts items as they come", d.Schedule, int(leastGap.Minutes()))
		}
		last = next
	}
	if !ok {
		return fmt.Errorf("schedule: %q is never due", d.Schedule)
	}
	return nil
}

// changeable gives a digest that was not made in the configuration.
func (s *Service) changeable(name string) (spec, error) {
	d, ok := s.find(name)
	switch {
	case !ok:
		return d, ErrUnknown
	case d.Source == FromConfig:
		return d, ErrConfigured
	}
	return d, nil
}

// Change replaces the plan of a digest that was made in chat or through the API.
func (s *Service) Change(ctx context.Context, name string, change func(*Plan) error) (Info, error) {
	d, err := s.changeable(name)
	if err != nil {
		return Info{}, err
	}
	p := d.Plan
	p.Feeds = slices.Clone(p.Feeds)
	p.Paused = false // that is kept beside
	if err := change(&p); err != nil {
		return Info{}, BadPlan{err}
	}
	p.Name, p.Source, p.At = d.Name, d.Source, s.o.Now().UTC()
	if err := modest(p); err != nil {
		return Info{}, BadPlan{err}
	}
	now, err := compile(p)
	if err == nil && p.Source == FromChat {
		err = now.seldom(s.o.Now())
	}
	if err != nil {
		return Info{}, BadPlan{err}
	}
	if err := s.save(ctx, madeKind, name, p); err != nil {
		return Info{}, err
	}
	s.mu.Lock()
	s.made[name] = now
	s.mu.Unlock()
	s.changed()
	now, _ = s.find(name)
	return s.info(ctx, now)
}

// Replace gives a digest that was made in chat or through the API another plan. Who
// made it stays.
func (s *Service) Replace(ctx context.Context, name string, p Plan) (Info, error) {
	return s.Change(ctx, name, func(was *Plan) error {
		p.By, p.On = was.By, was.On
		*was = p
		return nil
	})
}

// AddFeeds has a digest that was made in chat or through the API read more feeds; how
// many of them it did not read before comes with it.
func (s *Service) AddFeeds(ctx context.Context, name string, addresses []string) (Info, int, error) {
	added := 0
	i, err := s.Change(ctx, name, func(p *Plan) error {
		known := map[string]bool{}
		for _, f := range p.Feeds {
			known[feed.CanonicalURL(f.URL)] = true
		}
		for _, a := range addresses {
			if key := feed.CanonicalURL(a); !known[key] {
				known[key] = true
				p.Feeds = append(p.Feeds, Feed{URL: a})
				added++
			}
		}
		return nil
	})
	return i, added, err
}

// Remove ends a digest that was made in chat or through the API. What it has posted
// and seen is still known should one of its name be made again.
func (s *Service) Remove(ctx context.Context, name string) error {
	if _, err := s.changeable(name); err != nil {
		return err
	}
	if err := s.o.Store.DeleteItem(ctx, madeKind, name); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if err := s.o.Store.DeleteItem(ctx, pauseKind, name); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if err := s.forgetTroubles(ctx, name); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.made, name)
	delete(s.paused, name)
	s.mu.Unlock()
	s.o.Log.Info("digest removed", "digest", name)
	s.changed()
	return nil
}

// Pause lets no run of a digest begin until it is resumed; what was due meanwhile is
// not made good. Pausing what pauses changes nothing.
func (s *Service) Pause(ctx context.Context, name string, on bool) error {
	d, ok := s.find(name)
	if !ok {
		return ErrUnknown
	}
	if d.Paused == on {
		return nil
	}
	p := pause{on, s.o.Now().UTC()}
	if err := s.save(ctx, pauseKind, name, p); err != nil {
		return err
	}
	s.mu.Lock()
	s.paused[name] = p
	s.mu.Unlock()
	s.changed()
	return nil
}

// visible reports whether a digest is shown to whoever sent a message: those of the
// configuration are, others where they are posted, to who made them and to
// administrators.
func (d spec) visible(m chat.Message) bool {
	return d.Source == FromConfig || d.here(m.Conversation) || d.governs(m)
}

func (d spec) here(at chat.Address) bool {
	for _, to := range d.post {
		if to.Base() == at.Base() {
			return true
		}
	}
	return false
}

// governs reports whether whoever sent a message decides about a digest: an
// administrator, or who made it.
func (d spec) governs(m chat.Message) bool {
	return m.Author.Admin || d.By.ID != "" && d.By.ID == m.Author.ID && d.On == m.Conversation.Platform
}

// slugLength is about how long a name is that was made of words, in bytes.
const slugLength = 28

// slug makes a name of words, such as the title of a feed.
func slug(words string) string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(strings.ToLower(words), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if b.Len() > 0 && b.Len()+len(word) >= slugLength {
			break
		}
		if b.Len() > 0 {
			b.WriteByte('-')
		}
		b.WriteString(string([]rune(word)[:min(utf8.RuneCountInString(word), slugLength)]))
	}
	return cmp.Or(b.String(), "digest")
}
