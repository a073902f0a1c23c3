package records

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
)

var (
	// turns holds the turns of each conversation, by its address, with the number of a turn as the key.
	turns = kv.Of[conversation.Turn](kv.Spec{Name: "turns", Grouped: true, Watch: watchDeletion})
	// messageTurns holds the turn that a message is part of, by the message's subject.
	messageTurns = kv.Of[store.TurnRef](kv.Spec{Name: "places"})
	// quotes holds the turns that quote a message, one by each quoteKey. A store of an earlier version may have a list of
	// several by the message's subject.
	quotes = kv.Of[[]store.TurnRef](kv.Spec{Name: "quotes"})
)

// watchDeletion announces the deletion of something that was said.
func watchDeletion(_, _ string, deleted bool) string {
	if deleted {
		return store.ConversationChanges
	}
	return ""
}

// turnRefs returns what putTurn and countTurn read for a turn, which may be nil.
func turnRefs(a chat.Address, turn *conversation.Turn) (refs []kv.Ref) {
	if turn == nil {
		return nil
	}
	for _, subject := range turn.Subjects() {
		refs = append(refs, kv.Ref{Spec: messageTurns.Spec, Key: subject})
	}
	if turn.Seq == 0 {
		refs = append(refs, kv.Ref{Spec: turns.Spec, Group: a.String()})
	}
	return refs
}

// putTurn writes a turn, and sets its Seq if it has none. The turn is a copy of the caller's: a transaction may run more
// than once, and an earlier run that was rolled back must leave no number.
func putTurn(tx kv.Tx, a chat.Address, turn *conversation.Turn) (err error) {
	group := a.String()
	if turn.Seq == 0 {
		if turn.Seq, err = tx.Next(turns.Spec, group); err != nil {
			return err
		}
		// What a turn quotes is known when it begins, so that later steps need no index.
		if err := indexQuotes(tx, turn.Quotes(), store.TurnRef{Conversation: a, Seq: turn.Seq}); err != nil {
			return err
		}
	}
	// The conversation may have been deleted since the turn began: the next turn must not get its number.
	if err := tx.Raise(turns.Spec, group, turn.Seq); err != nil {
		return err
	}
	for _, subject := range turn.Subjects() {
		// A turn is saved at each step; its messages are indexed once.
		found, err := messageTurns.Has(tx, "", subject)
		if err == nil && !found {
			err = messageTurns.Put(tx, "", subject, store.TurnRef{Conversation: a, Seq: turn.Seq})
		}
		if err != nil {
			return err
		}
	}
	return turns.Put(tx, group, kv.NumberKey(turn.Seq), *turn)
}

// indexQuotes adds a turn to those that quote messages. It reads nothing: a turn may quote many.
func indexQuotes(tx kv.Tx, subjects []string, at store.TurnRef) error {
	for _, subject := range subjects {
		key := quoteKey(subject, at)
		if len(key) > kv.MaxKey {
			continue // no platform has such ids
		}
		if err := quotes.Put(tx, "", key, []store.TurnRef{at}); err != nil {
			return err
		}
	}
	return nil
}

// quoteKey returns the key of a turn that quotes a message.
func quoteKey(subject string, at store.TurnRef) string {
	return kv.Key(subject, at.Conversation.String()) + kv.NumberKey(at.Seq)
}

// unindexTurn removes a turn from the indexes: a deleted message must not be traceable. Entries that name another turn
// stay, and those that cannot be read, which count as damage of the store.
func (s *Store) unindexTurn(tx kv.Tx, t conversation.Turn, at store.TurnRef) error {
	var failed error
	for _, subject := range t.Subjects() {
		held, found, err := messageTurns.Get(tx, "", subject)
		if err == nil && found && held == at { // a message may be part of another turn since
			err = messageTurns.Delete(tx, "", subject)
		}
		failed = errors.Join(failed, s.exceptDamage(err))
	}
	for _, subject := range t.Quotes() {
		if key := quoteKey(subject, at); len(key) <= kv.MaxKey {
			failed = errors.Join(failed, quotes.Delete(tx, "", key))
		}
		list, found, err := quotes.Get(tx, "", subject)
		list = slices.DeleteFunc(list, func(r store.TurnRef) bool { return r == at })
		switch {
		case err != nil || !found:
		case len(list) == 0:
			err = quotes.Delete(tx, "", subject)
		default:
			err = quotes.Put(tx, "", subject, list)
		}
		failed = errors.Join(failed, s.exceptDamage(err))
	}
	return failed
}

// exceptDamage returns an error unless it is one of a damaged record, which it notes.
func (s *Store) exceptDamage(err error) error {
	if s.NoteDamage(err) {
		return nil
	}
	return err
}

// TurnsQuoting returns where the turns are that quoted a message when they were first stored.
func (s *Store) TurnsQuoting(ctx context.Context, subject string) ([]store.TurnRef, error) {
	found, err := list(ctx, s, quotes, kv.Range{From: subject, To: kv.AfterPrefix(kv.Key(subject, ""))})
	return slices.Concat(found...), wrap(err, "find the turns that quote message %s", subject)
}

// SaveTurn stores a turn as far as it has come, with the calls that ended since it was saved last, in one transaction. It
// sets the turn's Seq.
func (s *Store) SaveTurn(ctx context.Context, a chat.Address, turn *conversation.Turn, ended ...store.ToolCall) error {
	var saved conversation.Turn
	refs := turnRefs(a, turn)
	for range ended {
		refs = append(refs, kv.Ref{Spec: calls.Spec})
	}
	err := s.update(ctx, func(tx kv.Tx) error {
		if err := tx.Prefetch(refs...); err != nil {
			return err
		}
		if err := saveCalls(tx, ended); err != nil {
			return err
		}
		saved = *turn
		return putTurn(tx, a, &saved)
	}, channelScope(a))
	if err == nil {
		turn.Seq = saved.Seq
	}
	return wrap(err, "store turn of %s", a)
}

// Turns returns turns of a conversation, oldest first. They are read from the newest back, so that the cost does not grow
// with the age of the conversation.
func (s *Store) Turns(ctx context.Context, a chat.Address, r store.Range) ([]conversation.Turn, error) {
	if r.Newest <= 0 || r.After == math.MaxUint64 {
		return nil, nil
	}
	within := kv.Range{Group: a.String(), From: kv.NumberKey(r.After + 1), Reverse: true, Limit: r.Newest}
	if r.Upto > 0 {
		within.To = kv.After(kv.NumberKey(r.Upto))
	}
	found, err := list(ctx, s, turns, within)
	slices.Reverse(found)
	return found, wrap(err, "load conversation %s", a)
}

// TurnOf returns the turn that holds a message, and its conversation. It returns store.ErrNotFound if none does; with a
// conversation, the turn was deleted or pruned.
func (s *Store) TurnOf(ctx context.Context, subject string) (at chat.Address, t conversation.Turn, err error) {
	err = s.View(ctx, func(tx kv.Tx) error {
		ref, found, err := messageTurns.Get(tx, "", subject)
		at = ref.Conversation
		if err == nil && found {
			t, found, err = turns.Get(tx, at.String(), kv.NumberKey(ref.Seq))
		}
		if err == nil && !found {
			err = store.ErrNotFound
		}
		return err
	})
	return at, t, wrap(err, "load the turn of message %s", subject)
}

// DeleteTurn removes a turn; there may be none. Its number is not given again.
func (s *Store) DeleteTurn(ctx context.Context, a chat.Address, seq uint64) error {
	key := kv.NumberKey(seq)
	err := s.update(ctx, func(tx kv.Tx) error {
		t, found, err := turns.Get(tx, a.String(), key)
		if err != nil || !found {
			return err
		}
		err = s.unindexTurn(tx, t, store.TurnRef{Conversation: a, Seq: seq})
		return cmp.Or(err, turns.Delete(tx, a.String(), key))
	}, channelScope(a))
	return wrap(err, "delete a turn of %s", a)
}
