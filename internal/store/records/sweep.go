package records

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
)

// Bounds of maintenance: a message that comes meanwhile waits for one transaction at most, which takes a few milliseconds.
const (
	maxLooked  = 1000 // records looked at in one read transaction
	maxDeleted = 200  // records deleted in one write transaction, those of indexes apart
	// maxDeleteTime is for machines on which that takes longer.
	maxDeleteTime = 10 * time.Millisecond
)

// pruner deletes what is older than it is kept, as of one instant.
type pruner struct {
	*Store
	ctx     context.Context
	now     time.Time
	keep    store.Retention
	changed map[chat.Address]bool // conversations that lost turns or their summary
	blocked error                 // the last damage that kept a record from being deleted
	kept    keptTurns
}

func (s *Store) newPruner(ctx context.Context, keep store.Retention) *pruner {
	return &pruner{Store: s, ctx: ctx, now: s.Now(), keep: keep, changed: map[chat.Address]bool{}}
}

// isUnreadable reports whether an error is one of a damaged record, which then blocks its deletion.
func (p *pruner) isUnreadable(err error) bool {
	isDamaged := p.NoteDamage(err)
	if isDamaged {
		p.blocked = err
	}
	return isDamaged
}

// parseAddress returns the conversation that has a name. It returns false, and notes the damage, if there is none.
func (p *pruner) parseAddress(tx kv.Tx, spec *kv.Spec, name string) (chat.Address, bool) {
	a, err := chat.ParseAddress(name)
	if err != nil {
		p.isUnreadable(tx.Damaged(spec, name, "", err))
	}
	return a, err == nil
}

// eachConversation calls fn with the conversations that are groups of a collection.
func (p *pruner) eachConversation(spec *kv.Spec, fn func(chat.Address) error) error {
	return p.eachGroup(spec, func(name string) error {
		var a chat.Address
		var ok bool
		err := p.View(p.ctx, func(tx kv.Tx) error {
			a, ok = p.parseAddress(tx, spec, name)
			return nil
		})
		if err != nil || !ok {
			return err
		}
		return fn(a)
	})
}

// changedAddresses returns the conversations that have lost something so far, sorted.
func (p *pruner) changedAddresses() []chat.Address {
	return slices.SortedFunc(maps.Keys(p.changed), func(a, b chat.Address) int {
		return strings.Compare(a.String(), b.String())
	})
}

// sweep looks through records and deletes some of them.
type sweep struct {
	spec *kv.Spec
	in   kv.Range
	// isOld reports whether a record is to be deleted. It is asked again in the transaction that deletes it. Nil stands
	// for all records, also those that cannot be read.
	isOld func(tx kv.Tx, e kv.Entry) (bool, error)
	// drop deletes a record with what belongs to it; nil: the record only.
	drop  func(tx kv.Tx, e kv.Entry) error
	scope []string
}

// run looks in short read transactions and deletes in small write transactions. If a record cannot be read, it notes the
// damage and goes on with the rest.
func (p *pruner) run(s sweep) error {
	s.in.Limit = maxLooked
	for {
		var old []string
		looked := 0
		from := s.in.From
		err := p.View(p.ctx, func(tx kv.Tx) error {
			old, looked = nil, 0
			return tx.Scan(s.spec, s.in, func(e kv.Entry) error {
				looked, from = looked+1, kv.After(e.Key)
				err := e.Err
				isOld := s.isOld == nil
				if !isOld && err == nil {
					isOld, err = s.isOld(tx, e)
				}
				if isOld {
					old = append(old, e.Key)
				}
				if p.isUnreadable(err) {
					return nil
				}
				return err
			})
		})
		s.in.From = from
		for len(old) > 0 && err == nil {
			old, err = p.delete(s, old)
		}
		if err = cmp.Or(err, p.ctx.Err()); err != nil || looked < maxLooked {
			return err
		}
	}
}

// delete deletes the first of some records in one transaction, as far as they are still old. It returns the keys that are
// left.
func (p *pruner) delete(s sweep, keys []string) (left []string, err error) {
	err = p.update(p.ctx, func(tx kv.Tx) error {
		left = keys
		began := time.Now()
		for n := 0; len(left) > 0 && n < maxDeleted && (n == 0 || time.Since(began) < maxDeleteTime); {
			e := kv.Entry{Key: left[0]}
			left = left[1:]
			e.Value, e.Err = tx.Get(s.spec, s.in.Group, e.Key)
			isOld, err := s.isOld == nil, e.Err
			switch {
			case p.isUnreadable(e.Err):
				err = nil
			case err == nil && e.Value == nil: // deleted meanwhile
				isOld = false
			case err == nil && !isOld:
				isOld, err = s.isOld(tx, e)
			}
			switch {
			case err != nil:
				return err
			case !isOld:
				continue
			case s.drop == nil:
				err = tx.Delete(s.spec, s.in.Group, e.Key)
			default:
				err = s.drop(tx, e)
			}
			if n++; err != nil && !p.isUnreadable(err) {
				return err
			}
		}
		return nil
	}, s.scope...)
	return left, err
}

// sweepAll deletes the records of a collection without groups for which isOld returns true.
func sweepAll[T any](p *pruner, c kv.Collection[T], isOld func(T) bool) error {
	return p.run(sweep{spec: c.Spec, isOld: func(tx kv.Tx, e kv.Entry) (bool, error) {
		record, err := c.Decode(tx, "", e)
		return err == nil && isOld(record), err
	}})
}

// sweepBefore deletes the records of a group whose time is before another.
func (p *pruner) sweepBefore(spec *kv.Spec, group string, before time.Time) error {
	return p.run(sweep{spec: spec, in: kv.Range{Group: group, Before: before}, isOld: func(tx kv.Tx, e kv.Entry) (bool, error) {
		at, err := spec.At(e.Value)
		if err != nil {
			return false, tx.Damaged(spec, group, e.Key, err)
		}
		return at.Before(before), nil
	}})
}

// eachGroup calls fn with the name of every group of a collection, outside of any transaction.
func (p *pruner) eachGroup(spec *kv.Spec, fn func(name string) error) error {
	for from := ""; ; {
		var names []string
		err := p.View(p.ctx, func(tx kv.Tx) error {
			names = nil
			return tx.Groups(spec, from, "", func(name string) error {
				if len(names) == maxLooked {
					return kv.ErrStop
				}
				names = append(names, name)
				return nil
			})
		})
		if err != nil && !p.isUnreadable(err) {
			return err
		}
		for _, name := range names {
			if err := errors.Join(p.ctx.Err(), fn(name)); err != nil {
				return err
			}
		}
		if len(names) < maxLooked {
			return nil
		}
		from = kv.After(names[len(names)-1])
	}
}
