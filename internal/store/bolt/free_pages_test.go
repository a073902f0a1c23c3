package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"ravenbot/internal/store"
)

// unlisted makes a file with buckets, some of them nested and some within a page, and with records that take many pages.
// It has free pages, those of a large record of some bytes among them, and no list of them.
func unlisted(t *testing.T, pageSize, large int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "unlisted.db")
	b, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: pageSize, NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(7, 7))
	key := func() []byte { return fmt.Appendf(nil, "key %d", random.IntN(400)) }
	fill := func(tx *bbolt.Tx) error {
		outer, err := tx.CreateBucketIfNotExists([]byte{byte('a' + random.IntN(5))})
		if err != nil {
			return err
		}
		inner, err := outer.CreateBucketIfNotExists([]byte{byte('a' + random.IntN(30))})
		for range random.IntN(40) {
			err = errors.Join(err, inner.Put(key(), make([]byte, random.IntN(3*pageSize))), inner.Delete(key()))
		}
		return err
	}
	changes := []func(*bbolt.Tx) error{func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("large"))
		return errors.Join(err, b.Put([]byte("gone"), make([]byte, large)))
	}}
	for range 40 {
		changes = append(changes, fill)
	}
	changes = append(changes, func(tx *bbolt.Tx) error { return tx.Bucket([]byte("large")).Delete([]byte("gone")) }, fill)
	for _, change := range changes {
		if err := b.Update(change); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// freeByBbolt returns the pages that bbolt takes for free in a file, and its records, whatever their bucket is.
func freeByBbolt(t *testing.T, path string) (free []uint64, records []string) {
	t.Helper()
	b, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.View(func(tx *bbolt.Tx) error {
		for id := 0; ; id++ {
			info, err := tx.Page(id)
			if info == nil || err != nil {
				break
			}
			if info.Type == "free" {
				free = append(free, uint64(id))
			}
		}
		for err := range tx.Check() {
			t.Error(err)
		}
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error { return list(b, string(name), &records) })
	}); err != nil {
		t.Fatal(err)
	}
	return free, records
}

// list appends the records of a bucket and of those in it.
func list(b *bbolt.Bucket, name string, to *[]string) error {
	return b.ForEach(func(k, v []byte) error {
		if inner := b.Bucket(k); inner != nil {
			return list(inner, name+"/"+string(k), to)
		}
		*to = append(*to, fmt.Sprintf("%s/%s: %d", name, k, len(v)))
		return nil
	})
}

// The list that is written names the pages that bbolt itself would find, few or so many that their number is not in the
// header of the page.
func TestListFreePages_NamesThoseThatBboltFinds(t *testing.T) {
	for name, large := range map[string]int{"some": 300 << 10, "more than 65,535": 70 << 20} {
		t.Run(name, func(t *testing.T) {
			path := unlisted(t, 1024, large)
			found := path + ".found"
			if err := os.WriteFile(found, bytesOf(t, path), 0o600); err != nil {
				t.Fatal(err)
			}
			want, records := freeByBbolt(t, found)
			if err := listFreePages(path); err != nil {
				t.Fatal(err)
			}
			m := imageOf(t, path)
			got, _, ok := readFreelist(bytes.NewReader(m.bytes), m.meta)
			if diff := cmp.Diff(want, got); !ok || diff != "" {
				t.Fatalf("listed (whole: %v), less what bbolt finds:\n%s", ok, diff)
			}
			if got, have := freeByBbolt(t, path); !cmp.Equal(want, got) || !cmp.Equal(records, have) {
				t.Errorf("bbolt reads %d free pages and %d records, want %d and %d", len(got), len(have), len(want), len(records))
			}
		})
	}
}

// Opening a store writes the list before bbolt looks for it.
func TestOpenFile_NoListOfFreePages_IsWritten(t *testing.T) {
	path := unlisted(t, 4096, 300<<10)
	b, err := openFile(path, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if m := imageOf(t, path); m.meta.freelist == noFreelist {
		t.Error("there is no list")
	}
}

// Whatever a power cut leaves of the write, the file holds what it held, and its free pages are found. The list is on
// the disk before the first header is written, and that one before the second.
func TestListFreePages_PowerCut_LeavesTheFileWhole(t *testing.T) {
	for newest := range 2 {
		t.Run(fmt.Sprint("header ", newest), func(t *testing.T) { cutPowerWhileListing(t, newest) })
	}
}

// cutPowerWhileListing checks a file of which one header is the newest.
func cutPowerWhileListing(t *testing.T, newest int) {
	t.Helper()
	path := unlisted(t, 1024, 300<<10)
	if int(imageOf(t, path).meta.txid%2) != newest {
		b, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true})
		if err != nil {
			t.Fatal(err)
		}
		err = b.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("large")).Put([]byte("key"), nil) })
		if err := errors.Join(err, b.Close()); err != nil {
			t.Fatal(err)
		}
	}
	before := bytesOf(t, path)
	if err := listFreePages(path); err != nil {
		t.Fatal(err)
	}
	after := imageOf(t, path)
	want, records := freeByBbolt(t, path)
	at, size := int(after.meta.freelist)*after.meta.pageSize, after.meta.pageSize
	other := int(1 - after.meta.txid%2)
	random := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	for written := range 20 {
		state := append(bytes.Clone(before), make([]byte, max(0, len(after.bytes)-len(before)))...)
		for sector := at; sector < len(after.bytes); sector += 512 {
			if written >= 10 || random.IntN(2) == 0 {
				copy(state[sector:min(sector+512, len(state))], after.bytes[sector:])
			}
		}
		if written >= 10 {
			copy(state[other*size:(other+1)*size], after.bytes[other*size:])
		}
		if written < 5 {
			state = state[:max(len(before), random.IntN(len(state)))]
		}
		cut := filepath.Join(t.TempDir(), "cut.db")
		if err := os.WriteFile(cut, state, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, good, err := readMetas(bytes.NewReader(state)); err != nil || good != 2 {
			t.Fatalf("state %d has %d good headers (%v)", written, good, err)
		}
		if err := listFreePages(cut); err != nil {
			t.Fatal(err)
		}
		if got, have := freeByBbolt(t, cut); !cmp.Equal(want, got) || !cmp.Equal(records, have) {
			t.Errorf("state %d has %d free pages and %d records, want %d and %d", written, len(got), len(have), len(want),
				len(records))
		}
	}
}

// A file with a wrong page is left as it is, as are those that somebody else has open and those that have a list.
func TestListFreePages_LeavesOtherFilesAlone(t *testing.T) {
	leaf := func(m *image) page {
		var found page
		m.visit(m.meta.root, "", func(_ string, p page, isInline bool) {
			if !isInline && p.kind() == leafPage && p.id() != m.meta.root {
				found = p
			}
		})
		return found
	}
	branch := func(m *image) page {
		var found page
		m.visit(m.meta.root, "", func(_ string, p page, _ bool) {
			if p.kind() == branchPage {
				found = p
			}
		})
		return found
	}
	for name, damage := range map[string]func(m *image){
		"another number":           func(m *image) { leaf(m)[0] ^= 1 },
		"an unknown kind":          func(m *image) { leaf(m)[8] = 0x40 },
		"too long":                 func(m *image) { binary.NativeEndian.PutUint32(leaf(m)[12:], uint32(m.meta.pages)) },
		"two ways to a page":       func(m *image) { p := branch(m); copy(p[pageHeader+8:pageHeader+16], p[pageHeader+elementSize+8:]) },
		"a circle":                 func(m *image) { p := branch(m); binary.NativeEndian.PutUint64(p[pageHeader+8:], p.id()) },
		"a page that is none":      func(m *image) { binary.NativeEndian.PutUint64(branch(m)[pageHeader+8:], 1<<40) },
		"the page behind the last": func(m *image) { binary.NativeEndian.PutUint64(branch(m)[pageHeader+8:], m.meta.pages) },
		"no page":                  func(m *image) { binary.NativeEndian.PutUint64(branch(m)[pageHeader+8:], 0) },
		"a record out of page":     func(m *image) { m.page(m.meta.root)[pageHeader+4+3] = 0xff },
		"an end that is too early": func(m *image) { m.bytes = m.bytes[:len(m.bytes)/2] },
		"one good header":          func(m *image) { m.bytes[int(1-m.meta.txid%2)*m.meta.pageSize+pageHeader+40] ^= 1 },
	} {
		t.Run(name, func(t *testing.T) {
			path := unlisted(t, 1024, 300<<10)
			m := imageOf(t, path)
			damage(m)
			m.write(path)
			if err := listFreePages(path); err != nil {
				t.Error(err)
			}
			if !bytes.Equal(bytesOf(t, path), m.bytes) {
				t.Error("the file was changed")
			}
		})
	}
	t.Run("in use", func(t *testing.T) {
		path := unlisted(t, 1024, 300<<10)
		before := bytesOf(t, path)
		b, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		var inUse *store.InUseError
		if err := listFreePages(path); !errors.As(err, &inUse) {
			t.Errorf("got %v, want that it is in use", err)
		}
		if !bytes.Equal(bytesOf(t, path), before) {
			t.Error("the file was changed")
		}
	})
	t.Run("listed", func(t *testing.T) {
		path := unlisted(t, 1024, 300<<10)
		if err := listFreePages(path); err != nil {
			t.Fatal(err)
		}
		before := bytesOf(t, path)
		if err := listFreePages(path); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(bytesOf(t, path), before) {
			t.Error("the file was changed")
		}
	})
}

// bytesOf returns what a file holds.
func bytesOf(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The list is not written where the file cannot be looked at, or a page of it is wrong.
func TestWriteMissingList_CannotBeMade_IsAnError(t *testing.T) {
	path := unlisted(t, 1024, 300<<10)
	f := openForTest(t, path, os.O_RDWR)
	m := imageOf(t, path)
	m.page(m.meta.root)[pageHeader+4+3] = 0xff
	m.write(path)
	if err := writeMissingList(f); err == nil {
		t.Error("a list was made of a file with a wrong page")
	}
	if !bytes.Equal(bytesOf(t, path), m.bytes) {
		t.Error("the file was changed")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := writeMissingList(f); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed file gave %v", err)
	}
}

// A file is read in parts, of which the last one ends with its last page, whatever lies behind that.
func TestFindLeaves_LargeFileWithRoomBehindItsPages_ReadsItsPages(t *testing.T) {
	const size = 1024
	pages := 2*readAtOnce/size + 3
	b := make([]byte, (2*pages)*size)
	for id := range 2 * pages { // those behind its end are of an earlier time
		p := b[id*size:]
		binary.NativeEndian.PutUint64(p, uint64(id))
		p[8] = leafPage
	}
	leaves, err := findLeaves(bytes.NewReader(b), meta{pageSize: size, pages: uint64(pages)})
	if err != nil || len(leaves) != pages || slices.Contains(leaves, 0) {
		t.Errorf("%d of %d pages are found (%v), and some are none: %v", len(leaves), pages, err, slices.Contains(leaves, 0))
	}
	if _, err := findLeaves(bytes.NewReader(b[:pages*size-1]), meta{pageSize: size, pages: uint64(pages)}); err == nil {
		t.Error("a file that ends within its last page gave no error")
	}
}

// A tree may have as many levels as the bound, and no more.
func TestClaimTree_LevelsUpToTheBound_AreRead(t *testing.T) {
	for levels, want := range map[int][]string{
		maxDepth: nil, maxDepth + 1: {fmt.Sprintf("page %d is too deep in a tree", 2+maxDepth)},
	} {
		b := levelsOfPages(levels)
		pages := uint64(len(b) / 1024)
		s := newScan(t.Context(), bytes.NewReader(b), int64(len(b)), false)
		s.meta, s.used = meta{pageSize: 1024, pages: pages}, make([]uint64, 2)
		s.claimTree(2, 0, make([]uint32, pages))
		if !slices.Equal(s.faults, want) || s.err != nil {
			t.Errorf("%d levels: found %q, want %q (%v)", levels, s.faults, want, s.err)
		}
	}
}
