package bolt

import (
	"encoding/json"
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
const formatVersion = 4

// formatRecord is what the file says of itself.
type formatRecord struct {
	Format int `json:"format"`
}

// migrations bring a file to the format after their index: the first from 1 to 2.
var migrations = []func(*tx) error{
	func(*tx) error { return nil }, // the new buckets are made at opening, and no record has changed
	func(*tx) error { return nil }, // the commit that follows is the first which a log can belong to
	func(*tx) error { return nil }, // logs of format 3 can be read, but not those of format 4 by an older version
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

// migrate brings the file to the newest format.
func (t *tx) migrate() error {
	from, err := t.format()
	if err != nil || from == formatVersion {
		return err
	}
	for n := from; n < formatVersion; n++ {
		if err := migrations[n-1](t); err != nil {
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

// readFormat keeps what a file that is scanned says of itself. What cannot be read is a fault as a record.
func (s *scan) readFormat(key, value []byte) {
	body, err := unseal(value)
	if err != nil {
		return
	}
	var r formatRecord
	switch string(key) {
	case formatBucket:
		if json.Unmarshal(body, &r) == nil {
			s.format = r.Format
		}
	case string(generationKey):
		_ = json.Unmarshal(body, &s.generation)
	}
}
