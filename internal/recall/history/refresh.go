package history

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// refresh brings a place up to date with the store: only turns that have changed are read.
func (s *Service) refresh(ctx context.Context, p *place, channel chat.Address) error {
	versions, err := s.o.Store.Versions(ctx, channel)
	if err != nil {
		return err
	}
	there := map[chat.Address]bool{}
	for _, v := range versions {
		there[v.Address] = true
		if err := s.refreshTurns(ctx, p, v); err != nil {
			return err
		}
		if p.stored[v.Address] != v.Messages {
			if err := s.refreshMessages(ctx, p, v); err != nil {
				return err
			}
		}
	}
	for a := range p.turns {
		if !there[a] {
			for seq := range p.turns[a] {
				p.drop(turnSource(a, seq))
			}
			delete(p.turns, a)
		}
	}
	for a := range p.stored {
		if !there[a] {
			p.drop(importSource(a))
			delete(p.stored, a)
		}
	}
	return nil
}

// turnSource, importSource and platformSource name where messages of a conversation come from; within a place its
// thread tells conversations apart.
func turnSource(a chat.Address, seq uint64) string {
	return "turn " + a.Thread + " " + strconv.FormatUint(seq, 10)
}

func importSource(a chat.Address) string { return "import " + a.Thread }

func platformSource(a chat.Address) string { return "platform " + a.Thread }

// refreshTurns reads the turns of a conversation that are new or have changed, and drops those that are gone.
func (s *Service) refreshTurns(ctx context.Context, p *place, v store.ConversationVersion) error {
	known := p.turns[v.Address]
	for seq := range known {
		if _, there := v.Turns[seq]; !there {
			p.drop(turnSource(v.Address, seq))
		}
	}
	var changed []uint64
	for seq, version := range v.Turns {
		if known[seq] != version {
			changed = append(changed, seq)
		}
	}
	slices.Sort(changed)
	// The newest are kept: when a place is read first, all of its turns count as changed.
	changed = changed[max(0, len(changed)-maxOfPlace):]
	for len(changed) > 0 {
		// Neighbouring turns are read at once.
		n := 1
		for n < len(changed) && n < readBatch && changed[n] == changed[n-1]+1 {
			n++
		}
		turns, err := s.o.Store.Turns(ctx, v.Address, store.Range{After: changed[0] - 1, Upto: changed[n-1], Newest: n})
		if err != nil {
			return err
		}
		for _, t := range turns {
			source := turnSource(v.Address, t.Seq)
			p.drop(source)
			for _, m := range FromTurn(v.Address, t) {
				p.add(source, m)
			}
		}
		changed = changed[n:]
	}
	p.turns[v.Address] = maps.Clone(v.Turns)
	return nil
}

// refreshMessages reads the messages of a conversation that are part of no turn.
func (s *Service) refreshMessages(ctx context.Context, p *place, v store.ConversationVersion) error {
	source := importSource(v.Address)
	p.drop(source)
	// The store reads from the oldest on. Of more than are kept the newest count.
	var batches [][]store.Message
	for cursor := ""; ; {
		list, next, err := s.o.Store.Messages(ctx, v.Address, cursor, readBatch)
		if err != nil {
			return err
		}
		batches = append(batches, list)
		batches = batches[max(0, len(batches)-maxOfPlace/readBatch):]
		if len(list) < readBatch {
			break
		}
		cursor = next
	}
	for _, list := range batches {
		for _, m := range list {
			p.add(source, FromStored(m))
		}
	}
	p.stored[v.Address] = v.Messages
	return nil
}

// Rules of reading back what a platform has.
const (
	platformTimeout  = 2500 * time.Millisecond
	platformInterval = 30 * time.Second // between two times for one place
	maxPages         = 5                // of platformPage messages, when a place is read first
	platformPage     = 100
)

// readPlatform adds what the platform lets the bot read of a channel and of the thread that is searched. What could
// not be read in time is left out; the error is a *chat.SetupError that says why nothing can be.
func (s *Service) readPlatform(ctx context.Context, p *place, in chat.Address) (refused error) {
	historian, ok := s.o.Platform(in.Platform).(chat.Historian)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, platformTimeout)
	defer cancel()
	p.commit() // so that what the store has is known
	for _, at := range slices.Compact([]chat.Address{in.Base(), in}) {
		if last := p.read[at]; s.o.Now().Sub(last) < platformInterval {
			continue
		}
		err := s.readPages(ctx, p, historian, at, maxPages)
		var setup *chat.SetupError
		switch {
		case errors.As(err, &setup):
			refused = setup
			s.o.Log.Debug("platform does not show its history", "conversation", at.String(), "error", err)
		case err != nil:
			s.o.Log.Warn("failed to read the history of a platform", "conversation", at.String(), "error", err)
		}
		// Also after a failure: a platform that is slow is not asked at every search.
		p.read[at] = s.o.Now()
	}
	return refused
}

// Rules of reading the threads of a channel.
const (
	threadsTimeout = 6 * time.Second
	maxThreads     = 20 // those with the newest messages
)

// readThreads adds what was said after an instant in the threads of a channel that everybody who reads it may read, and
// returns these threads. What could not be read in time is left out.
func (s *Service) readThreads(ctx context.Context, p *place, in chat.Address, after time.Time) []chat.Address {
	platform := s.o.Platform(in.Platform)
	lister, lists := platform.(chat.ThreadLister)
	historian, reads := platform.(chat.Historian)
	if !lists || !reads {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, threadsTimeout)
	defer cancel()
	if s.o.Now().Sub(p.threadsAt) >= platformInterval || after.Before(p.threadsAfter) {
		threads, err := lister.OpenThreads(ctx, in.Base(), after, maxThreads)
		if err != nil {
			s.o.Log.Warn("failed to list the threads of a channel", "conversation", in.Base().String(), "error", err)
		} else {
			p.threads, p.threadsAfter = threads, after
		}
		p.threadsAt = s.o.Now()
	}
	for _, at := range p.threads {
		if at == in || s.o.Now().Sub(p.read[at]) < platformInterval {
			continue
		}
		if err := s.readPages(ctx, p, historian, at, 1); err != nil {
			s.o.Log.Warn("failed to read a thread", "conversation", at.String(), "error", err)
		}
		p.read[at] = s.o.Now()
	}
	return p.threads
}

// readPages reads a place from the newest message back, to the messages that are known from the time before, and goes
// on where an earlier call ended before it was through; at most so many pages. What is no longer on the newest page was
// deleted on the platform. It fails where the platform does; what was read until then stays.
func (s *Service) readPages(ctx context.Context, p *place, historian chat.Historian, at chat.Address, pages int) error {
	before, source := "", platformSource(at)
	for range pages {
		page, err := historian.History(ctx, at, before, platformPage)
		if err != nil {
			p.readOn(at, before)
			return err
		}
		if len(page) == 0 {
			return nil
		}
		seen, there := false, map[string]bool{}
		for _, said := range page {
			m := fromSaid(at, said)
			there[key(m)] = true
			seen = seen || p.sources[source][key(m)]
			isFailure := said.Self && strings.HasPrefix(said.Text, chat.FailureMark)
			if !said.Hidden && !isFailure && !p.hasWords(m) {
				p.add(source, m)
			}
		}
		if before == "" {
			for k := range p.sources[source] {
				// page[0] is the oldest message of the page. Whether older ones are still there is not known.
				if !there[k] && !p.known[k].At.Before(page[0].At) {
					p.dropFrom(source, k)
				}
			}
		}
		if before = page[0].ID; !seen {
			continue
		}
		unread := p.unread[at]
		if len(unread) == 0 {
			return nil
		}
		before, p.unread[at] = unread[len(unread)-1], unread[:len(unread)-1]
	}
	// A place that is read for catching up is read further when it is searched.
	if pages < maxPages {
		p.readOn(at, before)
	}
	return nil
}

// readOn notes that what is older than a message of a place has not been read yet.
func (p *place) readOn(at chat.Address, before string) {
	if before != "" {
		p.unread[at] = append(p.unread[at], before)
	}
}
