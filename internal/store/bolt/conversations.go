package bolt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/store"
)

// putTurn writes a turn, and sets its Seq where it has none. The turn is a copy of the caller's: a change may run more
// than once, and an earlier run that was rolled back must leave no number.
func (db *DB) putTurn(tx *tx, a chat.Address, turn *conversation.Turn) error {
	b, err := tx.top(turnsBucket).createNested(a.String())
	if err != nil {
		return err
	}
	if turn.Seq == 0 {
		turn.Seq = b.nextSequence()
		// What a turn quotes is known when it begins, so this costs nothing at later steps.
		if err := indexQuotes(tx, turn.Quotes(), store.TurnRef{Conversation: a, Seq: turn.Seq}); err != nil {
			return err
		}
	}
	// The conversation may have been deleted since the turn began: the next turn must not get its number.
	b.raiseSequence(turn.Seq)
	places := tx.top(messageTurnsBucket)
	for _, subject := range turn.Subjects() {
		// A turn is saved at each step; its messages are indexed once.
		if !places.has([]byte(subject)) {
			if err := places.put([]byte(subject), store.TurnRef{Conversation: a, Seq: turn.Seq}); err != nil {
				return err
			}
		}
	}
	return b.put(seqKey(turn.Seq), turn)
}

// indexQuotes adds a turn to those that quote messages.
func indexQuotes(tx *tx, subjects []string, at store.TurnRef) error {
	if len(subjects) == 0 {
		return nil
	}
	ref, err := encodeBehind(nil, at)
	if err != nil {
		return err
	}
	b := tx.top(quotesBucket)
	for _, subject := range subjects {
		if err := b.appendTo([]byte(subject), ref); err != nil {
			return err
		}
	}
	return nil
}

// unindexTurn removes a turn from the indexes: a deleted message must not be traceable. Entries
// that name another turn stay, and those that cannot be read, which count as damage of the store.
func unindexTurn(tx *tx, t conversation.Turn, at store.TurnRef) error {
	var failed error
	places := tx.top(messageTurnsBucket)
	for _, subject := range t.Subjects() {
		var held store.TurnRef
		found, err := places.getIntact([]byte(subject), &held)
		if found && held == at { // a message may be part of another turn since
			err = places.delete([]byte(subject))
		}
		failed = errors.Join(failed, err)
	}
	b := tx.top(quotesBucket)
	for _, subject := range t.Quotes() {
		var list []store.TurnRef
		found, err := b.getIntact([]byte(subject), &list)
		list = slices.DeleteFunc(list, func(r store.TurnRef) bool { return r == at })
		switch {
		case err != nil || !found:
		case len(list) == 0:
			err = b.delete([]byte(subject))
		default:
			err = b.put([]byte(subject), list)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// TurnsQuoting returns where the turns are that quoted a message when they were first stored.
func (db *DB) TurnsQuoting(ctx context.Context, subject string) ([]store.TurnRef, error) {
	var list []store.TurnRef
	err := db.view(func(tx *tx) error {
		_, err := tx.top(quotesBucket).get([]byte(subject), &list)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find the turns that quote message %s: %w", subject, err)
	}
	return list, nil
}

// SaveTurn stores a turn as far as it has come, with the calls that ended since it was
// saved last, in one transaction. It sets the turn's Seq.
func (db *DB) SaveTurn(ctx context.Context, a chat.Address, turn *conversation.Turn, calls ...store.ToolCall) error {
	var saved conversation.Turn
	err := db.update(ctx, func(tx *tx) error {
		if err := saveCalls(tx, calls); err != nil {
			return err
		}
		saved = *turn
		return db.putTurn(tx, a, &saved)
	})
	if err != nil {
		return fmt.Errorf("store turn of %s: %w", a, err)
	}
	turn.Seq = saved.Seq
	return nil
}

// Turns returns turns of a conversation, oldest first.
func (db *DB) Turns(ctx context.Context, a chat.Address, r store.Range) ([]conversation.Turn, error) {
	var turns []conversation.Turn
	err := db.view(func(tx *tx) error {
		b := tx.top(turnsBucket).nested(a.String())
		if b == nil {
			return nil
		}
		c := b.cursor()
		k, v := c.last()
		// Turns are read from the newest back, so that the cost does not grow with the age of
		// the conversation. Where no key lies above Upto, the last one is in the range.
		if r.Upto > 0 && r.Upto < math.MaxUint64 {
			if after, _ := c.seek(seqKey(r.Upto + 1)); after != nil {
				k, v = c.prev()
			} else {
				k, v = c.last()
			}
		}
		for ; k != nil && len(turns) < r.Newest && binary.BigEndian.Uint64(k) > r.After; k, v = c.prev() {
			var t conversation.Turn
			if err := db.decode(k, v, &t); err != nil {
				return err
			}
			turns = append(turns, t)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load conversation %s: %w", a, err)
	}
	slices.Reverse(turns)
	return turns, nil
}

// TurnOf returns the turn that holds a message, and its conversation. It returns
// store.ErrNotFound where none does; with a conversation, the turn was deleted or pruned.
func (db *DB) TurnOf(ctx context.Context, subject string) (chat.Address, conversation.Turn, error) {
	var at store.TurnRef
	var t conversation.Turn
	err := db.view(func(tx *tx) error {
		found, err := tx.top(messageTurnsBucket).get([]byte(subject), &at)
		if err != nil {
			return err
		}
		b := tx.top(turnsBucket).nested(at.Conversation.String())
		if !found || b == nil {
			return store.ErrNotFound
		}
		if found, err = b.get(seqKey(at.Seq), &t); err == nil && !found {
			err = store.ErrNotFound
		}
		return err
	})
	if err != nil {
		return at.Conversation, conversation.Turn{}, fmt.Errorf("load the turn of message %s: %w", subject, err)
	}
	return at.Conversation, t, nil
}

// DeleteTurn removes a turn; there may be none. Its number is not given again.
func (db *DB) DeleteTurn(ctx context.Context, a chat.Address, seq uint64) error {
	err := db.update(ctx, func(tx *tx) error {
		b := tx.top(turnsBucket).nested(a.String())
		if b == nil {
			return nil
		}
		var t conversation.Turn
		found, err := b.get(seqKey(seq), &t)
		if err != nil || !found {
			return err
		}
		return errors.Join(unindexTurn(tx, t, store.TurnRef{Conversation: a, Seq: seq}), b.delete(seqKey(seq)))
	})
	if err != nil {
		return fmt.Errorf("delete a turn of %s: %w", a, err)
	}
	return nil
}

// Summary returns the summary of the older turns of a conversation; its Upto is 0 where
// there is none.
func (db *DB) Summary(ctx context.Context, a chat.Address) (conversation.Summary, error) {
	var s conversation.Summary
	err := db.view(func(tx *tx) error {
		_, err := tx.top(summariesBucket).get([]byte(a.String()), &s)
		return err
	})
	if err != nil {
		return conversation.Summary{}, fmt.Errorf("load the summary of %s: %w", a, err)
	}
	return s, nil
}

// SaveSummary stores the summary of the older turns of a conversation.
func (db *DB) SaveSummary(ctx context.Context, a chat.Address, s conversation.Summary) error {
	err := db.update(ctx, func(tx *tx) error { return tx.top(summariesBucket).put([]byte(a.String()), s) })
	if err != nil {
		return fmt.Errorf("store the summary of %s: %w", a, err)
	}
	return nil
}

// HasConversation reports whether anything is kept of a conversation.
func (db *DB) HasConversation(ctx context.Context, a chat.Address) (bool, error) {
	var has bool
	err := db.view(func(tx *tx) error {
		has = tx.top(turnsBucket).nested(a.String()) != nil || tx.top(messagesBucket).nested(a.String()) != nil
		return nil
	})
	return has, err
}

// DeleteConversation removes the turns, the messages outside of turns, the summary and the large results of a
// conversation, in small transactions: what a crash leaves is deleted when it is called again. It returns
// store.ErrNotFound if nothing is kept, and a *store.DamagedError if a large result cannot be read, whosever it is: all
// else is deleted.
func (db *DB) DeleteConversation(ctx context.Context, a chat.Address) error {
	p := &pruner{db: db, ctx: ctx, now: db.now(), changed: map[chat.Address]bool{}}
	// The results come first: once the turns are gone, nothing tells that a crash left some.
	results := sweep{top: resultsBucket, isOld: func(_ *tx, k, v []byte) (bool, error) {
		var r store.ToolResult
		err := db.decode(k, v, &r)
		return r.Conversation == a, err
	}}
	_, err := results.run(ctx, db)
	var last uint64
	if err == nil {
		last, err = db.deleteSummary(ctx, a)
	}
	if err == nil {
		err = p.deleteOldTurns(oldTurns{address: a, upto: last, expired: last})
	}
	if err == nil {
		err = p.deleteMessages(a.String(), nil)
	}
	if err = cmp.Or(err, results.blocked); err != nil {
		return fmt.Errorf("delete conversation %s: %w", a, err)
	}
	return nil
}

// deleteSummary deletes the summary of a conversation and returns the number of its last turn. It returns
// store.ErrNotFound if nothing is kept of the conversation.
func (db *DB) deleteSummary(ctx context.Context, a chat.Address) (last uint64, err error) {
	name := a.String()
	err = db.update(ctx, func(tx *tx) error {
		turns := tx.top(turnsBucket).nested(name)
		if turns == nil && tx.top(messagesBucket).nested(name) == nil && tx.top(messageIDsBucket).nested(name) == nil {
			return store.ErrNotFound
		}
		if last = 0; turns != nil {
			last = turns.bolt.Sequence()
		}
		return tx.top(summariesBucket).delete([]byte(name))
	})
	return last, err
}

// Conversations returns up to n conversations behind a cursor, by address, and the cursor behind
// them; "": there are no more.
func (db *DB) Conversations(
	ctx context.Context,
	cursor string,
	n int,
) (list []store.ConversationInfo, next string, err error) {
	after, err := readCursor(cursor)
	if err != nil {
		return nil, "", fmt.Errorf("list conversations: %w", err)
	}
	err = db.view(func(tx *tx) error {
		// Turns and messages outside of turns are in two buckets with the same keys.
		turns, messages := tx.top(turnsBucket).cursor(), tx.top(messagesBucket).cursor()
		t, _ := turns.from(after)
		m, _ := messages.from(after)
		var last []byte
		for t != nil || m != nil {
			key := t
			if t == nil || m != nil && bytes.Compare(m, t) < 0 {
				key = m
			}
			if len(list) == n {
				next = writeCursor(last)
				return nil
			}
			info, err := db.conversationInfo(tx, string(key))
			if err != nil {
				return err
			}
			list, last = append(list, info), key
			hasTurns, hasMessages := bytes.Equal(key, t), bytes.Equal(key, m)
			if hasTurns {
				t, _ = turns.next()
			}
			if hasMessages {
				m, _ = messages.next()
			}
		}
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("list conversations: %w", err)
	}
	return list, next, nil
}

// conversationInfo returns what a list shows of a conversation, by its name. Only the newest turn
// and message are read.
func (db *DB) conversationInfo(tx *tx, name string) (info store.ConversationInfo, err error) {
	if info.Address, err = chat.ParseAddress(name); err != nil {
		return info, err
	}
	if b := tx.top(turnsBucket).nested(name); b != nil {
		if info.Turns, err = b.count(); err != nil {
			return info, err
		}
		if k, v := b.cursor().last(); k != nil {
			var t conversation.Turn
			if err := db.decode(k, v, &t); err != nil {
				return info, err
			}
			info.Last = t.Began
		}
	}
	if b := tx.top(messagesBucket).nested(name); b != nil {
		if k, v := b.cursor().last(); k != nil {
			var m store.Message
			if err := db.decode(k, v, &m); err != nil {
				return info, err
			}
			if m.At.After(info.Last) {
				info.Last = m.At
			}
		}
	}
	return info, nil
}
