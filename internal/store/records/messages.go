package records

import (
	"context"
	"encoding/base64"
	"math"
	"slices"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
)

var (
	// messages holds the messages of each conversation that are part of no turn, with messageKey as the key.
	messages = kv.Of[store.Message](kv.Spec{Name: "messages", Grouped: true})
	// messageIDs holds the key in messages, by messageIDKey.
	messageIDs = kv.Of[[]byte](kv.Spec{Name: "messageids"})
)

// messageKey returns the key of a message: its time, so that old ones can be deleted without reading the others, and its
// id.
func messageKey(m store.Message) string { return kv.TimeKey(m.At) + m.ID }

// messageIDKey begins with the platform and the id, since a deletion does not always say in which conversation.
func messageIDKey(a chat.Address, id string) string { return kv.Key(a.Platform, id, a.String()) }

// SaveMessages stores those messages whose ID their conversation does not have yet, and returns how many these are.
func (s *Store) SaveMessages(ctx context.Context, said []store.Message) (added int, err error) {
	var scopes []string
	var refs []kv.Ref
	for _, m := range said {
		scopes = append(scopes, channelScope(m.Conversation))
		refs = append(refs, kv.Ref{Spec: messageIDs.Spec, Key: messageIDKey(m.Conversation, m.ID)})
	}
	err = s.update(ctx, func(tx kv.Tx) error {
		added = 0 // the transaction may run more than once
		if err := tx.Prefetch(refs...); err != nil {
			return err
		}
		for i, m := range said {
			known, err := messageIDs.Has(tx, "", refs[i].Key)
			if err == nil && !known {
				added++
				err = messageIDs.Put(tx, "", refs[i].Key, []byte(messageKey(m)))
				if err == nil {
					err = messages.Put(tx, m.Conversation.String(), messageKey(m), m)
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	}, scopes...)
	return added, wrap(err, "store messages")
}

// Messages returns up to n messages of a conversation behind a cursor, oldest first, and the cursor behind the last of
// them.
func (s *Store) Messages(ctx context.Context, a chat.Address, cursor string, n int) ([]store.Message, string, error) {
	after, err := readCursor(cursor)
	var found []store.Message
	if err == nil && n > 0 {
		r := kv.Range{Group: a.String(), Limit: n}
		if after != "" {
			r.From = kv.After(after)
		}
		found, err = list(ctx, s, messages, r)
	}
	if len(found) > 0 {
		cursor = writeCursor(messageKey(found[len(found)-1]))
	}
	if err != nil {
		return nil, "", wrap(err, "load messages of %s", a)
	}
	return found, cursor, nil
}

// NewestMessages returns the newest n messages of a conversation before a cursor, oldest first, and the cursor before the
// first of them; it is empty if there are none.
func (s *Store) NewestMessages(ctx context.Context, a chat.Address, cursor string, n int) (
	found []store.Message,
	next string,
	err error,
) {
	before, err := readCursor(cursor)
	n = min(n, math.MaxInt-1)
	if err == nil && n > 0 {
		// One more says whether there are older ones.
		found, err = list(ctx, s, messages, kv.Range{Group: a.String(), To: before, Reverse: true, Limit: n + 1})
	}
	if err != nil {
		return nil, "", wrap(err, "load messages of %s", a)
	}
	if len(found) > n {
		found = found[:n]
		next = writeCursor(messageKey(found[n-1]))
	}
	slices.Reverse(found)
	return found, next, nil
}

// DeleteMessage deletes the messages of an ID in all conversations of a platform; there may be none.
func (s *Store) DeleteMessage(ctx context.Context, platform, id string) error {
	prefix := kv.Key(platform, id, "")
	r := kv.Prefix("", prefix)
	r.KeysOnly = true
	in, err := read(ctx, s, func(tx kv.Tx) (in []chat.Address, err error) {
		err = tx.Scan(messageIDs.Spec, r, func(e kv.Entry) error {
			if a, err := chat.ParseAddress(strings.TrimPrefix(e.Key, prefix)); err == nil {
				in = append(in, a)
			}
			return nil
		})
		return in, err
	})
	for _, a := range in {
		if err == nil {
			err = s.deleteMessage(ctx, a, id)
		}
	}
	return wrap(err, "delete message %s of %s", id, platform)
}

// deleteMessage deletes the message of an ID from a conversation; there may be none.
func (s *Store) deleteMessage(ctx context.Context, a chat.Address, id string) error {
	return s.update(ctx, func(tx kv.Tx) error {
		key, found, err := messageIDs.Get(tx, "", messageIDKey(a, id))
		if err == nil && found {
			err = messageIDs.Delete(tx, "", messageIDKey(a, id))
		}
		if err == nil && found {
			err = messages.Delete(tx, a.String(), string(key))
		}
		return err
	}, channelScope(a))
}

// Versions returns the versions of a channel and of the threads in it. It decodes no record.
func (s *Store) Versions(ctx context.Context, channel chat.Address) ([]store.ConversationVersion, error) {
	var versions []store.ConversationVersion
	err := s.View(ctx, func(tx kv.Tx) error {
		versions = nil
		byAddress := map[chat.Address]int{}
		version := func(a chat.Address) *store.ConversationVersion {
			i, known := byAddress[a]
			if !known {
				i = len(versions)
				byAddress[a] = i
				versions = append(versions, store.ConversationVersion{Address: a, Turns: map[uint64]uint64{}})
			}
			return &versions[i]
		}
		err := eachThread(tx, turns.Spec, channel, func(a chat.Address, e kv.Entry) {
			version(a).Turns[kv.ParseNumber(e.Key)] = e.Sum
		})
		if err != nil {
			return err
		}
		return eachThread(tx, messages.Spec, channel, func(a chat.Address, e kv.Entry) {
			v := version(a)
			v.Messages = v.Messages*31 + e.Sum | 1 // 0 says that there is no message
		})
	})
	return versions, wrap(err, "read the versions of %s", channel)
}

// eachThread calls visit with the keys of a channel and of the threads in it.
func eachThread(tx kv.Tx, spec *kv.Spec, channel chat.Address, visit func(chat.Address, kv.Entry)) error {
	base := channel.Base().String()
	var names []string
	err := tx.Groups(spec, base, base, func(name string) error {
		names = append(names, name)
		return nil
	})
	for _, name := range names {
		if err != nil {
			return err
		}
		a, parseErr := chat.ParseAddress(name)
		if parseErr != nil {
			return parseErr
		}
		if a.Base().String() != base { // another channel may begin with the same letters
			continue
		}
		err = tx.Scan(spec, kv.Range{Group: name, KeysOnly: true}, func(e kv.Entry) error {
			visit(a, e)
			return e.Err
		})
	}
	return err
}

// A cursor of a list is the last key that was returned, written for addresses on the web.
func writeCursor(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }

// readCursor returns the key of a cursor; "" stands before the first. It returns a store.CursorError for what no list has
// given.
func readCursor(cursor string) (string, error) {
	key, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return "", store.CursorError{Cursor: cursor}
	}
	return string(key), nil
}
