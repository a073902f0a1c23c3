package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
)

// View calls fn with a transaction in which each read is a statement of its own.
func (db *DB) View(ctx context.Context, fn func(kv.Tx) error) error {
	return db.read(ctx, func(ctx context.Context) error {
		return fn(newTransaction(db, nil, func(queue func(*batch)) error { return db.readBatch(ctx, queue) }))
	})
}

// readBatch sends statements that change nothing, outside of a transaction.
func (db *DB) readBatch(ctx context.Context, queue func(*batch)) error {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	b := &batch{}
	if queue(b); len(b.queries) == 0 {
		return nil
	}
	return b.send(ctx, conn)
}

// Update calls fn with a write transaction, whose changes it sends with the commit.
func (db *DB) Update(ctx context.Context, w kv.Write, fn func(kv.Tx) error) error {
	locks := lockNumbers(w.Scopes)
	guard := func(b *batch) {
		if db.guard != nil {
			db.guard(b)
		}
		if len(locks) > 0 {
			b.Queue(`select pg_advisory_xact_lock(n) from unnest($1::bigint[]) n`, locks)
		}
	}
	isFree := w.Free != nil && *w.Free
	return db.writeWith(ctx, guard, func(t *tx) error {
		x := newTransaction(db, t, t.send)
		if w.Free != nil {
			*w.Free, x.free = isFree, w.Free // the transaction may run more than once
		}
		if err := fn(x); err != nil {
			return err
		}
		if !x.hasChanged && len(x.dirty()) == 0 {
			return errUnchanged
		}
		return t.commit(func(b *batch) {
			x.queueChanges(b)
			if isFree {
				b.Queue(notifyWork)
			}
			t.noteChanges(b, slices.Sorted(maps.Keys(x.announced)))
		})
	})
}

// lockNumbers returns numbers for scopes, in order: all transactions lock in the same order.
func lockNumbers(scopes []string) []int64 {
	numbers := make([]int64, len(scopes))
	for i, scope := range scopes {
		h := fnv.New64a()
		_, _ = h.Write([]byte(scope)) // never fails
		numbers[i] = int64(h.Sum64())
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// NoteDamage reports whether err is a *store.DamagedError. Nothing is kept: checking its files is up to the server.
func (db *DB) NoteDamage(err error) bool {
	_, isDamage := errors.AsType[*store.DamagedError](err)
	return isDamage
}

// transaction implements kv.Tx. It keeps the changes until they are needed or committed.
type transaction struct {
	db   *DB
	tx   *tx // nil in a read transaction
	send func(queue func(*batch)) error

	collections map[*kv.Spec]*changes
	announced   map[string]bool // names of changes, by Spec.Watch
	hasChanged  bool            // changes were sent
	free        *bool           // see kv.Write
}

func newTransaction(db *DB, t *tx, send func(func(*batch)) error) *transaction {
	return &transaction{db: db, tx: t, send: send, collections: map[*kv.Spec]*changes{}, announced: map[string]bool{}}
}

type recordKey struct{ group, key string }

// changes are what a transaction has done to a collection.
type changes struct {
	// known holds records as the transaction sees them, as far as it has read or written them; nil stands for none.
	known   map[recordKey][]byte
	dirty   map[recordKey]bool  // records that were changed and not sent
	emptied map[string]bool     // groups that were deleted, which is not sent
	raised  map[string]uint64   // least numbers of groups, which are not sent
	next    map[string][]uint64 // numbers of groups that Prefetch has taken for Next
	taken   map[string]uint64   // the last number of a group that Next has returned
}

// of returns the changes of a collection.
func (x *transaction) of(s *kv.Spec) *changes {
	c := x.collections[s]
	if c == nil {
		c = &changes{map[recordKey][]byte{}, map[recordKey]bool{}, map[string]bool{}, map[string]uint64{},
			map[string][]uint64{}, map[string]uint64{}}
		x.collections[s] = c
	}
	return c
}

// dirty returns the collections with changes that were not sent, by name: all transactions lock in the same order.
func (x *transaction) dirty() (list []*kv.Spec) {
	for s, c := range x.collections {
		if c.isDirty() {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *kv.Spec) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// isDirty reports whether the statements of a collection would miss changes.
func (c *changes) isDirty() bool { return len(c.dirty)+len(c.emptied)+len(c.raised) > 0 }

func (x *transaction) Get(s *kv.Spec, group, key string) ([]byte, error) {
	c, k := x.of(s), recordKey{group, key}
	if v, isKnown := c.known[k]; isKnown {
		return v, nil
	}
	if c.emptied[group] {
		return nil, nil
	}
	var value []byte
	err := x.send(func(b *batch) { queueGet(b, s, k, func(v []byte) { value = v }) })
	if err == nil && x.tx != nil {
		c.known[k] = value
	}
	return value, err
}

// queueGet queues reading a record. set is called if there is one.
func queueGet(b *batch, s *kv.Spec, k recordKey, set func(value []byte)) {
	b.Queue(`select value from `+tableOf(s)+` where grp = $1 and key = $2`, []byte(k.group), []byte(k.key)).
		each(func(columns [][]byte) error {
			set(copyOf(columns[0]))
			return nil
		})
}

// copyOf returns a copy that is not nil.
func copyOf(value []byte) []byte { return append(make([]byte, 0, len(value)), value...) }

// errReadOnly is returned for a write in a read transaction.
var errReadOnly = errors.New("write in a read transaction")

func (x *transaction) Put(s *kv.Spec, group, key string, value []byte) error {
	if err := x.checkWrite(s, group, key); err != nil {
		return err
	}
	if s.At != nil {
		if _, err := s.At(value); err != nil {
			return fmt.Errorf("read the time of a record of %s: %w", s.Name, err)
		}
	}
	c, k := x.of(s), recordKey{group, key}
	if before, isKnown := c.known[k]; isKnown && before != nil && bytes.Equal(before, value) {
		return nil
	}
	c.known[k] = copyOf(value)
	c.dirty[k] = true
	x.announce(s, group, key, false)
	return nil
}

func (x *transaction) Delete(s *kv.Spec, group, key string) error {
	if err := x.checkWrite(s, group, key); err != nil {
		return err
	}
	c, k := x.of(s), recordKey{group, key}
	before, isKnown := c.known[k]
	if isKnown && before == nil || !isKnown && c.emptied[group] {
		return nil
	}
	c.known[k] = nil
	c.dirty[k] = true
	x.announce(s, group, key, true)
	return nil
}

// checkWrite returns an error for what cannot be stored.
func (x *transaction) checkWrite(s *kv.Spec, group, key string) error {
	switch {
	case x.tx == nil:
		return errReadOnly
	case s.Grouped == (group == ""):
		return fmt.Errorf("the collection %s has no group %q", s.Name, group)
	case key == "" || len(key) > kv.MaxKey || len(group) > kv.MaxKey:
		return fmt.Errorf("a key of %s has %d bytes in a group of %d, want 1 to %d", s.Name, len(key), len(group), kv.MaxKey)
	}
	return nil
}

func (x *transaction) announce(s *kv.Spec, group, key string, isDeleted bool) {
	if s.Watch == nil {
		return
	}
	if name := s.Watch(group, key, isDeleted); name != "" {
		x.announced[name] = true
	}
}

func (x *transaction) DeleteGroup(s *kv.Spec, group string) error {
	if x.tx == nil {
		return errReadOnly
	}
	c := x.of(s)
	for k := range c.known {
		if k.group == group {
			delete(c.known, k)
			delete(c.dirty, k)
		}
	}
	delete(c.raised, group)
	delete(c.next, group)
	delete(c.taken, group)
	c.emptied[group] = true
	x.announce(s, group, "", true)
	return nil
}

// Prefetch reads records, and takes numbers, in one round trip.
func (x *transaction) Prefetch(refs ...kv.Ref) error {
	return x.send(func(b *batch) {
		wanted := map[*kv.Spec][]recordKey{}
		var order []*kv.Spec // of the first Ref of each
		numbers := map[kv.Ref]int{}
		for _, r := range refs {
			c, k := x.of(r.Spec), recordKey{r.Group, r.Key}
			_, isKnown := c.known[k]
			switch {
			case r.Key == "" && x.tx != nil && !c.isDirty():
				numbers[r]++
			case r.Key != "" && !isKnown && !c.emptied[r.Group]:
				c.known[k] = nil
				if wanted[r.Spec] == nil {
					order = append(order, r.Spec)
				}
				wanted[r.Spec] = append(wanted[r.Spec], k)
			}
		}
		for _, s := range order {
			queueGets(b, s, wanted[s], x.of(s).known)
		}
		for r, n := range numbers {
			c := x.of(r.Spec)
			queueNext(b, r.Spec, r.Group, n, func(next uint64) { c.next[r.Group] = append(c.next[r.Group], next) })
		}
	})
}

// queueGets queues reading records into a map.
func queueGets(b *batch, s *kv.Spec, keys []recordKey, into map[recordKey][]byte) {
	if len(keys) == 1 {
		queueGet(b, s, keys[0], func(v []byte) { into[keys[0]] = v })
		return
	}
	var r rows
	for _, k := range keys {
		r.add(s, k, nil)
	}
	b.Queue(`select grp, key, value from unnest($1::bytea[], $2::bytea[]) r (g, k)
		join `+tableOf(s)+` on grp = g and key = k`, r.groups, r.keys).each(func(columns [][]byte) error {
		into[recordKey{string(columns[0]), string(columns[1])}] = copyOf(columns[2])
		return nil
	})
}

func (x *transaction) Next(s *kv.Spec, group string) (n uint64, err error) {
	if x.tx == nil {
		return 0, errReadOnly
	}
	c := x.of(s)
	if fetched := c.next[group]; len(fetched) > 0 {
		n, c.next[group] = fetched[0], fetched[1:]
	} else if err = x.flush(s); err == nil {
		err = x.send(func(b *batch) { queueNext(b, s, group, 1, func(next uint64) { n = next }) })
	}
	c.taken[group] = n
	x.hasChanged = x.hasChanged || s.Grouped
	return n, err
}

// queueNext queues taking the next numbers. The number of a group is locked until the transaction ends.
func queueNext(b *batch, s *kv.Spec, group string, count int, add func(n uint64)) {
	var q *query
	if s.Grouped {
		q = b.Queue(`with taken as (insert into ravenbot.numbers as n (collection, grp, last) values ($1, $2, $3)
				on conflict (collection, grp) do update set last = n.last + $3::bigint returning last)
			select generate_series(last - $3::bigint + 1, last) from taken`, s.Name, []byte(group), count)
	} else {
		q = b.Queue(`select nextval('`+sequenceOf(s)+`') from generate_series(1, $1)`, count)
	}
	q.eachNumber(add)
}

func (x *transaction) Raise(s *kv.Spec, group string, n uint64) error {
	if x.tx == nil {
		return errReadOnly
	}
	if s.Grouped {
		if c := x.of(s); n > max(c.taken[group], c.raised[group]) {
			c.raised[group] = n
		}
		return nil
	}
	// No other transaction may take numbers meanwhile: collections without groups are raised when a store is filled.
	return x.send(func(b *batch) {
		b.Queue(`select setval('`+sequenceOf(s)+`', $1) from `+sequenceOf(s)+
			` where $1::bigint > case when is_called then last_value else 0 end`, int64(n))
	})
}

func (x *transaction) Number(s *kv.Spec, group string) (n uint64, err error) {
	err = x.flush(s)
	if err == nil {
		err = x.send(func(b *batch) {
			q := b.Queue(`select last from ravenbot.numbers where collection = $1 and grp = $2`, s.Name, []byte(group))
			if !s.Grouped {
				q.sql, q.args = `select case when is_called then last_value else 0 end from `+sequenceOf(s), nil
			}
			q.eachNumber(func(last uint64) { n = last })
		})
	}
	return n, err
}

// Damaged returns err as what is found of a record that cannot be read.
func (x *transaction) Damaged(s *kv.Spec, group, key string, err error) error {
	return &store.DamagedError{
		Path:   x.db.name,
		What:   fmt.Sprintf("a record of the table %s cannot be read: %v (%q of %q)", s.Name, err, key, group),
		Remedy: "restore a backup of the database",
	}
}

var _ kv.DB = (*DB)(nil)
