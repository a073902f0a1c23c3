package bolt

import (
	"errors"
	"fmt"
	"io"
	"os"

	"go.etcd.io/bbolt"
)

// A file that somebody else writes over or cuts while it is open, as `cp` onto it does, keeps its name and its inode.
// bbolt would read what it does not expect, fault with its locks held, and nothing that waits for these would end, the
// stop of the bot included. So before each transaction it is looked whether the file reaches as far as it did, and
// before each that writes whether its headers are those that the last commit has left.

// contents is how the last commit has left the open file.
type contents struct {
	f       *os.File // a descriptor of its own: that of bbolt is not to be had
	size    int64    // how far the pages reach
	headers string
}

// openContents has the open file watched from its present state on.
func (db *DB) openContents() error {
	f, err := os.Open(db.path)
	if err != nil {
		return fmt.Errorf("look at store: %w", explainSystemError(db.path, err))
	}
	if old := db.contents.Swap(&contents{f: f}); old != nil {
		_ = old.f.Close() // it was only read
	}
	db.noteContents()
	return nil
}

// closeContents ends the watch.
func (db *DB) closeContents() {
	if c := db.contents.Swap(nil); c != nil {
		_ = c.f.Close() // it was only read
	}
}

// noteContents keeps how a commit has left the file. db.writing is held. What cannot be read is not compared.
func (db *DB) noteContents() {
	c := db.contents.Load()
	if c == nil {
		return // a copy that is being made
	}
	found := &contents{f: c.f}
	if m, _, err := readMetas(c.f); err == nil {
		found.size = int64(m.pages) * int64(m.pageSize)
		found.headers, _ = db.readHeaders(c.f)
	}
	db.contents.Store(found)
}

// readHeaders returns the bytes of both headers.
func (db *DB) readHeaders(f io.ReaderAt) (string, error) {
	second := db.bolt.Load().Info().PageSize
	b := make([]byte, 2*(pageHeader+metaSize))
	_, err := f.ReadAt(b[:pageHeader+metaSize], 0)
	if err == nil {
		_, err = f.ReadAt(b[pageHeader+metaSize:], int64(second))
	}
	return string(b), err
}

// begin begins a transaction of b. Where both headers were overwritten, bbolt panics with locks held that nothing frees:
// from then on there are no transactions any more, and Close leaves bbolt alone.
func (db *DB) begin(b *bbolt.DB, writable bool) (*bbolt.Tx, error) {
	if db.isStuck.Load() {
		return nil, db.noteOverwritten()
	}
	hasEnded := false
	defer func() {
		if !hasEnded {
			db.isStuck.Store(true)
		}
	}()
	t, err := b.Begin(writable)
	hasEnded = true
	return t, err
}

// checkContents returns an error where the open file is not as the last commit has left it. db.writing is held.
func (db *DB) checkContents() error {
	if db.isStuck.Load() {
		return db.noteOverwritten()
	}
	if err := db.checkLength(); err != nil {
		return err
	}
	c := db.contents.Load()
	if c == nil || c.headers == "" {
		return nil
	}
	if found, err := db.readHeaders(c.f); err == nil && found != c.headers {
		return db.noteOverwritten()
	}
	return nil
}

// checkLength returns an error where the open file was cut.
func (db *DB) checkLength() error {
	for {
		c := db.contents.Load()
		if c == nil || c.size == 0 {
			return nil
		}
		var last [1]byte
		if _, err := c.f.ReadAt(last[:], c.size-1); !errors.Is(err, io.EOF) {
			return nil
		}
		// A file that was replaced by its compacted copy is emptied.
		if now := db.contents.Load(); now == nil || now.f == c.f {
			return db.noteOverwritten()
		}
	}
}

// noteOverwritten notes that the file was changed by somebody else, and returns that as an error.
func (db *DB) noteOverwritten() error {
	err := fmt.Errorf("the file of store %s was overwritten while the bot runs: stop the bot, and put that file or a "+
		"backup back; %w", db.path, errNoFile)
	db.health.noteFile(err)
	return err
}
