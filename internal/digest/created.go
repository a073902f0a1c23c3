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
	createdKind  = "digest"
	pauseKind    = "digest pause"
	proposalKind = "digest wish"

	// maxCreated is how many digests are kept beside those of the configuration, and
	// mostHere how many of them are posted to one channel.
	maxCreated    = 200
	maxPerChannel = 20
	// minGap is how often a digest that was made in chat may be due.
	minGap = 15 * time.Minute
)

// pause says whether a digest pauses, and since when that holds.
type pause struct {
	Paused bool      `json:"paused"`
	Since  time.Time `json:"since"`
}

// Load reads what was made before, and what pauses. A digest that can no longer be
// carried out is logged and left out.
func (s *Service) Load(ctx context.Context) error {
	made, err := loadItems[Plan](ctx, s.o.Store, createdKind)
	if err != nil {
		return err
	}
	paused, err := loadItems[pause](ctx, s.o.Store, pauseKind)
	if err != nil {
		return err
	}
	wishes, err := loadItems[proposal](ctx, s.o.Store, proposalKind)
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
	s.created, s.pauses, s.proposals = specs, paused, wishes
	s.mu.Unlock()
	s.notifyChange()
	return nil
}

// loadItems reads all of a kind.
func loadItems[T any](ctx context.Context, from Items, kind string) (map[string]T, error) {
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
	d, err := s.validateNew(p)
	if err != nil {
		return Info{}, err
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return Info{}, err
	}
	err = s.o.Store.SaveItem(ctx, createdKind, p.Name, raw, false)
	if errors.Is(err, store.ErrExists) {
		return Info{}, ErrExists
	} else if err != nil {
		return Info{}, err
	}
	s.mu.Lock()
	s.created[p.Name] = d
	s.mu.Unlock()
	s.o.Log.Info("digest made", "digest", p.Name, "source", p.Source, "by", p.By.ID, "schedule", p.Schedule)
	s.notifyChange()
	s.markCurrentItems(ctx, d)
	return s.info(ctx, d)
}

// markCurrentItems takes what the feeds of a digest hold for known, where that posts what comes
// from now on.
func (s *Service) markCurrentItems(ctx context.Context, d spec) {
	if !d.isInstant() {
		return
	}
	if err := s.pollDigest(ctx, d); err != nil {
		s.o.Log.Warn("first look at a digest failed; what is there at the next is taken as known", "digest", d.Name, "error", err)
	}
}

// validateNew judges a plan that is to be kept.
func (s *Service) validateNew(p Plan) (spec, error) {
	if err := checkLimits(p); err != nil {
		return spec{}, BadPlan{err}
	}
	d, err := compile(p)
	if err != nil {
		return d, BadPlan{err}
	}
	if p.Source == FromChat {
		if err := d.checkFrequency(s.o.Now()); err != nil {
			return d, BadPlan{err}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.findLocked(p.Name); taken {
		return d, ErrExists
	}
	here := 0
	for _, other := range s.created {
		if other.post[0].Base() == d.post[0].Base() {
			here++
		}
	}
	if len(s.created) >= maxCreated || here >= maxPerChannel {
		return d, BadPlan{fmt.Errorf("there are too many digests already: %d are kept, %d of one channel", maxCreated, maxPerChannel)}
	}
	return d, nil
}

// checkFrequency judges how often a digest is due.
func (d spec) checkFrequency(now time.Time) error {
	if d.isInstant() {
		return nil
	}
	last, ok := d.when.Next(now)
	for range 10 {
		next, more := d.when.Next(last)
		if !ok || !more {
			break
		}
		if next.Sub(last) < minGap {
			return fmt.Errorf("schedule: %q is due more often than every %d minutes; on-new posts items as they come", d.Schedule, int(minGap.Minutes()))
		}
		last = next
	}
	if !ok {
		return fmt.Errorf("schedule: %q is never due", d.Schedule)
	}
	return nil
}

// findChangeable returns a digest that was not made in the configuration.
func (s *Service) findChangeable(name string) (spec, error) {
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
	d, err := s.findChangeable(name)
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
	if err := checkLimits(p); err != nil {
		return Info{}, BadPlan{err}
	}
	now, err := compile(p)
	if err == nil && p.Source == FromChat {
		err = now.checkFrequency(s.o.Now())
	}
	if err != nil {
		return Info{}, BadPlan{err}
	}
	if err := s.saveItem(ctx, createdKind, name, p); err != nil {
		return Info{}, err
	}
	s.mu.Lock()
	s.created[name] = now
	s.mu.Unlock()
	s.notifyChange()
	now, _ = s.find(name)
	return s.info(ctx, now)
}

// Replace returns a digest that was made in chat or through the API another plan. Who
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
	if _, err := s.findChangeable(name); err != nil {
		return err
	}
	if err := s.o.Store.DeleteItem(ctx, createdKind, name); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if err := s.o.Store.DeleteItem(ctx, pauseKind, name); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if err := s.deleteFailures(ctx, name); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.created, name)
	delete(s.pauses, name)
	s.mu.Unlock()
	s.o.Log.Info("digest removed", "digest", name)
	s.notifyChange()
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
	if err := s.saveItem(ctx, pauseKind, name, p); err != nil {
		return err
	}
	s.mu.Lock()
	s.pauses[name] = p
	s.mu.Unlock()
	s.notifyChange()
	return nil
}

// isVisible reports whether a digest is shown to whoever sent a message: those of the
// configuration are, others where they are posted, to who made them and to
// administrators.
func (d spec) isVisible(m chat.Message) bool {
	return d.Source == FromConfig || d.postsTo(m.Conversation) || d.canBeManaged(m)
}

func (d spec) postsTo(at chat.Address) bool {
	for _, to := range d.post {
		if to.Base() == at.Base() {
			return true
		}
	}
	return false
}

// canBeManaged reports whether whoever sent a message decides about a digest: an
// administrator, or who made it.
func (d spec) canBeManaged(m chat.Message) bool {
	return m.Author.Admin || d.By.ID != "" && d.By.ID == m.Author.ID && d.On == m.Conversation.Platform
}

// maxSlug is about how long a name is that was made of words, in bytes.
const maxSlug = 28

// slug makes a name of words, such as the title of a feed.
func slug(words string) string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(strings.ToLower(words), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if b.Len() > 0 && b.Len()+len(word) >= maxSlug {
			break
		}
		if b.Len() > 0 {
			b.WriteByte('-')
		}
		b.WriteString(string([]rune(word)[:min(utf8.RuneCountInString(word), maxSlug)]))
	}
	return cmp.Or(b.String(), "digest")
}
