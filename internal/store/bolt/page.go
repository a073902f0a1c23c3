package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"io"
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
)

const (
	branchPage = 0x01
	leafPage   = 0x02
	isBucket   = 0x01 // of an element of a leaf
)

// meta is one of the two headers of the file.
type meta struct {
	pageSize int
	root     uint64 // page of the bucket of buckets
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
	m := meta{pageSize: int(u32(b[8:])), root: u64(b[16:]), pages: u64(b[40:]), txid: u64(b[48:])}
	good := u32(b) == magic && u32(b[4:]) == format && u64(b[56:]) == h.Sum64() &&
		m.pageSize >= 1024 && m.pageSize <= 1<<24 && m.pages >= 2 && m.pages < 1<<48
	return m, good
}

// errNoHeader is returned for a file that is no store, or whose headers are both damaged.
var errNoHeader = errors.New("it has no valid header, or is not a store")

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

// isComplete reports whether the data of a page begin right behind its elements, as bbolt writes them. A page whose number
// of elements was damaged would otherwise lose its last ones in silence.
func (p page) isComplete() bool {
	e, ok := p.element(0)
	if !ok {
		return p.count() == 0 && len(bytes.Trim(p[pageHeader:min(len(p), pageHeader+elementSize)], "\x00")) == 0
	}
	if p.kind() == leafPage {
		e = e[4:]
	}
	return int(binary.NativeEndian.Uint32(e)) == p.count()*elementSize
}
