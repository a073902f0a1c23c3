package kv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"ravenbot/internal/store"
)

// Limits of one transaction of Dump.
const (
	maxRead      = 500
	maxReadBytes = 4 << 20
)

// Dump calls fn with every record of some collections, outside of any transaction. It may miss concurrent writes. A
// group's number comes before its records, as a record without a body. Dump ends with the first error of fn, with the
// error of ctx, or with a *store.DamagedError.
func Dump(ctx context.Context, db DB, specs []*Spec, fn func(store.Record) error) error {
	for _, s := range specs {
		groups := []string{""}
		if s.Grouped {
			var err error
			if groups, err = listGroups(ctx, db, s); err != nil {
				return fmt.Errorf("read %s: %w", s.Name, err)
			}
		}
		for _, group := range groups {
			if err := dumpGroup(ctx, db, s, group, fn); err != nil {
				return fmt.Errorf("read %s: %w", s.Name, err)
			}
		}
	}
	return nil
}

func listGroups(ctx context.Context, db DB, s *Spec) (groups []string, err error) {
	err = db.View(ctx, func(tx Tx) error {
		groups = nil
		return tx.Groups(s, "", "", func(group string) error {
			groups = append(groups, group)
			return nil
		})
	})
	return groups, err
}

// dumpGroup calls fn with the number and the records of a group.
func dumpGroup(ctx context.Context, db DB, s *Spec, group string, fn func(store.Record) error) error {
	number := store.Record{Kind: s.Name, Group: group}
	err := db.View(ctx, func(tx Tx) (err error) {
		number.Seq, err = tx.Number(s, group)
		return err
	})
	if err == nil && number.Seq > 0 {
		err = fn(number)
	}
	r := Range{Group: group, Limit: maxRead}
	for more := true; more && err == nil; {
		var list []store.Record
		err = db.View(ctx, func(tx Tx) error {
			size := 0
			list, more = nil, false
			return tx.Scan(s, r, func(e Entry) error {
				if e.Err != nil {
					return e.Err
				}
				list = append(list, store.Record{Kind: s.Name, Group: group, Key: e.Key, Body: bytes.Clone(e.Value)})
				if size += len(e.Value); len(list) == maxRead || size > maxReadBytes {
					more = true
					return ErrStop
				}
				return nil
			})
		})
		for _, record := range list {
			if err == nil {
				err = errors.Join(ctx.Err(), fn(record))
			}
		}
		if len(list) > 0 {
			r.From = After(list[len(list)-1].Key)
		}
	}
	return err
}

// Load stores records of Dump, in one transaction. It returns an error for an undeclared collection, because a copy
// must not silently omit records.
func Load(ctx context.Context, db DB, specs []*Spec, list []store.Record) error {
	return db.Update(ctx, Write{}, func(tx Tx) error {
		for _, r := range list {
			i := slices.IndexFunc(specs, func(s *Spec) bool { return s.Name == r.Kind })
			if i < 0 {
				return fmt.Errorf("store %s %.60q: this version does not know the kind", r.Kind, r.Key)
			}
			var err error
			if r.Body == nil {
				err = tx.Raise(specs[i], r.Group, r.Seq)
			} else {
				err = tx.Put(specs[i], r.Group, r.Key, r.Body)
			}
			if err != nil {
				return fmt.Errorf("store %s %.60q: %w", r.Kind, r.Key, err)
			}
		}
		return nil
	})
}

// Target is an engine that receives a copy. Until Complete has returned nil, no daemon opens it.
type Target interface {
	Engine
	// Complete marks the store as complete, as the last step.
	Complete(ctx context.Context) error
}
