package meaning

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"ravenbot/internal/store/kv"
)

// Vectors holds the vectors of each group by their ids. The number of a group is the day on which it was last used, in
// days since 1970.
var Vectors = kv.Of[vector](kv.Spec{Name: "vectors", Grouped: true})

// ErrUnknown is returned for the texts of a group that are not known yet.
var ErrUnknown = errors.New("the texts are not known yet")

// Limits of what is stored.
const (
	maxStored  = 200_000 // vectors; groups that were unused for longest go first
	keepUnused = 30      // days
	maxDeleted = 200     // in one transaction
)

// vector is the direction of a text: each byte is a number from -127 to 127. That is a quarter of the size of the
// model's numbers, and as good for comparing. It is empty if the text has no direction.
type vector []byte

// minDifference is the least difference of two likenesses that is not due to rounding.
const minDifference = 1.0 / 127

// newVector returns the direction of the numbers of a model.
func newVector(values []float32) vector {
	highest := 0.0
	for _, x := range values {
		highest = max(highest, math.Abs(float64(x)))
	}
	if highest == 0 {
		return vector{}
	}
	v := make(vector, len(values))
	for i, x := range values {
		v[i] = byte(int8(math.Round(float64(x) / highest * 127)))
	}
	return v
}

// compare returns how similar the directions of two vectors of one length are, from -1 to 1 (cosine).
func (v vector) compare(u vector) float64 {
	var dot, a, b int32
	for i := range v {
		x, y := int32(int8(v[i])), int32(int8(u[i]))
		dot, a, b = dot+x*y, a+x*x, b+y*y
	}
	return float64(dot) / math.Sqrt(float64(a)*float64(b))
}

// load sets the vectors of texts that are stored.
func (x *Index) load(ctx context.Context, items []item) error {
	return x.db.View(ctx, func(tx kv.Tx) error {
		for i := range items {
			v, _, err := Vectors.Get(tx, items[i].group.name, items[i].id)
			if err != nil && !x.db.NoteDamage(err) { // a damaged one is made again
				return err
			}
			items[i].vector = v
		}
		return nil
	})
}

// save stores the vectors that were made, if their texts are still there, and notes that the groups are in use.
func (x *Index) save(ctx context.Context, items []item) error {
	x.mu.Lock()
	items = slices.DeleteFunc(slices.Clone(items), func(it item) bool { return !x.lacks(it) })
	x.mu.Unlock()
	return x.db.Update(ctx, kv.Write{}, func(tx kv.Tx) (err error) {
		raised := ""
		for _, it := range items {
			if it.isMade {
				err = cmp.Or(err, Vectors.Put(tx, it.group.name, it.id, it.vector))
			}
			if it.group.name != raised {
				raised = it.group.name
				err = cmp.Or(err, tx.Raise(Vectors.Spec, raised, x.today()))
			}
		}
		return err
	})
}

func (x *Index) today() uint64 { return uint64(x.db.Now().Unix() / (24 * 60 * 60)) }

// Prune deletes the vectors of texts that are gone, of groups that are no longer used, and of other models than the
// configured one.
func (x *Index) Prune(ctx context.Context) error {
	type use struct {
		name  string
		day   uint64
		count int
	}
	var list []use
	err := x.db.View(ctx, func(tx kv.Tx) error {
		list = nil
		err := tx.Groups(Vectors.Spec, "", "", func(name string) error {
			list = append(list, use{name: name})
			return nil
		})
		for i, u := range list {
			day, err1 := tx.Number(Vectors.Spec, u.name)
			count, err2 := tx.Count(Vectors.Spec, u.name)
			list[i], err = use{u.name, day, count}, cmp.Or(err, err1, err2)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("list the groups of vectors: %w", err)
	}
	slices.SortStableFunc(list, func(a, b use) int { return cmp.Compare(b.day, a.day) })
	stored := 0
	for _, u := range list {
		if stored += u.count; stored > maxStored || u.day+keepUnused < x.today() {
			err = errors.Join(err, x.deleteExcept(ctx, u.name, nil))
		} else {
			err = errors.Join(err, x.pruneGroup(ctx, u.name))
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.queries)
	return err
}

// Forget deletes the vectors of texts that a group no longer has. It is called after texts were deleted. What it cannot
// delete Prune does later.
func (x *Index) Forget(ctx context.Context, name string) {
	if x == nil {
		return
	}
	if err := x.pruneGroup(ctx, name); err != nil && ctx.Err() == nil {
		x.log.Warn("failed to delete the vectors of deleted texts; retrying later", "error", err)
	}
}

// pruneGroup deletes the vectors of texts that a group does not have.
func (x *Index) pruneGroup(ctx context.Context, name string) error {
	ids := map[string]bool{}
	if e, on := x.embedder(); on {
		texts, err := x.list(ctx, name)
		if errors.Is(err, ErrUnknown) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list the texts of %s: %w", name, err)
		}
		for _, t := range texts {
			ids[identify(e.Name, t)] = true
		}
	}
	return x.deleteExcept(ctx, name, ids)
}

// deleteExcept deletes the vectors of a group but some, in small transactions.
func (x *Index) deleteExcept(ctx context.Context, name string, ids map[string]bool) error {
	x.mu.Lock()
	if g := x.groups[name]; g != nil {
		for id, v := range g.vectors {
			if !ids[id] {
				delete(g.vectors, id)
				g.bytes, x.bytes = g.bytes-len(v), x.bytes-len(v)
			}
		}
	}
	x.mu.Unlock()
	var gone []string
	err := x.db.View(ctx, func(tx kv.Tx) error {
		gone = nil
		return tx.Scan(Vectors.Spec, kv.Range{Group: name, KeysOnly: true}, func(e kv.Entry) error {
			if !ids[e.Key] {
				gone = append(gone, e.Key)
			}
			return nil
		})
	})
	for some := range slices.Chunk(gone, maxDeleted) {
		err = cmp.Or(err, x.db.Update(ctx, kv.Write{}, func(tx kv.Tx) (err error) {
			for _, id := range some {
				err = cmp.Or(err, Vectors.Delete(tx, name, id))
			}
			return err
		}))
	}
	if err == nil && len(gone) > 0 && len(ids) == 0 {
		err = x.db.Update(ctx, kv.Write{}, func(tx kv.Tx) error { return tx.DeleteGroup(Vectors.Spec, name) })
	}
	return err
}
