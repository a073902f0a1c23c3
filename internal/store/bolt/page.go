package bolt

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"hash/fnv"
	"io"
	"iter"
)

// This file knows bbolt's format on disk (version 2, as of bbolt v1.5.0), in the
// byte order of the machine: a page begins with its number, kind, count and
// overflow; pages 0 and 1 are the two headers, of which the younger counts; the
// rest are leaves, branches and the list of free pages.

const (
	pageHeader   = 16
	elementSize  = 16
	bucketHeader = 16 // root page, sequence
	metaSize     = 64
	magic        = 0xED0CDAED
	format       = 2
	noFreelist   = ^uint64(0)
)

const (
	branchPage   = 0x01
	leafPage     = 0x02
	freelistPage = 0x10
	isBucket     = 0x01 // of an element of a leaf
)

// meta is one of the two headers of the file.
type meta struct {
	pageSize int
	root     uint64 // page of the bucket of buckets
	freelist uint64 // page
	pages    uint64 // how many there are
	txid     uint64
}

// parseMeta reads a header, from behind the page's own.
func parseMeta(b []byte) (meta, bool) {
	if len(b) < metaSize {
		return meta{}, false
	}
	h := fnv.New64a()
	_, _ = h.Write(b[:metaSize-8]) // never fails
	u32, u64 := binary.NativeEndian.Uint32, binary.NativeEndian.Uint64
	m := meta{pageSize: int(u32(b[8:])), root: u64(b[16:]), freelist: u64(b[32:]), pages: u64(b[40:]), txid: u64(b[48:])}
	good := u32(b) == magic && u32(b[4:]) == format && u64(b[56:]) == h.Sum64() &&
		m.pageSize >= 1024 && m.pageSize <= 1<<24 && m.pages >= 2 && m.pages < 1<<48
	return m, good
}

// setFreelist has an encoded header lead to a list of free pages, in a file of some pages.
func setFreelist(header []byte, freelist, pages uint64) {
	binary.NativeEndian.PutUint64(header[32:], freelist)
	binary.NativeEndian.PutUint64(header[40:], pages)
	h := fnv.New64a()
	_, _ = h.Write(header[:metaSize-8]) // never fails
	binary.NativeEndian.PutUint64(header[metaSize-8:], h.Sum64())
}

// errNoHeader is returned for a file that is no store, or whose headers are both damaged.
var errNoHeader = errors.New("it has no good header, or is no store")

// readMetas returns the header in effect, and how many of the two are good. bbolt writes
// them in turn, so one that is much older than the other counts as damaged. It returns errNoHeader
// where none is good, and the system's errors of reading.
func readMetas(f io.ReaderAt) (m meta, good int, err error) {
	first, ok1, err := readMeta(f, 0)
	if err != nil {
		return meta{}, 0, err
	}
	second, ok2, err := secondMeta(f, first, ok1)
	switch {
	case err != nil:
		return meta{}, 0, err
	case ok1 && ok2:
		if m = first; second.txid > first.txid {
			m = second
		}
		if m.txid-min(first.txid, second.txid) > maxHeaderGap {
			return m, 1, nil
		}
		return m, 2, nil
	case ok1:
		return first, 1, nil
	case ok2:
		return second, 1, nil
	}
	return meta{}, 0, errNoHeader
}

// maxHeaderGap is by how many transactions the headers may differ: by one, and by two after
// the first change of a copy.
const maxHeaderGap = 2

// secondMeta reads the second header, one page after the first. Where the first is damaged
// the page size is unknown, and all sizes are tried.
func secondMeta(f io.ReaderAt, first meta, ok bool) (meta, bool, error) {
	// bbolt takes the page size of the system that made the file, a power of two.
	for size := 1024; size <= 1<<24; size *= 2 {
		if ok && size != first.pageSize {
			continue
		}
		if m, ok, err := readMeta(f, int64(size)); err != nil || ok && m.pageSize == size {
			return m, ok, err
		}
	}
	return meta{}, false, nil
}

// readMeta returns false where there is no good header. The error is one of reading.
func readMeta(f io.ReaderAt, at int64) (m meta, ok bool, err error) {
	b := make([]byte, pageHeader+metaSize)
	switch _, err := f.ReadAt(b, at); {
	case errors.Is(err, io.EOF):
		return meta{}, false, nil
	case err != nil:
		return meta{}, false, err
	}
	m, ok = parseMeta(b[pageHeader:])
	return m, ok, nil
}

// page is the bytes of a page and of its overflow pages.
type page []byte

// id, kind, count and overflow are the header of a page: its number, what it holds, how many
// elements, and how many further pages belong to it.
func (p page) id() uint64       { return binary.NativeEndian.Uint64(p) }
func (p page) kind() uint16     { return binary.NativeEndian.Uint16(p[8:]) }
func (p page) count() int       { return int(binary.NativeEndian.Uint16(p[10:])) }
func (p page) overflow() uint64 { return uint64(binary.NativeEndian.Uint32(p[12:])) }

// leaf returns an element of a leaf page, whose key and value share its memory. It returns false
// where the element reaches beyond the page, or has no key.
func (p page) leaf(i int) (flags uint32, key, value []byte, ok bool) {
	e, ok := p.element(i)
	if !ok {
		return 0, nil, nil, false
	}
	u32 := binary.NativeEndian.Uint32
	at, k, v := uint64(u32(e[4:])), uint64(u32(e[8:])), uint64(u32(e[12:]))
	if k == 0 || at+k+v > uint64(len(e)) {
		return 0, nil, nil, false
	}
	return u32(e), e[at : at+k], e[at+k : at+k+v], true
}

// branch returns an element of a branch page. It returns false where the element reaches
// beyond the page.
func (p page) branch(i int) (key []byte, child uint64, ok bool) {
	e, ok := p.element(i)
	if !ok {
		return nil, 0, false
	}
	u32 := binary.NativeEndian.Uint32
	at, k := uint64(u32(e)), uint64(u32(e[4:]))
	if k == 0 || at+k > uint64(len(e)) {
		return nil, 0, false
	}
	return e[at : at+k], binary.NativeEndian.Uint64(e[8:]), true
}

// element returns the page from an element on: positions count from the element's start. It returns false where there
// is no such element.
func (p page) element(i int) ([]byte, bool) {
	at := pageHeader + i*elementSize
	if i >= p.count() || at+elementSize > len(p) {
		return nil, false
	}
	return p[at:], true
}

// children yields the pages that a branch page leads to, or the roots of the buckets of a leaf page that have pages of
// their own, and false where an element is wrong or the page is of another kind.
func (p page) children() iter.Seq2[uint64, bool] {
	return func(yield func(uint64, bool) bool) {
		if p.kind() != branchPage && p.kind() != leafPage {
			yield(0, false)
			return
		}
		for i := range p.count() {
			if child, ok := p.child(i); (child != 0 || !ok) && !yield(child, ok) {
				return
			}
		}
	}
}

// child returns the page that an element of a branch or leaf page leads to, or 0 where it is a record or a bucket within
// the page. It returns false where the element is wrong.
func (p page) child(i int) (id uint64, ok bool) {
	if p.kind() == branchPage {
		_, id, ok = p.branch(i)
		return id, ok && id != 0
	}
	if e, ok := p.element(i); ok && binary.NativeEndian.Uint32(e)&isBucket == 0 {
		return 0, true
	}
	if _, _, bucket, ok := p.leaf(i); ok && len(bucket) >= bucketHeader {
		return binary.NativeEndian.Uint64(bucket), true
	}
	return 0, false
}

// holdsRecordsAlone reports whether a page, of which the overflow may be missing, leads to no other pages.
func (p page) holdsRecordsAlone() bool {
	if p.kind() != leafPage {
		return false
	}
	for i := range p.count() {
		if e, ok := p.element(i); !ok || binary.NativeEndian.Uint32(e)&isBucket != 0 {
			return false
		}
	}
	return true
}

// countElsewhere marks a list of free pages whose count does not fit the 16-bit field and
// stands before the list.
const countElsewhere = 0xFFFF

// freeCount returns how many pages a list of free pages names.
func (p page) freeCount() uint64 {
	if p.count() == countElsewhere {
		return binary.NativeEndian.Uint64(p[pageHeader:])
	}
	return uint64(p.count())
}

// freePages returns the pages that a list of free pages names. It returns false where the
// list reaches beyond its page.
func (p page) freePages() ([]uint64, bool) {
	body, n := p[pageHeader:], p.freeCount()
	if p.count() == countElsewhere {
		body = body[8:]
	}
	if n > uint64(len(body)/8) {
		return nil, false
	}
	ids := make([]uint64, n)
	for i := range ids {
		ids[i] = binary.NativeEndian.Uint64(body[8*i:])
	}
	return ids, true
}

// readFreelist returns the pages that the list of free pages names, and the checksum of the list; none where the file
// has no list. It returns false where the list cannot be right: bbolt would write over the pages that it names.
func readFreelist(f io.ReaderAt, m meta) (free []uint64, sum uint32, ok bool) {
	if m.freelist == noFreelist {
		return nil, 0, true
	}
	if m.freelist < 2 || m.freelist >= m.pages {
		return nil, 0, false
	}
	at := int64(m.freelist) * int64(m.pageSize)
	p := make(page, m.pageSize)
	if _, err := f.ReadAt(p, at); err != nil || p.id() != m.freelist || p.kind() != freelistPage ||
		p.overflow() >= m.pages {
		return nil, 0, false
	}
	p = make(page, int(p.overflow()+1)*m.pageSize)
	if _, err := f.ReadAt(p, at); err != nil {
		return nil, 0, false
	}
	free, ok = p.freePages()
	last := uint64(1)
	for _, id := range free {
		if id <= last || id >= m.pages {
			return nil, 0, false
		}
		last = id
	}
	return free, crc32.ChecksumIEEE(p), ok
}

// newFreelist returns a list of free pages that begins at a page.
func newFreelist(at uint64, pageSize int, free []uint64) page {
	count, body := len(free), free
	if count >= countElsewhere {
		count, body = countElsewhere, append([]uint64{uint64(len(free))}, free...)
	}
	pages := (pageHeader + 8*len(body) + pageSize - 1) / pageSize
	p := make(page, pages*pageSize)
	binary.NativeEndian.PutUint64(p, at)
	binary.NativeEndian.PutUint16(p[8:], freelistPage)
	binary.NativeEndian.PutUint16(p[10:], uint16(count))
	binary.NativeEndian.PutUint32(p[12:], uint32(pages-1))
	for i, id := range body {
		binary.NativeEndian.PutUint64(p[pageHeader+8*i:], id)
	}
	return p
}
