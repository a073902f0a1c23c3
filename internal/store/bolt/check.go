package bolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

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
	Free   int64    `json:"freeBytes"` // within Bytes
	Items  []Count  `json:"items"`
	Damage []string `json:"damage"`
}

// Check reads the whole of the store at path, which nobody may have open: else it
// gives a *store.InUseError. The report is filled as far as the store could be read
// also where the error is a *store.DamagedError. Nothing is changed.
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
	if err = errors.Join(err, release()); err != nil {
		return r, fmt.Errorf("check store %s: %w", path, err)
	}
	r.Bytes, r.Items, r.Damage = s.size, s.bucketCounts(), append(r.Damage, s.faults...)
	r.Free = max(0, s.size-int64(s.meta.pages-uint64(s.free))*int64(s.meta.pageSize))
	if s.goodHeaders == 0 {
		r.Free = 0
	}
	return r.withDamage(s.damageError(path))
}

// withDamage adds the damage that only an error tells of.
func (r Report) withDamage(err error) (Report, error) {
	var d *store.DamagedError
	if errors.As(err, &d) && len(r.Damage) == 0 {
		r.Damage = append(r.Damage, d.What)
	}
	return r, err
}

// requireStore says what is wrong where there is no store at all.
func requireStore(path string) error {
	fresh, err := isUnused(path)
	if err == nil && fresh {
		return fmt.Errorf("there is no store at %s yet: %w", path, fs.ErrNotExist)
	}
	return err
}

// bucketCounts adds up what was found, by the buckets of the file.
func (s *scan) bucketCounts() []Count {
	all := map[string]*Count{}
	for name := range s.counts {
		outer, _, _ := strings.Cut(name, nul)
		all[outer] = &Count{Name: outer}
	}
	for name, found := range s.counts {
		outer, _, nested := strings.Cut(name, nul)
		c := all[outer]
		if c.Records += found.count; nested {
			c.Records-- // it was counted as one itself
			c.Parts++
		}
	}
	items := []Count{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		items = append(items, *all[name])
	}
	return items
}

// Size gives the bytes of the store's file and how many of them are free to be
// used again, as of some moment ago.
func (db *DB) Size() (bytes, free int64, err error) {
	f, err := os.Open(db.path)
	if err != nil {
		return 0, 0, fmt.Errorf("look at store: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, 0, fmt.Errorf("look at store: %w", err)
	}
	m, _, err := readMetas(f)
	if err != nil {
		return 0, 0, damagedError(db.path, err.Error(), restoreRemedy)
	}
	free = info.Size() - int64(m.pages)*int64(m.pageSize)
	head := make(page, m.pageSize)
	// A list that was given up since is no list any more, and not counted.
	if _, err := f.ReadAt(head, int64(m.freelist)*int64(m.pageSize)); err == nil && head.id() == m.freelist && head.kind() == freelistPage {
		free += int64(head.freeCount()) * int64(m.pageSize)
	}
	return info.Size(), max(free, 0), nil
}
