package bolt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

// Salvaged is what Salvage could and could not read.
type Salvaged struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Records uint64 `json:"records"` // that were copied
	Lost    []Loss `json:"lost"`
	// Faults are what is wrong with the file, as far as they fit.
	Faults []string `json:"faults"`
}

// Loss is what a bucket lacks.
type Loss struct {
	Bucket string `json:"bucket"`
	Of     string `json:"of,omitempty"` // the conversation, digest, room or scope, where each has a bucket of its own
	Lost   uint64 `json:"lost"`
	Stored uint64 `json:"stored"`
	// Outdated: no record is missing, and some are not as they were last stored.
	Outdated bool `json:"outdated,omitempty"`
}

// nothingRemedy is for a file of which nothing can be salvaged.
const nothingRemedy = "put a backup in its place"

// Salvage copies every readable record of a damaged store to a new one, which must not exist, and
// says what was lost. The damaged file is only read. It returns a *store.InUseError where a process
// has the store open, a *store.DamagedError where nothing at all can be read, and a *store.NewerError where a newer
// version has written the file.
func Salvage(ctx context.Context, from, to string) (Salvaged, error) {
	r := Salvaged{From: from, To: to, Lost: []Loss{}, Faults: []string{}}
	if info, err := os.Stat(from); err == nil && info.Size() == 0 {
		return r, damagedError(from, "the file is empty", nothingRemedy)
	}
	release, err := lock(from)
	if err != nil {
		return r, err
	}
	err = createFile(to, func(f *os.File) error {
		found, err := salvageInto(ctx, from, f.Name())
		if err != nil {
			return explainSystemError(to, err)
		}
		r.Records, r.Lost, r.Faults = found.records, found.losses(), found.faults
		return Verify(ctx, f.Name())
	})
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%s exists already, name another file: %w", to, err)
	}
	if err = errors.Join(err, release()); err != nil {
		return r, fmt.Errorf("salvage store %s: %w", from, err)
	}
	return r, nil
}

// salvager reads what it can of a damaged file, without bbolt, and writes it to a new store.
type salvager struct {
	ctx    context.Context
	from   string
	f      io.ReaderAt
	size   int64
	meta   meta
	used   map[uint64]bool // pages; a tree that leads to itself must come to an end
	db     *DB
	queue  []salvagedRecord
	queued int // bytes

	records  uint64
	counts   map[string]tally // of what was read
	recorded map[string]tally
	torn     map[string]bool // buckets of which some page could not be read
	older    bool            // reading the tree of the transaction before
	faults   []string
}

// salvagedRecord is a record to be copied; without a key it stands for its bucket.
type salvagedRecord struct {
	bucket     string
	key, value []byte
	seq        uint64 // of the bucket
}

// Bounds of the transactions that write what was salvaged.
const (
	maxSalvaged      = 1000
	maxSalvagedBytes = 8 << 20
)

// salvageInto copies every record of a damaged file that can be trusted to a new file, and returns what it has counted
// and lost. It returns an error where nothing can be read or the new file cannot be written.
func salvageInto(ctx context.Context, from, to string) (*salvager, error) {
	f, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b, err := openFile(to, false)
	if err != nil {
		return nil, err
	}
	b.NoSync = true // a new file, which is synced as a whole
	s := &salvager{ctx: ctx, from: from, f: f, size: info.Size(), db: newDB(to, b, time.Now),
		counts: map[string]tally{}, recorded: map[string]tally{}, torn: map[string]bool{}, faults: []string{}}
	err = s.run()
	return s, errors.Join(err, b.Sync(), b.Close())
}

// run reads the tree of the newest header, and what that one has lost from the tree of the other.
func (s *salvager) run() error {
	m, good, err := readMetas(s.f)
	if errors.Is(err, errNoHeader) {
		return damagedError(s.from, err.Error(), nothingRemedy)
	}
	if err != nil {
		return err
	}
	if s.meta = m; good < 2 {
		s.faults = append(s.faults, headerFault)
	}
	if err := s.db.createBuckets(true, nil); err != nil {
		return err
	}
	if err := s.readTree(); err != nil {
		return err
	}
	// A transaction writes the upper pages of the trees that it changes anew, and those of the
	// transaction before are still there: what they lead to is better than nothing.
	if len(s.torn) > 0 {
		if before, ok := s.olderHeader(); ok {
			s.meta, s.older = before, true
			if err := s.readTree(); err != nil {
				return err
			}
		}
	}
	if err := s.dropStrangers(); err != nil {
		return err
	}
	if s.records == 0 {
		return damagedError(s.from, "no record of it can be read", nothingRemedy)
	}
	if err := s.db.update(s.ctx, func(tx *tx) error {
		tx.atOnce = true
		_, err := tx.redoLog(s.from)
		return err
	}); err != nil {
		s.faults = append(s.faults, fmt.Sprintf("what the write-ahead log holds is missing: %v", err))
	}
	return s.db.update(s.ctx, func(tx *tx) error {
		if format, err := tx.format(); err != nil || format > formatVersion {
			return errors.Join(err, checkFormat(s.from, format))
		}
		return tx.migrate()
	})
}

// olderHeader returns the header that is not in effect, where it is good.
func (s *salvager) olderHeader() (meta, bool) {
	for _, at := range []int64{0, int64(s.meta.pageSize)} {
		m, ok, err := readMeta(s.f, at)
		if err == nil && ok && m.txid < s.meta.txid && m.pageSize == s.meta.pageSize {
			return m, true
		}
	}
	return meta{}, false
}

// readTree reads all that the header leads to.
func (s *salvager) readTree() error {
	s.used = map[uint64]bool{}
	if err := s.walk(s.meta.root, 0, nil, nil, ""); err != nil {
		return err
	}
	return s.flush()
}

// addFault notes a fault, and that its bucket may lack records. Faults of the older tree are not
// listed: what it leads to was given up by the younger one.
func (s *salvager) addFault(bucket, format string, args ...any) {
	s.torn[bucket] = true
	if !s.older && len(s.faults) < maxFaults {
		s.faults = append(s.faults, fmt.Sprintf(format, args...))
	}
}

// readPage returns a page with its overflow. It returns false where there is none with that number,
// or where it was read before.
func (s *salvager) readPage(id uint64) (page, bool) {
	if id < 2 || id >= s.meta.pages || s.used[id] {
		return nil, false
	}
	s.used[id] = true
	p := make(page, s.meta.pageSize)
	at := int64(id) * int64(s.meta.pageSize)
	if _, err := s.f.ReadAt(p, at); err != nil || p.id() != id || p.overflow() >= s.meta.pages-id {
		return nil, false // also where the disk cannot read it
	}
	if p.overflow() == 0 {
		return p, true
	}
	p = make(page, (p.overflow()+1)*uint64(s.meta.pageSize))
	// The file may end within the overflow: what stands before its end is of use, and checksums tell what does not.
	_, err := s.f.ReadAt(p, at)
	return p, err == nil || errors.Is(err, io.EOF)
}

// walk reads a tree of pages of a bucket; "" names the bucket of buckets. What cannot be read is left
// out. The error is one of writing.
func (s *salvager) walk(id uint64, depth int, low, high []byte, bucket string) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	p, ok := s.readPage(id)
	if !ok || depth == maxDepth {
		s.addFault(bucket, "page %d of %s cannot be read", id, displayName(bucket))
		return nil
	}
	switch p.kind() {
	case leafPage:
		return s.readLeaf(p, low, high, bucket)
	case branchPage:
		return s.readBranch(p, depth, low, high, bucket)
	}
	s.addFault(bucket, "page %d of %s is of the unknown kind %#x", id, displayName(bucket), p.kind())
	return nil
}

// readBranch reads the pages below a branch page. Keys outside of low and high are of another page: what they lead to
// would get the wrong name.
func (s *salvager) readBranch(p page, depth int, low, high []byte, bucket string) error {
	for i := range p.count() {
		key, child, ok := p.branch(i)
		if !ok || isOutside(key, low, high) {
			s.addFault(bucket, "branch %d of page %d of %s is wrong", i, p.id(), displayName(bucket))
			continue
		}
		end := high
		if next, _, ok := p.branch(i + 1); ok && bytes.Compare(next, key) > 0 {
			end = next
		}
		if err := s.walk(child, depth+1, key, end, bucket); err != nil {
			return err
		}
	}
	return nil
}

// isOutside reports whether a key is below low, or not below high; nil: there is no bound.
func isOutside(key, low, high []byte) bool {
	return low != nil && bytes.Compare(key, low) < 0 || high != nil && bytes.Compare(key, high) >= 0
}

// readLeaf reads the records of a leaf page whose keys can be trusted.
func (s *salvager) readLeaf(p page, low, high []byte, bucket string) error {
	var kept []leafRecord
	for i := range p.count() {
		flags, key, value, ok := p.leaf(i)
		if !ok || flags&^isBucket != 0 || isOutside(key, low, high) {
			s.addFault(bucket, "record %d of a page of %s is wrong", i, displayName(bucket))
			continue
		}
		// A key has no checksum. Where two keys are out of order one of them is damaged, and its
		// record would get the name of another one: neither can be trusted.
		if last := len(kept) - 1; last >= 0 && bytes.Compare(kept[last].key, key) >= 0 {
			s.addFault(bucket, "the keys %q and %q of %s are out of order", kept[last].key, key, displayName(bucket))
			kept = kept[:last]
			continue
		}
		kept = append(kept, leafRecord{nested: flags&isBucket != 0, key: key, value: value})
	}
	for _, r := range kept {
		if err := s.readRecord(r, bucket); err != nil {
			return err
		}
	}
	return nil
}

// leafRecord is an element of a leaf page: a record, or a bucket in its bucket.
type leafRecord struct {
	nested     bool
	key, value []byte
}

// readRecord keeps a record if its checksum is right, and reads on where it is a bucket.
func (s *salvager) readRecord(r leafRecord, bucket string) error {
	key, value := r.key, r.value
	if r.nested {
		return s.readBucket(key, value, bucket)
	}
	if bucket == talliesBucket {
		switch t, err := unsealTally(value); {
		case err != nil:
			s.addFault(bucket, "the tally of %s: %v; what is lost there is not known", displayName(string(key)), err)
		case !s.older && string(key) != headKey:
			s.recorded[string(key)] = t
		}
		return nil // the copy makes its own
	}
	if _, err := unseal(value); err != nil {
		s.addFault(bucket, "record %q of %s: %v", key, displayName(bucket), err)
		return nil
	}
	// Of an older tree only what the younger one has lost is of use.
	if s.older && !s.torn[bucket] {
		return nil
	}
	return s.add(salvagedRecord{bucket: bucket, key: bytes.Clone(key), value: bytes.Clone(value)})
}

// readBucket reads a bucket within another; in is "" at the top.
func (s *salvager) readBucket(key, value []byte, in string) error {
	name := string(key)
	if in != "" {
		name = in + nul + name
	}
	isKnown := in != "" && !strings.Contains(in, nul) || slices.Contains(append(bucketNames(), talliesBucket), name)
	if len(value) < bucketHeader || !isKnown {
		s.addFault(in, "%s is wrong", displayName(name))
		return nil
	}
	if strings.HasPrefix(name, trashName("")) {
		return nil // it was deleted, and is still to be emptied
	}
	root, seq := binary.NativeEndian.Uint64(value), binary.NativeEndian.Uint64(value[8:])
	if name != talliesBucket {
		if err := s.add(salvagedRecord{bucket: name, seq: seq}); err != nil {
			return err
		}
	}
	if root != 0 {
		return s.walk(root, 0, nil, nil, name)
	}
	if p := page(value[bucketHeader:]); len(p) >= pageHeader && p.kind() == leafPage {
		return s.readLeaf(p, nil, nil, name)
	}
	s.addFault(name, "%s is wrong", displayName(name))
	return nil
}

// add queues a record for the copy. Records are written many at a time: one transaction each would take hours at
// gigabytes.
func (s *salvager) add(r salvagedRecord) error {
	s.queue = append(s.queue, r)
	if s.queued += len(r.value); len(s.queue) < maxSalvaged && s.queued < maxSalvagedBytes {
		return nil
	}
	return s.flush()
}

// flush writes what waits, as far as it is not there: the younger tree was read first.
func (s *salvager) flush() error {
	var added []salvagedRecord
	err := s.db.update(s.ctx, func(tx *tx) error {
		added = added[:0]
		for _, r := range s.queue {
			b, err := tx.createNamed(r.bucket)
			switch {
			case err != nil:
				return err
			case r.key == nil:
				b.raiseSequence(r.seq)
			case !b.has(r.key):
				added = append(added, r)
				err = b.putRaw(r.key, r.value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, r := range added {
		s.records++
		t := s.counts[r.bucket]
		t.add(digest(r.key, r.value))
		s.counts[r.bucket] = t
	}
	s.queue, s.queued = nil, 0
	return nil
}

// losses compares what was read with the tallies, as far as these could be read.
func (s *salvager) losses() []Loss {
	list := []Loss{}
	for name, kept := range s.recorded {
		found := s.counts[name]
		outer, inner, _ := strings.Cut(name, nul)
		if strings.HasPrefix(name, trashName("")) || slices.Contains(nestingBuckets(), name) {
			continue // each bucket in it has a tally of its own
		}
		switch {
		case found.count < kept.count:
			list = append(list, Loss{Bucket: outer, Of: inner, Lost: kept.count - found.count, Stored: kept.count})
		case found.sum != kept.sum:
			list = append(list, Loss{Bucket: outer, Of: inner, Stored: kept.count, Outdated: true})
		}
	}
	slices.SortFunc(list, func(a, b Loss) int {
		return cmp.Or(strings.Compare(a.Bucket, b.Bucket), strings.Compare(a.Of, b.Of))
	})
	return list
}

// nestingBuckets are the top-level buckets that hold buckets.
func nestingBuckets() []string {
	return []string{turnsBucket, seenBucket, runsBucket, roomsBucket, entriesBucket, roomFilesBucket, memoriesBucket,
		itemsBucket, messagesBucket, messageIDsBucket}
}
