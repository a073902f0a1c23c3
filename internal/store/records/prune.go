package records

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
)

// How long records are kept that no setting is about. What was said is kept no longer than the conversation that it
// belongs to.
const (
	keepDone        = 48 * time.Hour      // keys of finished messages and posts: longer than platforms redeliver
	keepLastSeen    = 30 * 24 * time.Hour // of a conversation
	keepUndelivered = 7 * 24 * time.Hour  // posts that were given up
	keepTurns       = 30 * 24 * time.Hour // that a summary covers
	keepShown       = 30 * 24 * time.Hour // which turn a post shows
	keepApprovals   = 30 * 24 * time.Hour
	keepSeen        = 90 * 24 * time.Hour // an item that no feed lists any more
)

// Prune deletes the records that are older than they are kept. Without a retention of their conversation turns are deleted
// only if a summary covers them. It returns the conversations that lost turns or their summary, by address, also if it
// fails. A record that cannot be read does not keep it from deleting the rest; it returns a *store.DamagedError then.
func (s *Store) Prune(ctx context.Context, keep store.Retention) ([]chat.Address, error) {
	p := s.newPruner(ctx, keep)
	var err error
	for _, step := range []func() error{
		p.pruneShortLived,
		p.pruneOfConversations,
		p.pruneUsage,
		p.pruneTurns,
		p.pruneSummaries,
		p.pruneIndexes,
		p.pruneMessages,
		p.pruneRooms,
	} {
		if err == nil {
			err = step()
		}
	}
	return p.changedAddresses(), wrap(cmp.Or(err, p.blocked), "prune store")
}

// isOver reports whether something is older than it is kept; 0: it is kept without end.
func (p *pruner) isOver(at time.Time, keep time.Duration) bool {
	return keep > 0 && at.Before(p.now.Add(-keep))
}

// isOverIn is isOver for something that belongs to a conversation: it is kept no longer than what was said there. limit is
// its own, 0 if it has none.
func (p *pruner) isOverIn(a chat.Address, at time.Time, limit time.Duration) bool {
	return p.isOver(at, limit) || p.isOver(at, p.keep.Conversation(a))
}

// pruneShortLived deletes what is kept for a time that is the same for all.
func (p *pruner) pruneShortLived() error {
	err := p.sweepBefore(done.Spec, "", p.now.Add(-keepDone))
	err = cmp.Or(err, p.sweepBefore(streams.Spec, "", p.now.Add(-keepDone)))
	err = cmp.Or(err, sweepAll(p, feedback, func(f store.Feedback) bool { return p.isOver(f.At, p.keep.Feedback) }))
	return cmp.Or(err, p.eachGroup(seenItems.Spec, func(digest string) error {
		return p.sweepBefore(seenItems.Spec, digest, p.now.Add(-keepSeen))
	}))
}

// pruneOfConversations deletes what is kept no longer than the conversation to which it belongs.
func (p *pruner) pruneOfConversations() error {
	err := sweepAll(p, outbox, func(o store.Post) bool {
		return o.Error != "" && p.isOverIn(o.To, o.At, keepUndelivered) // without an error it is still to be sent
	})
	err = cmp.Or(err, sweepAll(p, lastSeen, func(l chat.LastSeen) bool {
		return p.isOverIn(l.Conversation, l.At, keepLastSeen)
	}))
	err = cmp.Or(err, sweepAll(p, shownTurns, func(r shownRecord) bool { return p.isOverIn(r.Shown.To, r.At, keepShown) }))
	err = cmp.Or(err, sweepAll(p, approvals, func(a store.Approval) bool {
		return p.isOverIn(a.Conversation, a.At, keepApprovals)
	}))
	err = cmp.Or(err, sweepAll(p, calls, func(c store.ToolCall) bool {
		return p.isOverIn(c.Conversation, c.Began, p.keep.Calls)
	}))
	return cmp.Or(err, sweepAll(p, results, func(r store.ToolResult) bool {
		return p.isOverIn(r.Conversation, r.At, p.keep.Calls) // one without a time is older than those that have one
	}))
}

// pruneUsage deletes the sums of old days, with which their keys begin.
func (p *pruner) pruneUsage() error {
	if p.keep.Usage == 0 {
		return nil
	}
	day := p.now.Add(-p.keep.Usage).UTC().Format(dayFormat)
	return p.run(sweep{spec: usage.Spec, in: kv.Range{To: day}})
}

// oldTurns are the first turns of a conversation, as far as they are to be deleted.
type oldTurns struct {
	address chat.Address
	upto    uint64 // Seq
	expired uint64 // as far as they are over the retention
}

// pruneTurns deletes old turns: those that are over their conversation's retention, from the indexes, too, and those that a
// summary has covered for long. The index of these stays, so that the summary is written again when one of their messages
// is deleted.
func (p *pruner) pruneTurns() error {
	return p.eachConversation(turns.Spec, func(a chat.Address) error {
		o, err := p.findOldTurns(a)
		if err != nil || o.upto == 0 {
			return err
		}
		return p.deleteTurns(o)
	})
}

// findOldTurns returns which turns of a conversation are old. The first that is young ends them.
func (p *pruner) findOldTurns(a chat.Address) (oldTurns, error) {
	return read(p.ctx, p.Store, func(tx kv.Tx) (oldTurns, error) {
		o := oldTurns{address: a}
		s, _, err := summaries.Get(tx, "", a.String())
		if err = p.exceptDamage(err); err != nil || p.keep.Conversations == nil && s.Upto == 0 {
			return o, err
		}
		return o, tx.Scan(turns.Spec, kv.Range{Group: a.String()}, func(e kv.Entry) error {
			var t struct {
				Began time.Time `json:"began"`
			}
			err := e.Err
			if err == nil && json.Unmarshal(e.Value, &t) != nil {
				_, err = turns.Decode(tx, a.String(), e)
			}
			if p.isUnreadable(err) {
				return nil // it goes with those behind it: they are younger
			}
			seq := kv.ParseNumber(e.Key)
			switch {
			case err != nil:
				return err
			// A clock that was ahead for a while must not keep what came later.
			case t.Began.After(p.now):
			case p.isOver(t.Began, p.keep.Conversation(a)):
				o.upto, o.expired = seq, seq
			case seq <= s.Upto && p.isOver(t.Began, keepTurns):
				o.upto = seq
			default:
				return kv.ErrStop
			}
			return nil
		})
	})
}

// deleteTurns deletes the turns that findOldTurns found, in small transactions.
func (p *pruner) deleteTurns(o oldTurns) error {
	name := o.address.String()
	scope := []string{channelScope(o.address)}
	p.changed[o.address] = true
	// A turn that cannot be read goes as well: those behind it are gone.
	for more := true; more; {
		err := p.update(p.ctx, func(tx kv.Tx) error {
			more = false
			var first []kv.Entry
			r := kv.Range{Group: name, To: kv.After(kv.NumberKey(o.upto)), Limit: maxDeleted}
			err := tx.Scan(turns.Spec, r, func(e kv.Entry) error {
				e.Value = append([]byte(nil), e.Value...)
				first = append(first, e)
				return nil
			})
			began := time.Now()
			for i, e := range first {
				if more = i > 0 && time.Since(began) > maxDeleteTime; err != nil || more {
					break
				}
				if seq := kv.ParseNumber(e.Key); seq <= o.expired {
					err = p.unindex(tx, o.address, e)
				}
				err = cmp.Or(err, turns.Delete(tx, name, e.Key))
			}
			more = more || len(first) == maxDeleted
			if err != nil || more {
				return err
			}
			// The group goes with its last turn, unless there is a summary: it names turns by the group's number.
			return p.dropConversation(tx, name)
		}, scope...)
		if err != nil {
			return err
		}
	}
	return nil
}

// unindex removes a stored turn from the indexes of its messages and quotes. pruneIndexes deletes the entries of one that
// cannot be read.
func (p *pruner) unindex(tx kv.Tx, a chat.Address, e kv.Entry) error {
	t, err := turns.Decode(tx, a.String(), e)
	if p.isUnreadable(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return p.unindexTurn(tx, t, store.TurnRef{Conversation: a, Seq: kv.ParseNumber(e.Key)})
}

// dropConversation deletes the number and the summary of a conversation that has neither turns nor words in a summary left.
func (s *Store) dropConversation(tx kv.Tx, name string) error {
	kept, _, err := summaries.Get(tx, "", name)
	if err != nil || kept.Text != "" {
		return s.exceptDamage(err) // nobody knows whether there are words in a damaged one
	}
	left, err := tx.Count(turns.Spec, name)
	if err != nil || left > 0 {
		return err
	}
	return cmp.Or(tx.DeleteGroup(turns.Spec, name), summaries.Delete(tx, "", name))
}

// pruneSummaries empties the summaries that may hold words which are over the retention of their conversation. What can be
// said of the turns that are left is for whoever writes summaries.
func (p *pruner) pruneSummaries() error {
	if p.keep.Conversations == nil {
		return nil
	}
	var old []chat.Address
	err := p.run(sweep{spec: summaries.Spec, isOld: func(tx kv.Tx, e kv.Entry) (bool, error) {
		a, err := chat.ParseAddress(e.Key)
		if err != nil {
			return false, tx.Damaged(summaries.Spec, "", e.Key, err)
		}
		s, err := summaries.Decode(tx, "", e)
		if err == nil && p.isOldSummary(a, s) {
			old = append(old, a)
		}
		return false, err // it is emptied below
	}})
	for _, a := range old {
		err = cmp.Or(err, p.ctx.Err())
		if err == nil {
			err = p.emptySummary(a)
		}
	}
	return err
}

func (p *pruner) isOldSummary(a chat.Address, s conversation.Summary) bool {
	return s.Text != "" && p.isOver(s.Since, p.keep.Conversation(a))
}

// emptySummary takes the words out of a summary that is still too old.
func (p *pruner) emptySummary(a chat.Address) error {
	return p.update(p.ctx, func(tx kv.Tx) error {
		s, _, err := summaries.Get(tx, "", a.String())
		if err != nil || !p.isOldSummary(a, s) {
			return p.exceptDamage(err)
		}
		p.changed[a] = true
		empty := conversation.Summary{Upto: s.Upto, From: s.Upto + 1, Since: p.now, At: p.now}
		return cmp.Or(summaries.Put(tx, "", a.String(), empty), p.dropConversation(tx, a.String()))
	}, channelScope(a))
}

// pruneIndexes deletes the entries of messages and quotes whose turn is gone, and in no summary.
func (p *pruner) pruneIndexes() error {
	err := p.run(sweep{spec: messageTurns.Spec, isOld: func(tx kv.Tx, e kv.Entry) (bool, error) {
		at, err := messageTurns.Decode(tx, "", e)
		if err != nil {
			return false, err
		}
		return p.isGone(tx, at)
	}})
	return cmp.Or(err, p.run(sweep{spec: quotes.Spec, isOld: func(tx kv.Tx, e kv.Entry) (bool, error) {
		list, err := quotes.Decode(tx, "", e)
		for _, at := range list {
			if gone, err := p.isGone(tx, at); err != nil || !gone {
				return false, err
			}
		}
		return err == nil, err
	}}))
}

// keptTurns is what is kept of a conversation's turns, as a transaction saw it.
type keptTurns struct {
	tx         kv.Tx
	name       string
	seqs       map[uint64]bool
	summary    conversation.Summary
	hasSummary bool
}

// isGone reports whether nothing is left of a turn, neither itself nor words in a summary. Entries of one conversation
// mostly follow one another, so that it is read once for many.
func (p *pruner) isGone(tx kv.Tx, at store.TurnRef) (bool, error) {
	name := at.Conversation.String()
	if p.kept.tx != tx || p.kept.name != name {
		k := keptTurns{tx: tx, name: name, seqs: map[uint64]bool{}}
		err := tx.Scan(turns.Spec, kv.Range{Group: name, KeysOnly: true}, func(e kv.Entry) error {
			k.seqs[kv.ParseNumber(e.Key)] = true
			return nil
		})
		if err == nil {
			k.summary, k.hasSummary, err = summaries.Get(tx, "", name)
		}
		if err != nil {
			return false, err
		}
		p.kept = k
	}
	s := p.kept.summary
	return !p.kept.seqs[at.Seq] && (!p.kept.hasSummary || at.Seq > s.Upto || at.Seq < s.From), nil
}

// pruneMessages deletes old messages that stand outside of turns. Their keys begin with the time.
func (p *pruner) pruneMessages() error {
	if p.keep.Conversations == nil {
		return nil
	}
	return p.eachConversation(messages.Spec, func(a chat.Address) error {
		keep := p.keep.Conversation(a)
		if keep == 0 {
			return nil
		}
		return p.deleteMessages(a, kv.TimeKey(p.now.Add(-keep)))
	})
}

// deleteMessages deletes the messages outside of turns of a conversation up to a key; all if it is "".
func (p *pruner) deleteMessages(a chat.Address, below string) error {
	name := a.String()
	return p.run(sweep{
		spec:  messages.Spec,
		in:    kv.Range{Group: name, To: below},
		scope: []string{channelScope(a)},
		drop: func(tx kv.Tx, e kv.Entry) error {
			err := messages.Delete(tx, name, e.Key)
			m, unreadable := messages.Decode(tx, name, e)
			if p.isUnreadable(unreadable) {
				return err // its ID is not known, and leads to nothing then
			}
			return cmp.Or(err, messageIDs.Delete(tx, "", messageIDKey(a, m.ID)))
		},
	})
}

// pruneRooms deletes the old lines and files of web rooms.
func (p *pruner) pruneRooms() error {
	if p.keep.Rooms == nil {
		return nil
	}
	err := p.eachGroup(entries.Spec, func(room string) error {
		return p.run(sweep{
			spec:  entries.Spec,
			in:    kv.Range{Group: room},
			scope: []string{roomScope(room)},
			isOld: func(tx kv.Tx, e kv.Entry) (bool, error) {
				line, err := entries.Decode(tx, room, e)
				return err == nil && p.isOver(line.At, p.keep.Rooms(room)), err
			},
			drop: func(tx kv.Tx, e kv.Entry) error {
				line, err := entries.Decode(tx, room, e)
				err = cmp.Or(err, entryIDs.Delete(tx, room, line.ID))
				return cmp.Or(err, entries.Delete(tx, room, e.Key))
			},
		})
	})
	return cmp.Or(err, p.eachGroup(roomFiles.Spec, func(room string) error {
		return p.run(sweep{
			spec:  roomFiles.Spec,
			in:    kv.Range{Group: room},
			scope: []string{roomScope(room)},
			isOld: func(tx kv.Tx, e kv.Entry) (bool, error) {
				f, err := roomFiles.Decode(tx, room, e)
				return err == nil && p.isOver(f.At, p.keep.Rooms(room)), err
			},
			drop: func(tx kv.Tx, e kv.Entry) error { return deleteRoomFile(tx, room, kv.ParseNumber(e.Key)) },
		})
	}))
}
