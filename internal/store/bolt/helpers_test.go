package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"go.etcd.io/bbolt"

	"ravenbot/internal/core/chat"
)

// errStop ends what a test has begun.
var errStop = errors.New("the test ends it here")

func room(i int) chat.Address { return chat.Address{Platform: "web", Channel: fmt.Sprint("room", i)} }

func saveBlob(t *testing.T, db *TestStore, key string, size int) {
	t.Helper()
	if err := db.SaveBlob(t.Context(), key, slices.Concat([]byte{'"'}, repeatX(size), []byte{'"'})); err != nil {
		t.Fatal(err)
	}
}

// kill ends a store as a killed bot does: nothing is written any more.
func kill(t *testing.T, db *TestStore) {
	t.Helper()
	if err := db.leave(); err != nil {
		t.Fatal(err)
	}
}

func bytesOf(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// flipByte changes the first byte of a text in a file, as a disk may, in all states of its page.
func flipByte(t *testing.T, path, text string) {
	t.Helper()
	b := bytesOf(t, path)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found := 0
	for at := bytes.Index(b, []byte(text)); at >= 0; at = bytes.Index(b, []byte(text)) {
		found++
		b[at] ^= 1
		if _, err := f.WriteAt(b[at:at+1], int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	if found == 0 {
		t.Fatalf("%q is not in the file", text)
	}
}

// dump returns all records, and from where buckets count on, by bucket.
func dump(t *testing.T, db *TestStore) (list []string) {
	t.Helper()
	var visit func(name string, b *bbolt.Bucket) error
	visit = func(name string, b *bbolt.Bucket) error {
		list = append(list, fmt.Sprintf("%q counts on from %d", name, b.Sequence()))
		return b.ForEach(func(k, v []byte) error {
			if v == nil {
				return visit(name+nul+string(k), b.Bucket(k))
			}
			if !bytes.Equal(k, closedKey) {
				list = append(list, fmt.Sprintf("%q %q %q", name, k, v))
			}
			return nil
		})
	}
	if err := db.bolt.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error { return visit(string(name), b) })
	}); err != nil {
		t.Fatal(err)
	}
	return list
}
