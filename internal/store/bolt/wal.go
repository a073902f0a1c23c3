package bolt

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"ravenbot/internal/store"
)

// A commit of bbolt writes some 20 pages and waits for the disk twice. So what is changed is first appended to a
// write-ahead log, a file beside the store, which takes one write and waits once, and stays in an open transaction of
// bbolt. That one is committed when the log is full, or after flushAfter. Opening a store makes what the log holds
// again.
//
// The log belongs to one state of the file: the file holds a number, drawn anew with each commit, and each entry of the
// log has the number of the commit that it follows. So a commit makes the log void without touching it, and a file that
// is put in the place of the store never gets another file's changes.

const (
	// walSize is the size of the log. What does not fit is committed at once.
	walSize = 1 << 20
	// walBlock is what entries are aligned to: no block that was synced is written again before the next commit, so that a
	// torn write spoils none.
	walBlock = 4096
	// walHeader is the size of the header of an entry: its checksum, the generation, its number, and the bytes of its
	// changes.
	walHeader = 4 + 8 + 4 + 4
)

// walPath returns the path of the write-ahead log of a store.
func walPath(path string) string { return followLink(path) + ".wal" }

// wal is the write-ahead log of an open store. DB.writing guards it.
type wal struct {
	f          *os.File
	generation uint64 // of the file's last commit
	entries    uint32 // since then
	at         int64  // where the next entry begins
	buf        []byte
	// needsCommit: nothing is appended before the next commit. An entry or a commit may be on the disk in part, or a copy of the
	// file was made.
	needsCommit bool
}

// openWAL opens the log of a store, and makes it where there is none. What it holds is left alone until the first commit.
func openWAL(path string) (*wal, error) {
	f, err := os.OpenFile(walPath(path), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if f, err = os.OpenFile(walPath(path), os.O_RDWR|os.O_CREATE, 0o600); err == nil {
			// Else a power cut could take the whole file.
			if err = store.SyncFolder(filepath.Dir(f.Name())); err != nil {
				err = errors.Join(err, f.Close(), os.Remove(f.Name()))
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open the write-ahead log: %w", explainSystemError(path, err))
	}
	return &wal{f: f, needsCommit: true}, nil
}

// close closes the log. It is removed where the file holds all that is in it.
func (w *wal) close(isCommitted bool) error {
	if w == nil {
		return nil
	}
	info, err := w.f.Stat()
	isVoid := err == nil && (isCommitted || info.Size() == 0) && isFileAt(w.f, w.f.Name())
	err = w.f.Close()
	if isVoid {
		_ = os.Remove(w.f.Name()) // it does no harm where it stays
	}
	return err
}

// hasRoom reports whether changes of some bytes can be appended.
func (w *wal) hasRoom(size int) bool {
	return w != nil && !w.needsCommit && w.at+blocks(size) <= walSize
}

// blocks returns the size of an entry, in bytes.
func blocks(size int) int64 { return (int64(size) + walHeader + walBlock - 1) / walBlock * walBlock }

// append writes changes to the log, and returns when they are safe.
func (w *wal) append(changes []byte) error {
	size := blocks(len(changes))
	w.buf = append(append(w.buf[:0], make([]byte, walHeader)...), changes...)
	w.buf = append(w.buf, make([]byte, int(size)-len(w.buf))...)
	binary.BigEndian.PutUint64(w.buf[4:], w.generation)
	binary.BigEndian.PutUint32(w.buf[12:], w.entries)
	binary.BigEndian.PutUint32(w.buf[16:], uint32(len(changes)))
	binary.BigEndian.PutUint32(w.buf, checksum(w.buf[4:walHeader+len(changes)]))
	_, err := w.f.WriteAt(w.buf, w.at)
	if err == nil {
		err = syncData(w.f)
	}
	if err != nil {
		w.needsCommit = true
		return err
	}
	w.entries, w.at = w.entries+1, w.at+size
	return nil
}

// begin has the log follow a commit.
func (w *wal) begin(generation uint64) {
	*w = wal{f: w.f, buf: w.buf, generation: generation}
}

// walEntry is an entry of a log, as it was read.
type walEntry struct {
	generation uint64
	number     uint32
	changes    []byte
}

// readEntry reads the entry at the beginning of b. It returns false where there is none that is whole.
func readEntry(b []byte) (e walEntry, size int64, ok bool) {
	if len(b) < walHeader {
		return walEntry{}, 0, false
	}
	n := binary.BigEndian.Uint32(b[16:])
	if uint64(n) > uint64(len(b)-walHeader) || checksum(b[4:walHeader+n]) != binary.BigEndian.Uint32(b) {
		return walEntry{}, 0, false
	}
	return walEntry{generation: binary.BigEndian.Uint64(b[4:]), number: binary.BigEndian.Uint32(b[12:]),
		changes: b[walHeader : walHeader+n]}, blocks(int(n)), true
}

// readWAL returns the changes that the log of the store at path holds of a generation, encoded, one slice an entry;
// none where there is no log. An entry that is not whole ends the log: it was never reported as safe. It returns a
// *store.DamagedError where a later one is whole.
func readWAL(path string, generation uint64) (list [][]byte, err error) {
	f, err := os.Open(walPath(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the write-ahead log: %w", explainSystemError(path, err))
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, walSize))
	if err != nil {
		return nil, fmt.Errorf("read the write-ahead log: %w", explainSystemError(path, err))
	}
	for len(b) > 0 {
		e, size, ok := readEntry(b)
		if !ok || e.generation != generation || int(e.number) != len(list) {
			break
		}
		list = append(list, e.changes)
		b = b[min(size, int64(len(b))):]
	}
	for ; len(b) >= walBlock; b = b[walBlock:] {
		if e, _, ok := readEntry(b); ok && e.generation == generation && int(e.number) >= len(list) {
			return nil, damagedError(walPath(path), fmt.Sprintf("entry %d of it is damaged", len(list)),
				"put a backup in the place of the store, or move this file away to go on without the last changes")
		}
	}
	return list, nil
}

// generationKey is where the file has the number of its last commit, in the bucket of the format.
var generationKey = []byte("generation")

// generation returns the number of the file's last commit, or 0.
func (t *tx) generation() (n uint64, err error) {
	if b := t.named(formatBucket); b != nil {
		_, err = b.get(generationKey, &n)
	}
	return n, err
}

// redoAfterKill makes the changes again that the log holds and the file does not: the bot was killed, or the power failed.
// They are committed: nothing is appended to a log that was just opened.
func (db *DB) redoAfterKill() error {
	return db.update(context.Background(), func(tx *tx) error {
		n, err := tx.redoLog(db.path)
		if n == 0 || err != nil {
			return err
		}
		// The file was checked without its log, which may say that a migration has not filled it.
		format, err := tx.format()
		return cmp.Or(err, checkFormat(db.path, format))
	})
}

// redoLog makes the changes again that the log of the store at path holds behind the last commit of the transaction's
// file, which is that of the store or a copy of it. It returns how many entries it found.
func (t *tx) redoLog(path string) (int, error) {
	generation, err := t.generation()
	if err != nil {
		return 0, err
	}
	list, err := readWAL(path, generation)
	for _, changes := range list {
		if err = t.redoAll(changes); err != nil {
			return 0, fmt.Errorf("read the write-ahead log: %w", err)
		}
	}
	return len(list), err
}

// renewGeneration draws the number of the commit that follows.
func (t *tx) renewGeneration() (uint64, error) {
	n := rand.Uint64()
	return n, t.top(formatBucket).put(generationKey, n)
}
