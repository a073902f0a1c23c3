package bolt

import (
	"cmp"
	"context"
	"fmt"

	"ravenbot/internal/store"
)

// The format of the file as a whole is a number in it. The rule for a change of what is stored:
//
//   - A new bucket, and a new field that an older version may drop without harm, need nothing.
//   - Any other change takes the next number, and a step in migrations that brings a file from the
//     number before to it. Steps are never changed, and testdata gets a file of the new number.
//
// A version opens files of its own number and of all before it, which it migrates in the first
// transaction, and refuses those of later numbers: it would drop what it does not know.

// formatVersion is the newest format.
//
//	1: up to November 2026, without a number in the file
//	2: a list of free pages only where it is short; deleted conversations are moved aside
//	3: the last changes may be in the write-ahead log alone
//	4: the log says what is added to a list, not the whole list
//	5: no log, and no tallies of the buckets; a value's checksum covers its key
//	6: data of files in pieces; ids of messages without groups; keys of up to kv.MaxKey bytes
const formatVersion = 6

// formatRecord is what the file says of itself.
type formatRecord struct {
	Format int `json:"format"`
}

// migrations bring a file to the format after their index: the first from 1 to 2. One that is not done is called again in
// the next transaction. log is the path of the write-ahead log of the file, which may be a copy.
var migrations = []func(t *tx, log string) (done bool, err error){
	func(*tx, string) (bool, error) { return true, nil }, // new buckets
	func(*tx, string) (bool, error) { return true, nil }, // formats 3 and 4 differ from 2 in their write-ahead log
	func(*tx, string) (bool, error) { return true, nil },
	func(t *tx, log string) (bool, error) { return true, t.applyLog(log) },
	(*tx).migrateTo6,
}

// format returns the format of the file. A file without a number is of format 1, and one without buckets of the newest.
func (t *tx) format() (int, error) {
	b := t.top(formatBucket)
	if b == nil {
		if first, _ := t.bolt.Cursor().First(); first == nil {
			return formatVersion, nil
		}
		return 1, nil
	}
	r := formatRecord{Format: 1}
	_, err := b.get([]byte(formatBucket), &r)
	return r.Format, err
}

// migrate brings the file to the newest format. log is the path of its write-ahead log.
func (db *DB) migrate(ctx context.Context, log string) error {
	for done := false; !done; {
		err := db.update(ctx, func(t *tx) (err error) {
			done, err = t.migrate(log)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// migrate takes a step to the newest format, and reports whether it was the last one.
func (t *tx) migrate(log string) (done bool, err error) {
	from, err := t.format()
	if err = cmp.Or(err, checkFormat(t.db.path, from)); err != nil {
		return false, err
	}
	to := from
	if from < formatVersion {
		if done, err = migrations[from-1](t, log); err != nil {
			return false, fmt.Errorf("bring the store from format %d to %d: %w", from, from+1, err)
		}
		if to = from + 1; !done {
			return false, nil
		}
	}
	b, err := t.createTop(formatBucket)
	if err == nil && (to != from || !b.has([]byte(formatBucket))) {
		err = b.put([]byte(formatBucket), formatRecord{to})
	}
	return to == formatVersion, err
}

// checkFormat returns a *store.NewerError where this version does not know a format, and a
// *store.DamagedError where a migration has not filled the file.
func checkFormat(path string, format int) error {
	if format == incompleteFormat {
		return errCut(path)
	}
	if format > formatVersion {
		return &store.NewerError{Path: path, Format: format, Known: formatVersion}
	}
	return nil
}
