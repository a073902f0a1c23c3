package digest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/text"
)

// Members have what fits their own filters sent to them by direct message, beside the post that all see.
const (
	memberKind    = "digest member filter" // items are named after filters
	memberVersion = 1

	maxMemberFilters = 10   // of one member
	maxFilters       = 5000 // of the bot
	maxMemberWords   = 10   // of one filter, between commas
	maxTold          = 1000 // items that a filter remembers
	maxUnposted      = 20   // stories of one run that a member gets although they had no place in the post
	memberIDBytes    = 4
)

// memberFilter sends a member what fits of a digest.
type memberFilter struct {
	Version int          `json:"version"`
	ID      string       `json:"id"`
	Digest  string       `json:"digest"`
	Words   string       `json:"words"`
	User    chat.User    `json:"user"`
	From    chat.Address `json:"from"` // the place of the digest where it was asked for
	To      chat.Address `json:"to"`   // the direct messages with the member
	At      time.Time    `json:"at"`
	// Told are the items that were sent, with the due times of the runs: a run that is made again sends the same.
	Told map[string]time.Time `json:"told,omitempty"`

	raw json.RawMessage // as it is stored; nil: it is not
}

// parse returns the words of a filter as a digest's own filters are read.
func (f memberFilter) parse(zone *time.Location) ([]filter, error) {
	var list []filter
	for _, word := range splitList(f.Words) {
		one, err := parseFilter(word, zone)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	switch {
	case len(list) == 0:
		return nil, errors.New("it holds no word")
	case len(list) > maxMemberWords:
		return nil, fmt.Errorf("%d words are too many; %d are taken", len(list), maxMemberWords)
	}
	return list, nil
}

// addMemberFilter makes a filter of "only security, -sponsored", and returns what its owner is told.
func (s *Service) addMemberFilter(ctx context.Context, d spec, m chat.Message, words string) (string, error) {
	words = strings.TrimSpace(strings.TrimPrefix(words, "only "))
	words = strings.TrimSpace(strings.TrimRight(strings.TrimSuffix(words, "by direct message"), ", "))
	f := memberFilter{
		Version: memberVersion,
		ID:      text.RandomID(memberIDBytes),
		Digest:  d.Name,
		Words:   words,
		User:    chat.User{ID: m.Author.ID, Name: m.Author.Name},
		From:    m.Conversation.Base(),
		At:      s.o.Now().UTC(),
	}
	_, err := f.parse(d.zone)
	switch {
	case err != nil:
		return "", BadPlan{err}
	case len(words) > maxFieldBytes:
		return "", BadPlan{fmt.Errorf("it is too long: %d bytes are taken", maxFieldBytes)}
	case m.Author.ID == "" || !d.postsTo(m.Conversation) || m.Direct:
		return "", BadPlan{errors.New("say it in a channel to which the digest is posted")}
	case d.isTask():
		return "", BadPlan{errors.New("a task has no entries to filter")}
	}
	if err := s.checkMemberLimits(f); err != nil {
		return "", err
	}
	// Opened now and not at the first run: whoever asks learns at once that it does not work.
	if f.To, err = s.o.Platforms.DirectMessage(ctx, f.From, f.User.ID); err != nil {
		s.o.Log.Warn("direct messages not opened", "user", f.User.ID, "error", err)
		return "", BadPlan{errors.New("no direct message can be sent to you from here")}
	}
	if err := s.saveMemberFilter(ctx, f); err != nil {
		return "", err
	}
	return "After each run of **" + escape(d.Name) + "** I send you directly what fits *" + escape(words) + "*. " +
		"`/raven digest unfilter " + f.ID + "` ends that.", nil
}

// checkMemberLimits returns a BadPlan where a member, or all together, have as many filters as they may.
func (s *Service) checkMemberLimits(f memberFilter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := 0
	for _, other := range s.members {
		if other.isOf(f.User.ID, f.From.Platform) {
			own++
		}
	}
	switch {
	case own >= maxMemberFilters:
		return BadPlan{fmt.Errorf("you have %d filters already, which is the most; `/raven digest filters` lists them", own)}
	case len(s.members) >= maxFilters:
		return BadPlan{fmt.Errorf("there are %d filters already, which is the most", len(s.members))}
	}
	return nil
}

// isOf reports whether a filter is that of a user of a platform: ids are the platform's own.
func (f memberFilter) isOf(user, platform string) bool {
	return user != "" && f.User.ID == user && f.From.Platform == platform
}

// loadMemberFilters returns the stored filters, by their ids.
func (s *Service) loadMemberFilters(ctx context.Context) (map[string]memberFilter, error) {
	items, err := s.o.Store.Items(ctx, memberKind)
	if err != nil {
		return nil, err
	}
	list := map[string]memberFilter{}
	for id, raw := range items {
		f := memberFilter{raw: raw}
		if err := json.Unmarshal(raw, &f); err != nil {
			s.o.Log.Error("stored record not read, skipped", "kind", memberKind, "name", id, "error", err)
			continue
		}
		list[id] = f
	}
	return list, nil
}

// saveMemberFilter stores a filter in the place of what it was, unless its owner has just removed it elsewhere.
func (s *Service) saveMemberFilter(ctx context.Context, f memberFilter) error {
	raw, err := json.Marshal(f)
	if err != nil {
		return err
	}
	s.reloading.RLock()
	defer s.reloading.RUnlock()
	swapped, err := s.o.Store.SwapItem(ctx, memberKind, f.ID, f.raw, raw, nil)
	if err == nil && !swapped {
		err = errors.New("another process has changed or removed it")
	}
	if err != nil {
		return fmt.Errorf("store the filter %s of a member: %w", f.ID, err)
	}
	f.raw = raw
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members[f.ID] = f
	return nil
}

// memberFilters returns the filters that match, by their ids.
func (s *Service) memberFilters(wanted func(memberFilter) bool) []memberFilter {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []memberFilter
	for _, f := range s.members {
		if wanted(f) {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(a, b memberFilter) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return list
}

// listMemberFilters lists the filters of the author of a message.
func (s *Service) listMemberFilters(m chat.Message) string {
	list := s.memberFilters(func(f memberFilter) bool { return f.isOf(m.Author.ID, m.Conversation.Platform) })
	if len(list) == 0 {
		return "You have no filters. Say for example `/raven digest filter NAME security, -sponsored`."
	}
	lines := []string{"**Your filters**", ""}
	for _, f := range list {
		lines = append(lines, "- `"+f.ID+"` **"+escape(f.Digest)+"**: "+escape(f.Words))
	}
	return strings.Join(append(lines, "", "`/raven digest unfilter ID` ends one."), "\n")
}

// removeMemberFilter deletes a filter of the author of a message. One of somebody else is not told from none.
func (s *Service) removeMemberFilter(ctx context.Context, m chat.Message, id string) (string, error) {
	s.mu.Lock()
	f, ok := s.members[id]
	s.mu.Unlock() // the store is written without it: a write may wait for the disk
	if !ok || !f.isOf(m.Author.ID, m.Conversation.Platform) {
		return "", BadPlan{errors.New("you have no such filter; `/raven digest filters` lists yours")}
	}
	s.reloading.RLock()
	defer s.reloading.RUnlock()
	if err := s.deleteMemberFilter(ctx, id); err != nil {
		return "", err
	}
	return "The filter `" + id + "` is removed.", nil
}

// deleteMemberFilter deletes a filter; s.reloading is held for reading.
func (s *Service) deleteMemberFilter(ctx context.Context, id string) error {
	if err := s.deleteItem(ctx, memberKind, id); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.members, id)
	return nil
}

// memberPosts returns what of a run goes to members by direct message. That it is told is stored before the run is:
// where the run is not stored after all, it is made again for the same due time. Whoever may no
// longer read the channel gets nothing; a failure concerns one member alone.
func (s *Service) memberPosts(ctx context.Context, d spec, run store.Run, e *edition) []store.Post {
	var posts []store.Post
	if !run.OK || len(e.chosen) == 0 {
		return nil
	}
	said := e.statements()
	for _, f := range s.memberFilters(func(f memberFilter) bool { return f.Digest == d.Name && d.postsTo(f.From) }) {
		draft := f.draft(d, e, said, run)
		if len(draft.Cards) == 0 {
			continue
		}
		// The member may have lost access to the channel since the filter was made.
		may, err := s.o.Platforms.UserCanRead(ctx, f.User.ID, f.From)
		if err != nil || !may {
			s.o.Log.Warn("member gets nothing of a digest", "digest", d.Name, "user", f.User.ID, "may", may, "error", err)
			continue
		}
		if err := s.saveMemberFilter(ctx, f.withTold(d, e, run.Due, s.o.Now())); err != nil {
			s.o.Log.Error("filter of a member not stored, nothing is sent", "digest", d.Name, "filter", f.ID, "error", err)
			continue
		}
		draft.Key = postKey(d.Name, run.Due, f.To) + "/" + f.ID
		posts = append(posts, store.Post{Key: draft.Key, To: f.To, Draft: draft, At: run.Ended})
	}
	return posts
}

// draft returns what of a run fits, and notes it as told: entries as they were posted, then stories
// that had no place in the post, in their own words. Without cards nothing fits, and nothing is
// noted.
func (f *memberFilter) draft(d spec, e *edition, said map[int]string, run store.Run) chat.Draft {
	filters, err := f.parse(d.zone)
	if err != nil {
		return chat.Draft{} // they were read when the filter was made
	}
	f.Told = maps.Clone(f.Told)
	if f.Told == nil {
		f.Told = map[string]time.Time{}
	}
	var cards []chat.Card
	for n, st := range e.chosen {
		about, card := "", storyCard(n+1, st)
		if d.Style != Deep { // whose entries are the tellings of one story
			about, card = said[n]+"\n"+e.topicOf(n), e.cards[n]
			card.Text = cmp.Or(said[n], card.Text)
		}
		if f.wants(st, about, filters, run) {
			cards = append(cards, card)
			f.noteTold(st, run.Due)
		}
	}
	unposted := 0
	for _, st := range slices.Concat(e.surplus, e.waiting, e.unworthy) {
		// One that is forgotten while it waits would come again, so there has to be room to remember it.
		if unposted == maxUnposted || len(f.Told)+len(st.members()) > maxTold {
			break
		}
		if !f.wants(st, "", filters, run) {
			continue
		}
		card := storyCard(0, st)
		card.Why = "not in the post"
		cards = append(cards, card)
		f.noteTold(st, run.Due)
		unposted++
	}
	heading := fmt.Sprintf("**%s**, what fits *%s*", escape(d.title), escape(f.Words))
	return chat.Draft{Text: heading, Cards: cards, Footer: "/raven digest unfilter " + f.ID + " ends this"}
}

// wants reports whether a story fits and was not told by an earlier run. What a model said about it counts as well as
// its own words.
func (f *memberFilter) wants(st story, said string, filters []filter, run store.Run) bool {
	for _, i := range st.members() {
		if at, told := f.Told[i.id]; told && !at.Equal(run.Due) {
			return false
		}
	}
	i := *st.item
	i.Item.Summary += "\n" + escapeHTML(said)
	return failedFilter(&i, filters, run.Began) == ""
}

// noteTold notes all items of a story: another of them may stand for it in a later run.
func (f *memberFilter) noteTold(st story, due time.Time) {
	for _, i := range st.members() {
		f.Told[i.id] = due
	}
}

// withTold returns the filter without what was told long ago: what still waits for a place is kept, and of the rest the
// newest.
func (f memberFilter) withTold(d spec, e *edition, due, now time.Time) memberFilter {
	waiting := map[string]bool{}
	for _, st := range e.waiting {
		for _, i := range st.members() {
			waiting[i.id] = true
		}
	}
	maps.DeleteFunc(f.Told, func(id string, at time.Time) bool {
		return now.Sub(at) > max(keepPastRuns, d.maxWait()) && !at.Equal(due) && !waiting[id]
	})
	forget := slices.SortedFunc(maps.Keys(f.Told), func(a, b string) int {
		if waiting[a] != waiting[b] {
			return map[bool]int{true: 1, false: -1}[waiting[a]]
		}
		return f.Told[a].Compare(f.Told[b])
	})
	for _, id := range forget[:max(0, len(forget)-maxTold)] {
		delete(f.Told, id)
	}
	return f
}

// topicOf returns the topic below which an entry stands.
func (p *content) topicOf(n int) string {
	for _, one := range p.parts {
		for _, l := range one.entries {
			if l.n == n {
				return one.topic
			}
		}
	}
	return ""
}
