// Package history searches the messages of a channel and its threads: people's messages and the bot's answers in
// stored turns, imported messages, and messages that the platform lets the bot read back.
//
// It promises that a search sees the present store and no deleted messages, that a search of one channel never shows
// messages of another, and that the time and the memory of a search are bounded. Indexes are kept while they are used,
// and rebuilt from the store when they are needed. The caller checks permissions. The tool and the command search the
// place where they are used.
//
// A place is a channel with its threads. Its index (place.go) is kept while it is used now and then. Each search first
// updates the index from the store (refresh.go). question.go extracts names, times and words from the question, and
// rank.go orders the results, with the messages around them.
package history

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/recall/meaning"
	"ravenbot/internal/store"
)

// Store keeps conversations. Its methods may be called concurrently.
type Store interface {
	// Versions returns the versions of a channel and of the threads in it.
	Versions(ctx context.Context, channel chat.Address) ([]store.ConversationVersion, error)
	// Turns returns the turns of a conversation in a range, oldest first.
	Turns(ctx context.Context, a chat.Address, r store.Range) ([]conversation.Turn, error)
	// Messages returns up to n messages outside of turns behind a cursor, oldest first, and the next cursor.
	Messages(ctx context.Context, a chat.Address, cursor string, n int) ([]store.Message, string, error)
	// DeleteMessage deletes the messages outside of turns of an ID, in all conversations of a platform.
	DeleteMessage(ctx context.Context, platform, id string) error
}

// Options configure a Service.
type Options struct {
	Store Store
	// Platform returns the platform whose history may be read, too.
	Platform func(name string) chat.Platform // nil where it is switched off
	// Place returns the conversation that a caller may read back, and false where there is none.
	Place func(tool.Caller) (chat.Address, bool)
	// IsOver reports whether a message is over the retention of its conversation, and not to be found any more; nil:
	// none is.
	IsOver func(chat.Address, time.Time) bool
	// Meaning also finds messages by their meaning. It is nil if they are found by their words only.
	Meaning *meaning.Index
	Log     *slog.Logger
	Now     func() time.Time
}

// Limits of what is held in memory.
const (
	maxPlaces   = 64
	maxMessages = 100_000 // of all places, beside the one that is searched
	maxOfPlace  = 50_000  // messages; the oldest turns and messages beyond are not searched
	keepUnused  = 15 * time.Minute
	readBatch   = 1000 // messages or turns that are read at a time
)

// Service searches. It is safe for concurrent use; New makes one.
type Service struct {
	o Options

	mu     sync.Mutex
	places map[chat.Address]*lockedPlace // by address of the channel
}

// lockedPlace is a place whose lock is held while it is read and searched.
type lockedPlace struct {
	sync.Mutex
	*place
}

// New returns a Service.
func New(o Options) *Service {
	s := &Service{o: o, places: map[chat.Address]*lockedPlace{}}
	o.Meaning.Own(meaningKind, s.texts)
	return s
}

// Query is what is searched for.
type Query struct {
	// In is a channel, which stands for itself and the threads in it, or a thread, which stands for itself.
	In chat.Address
	// Narrow leaves out the threads of the channel other than In itself and Open.
	Narrow bool
	Open   []chat.Address // threads that everybody who reads the channel may read
	Text   string
	Limit  int
}

// Search returns the messages that fit a query best, the best first; none for a query without words or with a limit
// below 1. It fails when the store does; what a platform cannot tell within platformTimeout is left out. Searches of
// one channel wait for one another, those of different ones do not.
func (s *Service) Search(ctx context.Context, q Query) ([]Message, error) {
	if strings.TrimSpace(q.Text) == "" || q.Limit < 1 {
		return nil, nil
	}
	asked := s.o.Meaning.Query(ctx, q.Text) // before the lock, so that others can search in the meantime
	p := s.place(q.In.Base())
	p.Lock()
	defer p.Unlock()
	if err := s.refresh(ctx, p.place, q.In.Base()); err != nil {
		// Half of a change may have been noted, so the index begins anew.
		p.place = newPlace()
		return nil, fmt.Errorf("search %s: %w", q.In, err)
	}
	_ = s.readPlatform(ctx, p.place, q.In) // what is stored is searched anyway
	p.commit()
	p.used = s.o.Now()
	found := p.find(asked, parseQuestion(q.Text, p.authors(), s.o.Now()), q.Limit, func(m Message) bool {
		if in, ok := p.inThread(m); ok && q.covers(in) {
			return false // it is found in its thread
		}
		return q.covers(m) && !s.isOver(m)
	})
	list := make([]Message, len(found))
	for i, n := range found {
		list[i] = p.messages[n]
		list[i].Link = cmp.Or(list[i].Link, s.link(list[i]))
	}
	return list, nil
}

func (s *Service) isOver(m Message) bool {
	return s.o.IsOver != nil && s.o.IsOver(m.Conversation, m.At)
}

// covers reports whether a message may be found.
func (q Query) covers(m Message) bool {
	switch thread := m.Conversation.Thread; {
	case q.Narrow:
		return thread == "" || thread == q.In.Thread || slices.Contains(q.Open, m.Conversation)
	case q.In.Thread != "":
		return thread == q.In.Thread
	}
	return true
}

// link returns what leads people to a message on its platform, or "".
func (s *Service) link(m Message) string {
	linker, ok := s.o.Platform(m.Conversation.Platform).(chat.Linker)
	if !ok || strings.HasSuffix(m.ID, AnswerSuffix) {
		return ""
	}
	return linker.Link(m.Conversation, m.ID)
}

// place returns the index of a channel, which may be empty, and drops those that are no longer used.
func (s *Service) place(channel chat.Address) *lockedPlace {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropUnused(channel)
	p := s.places[channel]
	if p == nil {
		p = &lockedPlace{place: newPlace()}
		p.used = s.o.Now()
		s.places[channel] = p
	}
	return p
}

// dropUnused drops the indexes that were not used for a while and, where they are too many, those that were unused for
// longest. s.mu is held.
func (s *Service) dropUnused(searched chat.Address) {
	type candidate struct {
		at       chat.Address
		used     time.Time
		messages int
	}
	var list []candidate
	total := 0
	for at, p := range s.places {
		// One that is being searched is in use.
		// Waiting for its lock would keep s.mu, and with it every other search, while a platform is read.
		if at == searched || !p.TryLock() {
			continue
		}
		list = append(list, candidate{at, p.used, len(p.messages)})
		total += len(p.messages)
		p.Unlock()
	}
	slices.SortFunc(list, func(a, b candidate) int { return a.used.Compare(b.used) })
	for i, c := range list {
		if s.o.Now().Sub(c.used) < keepUnused && total <= maxMessages && len(list)-i < maxPlaces {
			return
		}
		delete(s.places, c.at)
		total -= c.messages
	}
}

// Purge removes a message that was deleted on its platform from what is searched, and from the messages outside of
// turns. subject is the platform and the message's ID with "/" between. The turns that hold the message are the store's
// to change; the next search sees that.
func (s *Service) Purge(ctx context.Context, subject string) error {
	platform, id, _ := strings.Cut(subject, "/")
	s.mu.Lock()
	places := map[chat.Address]*lockedPlace{}
	for at, p := range s.places {
		if at.Platform == platform {
			places[at] = p
		}
	}
	s.mu.Unlock()
	// Without s.mu: a place is locked for seconds while its platform is read, and no other could be searched then.
	var changed []string
	for at, p := range places {
		p.Lock()
		if p.dropMessage(id) {
			changed = append(changed, meaningGroup(at))
		}
		p.commit()
		p.Unlock()
	}
	err := s.o.Store.DeleteMessage(ctx, platform, id)
	for _, group := range changed {
		s.o.Meaning.Forget(ctx, group)
	}
	return err
}

// texts returns what was said in a channel by its name, as far as it may still be found.
func (s *Service) texts(ctx context.Context, channel string) ([]string, error) {
	at, err := chat.ParseAddress(channel)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	p := s.places[at]
	s.mu.Unlock()
	if p == nil { // it is not searched now, so its index is not kept
		p = &lockedPlace{place: newPlace()}
	}
	p.Lock()
	defer p.Unlock()
	if err := s.refresh(ctx, p.place, at); err != nil {
		p.place = newPlace() // as in Search
		return nil, err
	}
	var list []string
	for _, e := range p.known {
		if !s.isOver(e.Message) {
			list = append(list, e.Text)
		}
	}
	return list, nil
}
