package bolt

import (
	"context"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/store"
)

// putTurn writes a turn, giving it its place where it has none.
func (db *DB) putTurn(tx *bbolt.Tx, a chat.Address, turn *conversation.Turn) error {
	b, err := tx.Bucket([]byte(turnsBucket)).CreateBucketIfNotExists([]byte(a.String()))
	if err != nil {
		return err
	}
	if turn.Seq == 0 {
		if turn.Seq, err = b.NextSequence(); err != nil {
			return err
		}
	}
	return put(b, seqKey(turn.Seq), turn)
}

// SaveTurn keeps a turn as far as it has come, and sets its Seq.
func (db *DB) SaveTurn(ctx context.Context, a chat.Address, turn *conversation.Turn) error {
	if err := db.update(ctx, func(tx *bbolt.Tx) error { return db.putTurn(tx, a, turn) }); err != nil {
		return fmt.Errorf("store turn of %s: %w", a, err)
	}
	return nil
}

// Turns gives the newest n turns of a conversation, oldest first.
func (db *DB) Turns(ctx context.Context, a chat.Address, n int) ([]conversation.Turn, error) {
	var turns []conversation.Turn
	err := db.view(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(turnsBucket)).Bucket([]byte(a.String()))
		if b == nil {
			return nil
		}
		c := b.Cursor()
		for k, v := c.Last(); k != nil && len(turns) < n; k, v = c.Prev() {
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

// HasConversation reports whether anything is kept of a conversation.
func (db *DB) HasConversation(ctx context.Context, a chat.Address) (bool, error) {
	var has bool
	err := db.view(func(tx *bbolt.Tx) error {
		has = tx.Bucket([]byte(turnsBucket)).Bucket([]byte(a.String())) != nil
		return nil
	})
	return has, err
}

// Conversations lists what is kept, by address.
func (db *DB) Conversations(ctx context.Context) ([]store.ConversationInfo, error) {
	var list []store.ConversationInfo
	err := db.view(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(turnsBucket)).ForEachBucket(func(k []byte) error {
			a, err := chat.ParseAddress(string(k))
			if err != nil {
				return err
			}
			b := tx.Bucket([]byte(turnsBucket)).Bucket(k)
			info := store.ConversationInfo{Address: a, Turns: int(b.Sequence())}
			if last, v := b.Cursor().Last(); last != nil {
				var t conversation.Turn
				if err := db.decode(last, v, &t); err != nil {
					return err
				}
				info.Last = t.Began
			}
			list = append(list, info)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list conversations: %w", err)
	}
	return list, nil
}

// DeleteConversation removes all turns of a conversation.
func (db *DB) DeleteConversation(ctx context.Context, a chat.Address) error {
	err := db.update(ctx, func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(turnsBucket))
		if b.Bucket([]byte(a.String())) == nil {
			return store.ErrNotFound
		}
		return b.DeleteBucket([]byte(a.String()))
	})
	if err != nil {
		return fmt.Errorf("delete conversation %s: %w", a, err)
	}
	return nil
}
