package bolt

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/store"
)

// A conversation that is deleted is first moved out of the readers' sight, whatever its size, and
// then emptied in small transactions. What a crash leaves of it is emptied by Prune.

// trashName returns the name of the top-level bucket that holds what was deleted from another one
// and is still to be emptied.
func trashName(top string) string { return "deleted" + top }

// conversationBuckets hold one bucket a conversation.
func conversationBuckets() []string { return []string{turnsBucket, messagesBucket, messageIDsBucket} }

// DeleteConversation removes the turns, the messages outside of turns, the summary and the large
// results of a conversation. It returns store.ErrNotFound where nothing is kept, and a *store.DamagedError where a large
// result is kept that cannot be read, whoever's it is: all else is deleted.
func (db *DB) DeleteConversation(ctx context.Context, a chat.Address) error {
	// The results come first: once the turns are gone, nothing tells that a crash left some.
	results := sweep{top: resultsBucket, isOld: func(_ *tx, k, v []byte) (bool, error) {
		var r store.ToolResult
		err := db.decode(k, v, &r)
		return r.Conversation == a, err
	}}
	_, err := results.run(ctx, db)
	for moved, left := false, false; err == nil && !moved; {
		if moved, left, err = db.moveToTrash(ctx, a); err == nil && left {
			err = db.emptyTrash(ctx, a)
		}
	}
	if err = cmp.Or(err, results.blocked); err != nil {
		return fmt.Errorf("delete conversation %s: %w", a, err)
	}
	return nil
}

// moveToTrash hides a conversation from readers and deletes what one transaction may; left reports
// whether more is to be deleted. It returns false where it has to be tried again: another one of
// the same address is still to be emptied, or others have written to it in the same transaction.
func (db *DB) moveToTrash(ctx context.Context, a chat.Address) (moved, left bool, err error) {
	name := a.String()
	err = db.update(ctx, func(tx *tx) (err error) {
		moved, left = false, true
		kept := slices.DeleteFunc(conversationBuckets(), func(top string) bool { return tx.top(top).nested(name) == nil })
		if len(kept) == 0 {
			return store.ErrNotFound
		}
		for _, top := range conversationBuckets() {
			if tx.top(trashName(top)).nested(name) != nil {
				return nil
			}
		}
		for _, top := range kept {
			if tx.top(top).nested(name).changed {
				return nil // bbolt moves a bucket as it was before the transaction, which ends with emptying the trash
			}
		}
		for _, top := range kept {
			if err := tx.top(top).moveNested(name, tx.top(trashName(top))); err != nil {
				return err
			}
		}
		if err := tx.top(summariesBucket).delete([]byte(name)); err != nil {
			return err
		}
		moved = true
		left, err = emptySome(tx, a)
		return err
	})
	return moved, left, err
}

// emptyTrash deletes what is left of a deleted conversation; there may be nothing.
func (db *DB) emptyTrash(ctx context.Context, a chat.Address) error {
	for left := true; left; {
		if err := db.update(ctx, func(tx *tx) (err error) {
			left, err = emptySome(tx, a)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// emptySome deletes as many records of a deleted conversation as one transaction may. It returns
// false where nothing is left.
func emptySome(tx *tx, a chat.Address) (left bool, err error) {
	name, before, began := a.String(), tx.deleted, time.Now()
	tx.atOnce = true // so that nobody looks for the first record behind ever more pages without any
	for _, top := range conversationBuckets() {
		all := tx.top(trashName(top))
		b := all.nested(name)
		if b == nil {
			continue
		}
		for k, v := b.cursor().first(); k != nil; k, v = b.cursor().first() {
			if tx.isFull(before, began) {
				return true, nil
			}
			var t conversation.Turn
			// A turn that cannot be decoded can still be deleted.
			if top == turnsBucket && tx.db.decode(k, v, &t) == nil {
				at := store.TurnRef{Conversation: a, Seq: binary.BigEndian.Uint64(k)}
				if err := unindexTurn(tx, t, at); err != nil {
					return true, err
				}
			}
			if err := b.delete(slices.Clone(k)); err != nil {
				return true, err
			}
		}
		if err := all.deleteNested(name); err != nil {
			return true, err
		}
	}
	return false, nil
}

// emptyTrash deletes what crashes have left of deleted conversations.
func (p *pruner) emptyTrash() error {
	for _, top := range conversationBuckets() {
		err := p.eachNested(trashName(top), func(name string) error {
			a, ok := p.parseAddress([]byte(name))
			if !ok {
				return nil
			}
			return p.db.emptyTrash(p.ctx, a)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
