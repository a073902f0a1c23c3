package bolt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"ravenbot/internal/store"
)

// Count is what a bucket holds.
type Count struct {
	Name    string `json:"name"`
	Records uint64 `json:"records"`         // those of the buckets in it, where it holds any
	Parts   int    `json:"parts,omitempty"` // buckets in it
}

// Report is what Check found.
type Report struct {
	Path   string   `json:"path"`
	Bytes  int64    `json:"bytes"`
	Free   int64    `json:"freeBytes"`        // within Bytes
	Logged int      `json:"logged,omitempty"` // entries of the write-ahead log: Items leaves them out, the next start adds them
	Items  []Count  `json:"items"`
	Damage []string `json:"damage"`
}

// Check reads the whole store at path and changes nothing. It returns a *store.InUseError
// where a process has the store open. With a *store.DamagedError the report is filled as
// far as the store could be read.
func Check(ctx context.Context, path string) (Report, error) {
	r := Report{Path: path, Items: []Count{}, Damage: []string{}}
	if err := requireStore(path); err != nil {
		return r.withDamage(err)
	}
	release, err := lock(path)
	if err != nil {
		return r, err
	}
	s, err := scanFile(ctx, path)
	var inLog error
	if err == nil {
		var list [][]byte
		list, inLog = readWAL(path, s.generation)
		r.Logged = len(list)
	}
	if err = errors.Join(err, release()); err != nil {
		return r, fmt.Errorf("check store %s: %w", path, explainSystemError(path, err))
	}
	r.Bytes, r.Items, r.Damage = s.size, s.bucketCounts(), append(r.Damage, s.faults...)
	r.Free = max(0, s.size-int64(s.meta.pages-uint64(s.free))*int64(s.meta.pageSize))
	if s.goodHeaders == 0 { // then nothing is known of the pages
		r.Free = 0
	}
	return r.withDamage(cmp.Or(s.damageError(path), inLog))
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

// requireStore returns fs.ErrNotExist, wrapped, where there is no store at path, and a
// *store.DamagedError where it vanished.
func requireStore(path string) error {
	fresh, err := isUnused(path)
	if err == nil && fresh {
		return fmt.Errorf("there is no store at %s yet: %w", path, fs.ErrNotExist)
	}
	return err
}

// bucketCounts returns what was found in each top-level bucket, by name.
func (s *scan) bucketCounts() []Count {
	items := []Count{}
	for _, name := range slices.Sorted(maps.Keys(s.totals)) {
		items = append(items, *s.totals[name])
	}
	return items
}

// Size returns the bytes of the store's file and how many of them are free for reuse.
func (db *DB) Size() (bytes, free int64, err error) {
	info, err := os.Stat(db.path)
	if err != nil {
		return 0, 0, fmt.Errorf("look at store: %w", err)
	}
	m, err := db.header()
	switch {
	case errors.Is(err, errNoHeader):
		return 0, 0, damagedError(db.path, err.Error(), replaceRemedy)
	case err != nil:
		return 0, 0, explainSystemError(db.path, err)
	}
	s := db.bolt.Load().Stats()
	free = int64(s.FreePageN+s.PendingPageN)*int64(m.pageSize) + info.Size() - int64(m.pages)*int64(m.pageSize)
	return info.Size(), max(free, 0), nil
}
