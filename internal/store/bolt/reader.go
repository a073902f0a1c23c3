package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// fileReader reads a file page by page and without bbolt, which trusts its pages: a wrong one makes it end the process
// when it opens the file, loop, or write over records (see the tests named TestDefect). It notes what is wrong, and reads
// on where it can.
type fileReader struct {
	ctx          context.Context
	path         string
	f            io.ReaderAt
	size         int64
	meta         meta
	goodHeaders  int
	isCheckpoint bool     // the header is that of a log
	used         []uint64 // a bit a page
	usedPages    uint64
	// visit is called with every bucket, whose key is nil, and then with its records. Nil: they are not looked at.
	visit  func(r storedRecord) error
	faults []string
	more   int // faults beyond those
	free   []page
}

// storedRecord is a record as it is stored, or a bucket. key and value are valid until visit returns.
type storedRecord struct {
	bucket     string
	key, value []byte // nil for the bucket itself
	seq        uint64 // of the bucket
}

// maxFaults is how many faults are listed; further ones are counted.
const maxFaults = 20

// maxDepth is more than any tree of pages has levels.
const maxDepth = 64

const headerFault = "one of its two headers is damaged, which may have held the last change"

// readFile reads the file at path, which nobody may be writing to. The error is that of ctx, of reading or of visit; what
// is wrong with the file is in the faults.
// With the logs of a store that was killed, it reads the checkpoint from which these go on.
func readFile(ctx context.Context, path string, logs []foundLog, visit func(storedRecord) error) (*fileReader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	r := &fileReader{ctx: ctx, path: path, f: f, size: info.Size(), visit: visit}
	if len(logs) > 0 {
		if r.meta, r.isCheckpoint = findCheckpoint(f, logs); r.isCheckpoint {
			r.goodHeaders = 2
			return r, r.readPages()
		}
		r.addFault("its log belongs to another state of the file")
	}
	return r, r.readAll()
}

// readAll reads the headers, and all pages that the newer one leads to.
func (r *fileReader) readAll() (err error) {
	if r.meta, r.goodHeaders, err = readMetas(r.f); errors.Is(err, errNoHeader) {
		r.addFault("%v", err)
		return nil
	} else if err != nil {
		return err
	}
	if r.goodHeaders < 2 {
		r.addFault(headerFault)
	}
	return r.readPages()
}

// readPages reads all pages that the header leads to.
func (r *fileReader) readPages() error {
	if end := int64(r.meta.pages) * int64(r.meta.pageSize); r.size < end {
		r.addFault("it ends after %d bytes of %d", r.size, end)
	}
	r.used = make([]uint64, min(r.meta.pages, uint64(r.size)/uint64(r.meta.pageSize)+1)/64+1)
	r.used[0], r.usedPages = 3, 2 // the headers
	return r.readTree(r.meta.root, 0, nil, nil, storedRecord{})
}

// addFault notes a fault. From maxFaults on they are only counted: a damaged page near the root makes thousands.
func (r *fileReader) addFault(format string, args ...any) {
	if len(r.faults) == maxFaults {
		r.more++
		return
	}
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// isHeaderOnly reports whether a damaged header is the only fault: the store that the other header describes is whole.
func (r *fileReader) isHeaderOnly() bool { return r.goodHeaders == 1 && len(r.faults) == 1 }

// damage returns a *store.DamagedError if anything is wrong with the file.
func (r *fileReader) damage() error {
	what := describe(r.faults, r.more)
	switch {
	case what == "":
		return nil
	// The other header is whole, but one transaction older. To use it in silence could lose a message or send a post
	// twice, so the operator decides.
	case r.isHeaderOnly():
		return damagedError(r.path, what, compactRemedy)
	case r.goodHeaders == 0: // salvage finds nothing without one
		return damagedError(r.path, what, replaceRemedy)
	}
	return damagedError(r.path, what, restoreRemedy)
}

// describe returns the first faults and the number of the others, for an error.
func describe(shown []string, more int) string {
	if len(shown) > 3 {
		shown, more = shown[:3], more+len(shown)-3
	}
	text := strings.Join(shown, "; ")
	if more > 0 {
		text += fmt.Sprintf("; and %d faults more", more)
	}
	return text
}

// readPage returns a page with its overflow, and marks them as used. It returns false, and notes why, if the page is
// wrong or in another place, too: a change of the one would overwrite the other. The error is one of reading.
func (r *fileReader) readPage(id uint64, of string) (page, bool, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, false, err
	}
	if id < 2 || id >= r.meta.pages {
		r.addFault("%s refers to page %d, and the last is %d", of, id, r.meta.pages-1)
		return nil, false, nil
	}
	size, at := uint64(r.meta.pageSize), int64(id)*int64(r.meta.pageSize)
	p := r.takeBuffer()
	_, err := r.f.ReadAt(p, at)
	switch {
	case errors.Is(err, io.EOF):
		r.addFault("page %d of %s is beyond the end of the file", id, of)
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case p.id() != id || p.overflow() >= r.meta.pages-id:
		r.addFault("page %d of %s is damaged", id, of)
		return nil, false, nil
	}
	for i := id; i <= id+p.overflow() && i/64 < uint64(len(r.used)); i++ {
		if r.used[i/64]&(1<<(i%64)) != 0 {
			r.addFault("page %d of %s is in two places", i, of)
			return nil, false, nil
		}
		r.used[i/64] |= 1 << (i % 64)
		r.usedPages++
	}
	if p.overflow() == 0 {
		return p, true, nil
	}
	// The file may end within the overflow: what stands before its end is of use, and checksums tell what is not.
	p = make(page, min((p.overflow()+1)*size, uint64(r.size-at)))
	_, err = r.f.ReadAt(p, at)
	return p, err == nil, err
}

// takeBuffer returns a buffer for one page. readTree frees it: every page of the file is read.
func (r *fileReader) takeBuffer() page {
	last := len(r.free) - 1
	if last < 0 {
		return make(page, r.meta.pageSize)
	}
	p := r.free[last]
	r.free = r.free[:last]
	return p
}

// readTree reads a tree of pages of a bucket, which has no name for the bucket of buckets. The keys have to be at least
// low and below high; nil stands for no bound.
func (r *fileReader) readTree(id uint64, depth int, low, high []byte, in storedRecord) error {
	p, ok, err := r.readPage(id, displayName(in.bucket))
	if !ok || err != nil {
		return err
	}
	if len(p) == r.meta.pageSize {
		defer func() { r.free = append(r.free, p) }()
	}
	switch {
	case depth == maxDepth:
		r.addFault("page %d of %s is too deep in a tree", id, displayName(in.bucket))
	case p.kind() == leafPage:
		return r.readLeaf(p, low, high, in)
	case p.kind() == branchPage:
		return r.readBranch(p, depth, low, high, in)
	default:
		r.addFault("page %d of %s is of the unknown kind %#x", id, displayName(in.bucket), p.kind())
	}
	return nil
}

// readBranch reads the pages below a branch page, whose keys lie from low up to high.
func (r *fileReader) readBranch(p page, depth int, low, high []byte, in storedRecord) error {
	if p.count() == 0 || !p.isComplete() {
		r.addFault("page %d of %s has lost its number of branches", p.id(), displayName(in.bucket))
	}
	for i := range p.count() {
		key, child, ok := p.branch(i)
		if !ok || isMisplaced(key, low, high, i > 0) {
			r.addFault("branch %d of page %d of %s is wrong", i, p.id(), displayName(in.bucket))
			continue
		}
		// The keys below a branch end where the next branch begins.
		end := high
		if next, _, ok := p.branch(i + 1); ok && bytes.Compare(next, key) > 0 {
			end = next
		}
		if err := r.readTree(child, depth+1, key, end, in); err != nil {
			return err
		}
		low = key
	}
	return nil
}

// isMisplaced reports whether a key is outside of its bounds: at least low, or with above greater than low, and below
// high.
func isMisplaced(key, low, high []byte, above bool) bool {
	order := bytes.Compare(key, low)
	return low != nil && (order < 0 || order == 0 && above) || high != nil && bytes.Compare(key, high) >= 0
}

// readLeaf reads the records of a leaf page, or of a bucket that is small enough to be stored within its parent's page.
func (r *fileReader) readLeaf(p page, low, high []byte, in storedRecord) error {
	if !p.isComplete() {
		r.addFault("page %d of %s has lost its number of records", p.id(), displayName(in.bucket))
	}
	// A key has no checksum of its own. If two are out of order one of them is damaged, and neither can be trusted.
	var kept []leafElement
	for i := range p.count() {
		flags, key, value, ok := p.leaf(i)
		if !ok || flags&^isBucket != 0 || isMisplaced(key, low, high, false) {
			r.addFault("record %d of a page of %s is wrong", i, displayName(in.bucket))
			continue
		}
		if last := len(kept) - 1; last >= 0 && bytes.Compare(kept[last].key, key) >= 0 {
			r.addFault("the keys %q and %q of %s are out of order", kept[last].key, key, displayName(in.bucket))
			kept = kept[:last]
			continue
		}
		kept = append(kept, leafElement{flags&isBucket != 0, key, value})
	}
	for _, e := range kept {
		var err error
		if e.isBucket {
			err = r.readBucket(e.key, e.value, in.bucket)
		} else if r.visit != nil {
			err = r.visit(storedRecord{in.bucket, e.key, e.value, in.seq})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// leafElement is an element of a leaf page: a record, or a bucket in its bucket.
type leafElement struct {
	isBucket   bool
	key, value []byte
}

// readBucket reads a bucket within another; in is "" at the top.
func (r *fileReader) readBucket(key, value []byte, in string) error {
	name := string(key)
	if in != "" {
		name = in + nul + name
	}
	if len(value) < bucketHeader || strings.Contains(in, nul) {
		r.addFault("%s is wrong", displayName(name))
		return nil
	}
	root := binary.NativeEndian.Uint64(value)
	b := storedRecord{bucket: name, seq: binary.NativeEndian.Uint64(value[8:])}
	if r.visit != nil {
		if err := r.visit(b); err != nil {
			return err
		}
	}
	if root != 0 {
		return r.readTree(root, 0, nil, nil, b)
	}
	// Without a root page the records follow the bucket's header in place.
	if p := page(value[bucketHeader:]); len(p) >= pageHeader && p.kind() == leafPage && p.overflow() == 0 {
		return r.readLeaf(p, nil, nil, b)
	}
	r.addFault("%s is wrong", displayName(name))
	return nil
}
