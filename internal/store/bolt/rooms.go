package bolt

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
)

// keepEntries is how many lines of a web room are kept.
const keepEntries = 2000

// SaveEntry stores a line of a web room, and returns it with its Seq. It replaces an
// earlier line with the same ID, unless that one has a higher Revision, which it returns then.
func (db *DB) SaveEntry(ctx context.Context, e store.Entry) (store.Entry, error) {
	out := e
	err := db.update(ctx, func(tx *tx) error {
		room, err := tx.top(roomsBucket).createNested(e.Room)
		if err != nil {
			return err
		}
		ids, err := tx.top(entriesBucket).createNested(e.Room)
		if err != nil {
			return err
		}
		out = e // this change may run more than once
		out.Seq = 0
		// A line that replaces another keeps its place in the room.
		if _, err := ids.get([]byte(e.ID), &out.Seq); err != nil {
			return err
		}
		if out.Seq != 0 {
			var kept store.Entry
			if _, err := room.get(seqKey(out.Seq), &kept); err != nil {
				return err
			}
			if kept.Revision > e.Revision {
				out = kept
				return nil
			}
		} else {
			out.Seq = room.nextSequence()
			if err := ids.put([]byte(e.ID), out.Seq); err != nil {
				return err
			}
		}
		if err := room.put(seqKey(out.Seq), out); err != nil {
			return err
		}
		return db.deletePushedOut(room, ids, out.Seq)
	})
	if err != nil {
		return store.Entry{}, fmt.Errorf("store a line of room %s: %w", e.Room, err)
	}
	return out, nil
}

// deletePushedOut deletes the line that is one too many since newest was stored. Lines are
// numbered without gaps, so no counting is needed.
func (db *DB) deletePushedOut(room, ids *bucket, newest uint64) error {
	if newest <= keepEntries {
		return nil
	}
	key := seqKey(newest - keepEntries)
	var old store.Entry
	found, err := room.get(key, &old)
	if err != nil || !found {
		return err
	}
	return errors.Join(ids.delete([]byte(old.ID)), room.delete(key))
}

// Entries returns up to n lines of a web room with a Seq below before (0: the newest),
// oldest first.
func (db *DB) Entries(ctx context.Context, room string, before uint64, n int) ([]store.Entry, error) {
	var list []store.Entry
	err := db.view(func(tx *tx) error {
		b := tx.top(roomsBucket).nested(room)
		if b == nil {
			return nil
		}
		c := b.cursor()
		k, v := c.last()
		if before > 0 {
			c.seek(seqKey(before))
			k, v = c.prev()
		}
		for ; k != nil && len(list) < n; k, v = c.prev() {
			var e store.Entry
			if err := db.decode(k, v, &e); err != nil {
				return err
			}
			list = append(list, e)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load room %s: %w", room, err)
	}
	slices.Reverse(list)
	return list, nil
}

// Rooms returns the names of the web rooms that hold any line.
func (db *DB) Rooms(ctx context.Context) ([]string, error) {
	var rooms []string
	err := db.view(func(tx *tx) error {
		return tx.top(roomsBucket).eachNested(func(name string, _ *bucket) error {
			rooms = append(rooms, name)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list rooms: %w", err)
	}
	return rooms, nil
}

// keepFiles is how many files of a web room are kept.
const keepFiles = 200

// roomFile is a file with the time when it was stored, which is written first (see fileTime).
type roomFile struct {
	At time.Time `json:"at"`
	chat.File
}

// encodeFile returns a file as JSON behind room for the header of its record. It encodes the data in place: they may have
// many megabytes.
func encodeFile(r roomFile) ([]byte, error) {
	data := r.Data
	r.Data = nil
	v, err := encodeBehind(make([]byte, headerSize), r)
	if err != nil || len(data) == 0 {
		return v, err
	}
	const behind = `"}`
	v = slices.Grow(v[:len(v)-1], len(beforeData)+base64.StdEncoding.EncodedLen(len(data))+len(behind))
	v = base64.StdEncoding.AppendEncode(append(v, beforeData...), data)
	return append(v, behind...), nil
}

// beforeData is what comes before the data of a file in its record.
const beforeData = `,"data":"`

// splitFile returns the record of a file without its data, and these as they are stored, in base64. ok is false where it
// cannot tell them apart.
func splitFile(body []byte) (r roomFile, data []byte, ok bool) {
	before, behind, found := bytes.Cut(body, []byte(beforeData))
	if found {
		// The data are the last field, or the last but one in records of before 2026-11-27.
		data, behind, found = bytes.Cut(behind, []byte(`"`))
		if !found || string(behind) != "}" && !bytes.HasPrefix(behind, []byte(`,"duration":`)) {
			return roomFile{}, nil, false // beforeData stands in another field, such as the handle
		}
		body = slices.Concat(before, behind)
	}
	return r, data, json.Unmarshal(body, &r) == nil
}

// decodePart decodes up to most bytes of data in base64, from the byte with the index from on.
func decodePart(data []byte, from int64, most int) ([]byte, error) {
	skip := int(from % 3) // three bytes are four characters
	first := from / 3 * 4
	if first >= int64(len(data)) || most <= 0 {
		return nil, nil
	}
	data = data[first:]
	data = data[:min(len(data), (skip+most+2)/3*4)]
	part, err := base64.StdEncoding.AppendDecode(nil, data)
	if err != nil {
		return nil, err
	}
	part = part[min(skip, len(part)):]
	return part[:min(most, len(part))], nil
}

// SaveRoomFile stores a file of a web room, and returns its number.
func (db *DB) SaveRoomFile(ctx context.Context, room string, f chat.File) (uint64, error) {
	var n uint64
	record, err := encodeFile(roomFile{db.now(), f})
	if err != nil {
		return 0, fmt.Errorf("store a file of room %s: %w", room, err)
	}
	err = db.update(ctx, func(tx *tx) error {
		files, err := tx.top(roomFilesBucket).createNested(room)
		if err != nil {
			return err
		}
		if n = files.nextSequence(); n > keepFiles {
			err = files.delete(seqKey(n - keepFiles))
		}
		return errors.Join(err, files.putSealed(seqKey(n), writeHeader(files.name, seqKey(n), record)))
	})
	if err != nil {
		return 0, fmt.Errorf("store a file of room %s: %w", room, err)
	}
	return n, nil
}

// RoomFile returns a file of a web room, or store.ErrNotFound.
func (db *DB) RoomFile(_ context.Context, room string, n uint64) (chat.File, error) {
	var f roomFile
	err := db.lookUpFile(room, n, func(files *bucket, key []byte) error { return db.decode(key, files.raw(key), &f) })
	return f.File, err
}

// RoomFilePart is RoomFile with a part of the data, which is decoded alone.
func (db *DB) RoomFilePart(_ context.Context, room string, n uint64, from int64, most int) (chat.File, error) {
	var f roomFile
	err := db.lookUpFile(room, n, func(files *bucket, key []byte) error {
		var body []byte
		var err error
		v := files.bolt.Get(key)
		if from == 0 { // the other parts are of the same record
			v = files.raw(key)
		}
		if body, err = unseal(v); err != nil {
			return db.decode(key, v, &f) // says what is damaged
		}
		if kept, data, ok := splitFile(body); ok {
			if kept.Data, err = decodePart(data, from, most); err == nil {
				kept.Size = int64(len(data)/4*3 - bytes.Count(data[max(0, len(data)-2):], []byte("=")))
				f = kept
				return nil
			}
		}
		err = db.decode(key, v, &f)
		f.Size = int64(len(f.Data))
		f.Data = f.Data[min(from, f.Size):min(from+int64(most), f.Size)]
		return err
	})
	return f.File, err
}

// DeleteRoomFile deletes a file of a web room; there may be none.
func (db *DB) DeleteRoomFile(ctx context.Context, room string, n uint64) error {
	err := db.update(ctx, func(tx *tx) error {
		return tx.deleteIn(roomFilesBucket, room, seqKey(n))
	})
	if err != nil {
		return fmt.Errorf("delete file %d of room %s: %w", n, room, err)
	}
	return nil
}

// lookUpFile calls read with the bucket and the key of a file.
func (db *DB) lookUpFile(room string, n uint64, read func(files *bucket, key []byte) error) error {
	err := db.view(func(tx *tx) error {
		files := tx.top(roomFilesBucket).nested(room)
		if files == nil {
			return store.ErrNotFound
		}
		key := seqKey(n)
		if !files.has(key) {
			return store.ErrNotFound
		}
		return read(files, key)
	})
	if err != nil {
		return fmt.Errorf("load file %d of room %s: %w", n, room, err)
	}
	return nil
}

// DeleteRoom deletes all lines and files of a web room; there may be none.
func (db *DB) DeleteRoom(ctx context.Context, room string) error {
	err := db.update(ctx, func(tx *tx) error {
		for _, name := range []string{roomsBucket, entriesBucket, roomFilesBucket} {
			b := tx.top(name)
			if b.nested(room) == nil {
				continue
			}
			if err := b.deleteNested(room); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("delete room %s: %w", room, err)
	}
	return nil
}
