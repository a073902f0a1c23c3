package bolt

import (
	"cmp"
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
const formatVersion = 5

// formatRecord is what the file says of itself.
type formatRecord struct {
	Format int `json:"format"`
}

// migrations bring a file to the format after their index: the first from 1 to 2. log is the path of the write-ahead log
// of the file, which may be a copy.
var migrations = []func(t *tx, log string) error{
	func(*tx, string) error { return nil }, // the new buckets are made at opening, and no record has changed
	func(*tx, string) error { return nil }, // formats 3 and 4 differ from 2 in their write-ahead log
	func(*tx, string) error { return nil },
	(*tx).applyLog,
}

// format returns the format of the file. A file without a number is of format 1.
func (t *tx) format() (int, error) {
	b := t.named(formatBucket)
	if b == nil {
		return 1, nil
	}
	r := formatRecord{Format: 1}
	_, err := b.get([]byte(formatBucket), &r)
	return r.Format, err
}

// migrate creates the buckets that the file lacks and brings it to the newest format. log is the path of its write-ahead
// log.
func (t *tx) migrate(log string) error {
	if err := t.createTop(); err != nil {
		return err
	}
	from, err := t.format()
	if err = cmp.Or(err, checkFormat(t.db.path, from)); err != nil || from == formatVersion {
		return err
	}
	for n := from; n < formatVersion; n++ {
		if err := migrations[n-1](t, log); err != nil {
			return fmt.Errorf("bring the store from format %d to %d: %w", n, n+1, err)
		}
	}
	return t.top(formatBucket).put([]byte(formatBucket), formatRecord{formatVersion})
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
