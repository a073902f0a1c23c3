package postgres

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
)

// How many lines and files of a web room are kept.
const (
	keepEntries = 2000
	keepFiles   = 200
)

// SaveEntry stores a line of a web room, and returns it with its Seq. It replaces an earlier line with the
// same ID, in its place, unless that one has a higher Revision, which it returns then.
func (db *DB) SaveEntry(ctx context.Context, e store.Entry) (store.Entry, error) {
	out := e
	room, id := keyText(e.Room), keyText(e.ID)
	err := db.write(ctx, func(t *tx) error {
		var seq int64
		var kept *store.Entry
		err := t.send(func(b *pgx.Batch) {
			// The room's row is locked first: one line of a room is stored after the other.
			b.Queue(`insert into ravenbot.rooms as r (name, last_entry) values ($1, 0)
				on conflict (name) do update set last_entry = coalesce(r.last_entry, 0) returning last_entry + 1`, room).
				QueryRow(func(row pgx.Row) error { return row.Scan(&seq) })
			b.Queue(`select v, record from ravenbot.entries where room = $1 and id = $2`, room, id).
				Query(eachRecord(t.db, "entries", func(e store.Entry) { kept = &e }))
		})
		if err != nil {
			return err
		}
		isNew := kept == nil
		if !isNew && kept.Revision > e.Revision {
			out = *kept
			return errUnchanged
		}
		if !isNew {
			seq = int64(kept.Seq)
		}
		out = e // this change may run more than once
		out.Seq = uint64(seq)
		record, err := encode(out)
		if err != nil {
			return err
		}
		return t.send(func(b *pgx.Batch) {
			if !isNew {
				b.Queue(`update ravenbot.entries set v = $3, record = $4, at = $5 where room = $1 and seq = $2`,
					room, seq, recordVersion, record, out.At)
				return
			}
			b.Queue(`update ravenbot.rooms set last_entry = $2 where name = $1`, room, seq)
			b.Queue(`insert into ravenbot.entries (room, seq, id, v, record, at) values ($1, $2, $3, $4, $5, $6)`,
				room, seq, id, recordVersion, record, out.At)
			b.Queue(`delete from ravenbot.entries where room = $1 and seq <= $2`, room, seq-keepEntries)
		})
	})
	if err != nil {
		return store.Entry{}, fmt.Errorf("store a line of room %s: %w", e.Room, err)
	}
	return out, nil
}

// Entries returns up to n lines of a web room with a Seq below before (0: the newest), oldest first.
func (db *DB) Entries(ctx context.Context, room string, before uint64, n int) ([]store.Entry, error) {
	before = min(cmp.Or(before, math.MaxInt64), math.MaxInt64)
	list, err := readRecords[store.Entry](ctx, db, "entries",
		`select v, record from ravenbot.entries where room = $1 and seq < $2 order by seq desc limit $3`,
		keyText(room), int64(before), max(n, 0))
	if err != nil {
		return nil, fmt.Errorf("load room %s: %w", room, err)
	}
	slices.Reverse(list)
	return list, nil
}

// Rooms returns the names of the web rooms that hold any line.
func (db *DB) Rooms(ctx context.Context) ([]string, error) {
	list, err := db.readKeys(ctx, `select name from ravenbot.rooms where last_entry is not null order by name`)
	if err != nil {
		return nil, fmt.Errorf("list rooms: %w", err)
	}
	return list, nil
}

// readKeys returns the keys that a query selects.
func (db *DB) readKeys(ctx context.Context, sql string, args ...any) (list []string, err error) {
	err = db.read(ctx, func(ctx context.Context) error {
		list = nil
		var key string
		return db.query(ctx, sql, args, each([]any{&key}, func() error {
			list = append(list, parseKey(key))
			return nil
		}))
	})
	return list, err
}

// fileRecord is a file of a room without its bytes, which have a column of their own.
type fileRecord struct {
	At       time.Time       `json:"at,omitzero"` // when it was stored; zero: before this was recorded
	Name     string          `json:"name"`
	Type     string          `json:"type,omitempty"`
	Size     int64           `json:"size,omitempty"`
	Handle   json.RawMessage `json:"handle,omitempty"`
	Duration time.Duration   `json:"duration,omitempty"`
}

// newFileRecord returns what is stored of a file beside its bytes.
func newFileRecord(at time.Time, f chat.File) fileRecord {
	return fileRecord{At: at, Name: f.Name, Type: f.Type, Size: f.Size, Handle: f.Handle, Duration: f.Duration}
}

// fileData is the column with the bytes of a file, in an encoding that no setting of the server changes.
const fileData = `encode(data, 'base64')`

// file returns the file with its bytes, which are those of fileData.
func (r fileRecord) file(encoded []byte) (chat.File, error) {
	data, err := base64.StdEncoding.AppendDecode(nil, encoded)
	return chat.File{Name: r.Name, Type: r.Type, Size: r.Size, Handle: r.Handle, Data: data, Duration: r.Duration}, err
}

// SaveRoomFile stores a file of a web room, and returns its number. The oldest above keepFiles of the room go.
func (db *DB) SaveRoomFile(ctx context.Context, room string, f chat.File) (uint64, error) {
	now := db.Now()
	record, err := encode(newFileRecord(now, f))
	data := f.Data
	if data == nil {
		data = []byte{}
	}
	var n int64
	if err == nil {
		err = db.write(ctx, func(t *tx) error {
			return t.send(func(b *pgx.Batch) {
				b.Queue(`with r as (insert into ravenbot.rooms as r (name, last_file) values ($1, 1)
						on conflict (name) do update set last_file = coalesce(r.last_file, 0) + 1 returning last_file)
					insert into ravenbot.room_files (room, n, v, record, data, at)
					select $1, last_file, $2, $3, $4, $5 from r returning n`, keyText(room), recordVersion, record, data, now).
					QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
				b.Queue(`delete from ravenbot.room_files where room = $1
					and n <= (select last_file from ravenbot.rooms where name = $1) - $2`, keyText(room), keepFiles)
			})
		})
	}
	if err != nil {
		return 0, fmt.Errorf("store a file of room %s: %w", room, err)
	}
	return uint64(n), nil
}

// RoomFile returns a file of a web room, or store.ErrNotFound.
func (db *DB) RoomFile(ctx context.Context, room string, n uint64) (chat.File, error) {
	f, _, err := db.roomFile(ctx, room, n, fileData)
	return f, err
}

// RoomFilePart is RoomFile with a part of the data, which alone the server sends.
func (db *DB) RoomFilePart(ctx context.Context, room string, n uint64, from int64, most int) (chat.File, error) {
	// substring counts from 1.
	f, size, err := db.roomFile(ctx, room, n, `encode(substring(data from $3 for $4), 'base64')`, from+1, most)
	f.Size = size
	return f, err
}

// DeleteRoomFile deletes a file of a web room; there may be none.
func (db *DB) DeleteRoomFile(ctx context.Context, room string, n uint64) error {
	err := db.write(ctx, func(t *tx) error {
		_, err := t.exec(`delete from ravenbot.room_files where room = $1 and n = $2`, keyText(room), int64(n))
		return err
	})
	if err != nil {
		return fmt.Errorf("delete file %d of room %s: %w", n, room, err)
	}
	return nil
}

// roomFile returns a file with the data that an expression in base64 gives, and how many bytes there are in all.
func (db *DB) roomFile(
	ctx context.Context, room string, n uint64, data string, args ...any,
) (f chat.File, size int64, err error) {
	var r fileRecord
	var encoded []byte
	found := false
	err = db.read(ctx, func(ctx context.Context) error {
		return db.query(ctx, `select v, record, `+data+`, octet_length(data) from ravenbot.room_files where room = $1 and n = $2`,
			append([]any{keyText(room), int64(n)}, args...),
			eachRecord(db, "room_files", func(kept fileRecord) { r, found = kept, true }, &encoded, &size))
	})
	if err == nil && !found {
		err = store.ErrNotFound
	}
	if err == nil {
		f, err = r.file(encoded)
	}
	if err != nil {
		return chat.File{}, 0, fmt.Errorf("load file %d of room %s: %w", n, room, err)
	}
	return f, size, nil
}

// DeleteRoom deletes all lines and files of a web room; there may be none.
func (db *DB) DeleteRoom(ctx context.Context, room string) error {
	err := db.write(ctx, func(t *tx) error {
		return t.send(func(b *pgx.Batch) {
			b.Queue(`delete from ravenbot.rooms where name = $1`, keyText(room)) // first: whoever adds a line waits
			b.Queue(`delete from ravenbot.entries where room = $1`, keyText(room))
			b.Queue(`delete from ravenbot.room_files where room = $1`, keyText(room))
		})
	})
	if err != nil {
		return fmt.Errorf("delete room %s: %w", room, err)
	}
	return nil
}
