package bolt

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
)

// TestMigration_FileWithALongName_IsReadByParts opens a file of format 5 in which the data come far behind a name.
func TestMigration_FileWithALongName_IsReadByParts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	db, err := Open(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	err = db.update(t.Context(), func(tx *tx) error {
		files, err := tx.createNamed(oldRoomFiles + nul + "general")
		if err != nil {
			return err
		}
		f := oldFile{File: chat.File{Name: strings.Repeat("n", 5000), Data: []byte("its data")}}
		return errors.Join(files.put(seqKey(1), f), tx.top(formatBucket).put([]byte(formatBucket), formatRecord{5}))
	})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	s, err := OpenRecords(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f, err := s.RoomFilePart(t.Context(), "general", 1, 4, 2)
	if err != nil || string(f.Data) != "da" || f.Size != 8 {
		t.Errorf("got %q of %d bytes (%v), want %q of 8", f.Data, f.Size, err, "da")
	}
}
