package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"strings"
)

// scan reads a whole file, page by page and without bbolt: bbolt trusts what it reads, and
// a wrong page can make it fault, loop or overwrite records. A scan finds every malformed
// page, every value with a wrong checksum and every tally that differs from its bucket.
type scan struct {
	ctx         context.Context
	f           io.ReaderAt
	size        int64
	meta        meta
	goodHeaders int      // good headers
	used        []uint64 // a bit a page
	buffers     []page
	free        int               // pages
	totals      map[string]*Count // by top-level bucket
	found, kept uint64            // sums of the fingerprints of what was found, and of the tallies
	sum         tally             // of the tallies, and the number of the last transaction
	head        *tally
	// A store may have a million buckets, so each by itself is only kept where something is wrong.
	detailed   bool
	counts     map[string]tally
	recorded   map[string]tally // the head apart
	format     int              // 0: it has none
	generation uint64           // 0: it has none
	hasBuckets bool             // there are buckets
	hasInbox   bool             // the one that every store has
	faults     []string
	moreFaults int // faults beyond those
	err        error
}

// maxFaults is how many faults are listed; further ones are counted.
const maxFaults = 20

// maxDepth is more than any tree of pages has levels.
const maxDepth = 64

// scanFile scans the file at path, which nobody may be writing to. The error is one of
// reading; what is wrong with the file is in the faults.
func scanFile(ctx context.Context, path string) (*scan, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	s := newScan(ctx, f, info.Size(), false)
	s.readAll()
	// It is read once more to say which bucket is wrong, and to count all where there are no tallies yet.
	if s.err == nil && len(s.used) > 0 && s.found != s.kept {
		s = newScan(ctx, f, info.Size(), true)
		s.readAll()
	}
	return s, s.err
}

// newScan returns a scan of a file of some bytes. With detailed it keeps what it counts of each
// bucket, which takes memory for a million of them.
func newScan(ctx context.Context, f io.ReaderAt, size int64, detailed bool) *scan {
	return &scan{ctx: ctx, f: f, size: size, totals: map[string]*Count{}, detailed: detailed,
		counts: map[string]tally{}, recorded: map[string]tally{}}
}

// counted is what was found of a bucket so far; "" names the bucket of buckets.
type counted struct {
	name string
	tally
}

// fingerprint returns a number that stands for a tally and the name of its bucket, so that many can
// be compared by their sum.
func fingerprint(name string, t tally) uint64 {
	return mix(digest([]byte(name), nil) + mix(t.count+mix(t.sum+mix(t.seq))))
}

// finish takes in a bucket of which all was read.
func (s *scan) finish(c *counted) {
	if c.name == talliesBucket {
		return // it has no tally but the head
	}
	s.found += fingerprint(c.name, c.tally)
	if s.detailed {
		s.counts[c.name] = c.tally
	}
	outer, _, nested := strings.Cut(c.name, nul)
	total := s.totals[outer]
	if total == nil {
		total = &Count{Name: outer}
		s.totals[outer] = total
	}
	if total.Records += c.count; nested {
		total.Records-- // the nested bucket itself was counted as a record
		total.Parts++
	}
}

// addFault notes a fault. From maxFaults on they are counted alone: a damaged page near the root makes thousands.
func (s *scan) addFault(format string, args ...any) {
	if len(s.faults) == maxFaults {
		s.moreFaults++
		return
	}
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// describeFaults returns the first faults and the number of the others, for an error.
func (s *scan) describeFaults() string {
	return describe(s.faults, s.moreFaults)
}

// describe returns the first faults and the number of the others.
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

const headerFault = "one of its two headers is damaged, which may have told of the last change"

// readAll checks the headers, every page that they lead to, the free list and the tallies. It sets err where the file
// cannot be read, which is no damage.
func (s *scan) readAll() {
	var err error
	if s.meta, s.goodHeaders, err = readMetas(s.f); err != nil {
		if !errors.Is(err, errNoHeader) {
			s.err = err
			return
		}
		s.addFault("%v", err)
		return
	}
	if s.goodHeaders < 2 {
		s.addFault(headerFault)
	}
	if !s.claimHeaders() {
		return
	}
	s.scanTree(s.meta.root, 0, nil, nil, &counted{})
	s.scanFreelist()
	s.compareTallies()
}

// claimHeaders marks the pages of the headers as used, and no others. It returns false where the file ends before its
// last page: bbolt reads it through mmap, and a page beyond the end would be a memory fault.
func (s *scan) claimHeaders() bool {
	if end := int64(s.meta.pages) * int64(s.meta.pageSize); s.size < end {
		s.addFault("it ends after %d bytes of %d", s.size, end)
		return false
	}
	s.used = make([]uint64, s.meta.pages/64+1)
	s.used[0] = 3 // pages 0 and 1
	return true
}

// claimPages marks a page and its overflow as used. It returns false where one of them does
// not exist or is used twice: then a change of the one would overwrite the other.
func (s *scan) claimPages(id, overflow uint64) bool {
	if id < 2 || id >= s.meta.pages || overflow >= s.meta.pages-id {
		s.addFault("page %d is referred to, and the last is %d", id+overflow, s.meta.pages-1)
		return false
	}
	for i := id; i <= id+overflow; i++ {
		if s.used[i/64]&(1<<(i%64)) != 0 {
			s.addFault("page %d is in two places", i)
			return false
		}
		s.used[i/64] |= 1 << (i % 64)
	}
	return true
}

// takeBuffer returns a buffer for one page; reuseBuffer takes it back. A scan reads every
// page of the file, and allocating each would dominate its cost.
func (s *scan) takeBuffer() page {
	n := len(s.buffers)
	if n == 0 {
		return make(page, s.meta.pageSize)
	}
	p := s.buffers[n-1]
	s.buffers = s.buffers[:n-1]
	return p
}

// reuseBuffer keeps a buffer for the next page; a larger one, of a page with overflow, is dropped.
func (s *scan) reuseBuffer(p page) {
	if len(p) == s.meta.pageSize {
		s.buffers = append(s.buffers, p)
	}
}

// readPage reads a page with its overflow, and claims them. It returns false where the page
// is wrong or used elsewhere.
func (s *scan) readPage(id uint64) (page, bool) {
	if s.err = s.ctx.Err(); s.err != nil {
		return nil, false
	}
	if id >= s.meta.pages {
		s.addFault("page %d is referred to, and the last is %d", id, s.meta.pages-1)
		return nil, false
	}
	p := s.takeBuffer()
	at := int64(id) * int64(s.meta.pageSize)
	if !s.readAt(p, at) {
		return nil, false
	}
	if p.id() != id {
		s.addFault("page %d says that it is page %d", id, p.id())
		return nil, false
	}
	overflow := p.overflow()
	if !s.claimPages(id, overflow) {
		return nil, false
	}
	if overflow == 0 {
		return p, true
	}
	s.reuseBuffer(p)
	whole := make(page, (overflow+1)*uint64(s.meta.pageSize))
	return whole, s.readAt(whole, at)
}

// readAt reads a page at an offset. It returns false, and notes why, where that is not possible.
func (s *scan) readAt(p page, at int64) bool {
	_, err := s.f.ReadAt(p, at)
	switch {
	case err == nil:
		return true
	case errors.Is(err, io.EOF):
		s.addFault("page %d is beyond the end of the file", at/int64(s.meta.pageSize))
	default:
		s.err = err
	}
	return false
}

// scanTree reads a tree of pages of a bucket. The keys have to be at least low and below high; nil:
// unbounded.
func (s *scan) scanTree(id uint64, depth int, low, high []byte, in *counted) {
	if depth == maxDepth { // pages that refer to one another in a circle
		s.addFault("page %d is too deep in a tree", id)
		return
	}
	p, ok := s.readPage(id)
	if !ok {
		return
	}
	defer s.reuseBuffer(p)
	switch p.kind() {
	case leafPage:
		s.scanLeaf(p, low, high, in)
	case branchPage:
		s.scanBranch(p, depth, low, high, in)
	default:
		s.addFault("page %d is of the unknown kind %#x", id, p.kind())
	}
}

// scanBranch checks a branch page and all below it, whose keys lie from low up to high.
func (s *scan) scanBranch(p page, depth int, low, high []byte, in *counted) {
	for i := range p.count() {
		key, child, ok := p.branch(i)
		if !ok || s.isMisplaced(key, low, high, i > 0) {
			s.addFault("page %d: branch %d is wrong", p.id(), i)
			return
		}
		// The keys below a branch end where the next branch begins.
		end := high
		if next, _, ok := p.branch(i + 1); ok {
			end = next
		}
		s.scanTree(child, depth+1, key, end, in)
		if s.err != nil {
			return // reading failed; a fault in one branch does not keep the others from being read
		}
		low = key
	}
}

// isMisplaced reports whether a key is outside of its bounds: at least low (with above:
// above it) and below high.
func (s *scan) isMisplaced(key, low, high []byte, above bool) bool {
	order := bytes.Compare(key, low)
	return low != nil && (order < 0 || order == 0 && above) || high != nil && bytes.Compare(key, high) >= 0
}

// scanLeaf checks the records of a leaf page, or of a bucket that is small enough to be
// stored within its parent's page.
func (s *scan) scanLeaf(p page, low, high []byte, in *counted) {
	for i := range p.count() {
		flags, key, value, ok := p.leaf(i)
		if !ok || flags&^isBucket != 0 || s.isMisplaced(key, low, high, i > 0) {
			s.addFault("record %d of a page of %s is wrong", i, displayName(in.name))
			break
		}
		low = key
		if flags&isBucket != 0 {
			in.add(digest(key, nil))
			s.scanBucket(key, value, in.name)
			continue
		}
		in.add(digest(key, value))
		s.checkValue(key, value, in.name)
	}
}

// scanBucket reads a bucket within another; in is "" at the top.
func (s *scan) scanBucket(key, value []byte, in string) {
	name := string(key)
	if in != "" {
		name = in + nul + name
	} else {
		s.hasBuckets, s.hasInbox = true, s.hasInbox || name == inboxBucket
	}
	if len(value) < bucketHeader || strings.Count(in, nul) > 0 {
		s.addFault("%s is wrong", displayName(name))
		return
	}
	root, seq := binary.NativeEndian.Uint64(value), binary.NativeEndian.Uint64(value[8:])
	c := &counted{name, tally{seq: seq}}
	defer s.finish(c)
	if root != 0 {
		s.scanTree(root, 0, nil, nil, c)
		return
	}
	// Without a root page the records follow the bucket's header in place.
	p := page(value[bucketHeader:])
	if len(p) < pageHeader || p.kind() != leafPage || p.overflow() != 0 {
		s.addFault("%s is wrong", displayName(name))
		return
	}
	s.scanLeaf(p, nil, nil, c)
}

// checkValue checks a record, or reads it where it is a tally, for the comparison in the end.
func (s *scan) checkValue(key, value []byte, name string) {
	if name != talliesBucket {
		if name == formatBucket {
			s.readFormat(key, value)
		}
		if _, err := unseal(value); err != nil {
			s.addFault("record %q of %s: %v", key, displayName(name), err)
		}
		return
	}
	t, err := unsealTally(value)
	switch {
	case err != nil:
		s.addFault("the tally of %s: %v", displayName(string(key)), err)
	case string(key) == headKey:
		s.head = &t
	default:
		s.sum.add(digest(key, value))
		s.kept += fingerprint(string(key), t)
		if s.detailed {
			s.recorded[string(key)] = t
		}
	}
}

// scanFreelist claims the free pages: a used page among them would be overwritten.
func (s *scan) scanFreelist() {
	if s.err != nil {
		return
	}
	// A transaction with many free pages writes no list; then all is free that nothing uses.
	if s.meta.freelist == noFreelist {
		used := 0
		for _, word := range s.used {
			used += bits.OnesCount64(word)
		}
		s.free = int(s.meta.pages) - used
		return
	}
	p, ok := s.readPage(s.meta.freelist)
	if !ok {
		return
	}
	ids, ok := p.freePages()
	if !ok || p.kind() != freelistPage {
		s.addFault("page %d is no list of free pages", s.meta.freelist)
		return
	}
	for _, id := range ids {
		if !s.claimPages(id, 0) {
			return
		}
	}
	s.free = len(ids)
}

// compareTallies compares the records that were found with the stored tallies.
func (s *scan) compareTallies() {
	if s.err != nil || !s.hasTallies() {
		return
	}
	// The tallies' own tally carries the number of its transaction: tallies and header have
	// to be of the same one.
	if s.sum.seq = s.meta.txid; s.head == nil || *s.head != s.sum {
		s.addFault("the tallies are not those of the last change")
	}
	for name, found := range s.counts {
		if kept, ok := s.recorded[name]; !ok {
			s.addFault("%s was not there before", displayName(name))
		} else if found != kept {
			s.addFault("%s", describeMismatch(name, found, kept))
		}
	}
	for name, kept := range s.recorded {
		if _, ok := s.counts[name]; !ok {
			s.addFault("%s is missing, with %d records", displayName(name), kept.count)
		}
	}
}

// isHeaderOnly reports whether a damaged header is the only fault: the store that the other
// header describes is whole.
func (s *scan) isHeaderOnly() bool { return s.goodHeaders == 1 && len(s.faults) == 1 }

// hasTallies reports whether the file has tallies; the first versions wrote none.
func (s *scan) hasTallies() bool { return s.head != nil || s.sum.count > 0 }

// describeMismatch returns how a bucket differs from its tally.
func describeMismatch(name string, found, kept tally) string {
	switch {
	case found.count != kept.count:
		return fmt.Sprintf("%s holds %d records where %d were stored", displayName(name), found.count, kept.count)
	case found.sum != kept.sum:
		return fmt.Sprintf("%s does not hold the records that were stored", displayName(name))
	}
	return fmt.Sprintf("%s counts on from %d instead of %d", displayName(name), found.seq, kept.seq)
}

// displayName returns a bucket's name for people.
func displayName(name string) string {
	outer, inner, nested := strings.Cut(name, nul)
	switch {
	case name == headKey:
		return "the store"
	case nested:
		return fmt.Sprintf("%s of %q", outer, inner)
	}
	return "the bucket " + outer
}
