package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
