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

// scan is a reading of a whole file, page by page and without bbolt, which trusts
// what it reads and can be made to fault, to loop or to write over records by a
// page that is wrong. It finds every page that is not what it must be, every value
// whose checksum is wrong, and every tally that is not that of its bucket.
type scan struct {
	ctx     context.Context
	f       io.ReaderAt
	size    int64
	meta    meta
	metas   int      // good headers
	used    []uint64 // a bit a page
	buffers []page
	free    int // pages
	counts  map[string]tally
	kept    map[string]tally // as recorded; the head apart
	sum     tally            // of those, and the number of the last transaction
	head    *tally
	top     bool // there are buckets
	inbox   bool // the one that every store has
	faults  []string
	more    int // faults beyond those
	err     error
}

// maxFaults is how many faults are told of.
const maxFaults = 20

// maxDepth is more than any tree of pages has levels.
const maxDepth = 64

// scanFile reads the file at path, which nobody may be writing to. The error is
// that of reading; what is wrong with the file is among the faults.
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
	s := &scan{ctx: ctx, f: f, size: info.Size(), counts: map[string]tally{}, kept: map[string]tally{}}
	s.run()
	return s, s.err
}

func (s *scan) fault(format string, args ...any) {
	if len(s.faults) == maxFaults {
		s.more++
		return
	}
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// what is all that was found, for an error.
func (s *scan) what() string {
	shown, more := s.faults, s.more
	if len(shown) > 3 {
		shown, more = shown[:3], more+len(shown)-3
	}
	text := strings.Join(shown, "; ")
	if more > 0 {
		text += fmt.Sprintf("; and %d faults more", more)
	}
	return text
}

func (s *scan) run() {
	var err error
	if s.meta, s.metas, err = readMetas(s.f); err != nil {
		s.fault("%v", err)
		return
	}
	if s.metas < 2 {
		s.fault("one of its two headers is damaged, which may have told of the last change")
	}
	if end := int64(s.meta.pages) * int64(s.meta.pageSize); s.size < end {
		s.fault("it ends after %d bytes of %d", s.size, end)
		return
	}
	s.used = make([]uint64, s.meta.pages/64+1)
	s.used[0] = 3 // the headers
	s.pages(s.meta.root, 0, nil, nil, "")
	s.freelist()
	s.compare()
}

// claim marks the pages of one; false says that one of them is not there or
// belongs to something else.
func (s *scan) claim(id, overflow uint64) bool {
	if id < 2 || id >= s.meta.pages || overflow >= s.meta.pages-id {
		s.fault("page %d is referred to, and the last is %d", id+overflow, s.meta.pages-1)
		return false
	}
	for i := id; i <= id+overflow; i++ {
		if s.used[i/64]&(1<<(i%64)) != 0 {
			s.fault("page %d is in two places", i)
			return false
		}
		s.used[i/64] |= 1 << (i % 64)
	}
	return true
}

// buffer gives room for a page, and spare takes it back.
func (s *scan) buffer() page {
	n := len(s.buffers)
	if n == 0 {
		return make(page, s.meta.pageSize)
	}
	p := s.buffers[n-1]
	s.buffers = s.buffers[:n-1]
	return p
}

func (s *scan) spare(p page) {
	if len(p) == s.meta.pageSize {
		s.buffers = append(s.buffers, p)
	}
}

// read gives a page that nothing else refers to, with its overflow.
func (s *scan) read(id uint64) (page, bool) {
	if s.err = s.ctx.Err(); s.err != nil {
		return nil, false
	}
	if id >= s.meta.pages {
		s.fault("page %d is referred to, and the last is %d", id, s.meta.pages-1)
		return nil, false
	}
	p := s.buffer()
	at := int64(id) * int64(s.meta.pageSize)
	if !s.fill(p, at) {
		return nil, false
	}
	if p.id() != id {
		s.fault("page %d says that it is page %d", id, p.id())
		return nil, false
	}
	overflow := p.overflow()
	if !s.claim(id, overflow) {
		return nil, false
	}
	if overflow == 0 {
		return p, true
	}
	s.spare(p)
	whole := make(page, (overflow+1)*uint64(s.meta.pageSize))
	return whole, s.fill(whole, at)
}

func (s *scan) fill(p page, at int64) bool {
	_, err := s.f.ReadAt(p, at)
	switch {
	case err == nil:
		return true
	case errors.Is(err, io.EOF):
		s.fault("page %d is beyond the end of the file", at/int64(s.meta.pageSize))
	default:
		s.err = err
	}
	return false
}

// pages reads a tree of pages whose keys are from low on and below high (nil:
// without bound). They belong to the bucket of that name; "" holds all buckets.
func (s *scan) pages(id uint64, depth int, low, high []byte, name string) {
	if depth == maxDepth {
		s.fault("page %d is too deep in a tree", id)
		return
	}
	p, ok := s.read(id)
	if !ok {
		return
	}
	defer s.spare(p)
	switch p.kind() {
	case leafPage:
		s.leaf(p, low, high, name)
	case branchPage:
		s.branches(p, depth, low, high, name)
	default:
		s.fault("page %d is of the unknown kind %#x", id, p.kind())
	}
}

func (s *scan) branches(p page, depth int, low, high []byte, name string) {
	for i := range p.count() {
		key, child, ok := p.branch(i)
		if !ok || s.misplaced(key, low, high, i > 0) {
			s.fault("page %d: branch %d is wrong", p.id(), i)
			return
		}
		end := high
		if next, _, ok := p.branch(i + 1); ok && i+1 < p.count() {
			end = next
		}
		s.pages(child, depth+1, key, end, name)
		if s.err != nil {
			return
		}
		low = key
	}
}

// misplaced reports that a key is not above low (or, where it may be, low itself)
// and below high.
func (s *scan) misplaced(key, low, high []byte, above bool) bool {
	order := bytes.Compare(key, low)
	return low != nil && (order < 0 || order == 0 && above) || high != nil && bytes.Compare(key, high) >= 0
}

// leaf reads the records of a page, or of a bucket so small that it has none.
func (s *scan) leaf(p page, low, high []byte, name string) {
	count := s.counts[name]
	for i := range p.count() {
		flags, key, value, ok := p.leaf(i)
		if !ok || flags&^isBucket != 0 || s.misplaced(key, low, high, i > 0) {
			s.fault("record %d of a page of %s is wrong", i, shown(name))
			break
		}
		low = key
		if flags&isBucket != 0 {
			count.add(digest(key, nil))
			s.bucket(key, value, name)
			continue
		}
		count.add(digest(key, value))
		s.value(key, value, name)
	}
	count.seq = s.counts[name].seq
	s.counts[name] = count
}

// bucket reads a bucket in the bucket of that name.
func (s *scan) bucket(key, value []byte, in string) {
	name := string(key)
	if in != "" {
		name = in + nul + name
	} else {
		s.top, s.inbox = true, s.inbox || name == inboxBucket
	}
	if len(value) < bucketHeader || strings.Count(in, nul) > 0 {
		s.fault("the bucket %s is wrong", shown(name))
		return
	}
	root, seq := binary.NativeEndian.Uint64(value), binary.NativeEndian.Uint64(value[8:])
	if name != talliesBucket {
		s.counts[name] = tally{seq: seq}
	}
	if root != 0 {
		s.pages(root, 0, nil, nil, name)
		return
	}
	p := page(value[bucketHeader:])
	if len(p) < pageHeader || p.kind() != leafPage || p.overflow() != 0 {
		s.fault("the bucket %s is wrong", shown(name))
		return
	}
	s.leaf(p, nil, nil, name)
}

func (s *scan) value(key, value []byte, name string) {
	if name != talliesBucket {
		if _, err := unseal(value); err != nil {
			s.fault("record %q of %s: %v", key, shown(name), err)
		}
		return
	}
	t, err := unsealTally(value)
	switch {
	case err != nil:
		s.fault("the tally of %s: %v", shown(string(key)), err)
	case string(key) == headKey:
		s.head = &t
	default:
		s.kept[string(key)] = t
		s.sum.add(digest(key, value))
	}
}

// freelist reads which pages are free: one that is in use would be written over.
func (s *scan) freelist() {
	if s.meta.freelist == noFreelist || s.err != nil {
		return
	}
	p, ok := s.read(s.meta.freelist)
	if !ok {
		return
	}
	ids, ok := p.free()
	if !ok || p.kind() != freelistPage {
		s.fault("page %d is no list of free pages", s.meta.freelist)
		return
	}
	for _, id := range ids {
		if !s.claim(id, 0) {
			return
		}
	}
	s.free = len(ids)
}

// compare holds what was found against what was recorded.
func (s *scan) compare() {
	delete(s.counts, "")
	delete(s.counts, talliesBucket)
	if s.err != nil || !s.tallied() {
		return
	}
	if s.sum.seq = s.meta.txid; s.head == nil || *s.head != s.sum {
		s.fault("the tallies are not those of the last change")
	}
	for name, found := range s.counts {
		if kept, ok := s.kept[name]; !ok {
			s.fault("%s was not there before", shown(name))
		} else if found != kept {
			s.fault("%s", mismatch(name, found, kept))
		}
	}
	for name, kept := range s.kept {
		if _, ok := s.counts[name]; !ok {
			s.fault("%s is missing, with %d records", shown(name), kept.count)
		}
	}
}

// headerOnly reports that one of the headers is all that is damaged: as the other
// tells it the store is whole.
func (s *scan) headerOnly() bool { return s.metas == 1 && len(s.faults) == 1 }

// tallied reports that the file has tallies; those of the first versions had none.
func (s *scan) tallied() bool { return s.head != nil || len(s.kept) > 0 }

// mismatch says how a bucket differs from what is recorded of it.
func mismatch(name string, found, kept tally) string {
	switch {
	case found.count != kept.count:
		return fmt.Sprintf("%s holds %d records where %d were stored", shown(name), found.count, kept.count)
	case found.sum != kept.sum:
		return fmt.Sprintf("%s does not hold the records that were stored", shown(name))
	}
	return fmt.Sprintf("%s counts on from %d instead of %d", shown(name), found.seq, kept.seq)
}

// shown is a bucket's name for people.
func shown(name string) string {
	outer, inner, nested := strings.Cut(name, nul)
	switch {
	case name == headKey:
		return "the store"
	case nested:
		return fmt.Sprintf("%s of %q", outer, inner)
	}
	return "the bucket " + outer
}
