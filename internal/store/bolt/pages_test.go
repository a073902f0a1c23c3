package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/store/storetest"
)

// image is the bytes of a store, whose pages a test damages.
type image struct {
	t     *testing.T
	bytes []byte
	meta  meta
}

// imageOf returns the file of a store that is not open.
func imageOf(t *testing.T, path string) *image {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, good, err := readMetas(bytes.NewReader(b))
	if err != nil || good != 2 {
		t.Fatalf("%d good headers: %v", good, err)
	}
	return &image{t, b, m}
}

// page returns a page with its overflow, which shares the memory of the image.
func (m *image) page(id uint64) page {
	at := int(id) * m.meta.pageSize
	return page(m.bytes[at : at+(1+int(page(m.bytes[at:]).overflow()))*m.meta.pageSize])
}

// visit calls fn with every page of the tree below a page, and with every page of records that is stored within another
// one, by the name of their bucket.
func (m *image) visit(id uint64, name string, fn func(name string, p page, isInline bool)) {
	p := m.page(id)
	fn(name, p, false)
	if p.kind() == branchPage {
		for i := range p.count() {
			_, child, _ := p.branch(i)
			m.visit(child, name, fn)
		}
		return
	}
	for i := range p.count() {
		flags, key, value, _ := p.leaf(i)
		if flags&isBucket == 0 {
			continue
		}
		inner := strings.TrimPrefix(name+nul+string(key), nul)
		if root := binary.NativeEndian.Uint64(value); root != 0 {
			m.visit(root, inner, fn)
		} else {
			fn(inner, page(value[bucketHeader:]), true)
		}
	}
}

// find returns the page of records of a bucket that has a key, and the number of the record.
func (m *image) find(bucket, key string) (p page, i int) {
	m.t.Helper()
	m.visit(m.meta.root, "", func(name string, found page, _ bool) {
		if name != bucket || found.kind() != leafPage {
			return
		}
		for n := range found.count() {
			if _, k, _, _ := found.leaf(n); string(k) == key {
				p, i = found, n
			}
		}
	})
	if p == nil {
		m.t.Fatalf("there is no record %q in %q", key, bucket)
	}
	return p, i
}

// write replaces the file at path by the image.
func (m *image) write(path string) {
	m.t.Helper()
	if err := os.WriteFile(path, m.bytes, 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// blobs stores records under blob100 and so on, with one page of a tree for some of them.
func blobs(t *testing.T, db *DB, n int) {
	t.Helper()
	for i := range n {
		if err := db.SaveBlob(t.Context(), fmt.Sprint("blob", 100+i), []byte(`"`+strings.Repeat("x", 200)+`"`)); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever bit of a page is flipped that says where records are, a scan notices it: bbolt would fault, loop or write
// over other records.
func TestScan_AnyBitOfAPageIsFlipped_IsNoticed(t *testing.T) {
	db := opened(t)
	blobs(t, db, 60)
	if _, err := db.SaveEntry(t.Context(), store.Entry{ID: "1", Room: "general"}); err != nil {
		t.Fatal(err)
	}
	kill(t, db)
	m := imageOf(t, db.path)
	m.bytes = m.bytes[:int(m.meta.pages)*m.meta.pageSize]
	if s := scanBytes(m.bytes); len(s.faults) > 0 {
		t.Fatal(s.faults)
	}
	seen := map[string]bool{}
	flip := func(what string, b []byte) {
		for i := range b {
			for _, bit := range []byte{0x01, 0x80} {
				b[i] ^= bit
				if s := scanBytes(m.bytes); len(s.faults) == 0 && !seen[what] {
					seen[what] = true
					t.Errorf("bit %#x of byte %d of %s is flipped, and nothing is noticed", bit, i, what)
				}
				b[i] ^= bit
			}
		}
	}
	type part struct {
		what string
		b    []byte
	}
	var parts []part // found before they are damaged
	m.visit(m.meta.root, "", func(name string, p page, isInline bool) {
		begin := 0
		if isInline {
			begin = 8 // a page in another one has no number
		}
		parts = append(parts, part{fmt.Sprintf("the header of a page of %q of kind %d", name, p.kind()), p[begin:pageHeader]})
		for i := range p.count() {
			element := p[pageHeader+i*elementSize:][:elementSize]
			if p.kind() == branchPage {
				element = element[8:] // the keys of branches are checked by what is below them
			} else if flags, key, value, _ := p.leaf(i); flags&isBucket != 0 {
				element = element[:12] // what stands behind the records of a bucket is of no use
				root := value[:8]
				parts = append(parts, part{fmt.Sprintf("the root of %q", name+nul+string(key)), root})
			}
			parts = append(parts, part{fmt.Sprintf("element %d of a page of %q of kind %d", i, name, p.kind()), element})
		}
	})
	// A list that is too short loses free pages alone.
	free := m.page(m.meta.freelist)
	parts = append(parts, part{"the header of the list of free pages", free[:10]},
		part{"the list of free pages", free[pageHeader:][:8*free.freeCount()]})
	for i := range 2 {
		at := i*m.meta.pageSize + pageHeader
		parts = append(parts, part{fmt.Sprint("header ", i), m.bytes[at : at+metaSize]})
	}
	for _, p := range parts {
		flip(p.what, p.b)
	}
}

// A header that is many transactions older than the other one is damaged: bbolt writes them in turn.
func TestReadMetas_HeaderIsMuchOlder_CountsAsDamaged(t *testing.T) {
	db := opened(t)
	older, err := os.ReadFile(db.path)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := db.SaveBlob(t.Context(), "a", []byte(`1`)); err != nil {
			t.Fatal(err)
		}
		flush(t, db)
	}
	kill(t, db)
	m := imageOf(t, db.path)
	at := (1 - int(m.meta.txid)%2) * m.meta.pageSize
	copy(m.bytes[at:at+m.meta.pageSize], older[at:at+m.meta.pageSize])
	if got, good, err := readMetas(bytes.NewReader(m.bytes)); err != nil || good != 1 || got != m.meta {
		t.Errorf("%d good headers, in effect %+v, want %+v: %v", good, got, m.meta, err)
	}
	if s := scanBytes(m.bytes); !s.isHeaderOnly() {
		t.Errorf("found %q", s.faults)
	}
}

// What the newest transaction wrote to a page that is lost is gone, and the page of the transaction before is there.
func TestSalvage_NewestPageIsGone_TakesTheOneBefore(t *testing.T) {
	db := opened(t)
	blobs(t, db, 60)
	want := rawRecords(t, db)
	if err := db.SaveBlob(t.Context(), "blob105", []byte(`"newer"`)); err != nil {
		t.Fatal(err)
	}
	kill(t, db)
	m := imageOf(t, db.path)
	p, _ := m.find(blobsBucket, "blob105")
	lost := p.count()
	clear(p)
	m.write(db.path)
	r, got, err := salvage(t, db.path)
	if err != nil || len(r.Lost) != 1 || r.Lost[0] != (Loss{Bucket: blobsBucket, Stored: 60, Outdated: true}) {
		t.Fatalf("%+v (%v)", r, err)
	}
	if len(r.Faults) != 1 || int(r.Records) != len(want) || lost < 2 {
		t.Errorf("%d records of %d, %d of them from the page before, faults %q", r.Records, len(want), lost, r.Faults)
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("record %q is %q, want %q", k, got[k], v)
		}
	}
}

// Where the file ends within a large record what stands before that is there.
func TestSalvage_FileEndsWithinALargeRecord_KeepsWhatIsBefore(t *testing.T) {
	for name, left := range map[string]int{"after the first page": 1, "in the middle": 4} {
		t.Run(name, func(t *testing.T) {
			db := opened(t)
			for key, size := range map[string]int{"small": 1, "tall": 40_000} {
				if err := db.SaveBlob(t.Context(), key, slices.Concat([]byte{'"'}, repeatX(size), []byte{'"'})); err != nil {
					t.Fatal(err)
				}
			}
			// Everything else is brought before the large record, which is not written again.
			for range 5 {
				if _, err := db.SwapSetting(t.Context(), "instance", nil, []byte(`{}`)); err != nil {
					t.Fatal(err)
				}
			}
			want := rawRecords(t, db)
			kill(t, db)
			m := imageOf(t, db.path)
			p, _ := m.find(blobsBucket, "tall")
			m.visit(m.meta.root, "", func(name string, other page, isInline bool) {
				if !isInline && other.id() > p.id() {
					t.Fatalf("page %d of %q is behind page %d", other.id(), name, p.id())
				}
			})
			m.bytes = m.bytes[:(int(p.id())+left)*m.meta.pageSize]
			m.write(db.path)
			r, got, err := salvage(t, db.path)
			if err != nil || len(r.Lost) != 1 || r.Lost[0] != (Loss{Bucket: blobsBucket, Lost: 1, Stored: 2}) {
				t.Fatalf("%+v (%v)", r, err)
			}
			for k, v := range want {
				if got[k] != v && k != blobsBucket+nul+"tall" {
					t.Errorf("record %q is %q, want %q", k, got[k], v)
				}
			}
		})
	}
}

// A key that was damaged so that it belongs to another page gives no record a name that it did not have.
func TestSalvage_KeyBelongsToAnotherPage_IsNotTrusted(t *testing.T) {
	db := opened(t)
	blobs(t, db, 60)
	want := rawRecords(t, db)
	kill(t, db)
	m := imageOf(t, db.path)
	p, _ := m.find(blobsBucket, "blob100")
	_, key, _, _ := p.leaf(p.count() - 1)
	was := string(key)
	key[5] += 2 // 20 records on, which is in the next page but one or before
	if other, _ := m.find(blobsBucket, string(key)); other.id() == p.id() {
		t.Fatalf("%s and %s are in one page", was, key)
	}
	m.write(db.path)
	if s := scanBytes(m.bytes); len(s.faults) == 0 {
		t.Error("a scan finds nothing")
	}
	r, got, err := salvage(t, db.path)
	if err != nil || len(r.Lost) != 1 || r.Lost[0] != (Loss{Bucket: blobsBucket, Lost: 1, Stored: 60}) {
		t.Fatalf("%+v (%v)", r, err)
	}
	delete(want, blobsBucket+nul+was)
	for k := range want {
		if got[k] != want[k] {
			t.Errorf("record %q is %q, want %q", k, got[k], want[k])
		}
	}
}

// Where the key of a branch is damaged the records below it are there.
func TestSalvage_KeyOfABranchIsDamaged_KeepsTheRecords(t *testing.T) {
	db := opened(t)
	blobs(t, db, 60)
	want := rawRecords(t, db)
	kill(t, db)
	m := imageOf(t, db.path)
	m.visit(m.meta.root, "", func(name string, p page, _ bool) {
		if name == blobsBucket && p.kind() == branchPage {
			if p.count() < 3 {
				t.Fatalf("a branch page has %d branches", p.count())
			}
			key, _, _ := p.branch(1)
			key[0] = 'a' // before that of the first branch
		}
	})
	m.write(db.path)
	if s := scanBytes(m.bytes); len(s.faults) == 0 {
		t.Error("a scan finds nothing")
	}
	r, got, err := salvage(t, db.path)
	if err != nil || len(r.Lost) > 0 || len(got) != len(want) {
		t.Fatalf("%d records of %d: %+v (%v)", len(got), len(want), r, err)
	}
}

// A bucket whose name was damaged into another one gives nobody's words to somebody else.
func TestSalvage_NameOfABucketIsDamaged_DropsWhatMayBelongToOthers(t *testing.T) {
	for _, bucket := range []string{turnsBucket, messagesBucket, roomsBucket, roomFilesBucket, memoriesBucket, runsBucket,
		itemsBucket, summariesBucket} {
		t.Run(bucket, func(t *testing.T) {
			db := opened(t)
			for _, name := range []string{"a1", "a5", "a9"} {
				a := chat.Address{Platform: "web", Channel: name}
				storetest.SayEverywhere(t, db, a, name, "words of "+name, time.Now())
				m := store.Memory{Scope: "web:/" + name, Text: "words of " + name}
				if _, _, err := db.SaveMemory(t.Context(), m, 10); err != nil {
					t.Fatal(err)
				}
				if _, err := db.FinishRun(t.Context(), store.Run{Digest: "web:/" + name, Due: time.Now()}, nil, nil,
					store.Item{Kind: "web:/" + name, Name: "item", Data: []byte(`{}`)}); err != nil {
					t.Fatal(err)
				}
			}
			want := rawRecords(t, db)
			kill(t, db)
			key := "web:/a5"
			if bucket == roomsBucket || bucket == roomFilesBucket {
				key = "a5"
			}
			m := imageOf(t, db.path)
			p, i := m.find(bucket, key)
			_, name, _, _ := p.leaf(i)
			name[len(name)-1] = '6'
			m.write(db.path)
			r, got, err := salvage(t, db.path)
			if err != nil || int(r.Records) != len(got) {
				t.Fatalf("%d records are there: %+v (%v)", len(got), r, err)
			}
			isLost := slices.ContainsFunc(r.Lost, func(l Loss) bool {
				return l.Bucket == bucket && (l.Of == key || bucket == summariesBucket) && l.Lost > 0
			})
			if !isLost {
				t.Errorf("nothing is named as lost: %+v", r.Lost)
			}
			for k := range got {
				top, _, _ := strings.Cut(k, nul)
				if want[k] == "" && top == bucket {
					t.Errorf("record %q was never there", k)
				}
			}
			for k := range want {
				top, rest, _ := strings.Cut(k, nul)
				if got[k] == "" && (top != bucket || bucket != summariesBucket && !strings.HasPrefix(rest, key)) {
					t.Errorf("record %q is not there", k)
				}
			}
		})
	}
}

// A file of which nothing can be read, and one of a later version, are not salvaged.
func TestSalvage_NothingOfUse_Fails(t *testing.T) {
	db := opened(t)
	blobs(t, db, 1)
	kill(t, db)
	m := imageOf(t, db.path)
	for at := 2 * m.meta.pageSize; at < len(m.bytes); at += m.meta.pageSize {
		clear(m.bytes[at : at+m.meta.pageSize])
	}
	empty := filepath.Join(t.TempDir(), "empty.db")
	m.write(empty)
	if _, _, err := salvage(t, empty); err == nil || !strings.Contains(err.Error(), "no record of it can be read") {
		t.Errorf("salvaging nothing: %v", err)
	}
	later := opened(t)
	if err := later.setFormat(t.Context(), formatVersion+1); err != nil {
		t.Fatal(err)
	}
	kill(t, later)
	var newer *store.NewerError
	if _, _, err := salvage(t, later.path); !errors.As(err, &newer) {
		t.Errorf("salvaging a file of a later version: %v", err)
	}
}
