package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"slices"
)

// Up to format 4 the newest changes could be in a write-ahead log beside the file alone, when the bot was killed. The
// migration to format 5 applies what it holds, once.
//
// Such a log belongs to one state of the file: the file held a number, drawn anew with each commit, and each entry has the
// number of the commit that it follows.

// Sizes in a log.
const (
	walSize   = 1 << 20 // of the whole
	walBlock  = 4096    // what entries are aligned to
	walHeader = 4 + 8 + 4 + 4
)

// The kinds of changes in a log.
const (
	opPut          = 1 // writes a value in its stored form under a key
	opDelete       = 2 // removes the record under a key
	opCreateNested = 3 // creates the bucket under a key if there is none
	opDeleteNested = 4 // removes the bucket under a key
	opMoveNested   = 5 // moved the bucket under a key to those that were to be deleted
	opSequence     = 6 // makes the bucket count on from the number that the key is
	opAppend       = 7 // adds the value to the list under a key, unless it is there
)

// Buckets that no file has from format 5 on.
const (
	talliesBucket = "tallies" // bucket → how many records it held
	trashPrefix   = "deleted" // before the name of a bucket for what was deleted in steps
)

// generationKey is where a file of format 3 or 4 has the number of its last commit, in the bucket of the format.
var generationKey = []byte("generation")

// walPath returns the path of the write-ahead log of a store.
func walPath(path string) string { return followLink(path) + ".wal" }

// removeOldFiles removes what older versions kept beside a store that has the newest format.
func removeOldFiles(path string) {
	for _, old := range []string{walPath(path), path + ".stamp"} {
		_ = os.Remove(old) // it does no harm if it stays
	}
}

// applyLog makes the changes of a log that follow the last commit of the file, and removes what formats before 5 had.
func (t *tx) applyLog(log string) error {
	format := t.top(formatBucket)
	if format == nil {
		return nil
	}
	var generation uint64
	if _, err := format.get(generationKey, &generation); err != nil {
		return err
	}
	if generation != 0 {
		changes, err := readLog(log, generation)
		for err == nil && len(changes) > 0 {
			changes, err = t.redo(changes)
		}
		if err != nil {
			return fmt.Errorf("apply the write-ahead log: %w", err)
		}
	}
	t.changed = true
	for _, name := range []string{talliesBucket, trashPrefix + "turns", trashPrefix + "messages",
		trashPrefix + "messageids"} {
		if err := t.deleteTop(name); err != nil {
			return err
		}
	}
	return format.delete(generationKey)
}

// readLog returns the changes that a log holds of a generation, encoded; none if there is no log. An entry that is not
// whole ends the log: it was never reported as safe. readLog returns a *store.DamagedError if a later one is whole.
func readLog(path string, generation uint64) (changes []byte, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, explainSystemError(path, err)
	}
	changes, _, err = readEntries(path, b[:min(len(b), walSize)], generation)
	return changes, err
}

// readEntries returns the changes of the entries at the beginning of a log, and how many entries these are.
func readEntries(path string, b []byte, generation uint64) (changes []byte, entries uint64, err error) {
	n := uint32(0)
	for ; ; n++ {
		entry, number, ok := readEntry(b, generation)
		if !ok || number != n {
			break
		}
		changes = append(changes, entry...)
		b = b[min(len(b), (walHeader+len(entry)+walBlock-1)/walBlock*walBlock):]
	}
	for ; len(b) >= walBlock; b = b[walBlock:] {
		if _, number, ok := readEntry(b, generation); ok && number >= n {
			return nil, 0, damagedError(path, fmt.Sprintf("entry %d of it is damaged", n),
				"put a backup in the place of the store, or move this file away to go on without the last changes")
		}
	}
	return changes, uint64(n), nil
}

// readEntry returns the changes and the number of the entry at the beginning of b. It returns false if there is no whole
// one of the generation.
func readEntry(b []byte, generation uint64) (changes []byte, number uint32, ok bool) {
	if len(b) < walHeader {
		return nil, 0, false
	}
	n := uint64(binary.BigEndian.Uint32(b[16:]))
	if n > uint64(len(b)-walHeader) || crc32.Checksum(b[4:walHeader+n], castagnoli) != binary.BigEndian.Uint32(b) {
		return nil, 0, false
	}
	return b[walHeader : walHeader+n], binary.BigEndian.Uint32(b[12:]), binary.BigEndian.Uint64(b[4:]) == generation
}

// errChange is returned for a change that cannot be made.
var errChange = errors.New("a change in it cannot be read")

// redo makes the first of some encoded changes again, and returns the rest. A change has its kind, and its bucket, key
// and value with their lengths before them.
func (t *tx) redo(b []byte) (rest []byte, err error) {
	kind, rest := b[0], b[1:]
	var parts [3][]byte
	for i := range parts {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return nil, errChange
		}
		parts[i], rest = slices.Clone(rest[n:n+int(size)]), rest[n+int(size):]
	}
	name, key, value := string(parts[0]), parts[1], parts[2]
	if name == "" {
		return rest, t.deleteTop(string(key))
	}
	in, err := t.createNamed(name)
	if err != nil {
		return nil, damagedError(t.db.path, displayName(name)+" is missing", restoreRemedy)
	}
	switch kind {
	case opPut:
		err = in.putSealed(key, value)
	case opAppend:
		err = in.appendTo(key, value)
	case opDelete:
		err = in.delete(key)
	case opCreateNested:
		_, err = in.createNested(string(key))
	case opDeleteNested, opMoveNested:
		err = in.deleteNested(string(key))
	case opSequence:
		if len(key) != 8 {
			return nil, errChange
		}
		err = in.raiseSequence(binary.BigEndian.Uint64(key))
	default:
		err = errChange
	}
	return rest, err
}

// appendTo adds an element, as JSON, to a record that is a list, unless it is there. The list is not decoded: a message
// that many turns quote has a long one, and each of them adds to it.
func (b *bucket) appendTo(key, element []byte) error {
	old := b.raw(key)
	if old == nil {
		return b.putSealed(key, seal(b.name, key, []byte("["), element, []byte("]")))
	}
	list, err := unseal(old)
	if err == nil && !bytes.HasSuffix(list, []byte("}]")) {
		err = errors.New("it is not a list")
	}
	if err != nil {
		return damagedError(b.tx.db.path, fmt.Sprintf("record %q: %v", key, err), restoreRemedy)
	}
	if bytes.Contains(list, element) {
		return nil
	}
	return b.putSealed(key, seal(b.name, key, list[:len(list)-1], []byte(","), element, []byte("]")))
}
