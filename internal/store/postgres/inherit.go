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

// What the members whose time is over have left, and records of nobody: a tool has written them. $1 is who asks, $2
// whether it may end what was not ended in order.
const (
	isOver   = `id <> $1 and (expires_at = '-infinity' or $2 and expires_at <= clock_timestamp())`
	ofNobody = `owner not in (select id from ravenbot.replicas)`
	lockOver = `select id, name, address from ravenbot.replicas where ` + isOver + ` order by id for update`

	deleteMembers = `delete from ravenbot.replicas where id = any($1)`
	takeClaims    = `insert into ravenbot.claims as c (key, owner) select k, $1 from unnest($2::text[]) k
		on conflict (key) do update set owner = excluded.owner where c.` + ofNobody + ` returning key`
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

// isAnyLeft returns the statement that finds out whether there is something to inherit. It is asked often, and so looks
// only at the lowest owner, by the index: nobody is 0, and members go in about the order in which they came.
func (db *DB) isAnyLeft() string {
	sql := `select exists (select from ravenbot.replicas where ` + isOver + `)`
	for _, s := range db.owned() {
		sql += ` or coalesce((select owner from ` + tableOf(s) + ` order by owner limit 1) not in
			(select id from ravenbot.replicas), false)`
	}
	return sql
}

// Inherit ends the memberships whose time is over, and makes what they left this process's: records with an owner,
// their claims, and the lead. It returns that, and nothing where there is nothing; it is cheap then. What is returned
// has to be resumed by the caller, since nobody else will.
func (m *Membership) Inherit(ctx context.Context) (left kv.Inherited, err error) {
	owner, mayEnd := m.db.owner(), m.isSteady(time.Now())
	// Asked at short intervals, and mostly there is nothing: the write transaction would lock the row of the table
	// format each time, for which whoever joins waits.
	var isAny bool
	err = m.db.read(ctx, func(ctx context.Context) error {
		return m.db.pool.QueryRow(ctx, m.db.isAnyLeft(), owner, mayEnd).Scan(&isAny)
	})
	if err == nil && isAny {
		err = m.db.write(ctx, func(t *tx) error {
			left = kv.Inherited{}
			return m.inherit(t, mayEnd, &left)
		})
	}
	if _, isUnknown := errors.AsType[*unknownError](err); isUnknown {
		// What may be this process's now would wait until its end, so that its membership ends here.
		m.noteLost(owner)
	}
	if err != nil {
		return kv.Inherited{}, fmt.Errorf("inherit what other replicas have left: %w", err)
	}
	return left, nil
}

// inherit is the transaction of Inherit; mayEnd: also memberships that were not ended in order. It adds to left what
// this process has from then on.
func (m *Membership) inherit(t *tx, mayEnd bool, left *kv.Inherited) error {
	lock, owner := lockMembers, m.db.owner()
	if !m.alone {
		// Who else is inheriting, or joining, is not waited for: it may wait for this one.
		lock += " skip locked"
	}
	locked, err := t.exec(lock)
	if err != nil || locked == 0 {
		return orUnchanged(err)
	}
	if err := t.endMembers(owner, mayEnd, left); err != nil {
		return err
	}
	if err := t.takeRows(owner, left); err != nil {
		return err
	}
	keys, err := claimsOf(left)
	if err != nil {
		return err
	}
	return t.send(func(b *batch) {
		var form string
		b.Queue(takeClaims, owner, keyTexts(keys)).Query(each([]any{&form}, func() error {
			left.Keys = append(left.Keys, parseKey(form))
			return nil
		}))
		b.Queue(deleteClaims)
	})
}

// endMembers deletes the rows of members whose time is over. Without its row a member is nobody.
func (t *tx) endMembers(owner int64, mayEnd bool, left *kv.Inherited) error {
	err := t.send(func(b *batch) {
		// When these locks are there, the writers of those members have ended. One that has renewed its time meanwhile
		// is not among them.
		b.Queue(lockOver, owner, mayEnd).Query(eachReplica(&left.From))
	})
	if err != nil {
		return err
	}
	over := make([]int64, len(left.From))
	for i, r := range left.From {
		over[i] = r.ID
	}
	_, err = t.exec(deleteMembers, over)
	return err
}

// takeRows makes the records of nobody those of a member.
func (t *tx) takeRows(owner int64, left *kv.Inherited) error {
	left.Values = map[*kv.Spec][][]byte{}
	return t.send(func(b *batch) {
		for _, s := range t.db.owned() {
			b.Queue(`with taken as (update `+tableOf(s)+` set owner = $1 where `+ofNobody+` returning key, value)
				select value from taken order by key`, owner).each(func(columns [][]byte) error {
				left.Values[s] = append(left.Values[s], copyOf(columns[0]))
				return nil
			})
		}
	})
}

// claimsOf returns the claims that go with what was left, and LeaderKey. It fails for a record that cannot be read,
// which is left to nobody then.
func claimsOf(left *kv.Inherited) ([]string, error) {
	keys := []string{store.LeaderKey}
	for s, values := range left.Values {
		for _, v := range values {
			claim, err := s.Owner(v)
			if err != nil {
				return nil, fmt.Errorf("read the claim of a record of %s: %w", s.Name, err)
			}
			if claim != "" {
				keys = append(keys, claim)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}
