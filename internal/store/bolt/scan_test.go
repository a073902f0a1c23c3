package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"ravenbot/internal/store"
)

// sample is a store with free pages and a tree of pages.
func sample(tb testing.TB) []byte {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "raven.db")
	db, err := Open(path, time.Now)
	if err != nil {
		tb.Fatal(err)
	}
	for i := range 40 {
		if _, err := db.SaveEntry(tb.Context(), store.Entry{
			ID:   fmt.Sprint(i),
			Room: "general",
			Text: strings.Repeat("x", 50*i),
		}); err != nil {
			tb.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		tb.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func scanBytes(b []byte) *scan {
	s := newScan(context.Background(), bytes.NewReader(b), int64(len(b)), true)
	s.readAll()
	return s
}

// What lies deeper than any tree has levels is not read.
func TestScanTree_TooDeep_IsAFault(t *testing.T) {
	s := scanBytes(sample(t))
	s.scanTree(s.meta.root, maxDepth, nil, nil, nil)
	if want := []string{fmt.Sprintf("page %d is too deep in a tree", s.meta.root)}; !slices.Equal(s.faults, want) {
		t.Errorf("found %q, want %q", s.faults, want)
	}
}

// TestAFreePageInUseIsNoticed: bbolt would write over it at one of the next changes.
func TestAFreePageInUseIsNoticed(t *testing.T) {
	whole := sample(t)
	m := scanBytes(whole).meta
	for name, c := range map[string]struct {
		id   uint64
		want string
	}{
		"in use":     {m.root, fmt.Sprintf("page %d is in two places", m.root)},
		"a header":   {1, "page 1 is referred to"},
		"beyond end": {m.pages, fmt.Sprintf("page %d is referred to", m.pages)},
	} {
		t.Run(name, func(t *testing.T) {
			b := bytes.Clone(whole)
			list := b[int(m.freelist)*m.pageSize:]
			if page(list).count() == 0 {
				t.Fatal("the store has no free pages")
			}
			binary.NativeEndian.PutUint64(list[pageHeader:], c.id)
			if s := scanBytes(b); !strings.Contains(s.describeFaults(), c.want) {
				t.Errorf("found %q, want %q", s.describeFaults(), c.want)
			}
		})
	}
}

// TestATreeThatLeadsToItselfIsNoticed: bbolt would follow it until memory ends.
func TestATreeThatLeadsToItselfIsNoticed(t *testing.T) {
	b := sample(t)
	m := scanBytes(b).meta
	looped := false
	for id := 2; id < int(m.pages); id++ {
		p := page(b[id*m.pageSize : (id+1)*m.pageSize])
		if p.kind() == branchPage {
			binary.NativeEndian.PutUint64(p[pageHeader+8:], uint64(id))
			looped = true
		}
	}
	if !looped {
		t.Fatal("the store has no branches")
	}
	if s := scanBytes(b); !strings.Contains(s.describeFaults(), "is in two places") {
		t.Errorf("found %q", s.describeFaults())
	}
}

// failingDisk is a file of which the disk cannot read what is read after a number of times.
type failingDisk struct {
	io.ReaderAt
	left int
}

func (d *failingDisk) ReadAt(p []byte, at int64) (int, error) {
	if d.left--; d.left < 0 {
		return 0, syscall.EIO
	}
	return d.ReaderAt.ReadAt(p, at)
}

// What a disk cannot read is no damage, and nothing is said of a file that was not read to its end.
func TestScan_DiskFailsAtAnyRead_IsTheError(t *testing.T) {
	b := sample(t)
	for n := 0; ; n++ {
		s := newScan(t.Context(), &failingDisk{bytes.NewReader(b), n}, int64(len(b)), true)
		s.readAll()
		if s.err == nil && len(s.faults) == 0 && n > 4 {
			return // it was read to its end
		}
		if !errors.Is(s.err, syscall.EIO) || len(s.faults) > 0 {
			t.Fatalf("read %d: %v, faults %q", n, s.err, s.faults)
		}
	}
}

// A page is used once, and is one of the file; those with the headers are taken.
func TestClaimPages(t *testing.T) {
	const last = 130
	s := &scan{meta: meta{pages: last + 1}, used: make([]uint64, 3)}
	for _, c := range []struct {
		id, overflow uint64
		want         bool
	}{
		{0, 0, false}, {1, 0, false}, {2, 0, true}, {2, 0, false}, {3, 2, true}, {5, 0, false}, {6, 0, true},
		{7, last - 6, false}, {7, last - 7, true}, {100, 0, false}, {last, 0, false}, {last + 1, 0, false},
		{8, 1 << 63, false},
	} {
		if got := s.claimPages(c.id, c.overflow); got != c.want {
			t.Errorf("page %d with %d more: %v, want %v (%s)", c.id, c.overflow, got, c.want, s.describeFaults())
		}
	}
	if want := fmt.Sprintf("and the last is %d", last); !strings.Contains(s.describeFaults(), want) {
		t.Errorf("said %q, want %q", s.describeFaults(), want)
	}
	want := fmt.Sprintf("page 2 is referred to, and the last is %d", last)
	if s := (&scan{meta: meta{pages: last + 1}}); s.claimPages(0, 2) || s.describeFaults() != want {
		t.Errorf("said %q, want %q", s.describeFaults(), want)
	}
}

// An error names three faults and the number of the others; 20 are listed.
func TestDescribeFaults_NamesThree(t *testing.T) {
	for n, want := range map[int]string{
		1: "fault 1", 3: "fault 1; fault 2; fault 3", 4: "fault 1; fault 2; fault 3; and 1 faults more",
		20: "fault 1; fault 2; fault 3; and 17 faults more", 21: "fault 1; fault 2; fault 3; and 18 faults more",
		25: "fault 1; fault 2; fault 3; and 22 faults more",
	} {
		s, c, salvaged := &scan{}, &check{}, &salvager{torn: map[string]bool{}}
		for i := range n {
			s.addFault("fault %d", i+1)
			c.addFault("fault %d", i+1)
			salvaged.addFault("bucket", "fault %d", i+1)
		}
		got, listed := s.describeFaults(), []int{len(s.faults), len(c.faults), len(salvaged.faults)}
		if most := min(n, 20); got != want || !slices.Equal(listed, []int{most, most, most}) {
			t.Errorf("%d: %q, of which %v are listed, want %q", n, got, listed, want)
		}
	}
}

// FuzzScan has foreign bytes read as a store, and pages of a store with foreign bytes
// in them.
func FuzzScan(f *testing.F) {
	whole := sample(f)
	f.Add(whole[:pageHeader+metaSize], 0)
	f.Add([]byte("no store"), 0)
	f.Add([]byte{1, 0xFF, 0xFF, 0xFF, 0xFF}, 3*4096+8)
	f.Fuzz(func(t *testing.T, b []byte, at int) {
		s := scanBytes(b)
		if len(s.faults) == 0 && !s.hasBuckets && len(b) < 4*1024 {
			t.Errorf("%d bytes are a store", len(b))
		}
		spoiled := bytes.Clone(whole)
		if at >= 0 && at < len(spoiled) {
			copy(spoiled[at:], b)
		}
		s = scanBytes(spoiled)
		if got := s.counts; len(s.faults) == 0 && fmt.Sprint(got) != fmt.Sprint(s.recorded) {
			t.Errorf("without a fault it counts %v and not %v", got, s.recorded)
		}
	})
}

// TestVerify_FileOfAnotherProgram_IsRefused: bbolt is not ours alone, and a file without damage may hold something else.
func TestVerify_FileOfAnotherProgram_IsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.db")
	b, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = b.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("tea"))
		return err
	})
	if err = errors.Join(err, b.Close()); err != nil {
		t.Fatal(err)
	}
	var damaged *store.DamagedError
	if err := Verify(t.Context(), path); !errors.As(err, &damaged) || !strings.Contains(err.Error(), "no records of ravenbot") {
		t.Errorf("a copy of it gave %v", err)
	}
	if _, err := Open(path, time.Now); !errors.As(err, &damaged) || !strings.Contains(err.Error(), "no records of ravenbot") {
		t.Errorf("opening it gave %v", err)
	}
}

// Keys are from low, or above it, up to high and without it; nil is no bound.
func TestIsMisplaced(t *testing.T) {
	for _, c := range []struct {
		key, low, high string
		above, want    bool
	}{
		{"b", "", "", true, false}, {"b", "a", "", true, false}, {"b", "b", "", false, false}, {"b", "b", "", true, true},
		{"b", "c", "", false, true}, {"b", "", "c", false, false}, {"b", "", "b", false, true}, {"b", "", "a", false, true},
		{"b", "a", "c", true, false},
	} {
		bound := func(s string) []byte {
			if s == "" {
				return nil
			}
			return []byte(s)
		}
		if got := (&scan{}).isMisplaced([]byte(c.key), bound(c.low), bound(c.high), c.above); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Where no list of free pages was written all pages are free that nothing uses.
func TestScanFreelist_NoList_CountsWhatIsNotUsed(t *testing.T) {
	s := &scan{meta: meta{pages: 70, freelist: noFreelist}, used: []uint64{0b1011, 1}}
	if s.scanFreelist(); s.free != 66 {
		t.Errorf("%d pages are free, want 66", s.free)
	}
}

// bbolt reads a page beyond the end of the file as a fault of memory, so that a file which is too short is refused
// before any of its pages is looked at.
func TestScan_FileIsShort_IsSaid(t *testing.T) {
	b := sample(t)
	m, _, err := readMetas(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	end := int(m.pages) * m.pageSize
	if s := scanBytes(b[:end]); len(s.faults) > 0 {
		t.Errorf("as long as it has to be: %q", s.faults)
	}
	want := fmt.Sprintf("it ends after %d bytes of %d", end-1, end)
	if s := scanBytes(b[:end-1]); !slices.Equal(s.faults, []string{want}) {
		t.Errorf("found %q, want %q", s.faults, want)
	}
}

// The keys below a branch end where the next branch begins: bbolt does not find a record that stands beyond.
func TestScanBranch_KeyOfTheNextBranch_IsNoticed(t *testing.T) {
	db := opened(t)
	blobs(t, db, 60)
	kill(t, db)
	m := imageOf(t, db.path)
	var last []byte // of the first leaf
	m.visit(m.meta.root, "", func(name string, p page, _ bool) {
		if name == blobsBucket && p.kind() == leafPage && last == nil {
			_, last, _, _ = p.leaf(p.count() - 1)
		}
	})
	copy(last, "z")
	isNamed := func(f string) bool { return strings.Contains(f, "is wrong") }
	if s := scanBytes(m.bytes); !slices.ContainsFunc(s.faults, isNamed) {
		t.Errorf("found %q", s.faults)
	}
}

// A tree may have as many levels as the bound, and no more.
func TestScanTree_LevelsUpToTheBound_AreRead(t *testing.T) {
	for levels, want := range map[int][]string{
		maxDepth: nil, maxDepth + 1: {fmt.Sprintf("page %d is too deep in a tree", 2+maxDepth)},
	} {
		b := levelsOfPages(levels)
		m := meta{pageSize: 1024, pages: uint64(len(b) / 1024)}
		s := newScan(t.Context(), bytes.NewReader(b), int64(len(b)), true)
		s.meta, s.used = m, make([]uint64, 2)
		s.scanTree(2, 0, nil, nil, &counted{})
		if !slices.Equal(s.faults, want) {
			t.Errorf("%d levels: found %q, want %q", levels, s.faults, want)
		}
	}
}

// levelsOfPages returns a file of two empty pages and some more, from page 2 on, of which each but the last leads to the
// next.
func levelsOfPages(n int) []byte {
	const size = 1024
	b := make([]byte, (2+n)*size)
	for id := 2; id < 2+n; id++ {
		p := b[id*size:]
		binary.NativeEndian.PutUint64(p, uint64(id))
		if id == 1+n {
			p[8] = leafPage
			continue
		}
		p[8], p[10] = branchPage, 1
		binary.NativeEndian.PutUint32(p[pageHeader:], elementSize)
		binary.NativeEndian.PutUint32(p[pageHeader+4:], 1)
		binary.NativeEndian.PutUint64(p[pageHeader+8:], uint64(id+1))
		p[pageHeader+elementSize] = 'k'
	}
	return b
}

// A file may end before its last page.
func TestScan_PageBeyondTheEndOfTheFile_IsAFault(t *testing.T) {
	b := levelsOfPages(1)
	s := newScan(t.Context(), bytes.NewReader(b), int64(len(b)), true)
	s.meta, s.used = meta{pageSize: 1024, pages: 4}, make([]uint64, 1)
	s.scanTree(3, 0, nil, nil, &counted{})
	if want := []string{"page 3 is beyond the end of the file"}; !slices.Equal(s.faults, want) || s.err != nil {
		t.Errorf("found %q, want %q (%v)", s.faults, want, s.err)
	}
}
