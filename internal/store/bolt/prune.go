package bolt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/store"
)

// How long records are kept that no setting is about. What was said is kept no longer than the
// conversation that it belongs to.
const (
	keepLastSeen    = 30 * 24 * time.Hour // of a conversation
	keepUndelivered = 7 * 24 * time.Hour
	keepTurns       = 30 * 24 * time.Hour // that a summary covers
	keepShown       = 30 * 24 * time.Hour // which turn a post shows
	keepApprovals   = 30 * 24 * time.Hour
)

// pruner deletes what is older than it is kept, as of one instant.
type pruner struct {
	db      *DB
	ctx     context.Context
	now     time.Time
	keep    store.Retention
	changed map[chat.Address]bool // conversations that lost turns or their summary
	blocked error                 // the last damage that kept a record from being deleted, nil where there is none
}

// Prune deletes the records that are older than they are kept. Without a retention of their
// conversation turns are deleted only where a summary covers them. It returns the conversations
// that lost turns or their summary, by address, also where it fails. A record that cannot be read, or a bucket in its
// place, does not keep it from deleting the rest; it returns a *store.DamagedError then.
func (db *DB) Prune(ctx context.Context, keep store.Retention) ([]chat.Address, error) {
	p := &pruner{db: db, ctx: ctx, now: db.now(), keep: keep, changed: map[chat.Address]bool{}}
	for _, step := range []func() error{
		p.pruneShortLived,
		p.pruneCalls,
		p.pruneUsage,
		p.pruneSeen,
		p.pruneConversations,
		p.pruneSummaries,
		p.pruneIndexes,
		p.pruneMessages,
		p.pruneRooms,
	} {
		if err := step(); err != nil {
			return p.changedAddresses(), fmt.Errorf("prune store: %w", err)
		}
	}
	if p.blocked != nil {
		return p.changedAddresses(), fmt.Errorf("prune store: %w", p.blocked)
	}
	return p.changedAddresses(), nil
}

// run carries out a sweep, and keeps what it could not delete for the end of Prune.
func (p *pruner) run(s *sweep) error {
	_, err := s.run(p.ctx, p.db)
	p.blocked = cmp.Or(s.blocked, p.blocked)
	return err
}

// changedAddresses returns the conversations that have lost something so far, sorted.
func (p *pruner) changedAddresses() []chat.Address {
	return slices.SortedFunc(maps.Keys(p.changed), func(a, b chat.Address) int {
		return strings.Compare(a.String(), b.String())
	})
}

// isOver reports whether something is older than it is kept; 0: it is kept without end.
func (p *pruner) isOver(at time.Time, keep time.Duration) bool {
	return keep > 0 && at.Before(p.now.Add(-keep))
}

// isOverIn is isOver for something that belongs to a conversation: it is kept no longer than what
// was said there. limit is its own, 0 where it has none.
func (p *pruner) isOverIn(a chat.Address, at time.Time, limit time.Duration) bool {
	return p.isOver(at, limit) || p.isOver(at, p.keep.Conversation(a))
}

// pruneBucket deletes the records of a top-level bucket for which isOld returns true.
func pruneBucket[T any](p *pruner, bucket string, isOld func(T) bool) error {
	s := sweep{top: bucket, isOld: func(_ *tx, k, v []byte) (bool, error) {
		var record T
		err := p.db.decode(k, v, &record)
		return err == nil && isOld(record), err
	}}
	return p.run(&s)
}

// pruneShortLived deletes what is kept for days or weeks.
func (p *pruner) pruneShortLived() error {
	return errors.Join(
		pruneBucket(p, doneBucket, func(r doneRecord) bool { return p.isOver(r.Done, keepDone) }),
		pruneBucket(p, streamsBucket, func(r doneRecord) bool { return p.isOver(r.Done, keepDone) }),
		pruneBucket(p, outboxBucket, func(o store.Post) bool {
			return o.Error != "" && p.isOverIn(o.To, o.At, keepUndelivered) // without an error it is still to be sent
		}),
		pruneBucket(p, lastSeenBucket, func(h chat.LastSeen) bool { return p.isOverIn(h.Conversation, h.At, keepLastSeen) }),
		pruneBucket(p, shownTurnsBucket, func(r shownRecord) bool { return p.isOverIn(r.Shown.To, r.At, keepShown) }),
		pruneBucket(
			p,
			approvalsBucket,
			func(a store.Approval) bool { return p.isOverIn(a.Conversation, a.At, keepApprovals) },
		),
		pruneBucket(p, feedbackBucket, func(f store.Feedback) bool { return p.isOver(f.At, p.keep.Feedback) }),
	)
}

// pruneCalls deletes calls and the large results of calls. A result without a time is older than
// those that have one.
func (p *pruner) pruneCalls() error {
	if err := pruneBucket(p, callsBucket, func(c store.ToolCall) bool {
		return p.isOverIn(c.Conversation, c.Began, p.keep.Calls)
	}); err != nil {
		return err
	}
	return pruneBucket(p, resultsBucket, func(r store.ToolResult) bool {
		return p.isOverIn(r.Conversation, r.At, p.keep.Calls)
	})
}

// pruneUsage deletes the sums of old days, with which their keys begin.
func (p *pruner) pruneUsage() error {
	if p.keep.Usage == 0 {
		return nil
	}
	s := sweep{
		top:   usageBucket,
		below: []byte(p.now.Add(-p.keep.Usage).UTC().Format(dayFormat)),
		isOld: func(*tx, []byte, []byte) (bool, error) { return true, nil },
	}
	return p.run(&s)
}

// pruneSeen deletes the items that no feed of their digest has listed for long.
func (p *pruner) pruneSeen() error {
	return p.eachNested(seenBucket, func(name string) error {
		s := sweep{top: seenBucket, nested: name, isOld: func(_ *tx, k, v []byte) (bool, error) {
			var last time.Time
			err := p.db.decode(k, v, &last)
			return last.Before(p.now.Add(-keepSeen)), err
		}}
		return p.run(&s)
	})
}

// eachNested calls fn with the name of every bucket in a top-level bucket, outside of any
// transaction. A record in the place of a bucket is noted as damage.
func (p *pruner) eachNested(top string, fn func(name string) error) error {
	var after []byte
	for {
		var names []string
		if err := p.db.view(func(tx *tx) error {
			c := tx.top(top).cursor()
			for k, v := c.from(after); k != nil && len(names) < maxLooked; k, v = c.next() {
				names = append(names, string(k))
				if v != nil {
					p.blocked = p.db.noteMisplaced("a record is in the place of %s", displayName(top+nul+string(k)))
				}
			}
			return nil
		}); err != nil {
			return err
		}
		if len(names) == 0 {
			return nil
		}
		for _, name := range names {
			if err := errors.Join(p.ctx.Err(), fn(name)); err != nil {
				return err
			}
		}
		after = []byte(names[len(names)-1])
	}
}

// pruneConversations deletes old turns: those that are over their conversation's retention, from
// the indexes, too, and those that a summary has covered for long. The index of these stays, so
// that the summary is written again when one of their messages is deleted.
func (p *pruner) pruneConversations() error {
	top := turnsBucket
	if p.keep.Conversations == nil {
		top = summariesBucket // the keys are the same, and only these conversations lose anything
	}
	var after []byte
	for {
		var found []oldTurns
		var last []byte
		if err := p.db.view(func(tx *tx) (err error) {
			found, last, err = p.findOldTurns(tx, top, after)
			return err
		}); err != nil {
			return err
		}
		for _, o := range found {
			if err := p.deleteOldTurns(o); err != nil {
				return err
			}
		}
		if last == nil {
			return p.ctx.Err()
		}
		if after = last; p.ctx.Err() != nil {
			return p.ctx.Err()
		}
	}
}

// oldTurns are the first turns of a conversation, as far as they are to be deleted.
type oldTurns struct {
	address chat.Address
	upto    uint64 // Seq
	expired uint64 // as far as they are over the retention
}

// findOldTurns looks through the conversations behind a key. It returns those that have old
// turns, and the last key that it looked at; nil: there are no further ones.
func (p *pruner) findOldTurns(tx *tx, top string, after []byte) (found []oldTurns, last []byte, err error) {
	c := tx.top(top).cursor()
	k, _ := c.from(after)
	for looked := 0; k != nil; k, _ = c.next() {
		if looked >= maxLooked {
			return found, last, nil
		}
		looked, last = looked+1, bytes.Clone(k)
		a, ok := p.parseAddress(k)
		if !ok {
			continue
		}
		o, n, err := p.findOld(tx, a)
		if err != nil {
			return nil, nil, err
		}
		if o.upto > 0 {
			found = append(found, o)
		}
		looked += n
	}
	return found, nil, nil
}

// isUnreadable reports whether an error, nil for none, is that of a record which cannot be read, and notes the damage.
func (p *pruner) isUnreadable(err error) bool {
	isDamaged := p.db.noteDamaged(err)
	if isDamaged {
		p.blocked = err
	}
	return isDamaged
}

// parseAddress returns the address that a key is. It returns false, and notes the damage, where it is none.
func (p *pruner) parseAddress(k []byte) (chat.Address, bool) {
	a, err := chat.ParseAddress(string(k))
	if err != nil {
		p.blocked = p.db.noteMisplaced("record %q: %v", k, err)
	}
	return a, err == nil
}

// findOld returns which turns of a conversation are old, and how many it read to find out.
func (p *pruner) findOld(tx *tx, a chat.Address) (o oldTurns, read int, err error) {
	o.address = a
	turns := tx.top(turnsBucket).nested(a.String())
	if turns == nil {
		return o, 0, nil
	}
	var s conversation.Summary
	if _, err := tx.top(summariesBucket).getIntact([]byte(a.String()), &s); err != nil {
		return o, 0, err
	}
	c := turns.cursor()
	for k, v := c.first(); k != nil; k, v = c.next() {
		var t struct {
			Began time.Time `json:"began"`
		}
		read++
		if p.isUnreadable(p.db.decode(k, v, &t)) {
			continue // it goes with those behind it: they are younger
		}
		seq := binary.BigEndian.Uint64(k)
		switch {
		// A clock that was ahead for a while must not keep what came later.
		case t.Began.After(p.now):
		case p.isOver(t.Began, p.keep.Conversation(a)):
			o.upto, o.expired = seq, seq
		case seq <= s.Upto && p.isOver(t.Began, keepTurns):
			o.upto = seq
		default:
			return o, read, nil
		}
	}
	return o, read, nil
}

// deleteOldTurns deletes the turns that findOld found, in small transactions.
func (p *pruner) deleteOldTurns(o oldTurns) error {
	name := o.address.String()
	p.changed[o.address] = true
	for done := false; !done; {
		if err := p.db.update(p.ctx, func(tx *tx) error {
			done = true
			all := tx.top(turnsBucket)
			turns := all.nested(name)
			if turns == nil {
				return nil
			}
			before, began := tx.deleted, time.Now()
			for k, v := turns.cursor().first(); k != nil; k, v = turns.cursor().first() {
				seq := binary.BigEndian.Uint64(k)
				if seq > o.upto {
					return nil
				}
				if tx.isFull(before, began) {
					done = false
					return nil
				}
				if seq <= o.expired {
					if err := p.unindex(tx, o.address, k, v); err != nil {
						return err
					}
				}
				if err := turns.delete(slices.Clone(k)); err != nil {
					return err
				}
			}
			// The bucket goes with its last turn, unless there is a summary: it names turns by the
			// number that the bucket counts on from.
			return dropConversation(tx, name)
		}); err != nil {
			return err
		}
	}
	return nil
}

// dropConversation deletes the bucket and the summary of a conversation that has neither turns nor
// words in a summary left.
func dropConversation(tx *tx, name string) error {
	var s conversation.Summary
	_, err := tx.top(summariesBucket).get([]byte(name), &s)
	if tx.db.noteDamaged(err) {
		return nil // nobody knows whether there are words in it
	}
	if err != nil || s.Text != "" {
		return err
	}
	if turns := tx.top(turnsBucket).nested(name); turns != nil {
		if k, _ := turns.cursor().first(); k != nil {
			return nil
		}
	}
	return errors.Join(dropEmpty(tx, turnsBucket, name), tx.top(summariesBucket).delete([]byte(name)))
}

// unindex removes a stored turn from the indexes of its messages and quotes. Entries of one that cannot be read are
// deleted by pruneIndexes.
func (p *pruner) unindex(tx *tx, a chat.Address, k, v []byte) error {
	var t conversation.Turn
	if p.isUnreadable(p.db.decode(k, v, &t)) {
		return nil
	}
	return unindexTurn(tx, t, store.TurnRef{Conversation: a, Seq: binary.BigEndian.Uint64(k)})
}

// pruneSummaries empties the summaries that may hold words which are over the retention of their
// conversation. What can be said of the turns that are left is for whoever writes summaries.
func (p *pruner) pruneSummaries() error {
	if p.keep.Conversations == nil {
		return nil
	}
	s := sweep{
		top: summariesBucket,
		isOld: func(_ *tx, k, v []byte) (bool, error) {
			a, s, err := p.decodeSummary(k, v)
			return s.Text != "" && p.isOver(s.Since, p.keep.Conversation(a)), err
		},
		drop: func(tx *tx, b *bucket, k, v []byte) error {
			a, s, err := p.decodeSummary(k, v)
			if err != nil {
				return err
			}
			tx.deleted++ // it costs as much
			p.changed[a] = true
			err = b.put(k, conversation.Summary{Upto: s.Upto, From: s.Upto + 1, Since: p.now, At: p.now})
			return errors.Join(err, dropConversation(tx, a.String()))
		},
	}
	return p.run(&s)
}

func (p *pruner) decodeSummary(k, v []byte) (a chat.Address, s conversation.Summary, err error) {
	if a, err = chat.ParseAddress(string(k)); err == nil {
		err = p.db.decode(k, v, &s)
	}
	return a, s, err
}

// pruneIndexes deletes the entries of messages and quotes whose turn is gone, and in no summary.
func (p *pruner) pruneIndexes() error {
	places := sweep{top: messageTurnsBucket, isOld: func(tx *tx, k, v []byte) (bool, error) {
		var at store.TurnRef
		if err := p.db.decode(k, v, &at); err != nil {
			return false, err
		}
		return p.isGone(tx, at)
	}}
	if err := p.run(&places); err != nil {
		return err
	}
	quotes := sweep{top: quotesBucket, isOld: func(tx *tx, k, v []byte) (bool, error) {
		var list []store.TurnRef
		if err := p.db.decode(k, v, &list); err != nil {
			return false, err
		}
		for _, at := range list {
			if gone, err := p.isGone(tx, at); err != nil || !gone {
				return false, err
			}
		}
		return true, nil
	}}
	return p.run(&quotes)
}

// isGone reports whether nothing is left of a turn, neither itself nor words in a summary.
func (p *pruner) isGone(tx *tx, at store.TurnRef) (bool, error) {
	name := at.Conversation.String()
	if turns := tx.top(turnsBucket).nested(name); turns != nil && turns.has(seqKey(at.Seq)) {
		return false, nil
	}
	var s conversation.Summary
	found, err := tx.top(summariesBucket).get([]byte(name), &s)
	return err == nil && (!found || at.Seq > s.Upto || at.Seq < s.From), err
}

// pruneMessages deletes old messages that stand outside of turns. Their keys begin with the time.
func (p *pruner) pruneMessages() error {
	if p.keep.Conversations == nil {
		return nil
	}
	return p.eachNested(messagesBucket, func(name string) error {
		a, ok := p.parseAddress([]byte(name))
		keep := p.keep.Conversation(a)
		if !ok || keep == 0 {
			return nil
		}
		return p.deleteMessages(name, timeKey(p.now.Add(-keep)))
	})
}

// deleteMessages deletes the messages outside of turns of a conversation, by its name, up to a key; all if it is nil.
func (p *pruner) deleteMessages(name string, below []byte) error {
	s := sweep{
		top:    messagesBucket,
		nested: name,
		below:  below,
		isOld:  func(*tx, []byte, []byte) (bool, error) { return true, nil },
		drop: func(tx *tx, b *bucket, k, v []byte) error {
			var m store.Message
			if p.isUnreadable(p.db.decode(k, v, &m)) {
				return b.delete(k) // its ID is not known, and leads to nothing then
			}
			return errors.Join(tx.deleteIn(messageIDsBucket, name, []byte(m.ID)), b.delete(k))
		},
	}
	if err := p.run(&s); err != nil {
		return err
	}
	return p.db.update(p.ctx, func(tx *tx) error {
		if err := dropEmpty(tx, messagesBucket, name); err != nil {
			return err
		}
		ids := tx.top(messageIDsBucket)
		if tx.top(messagesBucket).nested(name) != nil || ids.nested(name) == nil {
			return nil
		}
		return ids.deleteNested(name) // with those of messages that could not be read
	})
}

// dropEmpty deletes a nested bucket that holds nothing; there may be none.
func dropEmpty(tx *tx, top, name string) error {
	b := tx.top(top).nested(name)
	if b == nil {
		return nil
	}
	if k, _ := b.cursor().first(); k != nil {
		return nil
	}
	return tx.top(top).deleteNested(name)
}

// pruneRooms deletes the old lines and files of web rooms.
func (p *pruner) pruneRooms() error {
	if p.keep.Rooms == nil {
		return nil
	}
	if err := p.eachNested(roomsBucket, p.pruneLines); err != nil {
		return err
	}
	return p.eachNested(roomFilesBucket, func(room string) error {
		s := sweep{top: roomFilesBucket, nested: room, isOld: func(_ *tx, k, v []byte) (bool, error) {
			at, err := fileTime(v)
			if err != nil {
				return false, damagedError(p.db.path, fmt.Sprintf("record %q: %v", k, err), restoreRemedy)
			}
			return p.isOver(at, p.keep.Rooms(room)), nil
		}}
		return p.run(&s)
	})
}

// pruneLines deletes what was said in a web room longer ago than is kept, each entry with its index.
func (p *pruner) pruneLines(room string) error {
	s := sweep{
		top:    roomsBucket,
		nested: room,
		isOld: func(_ *tx, k, v []byte) (bool, error) {
			var e store.Entry
			err := p.db.decode(k, v, &e)
			return p.isOver(e.At, p.keep.Rooms(room)), err
		},
		drop: func(tx *tx, b *bucket, k, v []byte) error {
			var e store.Entry
			err := p.db.decode(k, v, &e)
			return errors.Join(err, tx.deleteIn(entriesBucket, room, []byte(e.ID)), b.delete(k))
		},
	}
	return p.run(&s)
}

// fileTime returns when a file of a room was stored; zero: before the times of files were. It
// reads no further than to the time: the file behind it may be large.
func fileTime(v []byte) (time.Time, error) {
	body, err := unseal(v)
	if err != nil {
		return time.Time{}, err
	}
	d := json.NewDecoder(strings.NewReader(string(body[:min(len(body), 64)])))
	for _, want := range []any{json.Delim('{'), "at"} {
		if t, err := d.Token(); err != nil || t != want {
			return time.Time{}, nil
		}
	}
	var at time.Time
	err = d.Decode(&at)
	return at, err
}
