package bolt

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strings"
	"testing"

	"ravenbot/internal/store"
)

// header returns a header as bbolt writes it, with that of its page.
func header(m meta) []byte {
	b := make([]byte, pageHeader+metaSize)
	body := b[pageHeader:]
	binary.NativeEndian.PutUint32(body, magic)
	binary.NativeEndian.PutUint32(body[4:], format)
	binary.NativeEndian.PutUint32(body[8:], uint32(m.pageSize))
	for i, v := range []uint64{m.root, 0, m.freelist, m.pages, m.txid} {
		binary.NativeEndian.PutUint64(body[16+8*i:], v)
	}
	h := fnv.New64a()
	h.Write(body[:metaSize-8])
	binary.NativeEndian.PutUint64(body[metaSize-8:], h.Sum64())
	return b
}

// Whatever the page size of the system was, a damaged first header does not hide the second one.
func TestReadMetas_FirstHeaderIsDamaged_FindsTheSecond(t *testing.T) {
	for size := 1024; size <= 1<<24; size *= 2 {
		want := meta{pageSize: size, root: 3, freelist: 2, pages: 4, txid: 1}
		file := append(make([]byte, size), header(want)...)
		if got, good, err := readMetas(bytes.NewReader(file)); err != nil || good != 1 || got != want {
			t.Errorf("with pages of %d bytes: %d good headers, %+v (%v)", size, good, got, err)
		}
		if size == 1024 {
			continue
		}
		// What looks like a header of other pages, in the first page, is none.
		stray := want
		stray.pageSize, stray.txid = 1<<24, 9
		copy(file[1024:], header(stray))
		if got, good, err := readMetas(bytes.NewReader(file)); size < 1<<24 && (err != nil || good != 1 || got != want) {
			t.Errorf("with pages of %d bytes behind a stray header: %d good, %+v (%v)", size, good, got, err)
		}
	}
}

// A list of free pages is where pages of the store are, behind the headers.
func TestReadFreelist_IsAPageOfTheStore(t *testing.T) {
	const size, pages = 1024, 6
	for at, want := range []bool{false, false, true, true, true, true, false, false} {
		file := make([]byte, (pages+3)*size)
		p := page(file[at*size:])
		binary.NativeEndian.PutUint64(p, uint64(at))
		binary.NativeEndian.PutUint16(p[8:], freelistPage)
		m := meta{pageSize: size, root: 3, freelist: uint64(at), pages: pages}
		if _, _, ok := readFreelist(bytes.NewReader(file), m); ok != want {
			t.Errorf("a list in page %d of %d is good: %v, want %v", at, pages, ok, want)
		}
	}
}

// A header of which no store can be is none, whatever its checksum.
func TestParseMeta_RefusesWhatNoStoreHas(t *testing.T) {
	good := meta{pageSize: 4096, root: 3, freelist: 2, pages: 4, txid: 1}
	for name, c := range map[string]struct {
		change func(m *meta)
		want   bool
	}{
		"good":              {func(*meta) {}, true},
		"smallest pages":    {func(m *meta) { m.pageSize = 1024 }, true},
		"smaller pages":     {func(m *meta) { m.pageSize = 1023 }, false},
		"largest pages":     {func(m *meta) { m.pageSize = 1 << 24 }, true},
		"larger pages":      {func(m *meta) { m.pageSize = 1<<24 + 1 }, false},
		"headers alone":     {func(m *meta) { m.pages = 2 }, true},
		"one page":          {func(m *meta) { m.pages = 1 }, false},
		"most pages":        {func(m *meta) { m.pages = 1<<48 - 1 }, true},
		"more than a disk":  {func(m *meta) { m.pages = 1 << 48 }, false},
		"no number of them": {func(m *meta) { m.pages = 1 << 63 }, false},
	} {
		want := good
		c.change(&want)
		got, ok := parseMeta(header(want)[pageHeader:])
		if ok != c.want || ok && got != want {
			t.Errorf("%s: read %+v, %v, want %+v, %v", name, got, ok, want, c.want)
		}
	}
	whole := header(good)[pageHeader:]
	if _, ok := parseMeta(whole[:metaSize-1]); ok {
		t.Error("a header that was cut off is good")
	}
	for i := range whole[:metaSize] {
		damaged := bytes.Clone(whole)
		damaged[i]++
		if _, ok := parseMeta(damaged); ok && !(i >= 12 && i < 16) {
			t.Errorf("byte %d may be another one", i)
		}
	}
}

// freelist returns a page with room for some numbers, which says that it has count of them.
func freelist(count uint16, numbers ...uint64) page {
	p := make(page, pageHeader, pageHeader+8*len(numbers))
	binary.NativeEndian.PutUint16(p[8:], freelistPage)
	binary.NativeEndian.PutUint16(p[10:], count)
	for _, n := range numbers {
		p = binary.NativeEndian.AppendUint64(p, n)
	}
	return p
}

// A list of free pages may fill its page, and reaches no further. The number of a long one stands before it.
func TestFreePages_EndWithTheirPage(t *testing.T) {
	for name, c := range map[string]struct {
		list page
		want []uint64
		ok   bool
	}{
		"none":                {freelist(0), []uint64{}, true},
		"a full page":         {freelist(3, 5, 6, 7), []uint64{5, 6, 7}, true},
		"room for more":       {freelist(2, 5, 6, 7), []uint64{5, 6}, true},
		"beyond the page":     {freelist(4, 5, 6, 7), nil, false},
		"a long list":         {freelist(countElsewhere, 2, 8, 9), []uint64{8, 9}, true},
		"a long one beyond":   {freelist(countElsewhere, 3, 8, 9), nil, false},
		"more than there are": {freelist(countElsewhere, 1<<63, 8, 9), nil, false},
	} {
		got, ok := c.list.freePages()
		if ok != c.ok || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v, want %v, %v", name, got, ok, c.want, c.ok)
		}
	}
}

// element appends to a page of one element the numbers that say where its key and value are, and what these are.
func element(size int, numbers ...uint32) page {
	p := make(page, pageHeader+size)
	p[10] = 1
	for i, n := range numbers {
		binary.NativeEndian.PutUint32(p[pageHeader+4*i:], n)
	}
	copy(p[min(len(p), pageHeader+elementSize):], "keyvalue")
	return p
}

// An element of a page has a key and ends within the page.
func TestElements_EndWithTheirPage(t *testing.T) {
	const size = elementSize + len("keyvalue")
	for name, c := range map[string]struct {
		p    page
		want string
	}{
		"whole":               {element(size, 0, elementSize, 3, 5), "key value"},
		"empty value":         {element(size, 0, elementSize, 3, 0), "key "},
		"no key":              {element(size, 0, elementSize, 0, 5), ""},
		"one byte too many":   {element(size, 0, elementSize, 3, 6), ""},
		"far beyond":          {element(size, 0, 1<<31, 3, 5), ""},
		"no room for numbers": {element(elementSize-1, 0, elementSize, 3), ""},
		"room for these":      {element(elementSize, 0, elementSize-1, 1, 0), "\x00 "},
	} {
		_, key, value, ok := c.p.leaf(0)
		if got := string(key) + " " + string(value); ok != (c.want != "") || ok && got != c.want {
			t.Errorf("record %s: %q, %v, want %q", name, got, ok, c.want)
		}
	}
	for name, c := range map[string]struct {
		p    page
		want string
	}{
		"whole":             {element(size, elementSize, 8, 7), "keyvalue"},
		"no key":            {element(size, elementSize, 0, 7), ""},
		"one byte too many": {element(size, elementSize, 9, 7), ""},
	} {
		if _, _, ok := c.p.branch(1); ok {
			t.Errorf("branch %s: there is one behind the last", name)
		}
		key, child, ok := c.p.branch(0)
		if ok != (c.want != "") || ok && (string(key) != c.want || child != 7) {
			t.Errorf("branch %s: %q, page %d, %v, want %q", name, key, child, ok, c.want)
		}
	}
}

// What is salvaged of a file is read once, and ends with the file.
func TestSalvager_ReadsPagesOfTheFileOnce(t *testing.T) {
	const size, pages = 1024, 9
	for what, c := range map[string]struct {
		id, says, overflow uint64
		want               int // bytes
	}{
		"a page":           {id: 2, says: 2, want: size},
		"the last":         {id: 8, says: 8, want: size},
		"a header":         {id: 1, says: 1},
		"behind the last":  {id: 9, says: 9},
		"another one":      {id: 3, says: 4},
		"two pages":        {id: 3, says: 3, overflow: 1, want: 2 * size},
		"up to the last":   {id: 3, says: 3, overflow: 5, want: 6 * size},
		"beyond the last":  {id: 3, says: 3, overflow: 6},
		"far beyond":       {id: 3, says: 3, overflow: 11},
		"all and two more": {id: 3, says: 3, overflow: 10},
	} {
		file := make([]byte, (pages+1)*size)
		binary.NativeEndian.PutUint64(file[c.id*size:], c.says)
		binary.NativeEndian.PutUint32(file[c.id*size+12:], uint32(c.overflow))
		s := &salvager{f: bytes.NewReader(file), meta: meta{pageSize: size, pages: pages}, used: map[uint64]bool{}}
		for n, want := range []int{c.want, 0} {
			if p, ok := s.readPage(c.id); ok != (want > 0) || len(p) != want {
				t.Errorf("%s, time %d: %d bytes, %v, want %d", what, n, len(p), ok, want)
			}
		}
	}
}

// Two records of a name are one too many, wherever they stand.
func TestScan_KeyTwice_IsNoticed(t *testing.T) {
	db := opened(t)
	blobs(t, db, 60)
	kill(t, db)
	for name, c := range map[string]struct {
		damage func(m *image) []byte // a key that becomes the one before
		want   string
	}{
		"record": {
			func(m *image) []byte { p, _ := m.find(blobsBucket, "blob100"); _, k, _, _ := p.leaf(1); return k },
			"record 1 of a page of the bucket tools is wrong",
		},
		"branch": {
			func(m *image) (key []byte) {
				m.visit(m.meta.root, "", func(name string, p page, _ bool) {
					if name == blobsBucket && p.kind() == branchPage {
						first, _, _ := p.branch(0)
						key, _, _ = p.branch(1)
						copy(key, first[:len(first)-1])
						key[len(key)-1] = first[len(first)-1] + 1
					}
				})
				return key
			},
			"branch 1 is wrong",
		},
	} {
		m := imageOf(t, db.path)
		key := c.damage(m)
		key[len(key)-1]--
		isNamed := func(f string) bool { return strings.Contains(f, c.want) }
		if s := scanBytes(m.bytes); !slices.ContainsFunc(s.faults, isNamed) {
			t.Errorf("%s: found %q, want %q", name, s.faults, c.want)
		}
	}
}

// What damage has made a bucket, and a bucket that no version has, are left out and reported, and all else is there.
func TestSalvage_NoBucketOfTheStore_IsLeftOut(t *testing.T) {
	makeBucket := func(bucket, key string) func(m *image) {
		return func(m *image) {
			p, i := m.find(bucket, key)
			e, _ := p.element(i)
			binary.NativeEndian.PutUint32(e, isBucket)
		}
	}
	for name, c := range map[string]struct {
		damage func(m *image)
		fault  string
		lost   Loss
	}{
		"short record": {
			makeBucket(blobsBucket, "short"), `tools of "short" is wrong`,
			Loss{Bucket: blobsBucket, Lost: 1, Stored: 61},
		},
		"record of a bucket in another": {
			makeBucket(itemsBucket+nul+"kind", "name"), `items of "kind\x00name" is wrong`,
			Loss{Bucket: itemsBucket, Of: "kind", Lost: 2, Stored: 2}, // which of them belongs there is not known,
		},
		"name": {
			func(m *image) {
				p, i := m.find("", blobsBucket)
				_, key, _, _ := p.leaf(i)
				key[len(key)-1]++
			}, "the bucket toolt is wrong", Loss{Bucket: blobsBucket, Lost: 61, Stored: 61},
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := opened(t)
			blobs(t, db, 60)
			for _, err := range []error{
				db.SaveBlob(t.Context(), "short", []byte(`1`)),
				db.SaveItem(t.Context(), "kind", "name", []byte(`{"a":"long enough"}`), true),
				db.SaveItem(t.Context(), "kind", "other", []byte(`{}`), true),
				// The tree of the transaction before has these pages, too.
				db.SaveSubscription(t.Context(), store.Subscription{URL: "a"}),
				db.SaveSubscription(t.Context(), store.Subscription{URL: "b"}),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			want := rawRecords(t, db)
			kill(t, db)
			m := imageOf(t, db.path)
			c.damage(m)
			m.write(db.path)
			r, got, err := salvage(t, db.path)
			if err != nil || len(r.Lost) != 1 || r.Lost[0] != c.lost || !slices.Contains(r.Faults, c.fault) {
				t.Fatalf("%+v (%v), want the fault %q and the loss %+v", r, err, c.fault, c.lost)
			}
			if len(got) != len(want)-int(c.lost.Lost) {
				t.Errorf("%d of %d records are there", len(got), len(want))
			}
		})
	}
}

// Records are written to the copy many at a time, and no more than a transaction may hold.
func TestSalvager_WritesInTransactionsOfALimitedSize(t *testing.T) {
	db := opened(t)
	s := &salvager{ctx: t.Context(), db: db, counts: map[string]tally{}}
	add := func(n uint64, value []byte) {
		t.Helper()
		if err := s.add(salvagedRecord{bucket: blobsBucket, key: seqKey(n), value: value}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range uint64(2*maxSalvaged + 1) {
		add(n, seal([]byte("1")))
		if written := n + 1 - (n+1)%maxSalvaged; s.records != written {
			t.Fatalf("of %d records %d are written, want %d", n+1, s.records, written)
		}
	}
	add(10_000, seal(repeatX(maxSalvagedBytes)))
	if s.records != 2*maxSalvaged+2 {
		t.Errorf("%d records are written, want the large one with what waits", s.records)
	}
	add(10_001, seal(repeatX(maxSalvagedBytes/2)))
	if s.records != 2*maxSalvaged+2 {
		t.Errorf("%d records are written: those of the last transaction count", s.records)
	}
}

// A list of free pages is as long as its overflow says.
func TestNewFreelist_LongList_NamesItsPages(t *testing.T) {
	for _, count := range []int{0, 100, 126, 127, 600} {
		free := make([]uint64, count)
		for i := range free {
			free[i] = uint64(2 + i)
		}
		p := newFreelist(1000, 1024, free)
		got, ok := p.freePages()
		if !ok || !slices.Equal(got, free) || len(p) != int(p.overflow()+1)*1024 || p.id() != 1000 {
			t.Errorf("%d: %d pages of %d bytes, %v, %d free", count, p.overflow()+1, len(p), ok, len(got))
		}
	}
}
