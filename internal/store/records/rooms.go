package records

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
)

// roomFile is a file of a room without its data, which are in fileData.
type roomFile struct {
	At    time.Time `json:"at"`
	Bytes int64     `json:"bytes"` // of the data
	chat.File
}

var (
	// entries holds the lines of each web room, by their numbers.
	entries = kv.Of[store.Entry](kv.Spec{Name: "rooms", Grouped: true})
	// entryIDs holds the number of a line of a room, by the line's id.
	entryIDs = kv.Of[uint64](kv.Spec{Name: "entries", Grouped: true})
	// roomFiles holds the files of each room, by their numbers.
	roomFiles = kv.Of[roomFile](kv.Spec{Name: "roomfiles", Grouped: true})
	// fileData holds the data of files in pieces of pieceSize bytes, by pieceKey.
	fileData = kv.Of[json.RawMessage](kv.Spec{Name: "filedata", Grouped: true})
)

const (
	keepEntries = 2000 // lines of a room
	keepFiles   = 200  // files of a room
	pieceSize   = 256 << 10
)

// pieceKey returns the key of a piece of a file.
func pieceKey(file uint64, piece int64) string {
	return kv.NumberKey(file) + kv.NumberKey(uint64(piece))
}

func roomScope(room string) string { return "room/" + room }

// SaveEntry stores a line of a web room, and returns it with its Seq. It replaces an earlier line with the same ID, unless
// that one has a higher Revision, which it returns then.
func (s *Store) SaveEntry(ctx context.Context, e store.Entry) (out store.Entry, err error) {
	err = s.update(ctx, func(tx kv.Tx) error {
		out = e
		seq, known, err := entryIDs.Get(tx, e.Room, e.ID)
		if err != nil {
			return err
		}
		if out.Seq = seq; known { // a line that replaces another keeps its place in the room
			kept, _, err := entries.Get(tx, e.Room, kv.NumberKey(seq))
			if err != nil {
				return err
			}
			if kept.Revision > e.Revision {
				out = kept
				return nil
			}
			return entries.Put(tx, e.Room, kv.NumberKey(seq), out)
		}
		if out.Seq, err = tx.Next(entries.Spec, e.Room); err != nil {
			return err
		}
		err = entryIDs.Put(tx, e.Room, e.ID, out.Seq)
		err = cmp.Or(err, entries.Put(tx, e.Room, kv.NumberKey(out.Seq), out))
		return cmp.Or(err, deletePushedOut(tx, e.Room, out.Seq))
	}, roomScope(e.Room))
	if err != nil {
		return store.Entry{}, wrap(err, "store a line of room %s", e.Room)
	}
	return out, nil
}

// deletePushedOut deletes the line that is one too many since newest was stored. Lines are numbered without gaps, so no
// counting is needed.
func deletePushedOut(tx kv.Tx, room string, newest uint64) error {
	if newest <= keepEntries {
		return nil
	}
	key := kv.NumberKey(newest - keepEntries)
	old, found, err := entries.Get(tx, room, key)
	if err != nil || !found {
		return err
	}
	return cmp.Or(entryIDs.Delete(tx, room, old.ID), entries.Delete(tx, room, key))
}

// Entries returns up to n lines of a web room with a Seq below before (0: the newest), oldest first.
func (s *Store) Entries(ctx context.Context, room string, before uint64, n int) ([]store.Entry, error) {
	if n <= 0 {
		return nil, nil
	}
	r := kv.Range{Group: room, Reverse: true, Limit: n}
	if before > 0 {
		r.To = kv.NumberKey(before)
	}
	found, err := list(ctx, s, entries, r)
	slices.Reverse(found)
	return found, wrap(err, "load room %s", room)
}

// Rooms returns the names of the web rooms that hold any line.
func (s *Store) Rooms(ctx context.Context) ([]string, error) {
	rooms, err := s.groups(ctx, entries.Spec)
	return rooms, wrap(err, "list rooms")
}

// SaveRoomFile stores a file of a web room, and returns its number.
func (s *Store) SaveRoomFile(ctx context.Context, room string, f chat.File) (n uint64, err error) {
	data := f.Data
	f.Data = nil
	size := int64(len(data))
	err = s.update(ctx, func(tx kv.Tx) error {
		var err error
		if n, err = tx.Next(roomFiles.Spec, room); err != nil {
			return err
		}
		if n > keepFiles {
			if err := deleteRoomFile(tx, room, n-keepFiles); err != nil {
				return err
			}
		}
		for i := int64(0); i*pieceSize < size; i++ {
			piece := data[i*pieceSize : min((i+1)*pieceSize, size)]
			if err := tx.Put(fileData.Spec, room, pieceKey(n, i), piece); err != nil {
				return err
			}
		}
		return roomFiles.Put(tx, room, kv.NumberKey(n), roomFile{s.Now(), size, f})
	}, roomScope(room))
	return n, wrap(err, "store a file of room %s", room)
}

// RoomFile returns a file of a web room, or store.ErrNotFound.
func (s *Store) RoomFile(ctx context.Context, room string, n uint64) (chat.File, error) {
	f, err := s.readFile(ctx, room, n, 0, math.MaxInt)
	return f.File, err
}

// RoomFilePart is RoomFile with up to most bytes of the data, from the byte with the index from on, and with how many there
// are in all as Size.
func (s *Store) RoomFilePart(ctx context.Context, room string, n uint64, from int64, most int) (chat.File, error) {
	f, err := s.readFile(ctx, room, n, from, most)
	f.Size = f.Bytes
	return f.File, err
}

// readFile returns a file with a part of its data.
func (s *Store) readFile(ctx context.Context, room string, n uint64, from int64, most int) (roomFile, error) {
	f, err := read(ctx, s, func(tx kv.Tx) (f roomFile, err error) {
		f, found, err := roomFiles.Get(tx, room, kv.NumberKey(n))
		if err == nil && !found {
			err = store.ErrNotFound
		}
		from := min(max(from, 0), f.Bytes)
		end := from + min(int64(max(most, 0)), f.Bytes-from)
		if err != nil || from == end {
			return f, err
		}
		first := from / pieceSize
		r := kv.Range{Group: room, From: pieceKey(n, first), To: pieceKey(n, (end-1)/pieceSize+1)}
		f.Data = make([]byte, 0, end-first*pieceSize+pieceSize)
		err = tx.Scan(fileData.Spec, r, func(e kv.Entry) error {
			f.Data = append(f.Data, e.Value...)
			return e.Err
		})
		if err == nil && int64(len(f.Data)) < end-first*pieceSize {
			err = store.ErrNotFound // it was deleted meanwhile
		}
		if err != nil {
			return f, err
		}
		f.Data = f.Data[from-first*pieceSize : end-first*pieceSize]
		return f, nil
	})
	return f, wrap(err, "load file %d of room %s", n, room)
}

// DeleteRoomFile deletes a file of a web room; there may be none.
func (s *Store) DeleteRoomFile(ctx context.Context, room string, n uint64) error {
	err := s.update(ctx, func(tx kv.Tx) error { return deleteRoomFile(tx, room, n) }, roomScope(room))
	return wrap(err, "delete file %d of room %s", n, room)
}

func deleteRoomFile(tx kv.Tx, room string, n uint64) error {
	var pieces []string
	r := kv.Prefix(room, kv.NumberKey(n))
	r.KeysOnly = true
	err := tx.Scan(fileData.Spec, r, func(e kv.Entry) error {
		pieces = append(pieces, e.Key)
		return nil
	})
	for _, key := range pieces {
		err = cmp.Or(err, fileData.Delete(tx, room, key))
	}
	return cmp.Or(err, roomFiles.Delete(tx, room, kv.NumberKey(n)))
}

// DeleteRoom deletes all lines and files of a web room; there may be none.
func (s *Store) DeleteRoom(ctx context.Context, room string) error {
	err := s.update(ctx, func(tx kv.Tx) (err error) {
		for _, spec := range []*kv.Spec{entries.Spec, entryIDs.Spec, roomFiles.Spec, fileData.Spec} {
			err = cmp.Or(err, tx.DeleteGroup(spec, room))
		}
		return err
	}, roomScope(room))
	return wrap(err, "delete room %s", room)
}
