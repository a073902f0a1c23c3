package bolt

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
)

// messageKey returns the key of a message: its time, so that old ones can be deleted without
// reading the others, and its id.
func messageKey(m store.Message) []byte { return append(timeKey(m.At), m.ID...) }

// SaveMessages stores those messages whose ID their conversation does not have yet, and returns
// how many these are.
func (db *DB) SaveMessages(ctx context.Context, list []store.Message) (added int, err error) {
	err = db.update(ctx, func(tx *tx) error {
		added = 0 // this change may run more than once
		for _, m := range list {
			name := m.Conversation.String()
			ids, err := tx.top(messageIDsBucket).createNested(name)
			if err != nil {
				return err
			}
			if ids.has([]byte(m.ID)) {
				continue
			}
			messages, err := tx.top(messagesBucket).createNested(name)
			if err != nil {
				return err
			}
			key := messageKey(m)
			if err := ids.put([]byte(m.ID), key); err != nil {
				return err
			}
			if err := messages.put(key, m); err != nil {
				return err
			}
			added++
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("store messages: %w", err)
	}
	return added, nil
}

// Messages returns up to n messages of a conversation behind a cursor, oldest first, and the
// cursor behind the last of them.
func (db *DB) Messages(
	ctx context.Context,
	a chat.Address,
	cursor string,
	n int,
) (list []store.Message, next string, err error) {
	after, err := readCursor(cursor)
	if err == nil {
		list, _, err = db.collectMessages(a, after, n, false)
	}
	if err != nil {
		return nil, "", fmt.Errorf("load messages of %s: %w", a, err)
	}
	if len(list) > 0 {
		cursor = writeCursor(messageKey(list[len(list)-1]))
	}
	return list, cursor, nil
}

// NewestMessages returns the newest n messages of a conversation before a cursor, oldest first, and the cursor before
// the first of them; empty: there are none.
func (db *DB) NewestMessages(
	ctx context.Context,
	a chat.Address,
	cursor string,
	n int,
) (list []store.Message, next string, err error) {
	before, err := readCursor(cursor)
	var hasOlder bool
	if err == nil {
		list, hasOlder, err = db.collectMessages(a, before, n, true)
	}
	if err != nil {
		return nil, "", fmt.Errorf("load messages of %s: %w", a, err)
	}
	if hasOlder && len(list) > 0 {
		next = writeCursor(messageKey(list[len(list)-1]))
	}
	slices.Reverse(list)
	return list, next, nil
}

// collectMessages returns up to n messages of a conversation behind a key, or backwards from the one before it, and
// whether there are more in that direction. A nil key stands for the beginning, or for the end.
func (db *DB) collectMessages(a chat.Address, key []byte, n int, backwards bool) (
	list []store.Message,
	more bool,
	err error,
) {
	err = db.view(func(tx *tx) error {
		b := tx.top(messagesBucket).nested(a.String())
		if b == nil {
			return nil
		}
		c := b.cursor()
		k, v := c.from(key)
		next := c.next
		if backwards {
			next = c.prev
			if at, _ := c.seek(key); key != nil && at != nil {
				k, v = c.prev()
			} else {
				k, v = c.last()
			}
		}
		for ; k != nil && len(list) < n; k, v = next() {
			var m store.Message
			if err := db.decode(k, v, &m); err != nil {
				return err
			}
			list = append(list, m)
		}
		more = k != nil
		return nil
	})
	return list, more, err
}

// DeleteMessage deletes the messages of an ID in all conversations of a platform; there may be
// none.
func (db *DB) DeleteMessage(ctx context.Context, platform, id string) error {
	// The conversations are looked through in a read transaction: there may be many.
	var in []string
	err := db.view(func(tx *tx) error {
		all := tx.top(messageIDsBucket)
		prefix := platform + ":"
		c := all.cursor()
		for k, _ := c.seek([]byte(prefix)); k != nil && strings.HasPrefix(string(k), prefix); k, _ = c.next() {
			if all.nested(string(k)).has([]byte(id)) {
				in = append(in, string(k))
			}
		}
		return nil
	})
	if err == nil && len(in) > 0 {
		err = db.update(ctx, func(tx *tx) error {
			for _, name := range in {
				if err := deleteMessage(tx, name, id); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("delete message %s of %s: %w", id, platform, err)
	}
	return nil
}

// deleteMessage removes the message of an ID from a conversation, by its name; there may be none.
func deleteMessage(tx *tx, name, id string) error {
	ids := tx.top(messageIDsBucket).nested(name)
	if ids == nil {
		return nil
	}
	var key []byte
	if found, err := ids.get([]byte(id), &key); err != nil || !found {
		return err
	}
	return errors.Join(ids.delete([]byte(id)), tx.deleteIn(messagesBucket, name, key))
}

// Versions returns the versions of a channel and of the threads in it. It decodes no record: the
// checksums of the records tell of every change.
func (db *DB) Versions(_ context.Context, channel chat.Address) ([]store.ConversationVersion, error) {
	byAddress := map[chat.Address]*store.ConversationVersion{}
	err := db.view(func(tx *tx) error {
		version := func(a chat.Address) *store.ConversationVersion {
			if byAddress[a] == nil {
				byAddress[a] = &store.ConversationVersion{Address: a, Turns: map[uint64]uint64{}}
			}
			return byAddress[a]
		}
		err := eachThread(tx.top(turnsBucket), channel, func(a chat.Address, b *bucket) error {
			return b.bolt.ForEach(func(k, v []byte) error {
				version(a).Turns[binary.BigEndian.Uint64(k)] = digest(k, v)
				return nil
			})
		})
		if err != nil {
			return err
		}
		return eachThread(tx.top(messagesBucket), channel, func(a chat.Address, b *bucket) error {
			kept, err := b.version()
			if kept.count > 0 {
				version(a).Messages = mix(kept.sum) ^ kept.count
			}
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read the versions of %s: %w", channel, err)
	}
	var list []store.ConversationVersion
	for _, v := range byAddress {
		list = append(list, *v)
	}
	return list, nil
}

// eachThread calls fn with the buckets of a channel and of the threads in it.
func eachThread(b *bucket, channel chat.Address, fn func(chat.Address, *bucket) error) error {
	base := channel.Base().String()
	c := b.cursor()
	for k, _ := c.seek([]byte(base)); k != nil && strings.HasPrefix(string(k), base); k, _ = c.next() {
		a, err := chat.ParseAddress(string(k))
		if err != nil {
			return err
		}
		// Another channel may begin with the same letters.
		if a.Base().String() != base {
			continue
		}
		if err := fn(a, b.nested(string(k))); err != nil {
			return err
		}
	}
	return nil
}
