package bolt

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"ravenbot/internal/store"
)

// Count is what a bucket holds.
type Count struct {
	Name    string `json:"name"`
	Records uint64 `json:"records"`         // those of the buckets in it, if it holds any
	Parts   int    `json:"parts,omitempty"` // buckets in it
}

// Report is what Check found.
type Report struct {
	Path   string   `json:"path"`
	Bytes  int64    `json:"bytes"`
	Free   int64    `json:"freeBytes"` // within Bytes
	Items  []Count  `json:"items"`
	Damage []string `json:"damage"`
}

// Check reads the whole store at path. It changes nothing but what a start does after a kill. It returns a *store.InUseError
// if a process has the store open. With a *store.DamagedError the report is filled as
// far as the store could be read.
func Check(ctx context.Context, path string) (Report, error) {
	r := Report{Path: path, Items: []Count{}, Damage: []string{}}
	if err := requireStore(path); err != nil {
		return r.withDamage(err)
	}
	if _, err := replayLogs(path); err != nil {
		return r.withDamage(err)
	}
	release, err := lock(path)
	if err != nil {
		return r, err
	}
	c, err := checkFile(ctx, path)
	if err = errors.Join(err, release()); err != nil {
		return r, fmt.Errorf("check store %s: %w", path, explainSystemError(path, err))
	}
	r.Bytes, r.Damage = c.size, append(r.Damage, c.faults...)
	if c.goodHeaders > 0 {
		r.Free = max(0, c.size-int64(c.usedPages)*int64(c.meta.pageSize))
	}
	for _, name := range slices.Sorted(maps.Keys(c.totals)) {
		r.Items = append(r.Items, *c.totals[name])
	}
	return r.withDamage(c.problem())
}

// withDamage returns the report and err, with the damage that only err tells of added to
// the report.
func (r Report) withDamage(err error) (Report, error) {
	var d *store.DamagedError
	if errors.As(err, &d) && len(r.Damage) == 0 {
		r.Damage = append(r.Damage, d.What)
	}
	return r, err
}

// requireStore returns fs.ErrNotExist, wrapped, if there is no store at path, and a
// *store.DamagedError if it vanished.
func requireStore(path string) error {
	fresh, err := isUnused(path)
	if err == nil && fresh {
		return fmt.Errorf("there is no store at %s yet: %w", path, fs.ErrNotExist)
	}
	return err
}

// checkedFile is a file that was read as a whole, with every value in it.
type checkedFile struct {
	*fileReader
	totals map[string]*Count // by top-level bucket
}

// checkFile reads the file at path with every value. It returns an error of reading, or of ctx; what is wrong is in the
// faults.
func checkFile(ctx context.Context, path string) (*checkedFile, error) {
	c := &checkedFile{totals: map[string]*Count{}}
	var faults []string
	var err error
	c.fileReader, err = readFile(ctx, path, nil, func(r storedRecord) error {
		outer, _, isNested := strings.Cut(r.bucket, nul)
		total := c.totals[outer]
		if total == nil {
			total = &Count{Name: outer}
			c.totals[outer] = total
		}
		if r.key == nil {
			if isNested {
				total.Parts++
			}
			return nil
		}
		total.Records++
		if err := verify(r.bucket, r.key, r.value); err != nil {
			faults = append(faults, fmt.Sprintf("record %q of %s: %v", r.key, displayName(r.bucket), err))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, what := range faults {
		c.addFault("%s", what)
	}
	return c, nil
}

// Verify checks the whole of a copy of a store that nobody writes to, such as a backup. It
// returns a *store.DamagedError if the file is no store or is damaged.
func Verify(ctx context.Context, path string) error {
	c, err := checkFile(ctx, path)
	if err != nil {
		return fmt.Errorf("check %s: %w", path, explainSystemError(path, err))
	}
	err = c.problem()
	if damaged := (*store.DamagedError)(nil); errors.As(err, &damaged) && damaged.What != cutOff {
		return damagedError(path, damaged.What, "take another copy")
	}
	return err
}

// problem returns a *store.NewerError if a newer version has written the file, and a *store.DamagedError if it is damaged,
// if it is the file of another program, or if a migration has not filled it.
func (c *checkedFile) problem() error {
	s, err := look(c.path)
	// First, since this version takes for damage what it does not know.
	if newer := (*store.NewerError)(nil); errors.As(err, &newer) {
		return err
	}
	if err == nil && !s.isOurs {
		err = damagedError(c.path, "it holds no records of ravenbot", restoreRemedy)
	}
	return cmp.Or(c.damage(), err)
}

// Size returns the bytes of the store's file and how many of them are free for reuse.
func (db *DB) Size() (size, free int64, err error) {
	info, err := os.Stat(db.path)
	if err != nil {
		return 0, 0, fmt.Errorf("look at store: %w", err)
	}
	err = db.view(func(tx *tx) error {
		s := db.bolt.Stats()
		free = int64(s.FreePageN+s.PendingPageN)*int64(db.bolt.Info().PageSize) + info.Size() - tx.bolt.Size()
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	return info.Size(), max(free, 0), nil
}

// Bounds of a step of the check of an open store.
const (
	maxCheckedRecords = 500
	maxCheckedBytes   = 1 << 20
	// restFactor is how much longer the check rests than it works: it uses a tenth of a processor.
	restFactor = 9
	minWork    = time.Millisecond
)

// CheckOpen reads the whole store in short read transactions, while others use it, and returns what is wrong with it, at
// most maxFaults lines. What it finds counts in Health, and after damaged pages nothing is written any more. It works a
// tenth of the time. One check runs at a time. The error is that of ctx, or says why the store cannot be read.
func (db *DB) CheckOpen(ctx context.Context) ([]string, error) {
	c := &openCheck{db: db, ctx: ctx}
	names, err := db.topNames()
	if c.isDamaged("the bucket of buckets", err) {
		return c.faults, nil
	} else if err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := c.checkBucket(name); err != nil {
			return c.faults, err
		}
	}
	if len(c.faults) == 0 {
		db.health.noteChecked(db.now())
	}
	return c.faults, nil
}

// topNames returns the names of the buckets at the top of the file.
func (db *DB) topNames() (names []string, err error) {
	err = db.view(func(tx *tx) error {
		names = nil
		return tx.bolt.ForEach(func(name []byte, _ *bbolt.Bucket) error {
			names = append(names, string(name))
			return nil
		})
	})
	return names, err
}

// openCheck is a check of an open store.
type openCheck struct {
	db     *DB
	ctx    context.Context
	faults []string
	worked time.Duration // since the last rest
}

// checkBucket checks the records of a bucket, by its full name, and those of the buckets in it.
func (c *openCheck) checkBucket(name string) error {
	var after []byte
	for done := false; !done; {
		began := time.Now()
		var inner []string
		var faults []string
		err := c.db.view(func(tx *tx) (err error) {
			inner, faults, after, done, err = checkSome(tx, name, after)
			return err
		})
		if c.isDamaged(displayName(name), err) {
			return nil
		} else if err != nil {
			return err
		}
		for _, what := range faults {
			c.addFault(what)
		}
		if err := c.rest(time.Since(began)); err != nil {
			return err
		}
		for _, key := range inner {
			if err := c.checkBucket(name + nul + key); err != nil {
				return err
			}
		}
	}
	return nil
}

// isDamaged reports whether an error is one of damaged pages, and notes it. Records that are wrong are faults. A write that
// goes by damaged pages may destroy good records.
func (c *openCheck) isDamaged(what string, err error) bool {
	damaged, ok := errors.AsType[*store.DamagedError](err)
	if ok {
		c.addFault(fmt.Sprintf("%s: %s", what, damaged.What))
		c.db.health.noteDamage(nil, err)
	}
	return ok
}

// rest waits, once the check has worked for a while.
func (c *openCheck) rest(worked time.Duration) error {
	if c.worked += worked; c.worked < minWork {
		return c.ctx.Err()
	}
	pause := restFactor * c.worked
	c.worked = 0
	return sleep(c.ctx, pause)
}

// addFault notes a fault; from maxFaults on they are left out.
func (c *openCheck) addFault(what string) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, what)
	}
	c.db.health.noteDamage(damagedError(c.db.path, what, restoreRemedy), nil)
}

// checkSome checks the records of a bucket behind a key, as many as one step may. It returns the names of the buckets
// among them, what is wrong, the last key that it looked at, and whether there are no further ones.
func checkSome(tx *tx, name string, after []byte) (inner, faults []string, last []byte, done bool, err error) {
	b := tx.named(name)
	if b == nil { // it was deleted meanwhile
		return nil, nil, nil, true, nil
	}
	c := b.cursor()
	last = after
	records, size := 0, 0
	for k, v := c.from(after); k != nil; k, v = c.next() {
		if last != nil && bytes.Compare(k, last) <= 0 {
			return nil, nil, nil, false, damagedError(tx.db.path, "its keys are out of order", restoreRemedy)
		}
		if records == maxCheckedRecords || size >= maxCheckedBytes {
			return inner, faults, last, false, nil
		}
		last = bytes.Clone(k)
		records, size = records+1, size+len(v)
		if v == nil {
			inner = append(inner, string(k))
		} else if _, err := unseal(v); err != nil {
			faults = append(faults, fmt.Sprintf("record %q of %s: %v", k, displayName(name), err))
		}
	}
	return inner, faults, last, true, nil
}
