package bolt

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// A whole check of the file takes seconds where it has gigabytes. So the store remembers, in a file
// beside it, which file it last had open and in which state it left it. A file that is still that
// one is opened at once, and read as a whole while the bot works (see check_open.go). Any other one, such
// as a copy, a file that was touched, and one that a power cut ended, is checked before it is opened.
// It is beside the store since it holds what is only known after the last write.

// stamp is what is remembered of a store.
type stamp struct {
	File     fileID    `json:"file"`
	Boot     string    `json:"boot"` // of the system; a power cut ends it
	TxID     uint64    `json:"txid"` // of the last transaction, or of the one at opening
	Open     bool      `json:"open"` // the rest is of closed stores
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	Freelist uint32    `json:"freelist"` // checksum of the list of free pages
	// Checked is when the whole file was last read and found to be good.
	Checked time.Time `json:"checked"`
	// Damaged: something was found since, and the file is to be checked before it is opened.
	Damaged bool `json:"damaged,omitempty"`
}

// fileID names a file on a machine. It is zero where the system has no such numbers.
type fileID struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

// stampPath returns the path of the stamp of a store.
func stampPath(path string) string { return path + ".stamp" }

// readStamp returns the stamp of the store at path, or one that fits no file.
func readStamp(path string) stamp {
	var s stamp
	text, err := os.ReadFile(stampPath(path))
	if err != nil || json.Unmarshal(text, &s) != nil {
		return stamp{}
	}
	return s
}

// write stores the stamp. Where that fails, as on a full disk, the store is without one, and is
// checked the next time.
func (s stamp) write(path string) {
	text, err := json.Marshal(s)
	if err == nil {
		err = writeBeside(stampPath(path), func(f *os.File) error {
			if of, err := os.Stat(path); err == nil {
				copyOwner(f, of)
			}
			_, err := f.Write(append(text, '\n'))
			return errors.Join(err, f.Sync())
		}, func(name string) error { return os.Rename(name, stampPath(path)) })
	}
	if err != nil {
		_ = os.Remove(stampPath(path)) // an older one fits only a file that was not changed since
	}
}

// fits reports whether the file at path is the one that the stamp is of, and as the store left it.
func (s stamp) fits(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || s.Damaged || s.File == (fileID{}) || fileIDOf(info) != s.File {
		return false
	}
	m, good, err := readMetas(f)
	if err != nil || good < 2 || info.Size() < int64(m.pages)*int64(m.pageSize) {
		return false
	}
	_, list, ok := readFreelist(f, m)
	if !ok {
		return false
	}
	if s.Open {
		// The bot was killed, which loses nothing that the system has taken. The file has gone on
		// since the stamp, and an older copy in its place has not.
		return s.Boot != "" && s.Boot == bootID() && m.txid >= s.TxID
	}
	return m.txid == s.TxID && info.Size() == s.Size && info.ModTime().Equal(s.Modified) && list == s.Freelist
}

// stampOpen records that the store is open.
func (db *DB) stampOpen() error {
	m, err := db.header()
	if err != nil {
		return err
	}
	s := stamp{File: fileIDOf(db.file), Boot: bootID(), TxID: m.txid, Open: true, Checked: db.health.checkedAt()}
	s.write(db.path)
	return nil
}

// stampClosed records how the store was left; its file is closed.
func (db *DB) stampClosed() error {
	f, err := os.Open(db.path)
	if err != nil {
		return nil // the file was taken away, and whatever comes in its place is checked
	}
	defer f.Close()
	// The kernel sets times in steps of milliseconds. One of nanoseconds differs from that of a
	// write which follows at once.
	now := time.Now()
	if err := os.Chtimes(db.path, now, now); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	m, _, err := readMetas(f)
	if err != nil || !os.SameFile(info, db.file) {
		return nil
	}
	_, list, _ := readFreelist(f, m)
	s := stamp{File: fileIDOf(info), Boot: bootID(), TxID: m.txid, Size: info.Size(), Modified: info.ModTime(),
		Freelist: list, Checked: db.health.checkedAt(), Damaged: db.health.isDamaged()}
	s.write(db.path)
	return nil
}
