package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
)

// A record belongs to nobody if it was stored for any process (owner 0), if its member has ended, or if a command has
// written it. $1 is who asks, $2 whether it may end memberships that were not ended in order.
const (
	isOver   = `id <> $1 and (expires_at = '-infinity' or $2 and expires_at <= clock_timestamp())`
	ofNobody = `owner not in (select id from ravenbot.replicas)`
	lockOver = `select id, name, address from ravenbot.replicas where ` + isOver + ` order by id for update`

	deleteMembers = `delete from ravenbot.replicas where id = any($1)`
	// takeClaims returns the claims among $2 that the process $1 has afterwards, and whether they were free.
	takeClaims = `with taken as (insert into ravenbot.claims as c (key, owner) select k, $1 from unnest($2::text[]) k
			on conflict (key) do update set owner = excluded.owner where c.` + ofNobody + ` returning key)
		select key, true from taken union all
		select key, false from ravenbot.claims where key = any($2::text[]) and owner = $1`
	deleteClaims = `delete from ravenbot.claims where ` + ofNobody
)

// owned returns the collections whose records have owners.
func (db *DB) owned() (list []*kv.Spec) {
	for _, s := range db.specs {
		if s.Owner != nil {
			list = append(list, s)
		}
	}
	return list
}

// isAnyFree returns the statement that finds out whether there is something to take. It is run often, and so looks only at
// the lowest owner, by the index: nobody is 0, and members end in about the order in which they joined.
func (db *DB) isAnyFree() string {
	sql := `select exists (select from ravenbot.replicas where ` + isOver + `)`
	for _, s := range db.owned() {
		sql += ` or coalesce((select owner from ` + tableOf(s) + ` order by owner limit 1) not in
			(select id from ravenbot.replicas), false)`
	}
	return sql
}

// HasFree reports whether there may be something to take. It is cheap.
func (m *Membership) HasFree(ctx context.Context) (isAny bool, err error) {
	err = m.db.read(ctx, func(ctx context.Context) error {
		return m.db.pool.QueryRow(ctx, m.db.isAnyFree(), m.db.owner(), m.isSteady(time.Now())).Scan(&isAny)
	})
	if err != nil {
		return false, fmt.Errorf("look for the work of nobody: %w", err)
	}
	return isAny, nil
}

// Take ends the memberships whose time is over, and takes the records of nobody for which may returns true and whose claims
// are free or this process's. The caller has to work on the result, since nobody else will.
func (m *Membership) Take(ctx context.Context, may func(*kv.Spec, []byte) bool) (taken kv.Taken, err error) {
	owner := m.db.owner()
	err = m.db.write(ctx, func(t *tx) error {
		taken = kv.Taken{}
		return m.take(t, m.isSteady(time.Now()), may, &taken)
	})
	if _, isUnknown := errors.AsType[*unknownError](err); isUnknown {
		// Records that may be this process's now would wait until its end, so its membership ends here.
		m.noteLost(owner)
	}
	if err != nil {
		return kv.Taken{}, fmt.Errorf("take the work of nobody: %w", err)
	}
	return taken, nil
}

// take is the transaction of Take.
func (m *Membership) take(t *tx, mayEnd bool, may func(*kv.Spec, []byte) bool, taken *kv.Taken) error {
	owner := m.db.owner()
	if err := t.endMembers(owner, mayEnd, m.alone, taken); err != nil {
		return err
	}
	free, claims, err := t.listFree(may)
	if err != nil {
		return err
	}
	if len(taken.From) > 0 || m.alone {
		claims = append(claims, store.LeaderKey)
	}
	if len(claims) == 0 {
		return errUnchanged
	}
	slices.Sort(claims) // all transactions lock in the same order
	isOwn := map[string]bool{"": true}
	err = t.send(func(b *batch) {
		var form string
		var wasFree bool
		b.Queue(takeClaims, owner, keyTexts(slices.Compact(claims))).Query(each([]any{&form, &wasFree}, func() error {
			key := parseKey(form)
			if isOwn[key] = true; wasFree {
				taken.Keys = append(taken.Keys, key)
			}
			return nil
		}))
		if len(taken.From) > 0 {
			b.Queue(deleteClaims)
		}
	})
	if err == nil {
		err = t.takeRows(owner, free, isOwn, taken)
	}
	return err
}

// endMembers deletes the rows of members whose time is over. Without its row a member is nobody.
func (t *tx) endMembers(owner int64, mayEnd, alone bool, taken *kv.Taken) error {
	lock := lockMembers
	if !alone {
		// Do not wait for a process that is ending members or joining: it may be waiting for this one.
		lock += " skip locked"
	}
	locked, err := t.exec(lock)
	if err != nil || locked == 0 {
		return err
	}
	err = t.send(func(b *batch) {
		// With these locks, the writers of those members have ended. A member that has just renewed its time is not among
		// them.
		b.Queue(lockOver, owner, mayEnd).Query(eachReplica(&taken.From))
	})
	if err != nil || len(taken.From) == 0 {
		return err
	}
	over := make([]int64, len(taken.From))
	for i, r := range taken.From {
		over[i] = r.ID
	}
	_, err = t.exec(deleteMembers, over)
	return err
}

// freeRow is a record of nobody.
type freeRow struct {
	spec    *kv.Spec
	key     []byte
	claim   string
	isFresh bool // no process has had it
}

// listFree returns the records of nobody that may be taken, and their claims. It fails for a record that cannot be read,
// which is left to nobody then.
func (t *tx) listFree(may func(*kv.Spec, []byte) bool) (free []freeRow, claims []string, err error) {
	err = t.send(func(b *batch) {
		for _, s := range t.db.owned() {
			b.Queue(`select key, value, owner = ` + nobody + ` from ` + tableOf(s) + ` where ` + ofNobody).each(func(columns [][]byte) error {
				claim, err := s.Owner(columns[1])
				if err != nil {
					return fmt.Errorf("read the claim of a record of %s: %w", s.Name, err)
				}
				if !may(s, columns[1]) {
					return nil
				}
				free = append(free, freeRow{s, copyOf(columns[0]), claim, columns[2][0] != 0})
				if claim != "" {
					claims = append(claims, claim)
				}
				return nil
			})
		}
	})
	return free, claims, err
}

// takeRows makes records of nobody those of a member if their claims are its own.
func (t *tx) takeRows(owner int64, free []freeRow, isOwn map[string]bool, taken *kv.Taken) error {
	taken.Values = map[*kv.Spec][]kv.TakenValue{}
	keys, isFresh := map[*kv.Spec][][]byte{}, map[*kv.Spec]map[string]bool{}
	for _, r := range free {
		if !isOwn[r.claim] {
			continue
		}
		if isFresh[r.spec] == nil {
			isFresh[r.spec] = map[string]bool{}
		}
		keys[r.spec] = append(keys[r.spec], r.key)
		isFresh[r.spec][string(r.key)] = r.isFresh
	}
	return t.send(func(b *batch) {
		for s, list := range keys {
			sql := `with taken as (update ` + tableOf(s) + ` set owner = $1 where key = any($2::bytea[]) and ` + ofNobody + `
				returning key, value) select key, value from taken order by key`
			b.Queue(sql, owner, list).each(func(columns [][]byte) error {
				taken.Values[s] = append(taken.Values[s],
					kv.TakenValue{Value: copyOf(columns[1]), IsFresh: isFresh[s][string(columns[0])]})
				return nil
			})
		}
	})
}
