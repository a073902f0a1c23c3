package bolt

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/store"
)

// Salvaged is what Salvage could and could not read.
type Salvaged struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Records uint64 `json:"records"` // that were copied
	// Faults name the records, and the buckets with pages, that could not be read, as far as they fit.
	Faults     []string `json:"faults"`
	MoreFaults int      `json:"moreFaults,omitempty"` // beyond those
}

// nothingRemedy is for a file of which nothing can be salvaged.
const nothingRemedy = "put a backup in its place"

// Salvage copies every readable record of a damaged store to a new one, which must not exist, and
// names what could not be read. The damaged file is only read. It returns a *store.InUseError where a process
// has the store open, a *store.DamagedError where nothing at all can be read, and a *store.NewerError where a newer
// version has written the file.
func Salvage(ctx context.Context, from, to string) (Salvaged, error) {
	r := Salvaged{From: from, To: to, Faults: []string{}}
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
		r.Records, r.Faults, r.MoreFaults = found.records, append(r.Faults, found.reader.faults...), found.reader.more
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

// salvager writes the records of a damaged file that can be trusted to a new store.
type salvager struct {
	ctx     context.Context
	db      *DB
	reader  *fileReader
	faults  []string // of values
	queue   []storedRecord
	queued  int // bytes
	records uint64
}

// Bounds of the transactions that write what was salvaged.
const (
	maxSalvaged      = 1000
	maxSalvagedBytes = 8 << 20
)

// salvageInto copies every record of a damaged file that can be trusted to a new file. It returns an error if nothing can
// be read or the new file cannot be written.
func salvageInto(ctx context.Context, from, to string) (s *salvager, err error) {
	b, err := openFile(to, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Sync(), b.Close()) }()
	b.NoSync = true // a new file, which is synced as a whole
	s = &salvager{ctx: ctx, db: newDB(to, b, time.Now)}
	// The logs of a store that was killed hold what came after the checkpoint that is read.
	logs, unreadable := findLogs(from)
	if s.reader, err = readFile(ctx, from, logs, s.add); err == nil {
		err = s.flush()
	}
	if unreadable != nil {
		s.addFault("what the log holds is missing: %v", unreadable)
	}
	if err != nil {
		return nil, err
	}
	for _, what := range s.faults {
		s.reader.addFault("%s", what)
	}
	if s.records == 0 {
		return nil, damagedError(from, cmp.Or(describe(s.reader.faults, s.reader.more), "it holds no record"), nothingRemedy)
	}
	return s, s.finish(from, logs)
}

// finish brings the new file to the newest format.
func (s *salvager) finish(from string, logs []foundLog) error {
	err := s.db.migrate(s.ctx, walPath(from))
	var newer *store.NewerError
	if err == nil && s.reader.isCheckpoint {
		err = s.db.redoLogs(logs)
	}
	if err == nil || errors.As(err, &newer) || s.ctx.Err() != nil {
		return err
	}
	s.reader.addFault("what the log holds is missing: %v", err)
	return s.db.migrate(s.ctx, "")
}

// add queues a bucket or a record for the copy. Records are written many at a time: one transaction each would take hours
// at gigabytes.
func (s *salvager) add(r storedRecord) error {
	top, _, _ := strings.Cut(r.bucket, nul)
	switch {
	case r.bucket == formatBucket && bytes.Equal(r.key, closedKey):
		return nil // the copy was not closed yet
	case top == talliesBucket || strings.HasPrefix(top, trashPrefix):
		return nil // of an older version
	}
	if r.key != nil {
		if err := verify(r.bucket, r.key, r.value); err != nil {
			s.addFault("record %q of %s: %v", r.key, displayName(r.bucket), err)
			return nil
		}
		r.key, r.value = bytes.Clone(r.key), bytes.Clone(r.value)
	}
	s.queue = append(s.queue, r)
	if s.queued += len(r.value); len(s.queue) < maxSalvaged && s.queued < maxSalvagedBytes {
		return nil
	}
	return s.flush()
}

// addFault notes what is wrong with a value.
func (s *salvager) addFault(format string, args ...any) {
	if what := fmt.Sprintf(format, args...); !slices.Contains(s.faults, what) {
		s.faults = append(s.faults, what)
	}
}

// flush writes what waits.
func (s *salvager) flush() error {
	var added uint64
	err := s.db.update(s.ctx, func(tx *tx) error {
		added = 0
		for _, r := range s.queue {
			b, err := tx.createNamed(r.bucket)
			switch {
			case err != nil:
				return err
			case r.key == nil:
				err = b.raiseSequence(r.seq)
			default:
				err = b.putSealed(r.key, r.value)
				added++
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	s.records += added
	s.queue, s.queued = nil, 0
	return err
}
