package bolt

import (
	"encoding/binary"
	"slices"
	"strings"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/store"
)

// Names of buckets and keys have no checksum: a damaged one may put the words of one conversation
// under the name of another. Where a bucket is not as its tally says, its records have to show that
// they belong to it.

// dropStrangers removes what does not belong where it was found from the copy.
func (s *salvager) dropStrangers() error {
	for name, found := range s.counts {
		kept, isRecorded := s.recorded[name]
		outer, inner, isNested := strings.Cut(name, nul)
		if isRecorded && found.count == kept.count && found.sum == kept.sum {
			continue
		}
		var err error
		switch {
		case isNested:
			err = s.dropWhere(name, func(tx *tx, k, v []byte) bool { return !belongs(tx, outer, inner, k, v) })
		// A summary does not say whose it is. It can be made again from the turns.
		case outer == summariesBucket && found.count >= kept.count:
			err = s.dropWhere(name, func(*tx, []byte, []byte) bool { return true })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dropWhere removes records of a bucket from the copy.
func (s *salvager) dropWhere(name string, match func(tx *tx, k, v []byte) bool) error {
	return s.db.update(s.ctx, func(tx *tx) error {
		b := tx.named(name) // something of it was written
		var keys [][]byte
		if err := b.each(func(k, v []byte) error {
			if match(tx, k, v) {
				keys = append(keys, slices.Clone(k))
			}
			return nil
		}); err != nil {
			return err
		}
		count := s.counts[name]
		for _, k := range keys {
			count.remove(digest(k, b.raw(k)))
			if err := b.delete(k); err != nil {
				return err
			}
		}
		s.records -= uint64(len(keys))
		s.counts[name] = count
		return nil
	})
}

// belongs reports whether a record says itself that it is of the bucket that it was found in, or, of
// a turn, whether the index of messages does. Records that say nothing, and hold no words, belong.
func belongs(tx *tx, outer, inner string, k, v []byte) bool {
	var found string
	var err error
	switch outer {
	case turnsBucket:
		return isIndexed(tx, inner, k, v)
	case messagesBucket:
		var m store.Message
		err = tx.db.decode(k, v, &m)
		found = m.Conversation.String()
	case roomsBucket:
		var e store.Entry
		err = tx.db.decode(k, v, &e)
		found = e.Room
	case memoriesBucket:
		var m store.Memory
		err = tx.db.decode(k, v, &m)
		found = m.Scope
	case runsBucket:
		var r store.Run
		err = tx.db.decode(k, v, &r)
		found = r.Digest
	case roomFilesBucket, itemsBucket:
		return false
	default:
		return true
	}
	return err == nil && found == inner
}

// isIndexed reports whether the index has a message of a turn where the turn was found.
func isIndexed(tx *tx, name string, k, v []byte) bool {
	a, err := chat.ParseAddress(name)
	var t conversation.Turn
	if err != nil || len(k) != 8 || tx.db.decode(k, v, &t) != nil {
		return false
	}
	want := store.TurnRef{Conversation: a, Seq: binary.BigEndian.Uint64(k)}
	return slices.ContainsFunc(t.Subjects(), func(subject string) bool {
		var at store.TurnRef
		found, err := tx.top(messageTurnsBucket).get([]byte(subject), &at)
		return err == nil && found && at == want
	})
}
