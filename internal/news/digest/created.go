package digest

import (
	"bytes"
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

	"ravenbot/internal/core/chat"
	"ravenbot/internal/news/feed"
	"ravenbot/internal/store"
)

// The kinds of stored items: digests made in chat or through the API, which digests are
// paused (those of the configuration, too), and open proposals.
const (
	createdKind  = "digest"
	pauseKind    = "digest pause"
	proposalKind = "digest wish"

	// maxCreated bounds the digests beside those of the configuration, maxPerChannel those of
	// them that are posted to one channel.
	maxCreated    = 200
	maxPerChannel = 20
	// minGap is the shortest time between two runs of a digest that was made in chat.
	minGap = 15 * time.Minute
)

// pause says whether a digest is paused, and since when it is or is not.
type pause struct {
	Paused bool      `json:"paused"`
	Since  time.Time `json:"since"` // runs that were due before are not caught up
	// Source is where the digest comes from; empty: the record is older than this field.
	Source string `json:"source,omitempty"`
}

// SharedKinds returns the kinds whose changes Reload takes up.
func (*Service) SharedKinds() []string {
	return []string{createdKind, pauseKind}
}

// Reload reads the digests made in chat or through the API, and the pauses. A digest that can no longer be carried out is
// logged and left out.
func (s *Service) Reload(ctx context.Context) error {
	if err := s.load(ctx); err != nil {
		return err
	}
	s.onChange()
	return nil
}

// load replaces in memory what is stored. With an error nothing is replaced.
func (s *Service) load(ctx context.Context) error {
	// Own changes hold this lock for reading. One that is stored after the items were read would otherwise be
	// replaced in memory by what was read before it.
	s.reloading.Lock()
	defer s.reloading.Unlock()
	made, err := s.o.Store.Items(ctx, createdKind)
	if err != nil {
		return err
	}
	paused, err := loadItems[pause](ctx, s, pauseKind)
	if err != nil {
		return err
	}
	specs := map[string]spec{}
	for name, raw := range made {
		d, err := s.compileStored(name, raw)
		if err != nil {
			return err
		}
		if d.raw != nil {
			specs[name] = d
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.created, s.pauses = specs, paused
	return nil
}

// CheckStored returns why a digest would not be read from the store, or nil.
func CheckStored(name string, raw json.RawMessage) error {
	var p Plan
	if err := json.Unmarshal(raw, &p); err != nil {
		return err
	}
	if p.Name != name {
		return fmt.Errorf("its value has the name %.80q, and the line has %.80q", p.Name, name)
	}
	_, err := compile(p)
	return err
}

// compileStored returns a digest that is stored; one without raw can no longer be carried out.
func (s *Service) compileStored(name string, raw json.RawMessage) (spec, error) {
	s.mu.Lock()
	known, ok := s.created[name]
	s.mu.Unlock()
	// Most have not changed when another process has changed one, and to read schedules takes a while.
	if ok && bytes.Equal(known.raw, raw) {
		return known, nil
	}
	var p Plan
	if err := json.Unmarshal(raw, &p); err != nil {
		return spec{}, fmt.Errorf("read %s %q: %w", createdKind, name, err)
	}
	d, err := compile(p)
	// One that an older version took must not keep the bot from starting, nor be deleted.
	if err != nil {
		s.o.Log.Error("stored digest is invalid; skipping it", "digest", name, "error", err)
		return spec{}, nil
	}
	d.raw = raw
	return d, nil
}

// loadItems returns all items of a kind, by name. One that cannot be read, as an import may bring it, is logged and
// left out: it must not keep the others from counting, nor the bot from starting.
func loadItems[T any](ctx context.Context, s *Service, kind string) (map[string]T, error) {
	raw, err := s.o.Store.Items(ctx, kind)
	if err != nil {
		return nil, err
	}
	all := map[string]T{}
	for name, data := range raw {
		var v T
		if err := json.Unmarshal(data, &v); err != nil {
			s.o.Log.Error("failed to read a stored record; skipping it", "kind", kind, "name", name, "error", err)
			continue
		}
		all[name] = v
	}
	return all, nil
}

// loadItem returns a stored item, or false if there is none. what names it in errors.
func loadItem[T any](ctx context.Context, s *Service, kind, name, what string) (v T, found bool, err error) {
	raw, err := s.o.Store.Item(ctx, kind, name)
	if errors.Is(err, store.ErrNotFound) {
		return v, false, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err != nil {
		return v, false, fmt.Errorf("read %s %s: %w", what, name, err)
	}
	return v, true, nil
}

// Create stores a digest, which runs from now on. It returns a BadPlan or ErrExists, or the error of the store. Of a
// digest that posts items as they come it reads the feeds once, which may take as long as pollTimeout.
func (s *Service) Create(ctx context.Context, p Plan) (Info, error) {
	p.At = s.o.Now().UTC()
	d, err := s.validateNew(p)
	if err != nil {
		return Info{}, err
	}
	if err := s.checkPlaces(ctx, d); err != nil {
		return Info{}, err
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return Info{}, err
	}
	d.raw = raw
	// The name may have been that of a digest of the configuration, or a crash may have cut off the removal of another:
	// the address of its page would show the posts of this one.
	if err := errors.Join(s.deleteTraces(ctx, d.Name), s.deletePause(ctx, d.Name)); err != nil {
		return Info{}, fmt.Errorf("create digest %s: delete the remains of an earlier one: %w", d.Name, err)
	}
	if err := s.saveNew(ctx, d); err != nil {
		return Info{}, err
	}
	s.o.Log.Info("digest created", "digest", p.Name, "source", p.Source, "by", p.By.ID, "schedule", p.Schedule)
	s.onChange()
	// Now and not at the first regular poll: what comes in between would be marked as seen and never posted.
	s.markCurrentItems(ctx, d)
	return s.infoOfStored(ctx, d), nil
}

// infoOfStored describes a digest that was stored just now. What cannot be read of it is missing: an error would say
// that it was not stored.
func (s *Service) infoOfStored(ctx context.Context, d spec) Info {
	i, err := s.info(ctx, d)
	if err != nil {
		s.o.Log.Error("failed to read the last run of a digest", "digest", d.Name, "error", err)
	}
	return i
}

// change changes the store and, if that worked, what is in memory; update is called with mu.
func (s *Service) change(store func() error, update func()) error {
	s.reloading.RLock()
	defer s.reloading.RUnlock()
	if err := store(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	update()
	return nil
}

// saveNew stores a digest, then takes it up. It returns ErrExists where another process has made one of the name.
func (s *Service) saveNew(ctx context.Context, d spec) error {
	return s.change(func() error {
		// validateNew has only seen the names that this process knows. Another process may have taken the name since.
		err := s.o.Store.SaveItem(ctx, createdKind, d.Name, d.raw, false)
		if errors.Is(err, store.ErrExists) {
			return ErrExists
		}
		return err
	}, func() { s.created[d.Name] = d })
}

// markCurrentItems marks what the feeds hold now as seen, for a digest that posts items as they come.
func (s *Service) markCurrentItems(ctx context.Context, d spec) {
	if !d.isInstant() {
		return
	}
	if err := s.pollDigest(ctx, d); err != nil {
		s.o.Log.Warn("first poll of a digest failed; the next one marks current items as seen",
			"digest", d.Name,
			"error", err)
	}
}

// validateNew reads a new plan and checks its limits. It returns a BadPlan or ErrExists.
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
	here, own := 0, 0
	// User ids are a platform's own, so only those of the same platform count.
	for _, other := range s.created {
		if other.Source == FromChat && other.By.ID == p.By.ID && other.On == p.On {
			own++
		}
		if other.post[0].Base() == d.post[0].Base() {
			here++
		}
	}
	// Whoever holds the admin token has no limits.
	if limit := s.maxPerUser(); p.Source == FromChat && !p.By.Operator && limit > 0 && own >= limit {
		return d, BadPlan{fmt.Errorf("you have made %d digests already, which is the limit for one person; "+
			"`/raven digest list` shows them, `remove` makes room", own)}
	}
	if len(s.created) >= maxCreated || here >= maxPerChannel {
		return d, BadPlan{fmt.Errorf("there are too many digests already: %d are kept, %d of one channel",
			maxCreated, maxPerChannel)}
	}
	return d, nil
}

// maxPerUser returns how many digests one person may have made in chat; 0: any number.
func (s *Service) maxPerUser() int {
	if s.o.Settings == nil {
		return 0
	}
	return s.o.Settings.MaxDigestsPerUser()
}

// checkFrequency returns an error where a digest is due too often or never.
func (d spec) checkFrequency(now time.Time) error {
	if d.isInstant() {
		return nil
	}
	// Ten steps cover the gaps of ordinary schedules.
	last, ok := d.when.Next(now)
	for range 10 {
		next, more := d.when.Next(last)
		if !ok || !more {
			break
		}
		if next.Sub(last) < minGap {
			return fmt.Errorf("schedule: %q is due more often than every %d minutes; on-new posts items as they come",
				d.Schedule, int(minGap.Minutes()))
		}
		last = next
	}
	if !ok {
		return fmt.Errorf("schedule: %q is never due", d.Schedule)
	}
	return nil
}

// findChangeable returns a digest that was made in chat or through the API. It returns
// ErrUnknown where there is none, and ErrConfigured for one of the configuration.
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

// Change changes the plan of a digest that was made in chat or through the API. It returns a BadPlan, also for an error
// of change, ErrUnknown or ErrConfigured. change may be called twice, each time with a copy of the plan as it is then.
func (s *Service) Change(ctx context.Context, name string, change func(*Plan) error) (Info, error) {
	d, err := s.tryChange(ctx, name, change)
	if errors.Is(err, errChanged) { // once more, with what it is now
		if err = s.load(ctx); err == nil {
			d, err = s.tryChange(ctx, name, change)
		}
	}
	if err != nil {
		return Info{}, err
	}
	s.onChange()
	return s.infoOfStored(ctx, d), nil
}

// errChanged is the error where the store has another digest than this process: another process has changed it.
var errChanged = errors.New("the digest was changed by somebody else")

// tryChange changes the plan of a digest as it is known here.
func (s *Service) tryChange(ctx context.Context, name string, change func(*Plan) error) (spec, error) {
	d, err := s.findChangeable(name)
	if err != nil {
		return d, err
	}
	// change works on a copy: a plan that turns out wrong must not touch the one in use.
	p := d.Plan
	p.Feeds, p.Channels = slices.Clone(p.Feeds), slices.Clone(p.Channels)
	p.Paused = false // pauses are stored apart
	if err := change(&p); err != nil {
		return d, BadPlan{err}
	}
	// A new time in At keeps lastDue from catching up runs of the old schedule.
	p.Name, p.Source, p.At = d.Name, d.Source, s.o.Now().UTC()
	if err := checkLimits(p); err != nil {
		return d, BadPlan{err}
	}
	now, err := compile(p)
	if err == nil && p.Source == FromChat {
		err = now.checkFrequency(s.o.Now())
	}
	if err != nil {
		return d, BadPlan{err}
	}
	if err := s.checkPlaces(ctx, now); err != nil {
		return d, err
	}
	if now.raw, err = json.Marshal(p); err != nil {
		return d, err
	}
	if err := s.saveChanged(ctx, d, now); err != nil {
		return d, err
	}
	now, _ = s.find(name)
	return now, nil
}

// saveChanged puts a digest in the place of another. It returns errChanged where the store has a third one.
func (s *Service) saveChanged(ctx context.Context, was, now spec) error {
	return s.change(func() error {
		swapped, err := s.o.Store.SwapItem(ctx, createdKind, now.Name, was.raw, now.raw, nil)
		if err == nil && !swapped {
			err = errChanged
		}
		if err != nil {
			return fmt.Errorf("change digest %s: %w", now.Name, err)
		}
		return nil
	}, func() { s.created[now.Name] = now })
}

// Replace replaces the plan of a digest that was made in chat or through the API; its author stays.
func (s *Service) Replace(ctx context.Context, name string, p Plan) (Info, error) {
	return s.Change(ctx, name, func(was *Plan) error {
		p.By, p.On = was.By, was.On
		*was = p
		return nil
	})
}

// AddFeeds adds feeds to a digest that was made in chat or through the API, and returns how
// many of them it did not read before.
func (s *Service) AddFeeds(ctx context.Context, name string, addresses []string) (Info, int, error) {
	added := 0
	i, err := s.Change(ctx, name, func(p *Plan) error {
		added = 0 // Change calls it again where another replica has changed the digest meanwhile
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

// Remove deletes a digest that was made in chat or through the API. Which items it saw stays, so that a new digest of
// that name does not post them again, and so does who wants no mails of it.
func (s *Service) Remove(ctx context.Context, name string) error {
	if _, err := s.findChangeable(name); err != nil {
		return err
	}
	if err := s.deleteDigest(ctx, name); err != nil {
		return err
	}
	s.o.Log.Info("digest removed", "digest", name)
	s.onChange()
	return nil
}

// deleteDigest deletes a digest with what is stored of it.
func (s *Service) deleteDigest(ctx context.Context, name string) error {
	// The digest itself goes last: where something cannot be deleted it is still there to be removed again.
	if err := errors.Join(s.deleteTraces(ctx, name), s.deletePause(ctx, name)); err != nil {
		return err
	}
	return s.change(func() error { return s.deleteItem(ctx, createdKind, name) }, func() { delete(s.created, name) })
}

// deleteTraces deletes what is stored beside a digest and would count for another one of its name, but for its pause:
// its page, what it posted, and what waits for it.
func (s *Service) deleteTraces(ctx context.Context, name string) error {
	s.reloading.RLock()
	defer s.reloading.RUnlock()
	var steps []func() error
	for _, kind := range []string{failureKind, waitingKind, publishKind, verdictKind} {
		steps = append(steps, func() error { return s.deleteItem(ctx, kind, name) })
	}
	for _, kind := range []string{pastRunKind + name, eventKind + name} {
		items, err := s.o.Store.Items(ctx, kind)
		if err != nil {
			return err
		}
		for item := range items {
			steps = append(steps, func() error { return s.deleteItem(ctx, kind, item) })
		}
	}
	// There may be thousands, which share a few transactions.
	return atOnce(steps...)
}

// deletePause deletes whether a digest is paused, and since when.
func (s *Service) deletePause(ctx context.Context, name string) error {
	return s.change(func() error { return s.deleteItem(ctx, pauseKind, name) }, func() { delete(s.pauses, name) })
}

// deleteItem deletes a stored item; there may be none.
func (s *Service) deleteItem(ctx context.Context, kind, name string) error {
	if err := s.o.Store.DeleteItem(ctx, kind, name); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return nil
}

// Pause pauses or resumes a digest. Runs that fall due meanwhile are skipped.
func (s *Service) Pause(ctx context.Context, name string, on bool) error {
	d, ok := s.find(name)
	if !ok {
		return ErrUnknown
	}
	if d.Paused == on {
		return nil
	}
	p := pause{Paused: on, Since: s.o.Now().UTC(), Source: d.Source}
	err := s.change(func() error { return s.saveItem(ctx, pauseKind, name, p) }, func() { s.pauses[name] = p })
	if err != nil {
		return err
	}
	s.onChange()
	return nil
}

// isVisible reports whether the author of a message may see a digest: everybody where it is
// posted, elsewhere whoever made it and administrators.
func (d spec) isVisible(m chat.Message) bool { return d.postsTo(m.Conversation) || d.canBeManaged(m) }

// postsTo reports whether a digest is posted to the channel of a conversation, which may be a thread.
func (d spec) postsTo(at chat.Address) bool {
	for _, to := range d.post {
		if to.Base() == at.Base() {
			return true
		}
	}
	return false
}

// canBeManaged reports whether the author of a message may change a digest: an administrator
// or the author of the digest.
func (d spec) canBeManaged(m chat.Message) bool {
	return m.Author.Admin || d.By.ID != "" && d.By.ID == m.Author.ID && d.On == m.Conversation.Platform
}

// maxSlug is about how long a name made of words may be, in bytes.
const maxSlug = 28

// slug returns a name made of words, such as the title of a feed.
func slug(words string) string {
	var b strings.Builder
	isSeparator := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	for _, word := range strings.FieldsFunc(strings.ToLower(words), isSeparator) {
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
