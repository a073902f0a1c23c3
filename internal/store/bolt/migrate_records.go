package bolt

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store/kv"
)

// Up to format 5 the data of a file were part of its record, the ids of messages had one bucket a conversation, and keys
// that feeds choose had up to 32 KB. Names are those of that time.
const (
	inboxBucket = "inbox" // which every store had

	oldRoomFiles, oldMessageIDs             = "roomfiles", "messageids"
	oldFeeds, oldSeen, oldSubscriptions     = "feeds", "seen", "subscriptions"
	newFileData                             = "filedata"
	pieceSize, maxMovedBytes, maxMovedInOne = 256 << 10, 16 << 20, 20_000
	maxForeignKey                           = 1000
)

// migrateTo6 moves what format 6 keeps in other places. Its steps may be repeated.
func (t *tx) migrateTo6(string) (done bool, err error) {
	for _, step := range []func() (bool, error){t.splitFiles, t.flattenMessageIDs, t.shortenKeys} {
		if done, err = step(); err != nil || !done {
			return false, err
		}
	}
	return true, nil
}

// oldFile is the record of a file of format 5 and before.
type oldFile struct {
	At    time.Time `json:"at"`
	Bytes int64     `json:"bytes"` // of the data, from format 6 on
	chat.File
}

// splitFiles moves the data of files to records of their own. A record that cannot be read stays as it is.
func (t *tx) splitFiles() (done bool, err error) {
	all := t.top(oldRoomFiles)
	if all == nil {
		return true, nil
	}
	moved := 0
	c := all.bolt.Cursor()
	for room, v := c.First(); room != nil; room, v = c.Next() {
		if v != nil {
			continue
		}
		files := all.nested(string(room))
		old := map[string]oldFile{}
		inner := files.bolt.Cursor()
		for k, v := inner.First(); k != nil && moved < maxMovedBytes; k, v = inner.Next() {
			body, err := files.open(k, v)
			var f oldFile
			if err == nil && bytes.Contains(body, []byte(`"data":"`)) && json.Unmarshal(body, &f) == nil && len(f.Data) > 0 {
				old[string(k)] = f
				moved += len(f.Data)
			}
		}
		for k, f := range old {
			if err := t.splitFile(files, string(room), k, f); err != nil {
				return false, err
			}
		}
		if moved >= maxMovedBytes {
			return false, nil
		}
	}
	return true, nil
}

func (t *tx) splitFile(files *bucket, room, key string, f oldFile) error {
	pieces, err := t.createNamed(newFileData + nul + room)
	if err != nil {
		return err
	}
	data := f.Data
	f.Data, f.Bytes = nil, int64(len(data))
	for i := 0; i*pieceSize < len(data); i++ {
		k := binary.BigEndian.AppendUint64([]byte(key), uint64(i))
		piece := data[i*pieceSize : min((i+1)*pieceSize, len(data))]
		if err := pieces.putSealed(k, seal(pieces.name, k, piece)); err != nil {
			return err
		}
	}
	return files.put([]byte(key), f)
}

// flattenMessageIDs makes records without groups of the ids of messages.
func (t *tx) flattenMessageIDs() (done bool, err error) {
	all := t.top(oldMessageIDs)
	if all == nil {
		return true, nil
	}
	var left []string // conversations
	c := all.bolt.Cursor()
	for name, v := c.First(); name != nil; name, v = c.Next() {
		if v == nil {
			left = append(left, string(name))
		}
	}
	moved := 0
	for len(left) > 0 && moved < maxMovedInOne {
		n, err := t.flattenConversation(all, left[0])
		if err != nil {
			return false, err
		}
		left, moved = left[1:], moved+n
	}
	return len(left) == 0, nil
}

// flattenConversation moves the ids of a conversation, and returns how many there were.
func (t *tx) flattenConversation(all *bucket, address string) (int, error) {
	platform, _, _ := strings.Cut(address, ":")
	ids := all.nested(address)
	found := map[string][]byte{}
	err := ids.each(func(id, v []byte) error {
		var key []byte
		if t.db.decode(id, v, &key) == nil { // a damaged one leads to nothing
			found[string(id)] = key
		}
		return nil
	})
	err = cmp.Or(err, all.deleteNested(address))
	for id, key := range found {
		err = cmp.Or(err, all.put([]byte(kv.Key(platform, id, address)), key))
	}
	return len(found) + 1, err
}

// shortenKeys gives long keys that feeds chose the form that they have now.
func (t *tx) shortenKeys() (done bool, err error) {
	buckets := []*bucket{t.top(oldFeeds), t.top(oldSubscriptions)}
	if seen := t.top(oldSeen); seen != nil {
		c := seen.bolt.Cursor()
		for name, v := c.First(); name != nil; name, v = c.Next() {
			if v == nil {
				buckets = append(buckets, seen.nested(string(name)))
			}
		}
	}
	for _, b := range buckets {
		if b == nil {
			continue
		}
		long := map[string]json.RawMessage{}
		err := b.each(func(k, v []byte) error {
			if len(k) <= maxForeignKey {
				return nil
			}
			var body json.RawMessage
			if t.db.decode(k, v, &body) == nil { // a damaged one stays as it is, and is found by a check
				long[string(k)] = body
			}
			return nil
		})
		for k, body := range long {
			sum := sha256.Sum256([]byte(k))
			short := strings.ToValidUTF8(k[:maxForeignKey-len(sum)*2], "") + hex.EncodeToString(sum[:])
			err = cmp.Or(err, b.delete([]byte(k)))
			err = cmp.Or(err, b.put([]byte(short), body))
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}
