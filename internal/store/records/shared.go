package records

import (
	"context"
	"encoding/json"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
)

// Shared is a Store that several processes use at once.
type Shared struct {
	*Store
	engine kv.SharedEngine
}

// NewShared returns the store in an engine that several processes use.
func NewShared(e kv.SharedEngine) *Shared { return &Shared{New(e), e} }

// Changes returns a number for each kind of records that other processes have changed: another one after each change.
func (s *Shared) Changes(ctx context.Context) (map[string]int64, error) { return s.engine.Changes(ctx) }

// Changed returns what brings a value soon after another process has changed something that Changes counts. It may bring
// one without a reason, and may miss one.
func (s *Shared) Changed() <-chan struct{} { return s.engine.Changed() }

// UsageOfOthers returns the sums of a day, written as 2006-01-02, without what this process has counted since the store
// was opened. What it counts meanwhile may be in them.
func (s *Shared) UsageOfOthers(ctx context.Context, day string) ([]store.Usage, error) {
	return s.usageOfOthers(ctx, day)
}

// Membership is the part of one process among those that share a store.
type Membership struct {
	kv.Membership
	Store *Shared
}

// AcceptFor is Accept of a process that has claimed the channel of the message (isOwn), or has not. isMine is false if the
// message has to be taken by Membership.Take: by another process, or behind older messages that wait to be taken.
func (m Membership) AcceptFor(ctx context.Context, r store.Received, isOwn bool) (isNew, isMine bool, err error) {
	isFree := !isOwn
	isNew, err = m.Store.accept(ctx, r, &isFree)
	return isNew, !isFree, err
}

// FreePost makes a post of this process wait for a process that takes it.
func (m Membership) FreePost(ctx context.Context, p store.Post) error {
	isFree := true
	err := m.Store.Update(ctx, kv.Write{Free: &isFree}, func(tx kv.Tx) error { return outbox.Put(tx, "", p.Key, p) })
	return wrap(err, "leave post %s to another process", p.Key)
}

// Take takes the work that is this process's from now on.
func (m Membership) Take(ctx context.Context, may func(to chat.Address, since time.Time) bool) (store.Taken, error) {
	taken, err := m.Membership.Take(ctx, func(s *kv.Spec, value []byte) bool {
		var post store.Post
		var waiting inboxRecord
		if s == outbox.Spec && json.Unmarshal(value, &post) == nil {
			return may(post.To, post.At)
		}
		return json.Unmarshal(value, &waiting) != nil || may(waiting.Received.Message.Conversation, waiting.Received.At)
	})
	if err != nil {
		return store.Taken{}, err
	}
	var work store.Taken
	var waiting []inboxRecord
	for _, v := range taken.Values[inbox.Spec] {
		var r inboxRecord
		if err := json.Unmarshal(v.Value, &r); err != nil {
			return store.Taken{}, wrap(err, "read messages that were taken")
		}
		r.Received.Fresh = v.IsFresh
		waiting = append(waiting, r)
	}
	for _, v := range taken.Values[outbox.Spec] {
		var p store.Post
		if err := json.Unmarshal(v.Value, &p); err != nil {
			return store.Taken{}, wrap(err, "read posts that were taken")
		}
		if !p.Notified { // else it was given up, and its place knows
			work.Posts = append(work.Posts, p)
		}
	}
	sortPosts(work.Posts)
	work.From, work.Messages, work.Keys = taken.From, received(waiting), taken.Keys
	return work, nil
}

// IsHeard reports whether a message of a conversation was accepted since a time.
func (m Membership) IsHeard(ctx context.Context, a chat.Address, since time.Time) (bool, error) {
	last, found, err := lookUp(ctx, m.Store.Store, lastSeen, "", a.String())
	return found && !last.At.Before(since), wrap(err, "look for messages of %s", a)
}
