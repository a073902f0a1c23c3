package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"ravenbot/internal/store"
)

// What the members whose time is over have left, and rows of nobody: a tool has written them, or a version that
// knew no owners. $1 is who asks, $2 whether it may end what was not ended in order. isAnyLeft is asked often, and
// so looks at the lowest owner alone, by the index: nobody is 0, and members go in about the order in which they
// came.
const (
	isOver    = `id <> $1 and (expires_at = '-infinity' or $2 and expires_at <= clock_timestamp())`
	ofNobody  = `owner not in (select id from ravenbot.replicas)`
	isAnyLeft = `select exists (select from ravenbot.replicas where ` + isOver + `)
		or coalesce((select owner from ravenbot.inbox where record is not null order by owner limit 1) not in
			(select id from ravenbot.replicas), false)
		or coalesce((select owner from ravenbot.posts where record is not null order by owner limit 1) not in
			(select id from ravenbot.replicas), false)`
	lockOver = `select id, name, address from ravenbot.replicas where ` + isOver + ` order by id for update`

	deleteMembers = `delete from ravenbot.replicas where id = any($1)`
	takeMessages  = `with taken as (update ravenbot.inbox set owner = $1 where record is not null and ` + ofNobody + `
		returning seq, v, record) select v, record from taken order by seq`
	takePosts = `with taken as (update ravenbot.posts set owner = $1 where record is not null and ` + ofNobody + `
		returning seq, v, record) select v, record from taken order by seq`
	takeClaims = `insert into ravenbot.claims as c (key, owner) select k, $1 from unnest($2::text[]) k
		on conflict (key) do update set owner = excluded.owner where c.` + ofNobody + ` returning key`
	deleteClaims = `delete from ravenbot.claims where ` + ofNobody
)

// Inherit ends the memberships whose time is over, and makes what they left this process's: messages and posts that
// wait, channels, and the lead. It returns that, and nothing where there is nothing; it is cheap then. What is returned
// has to be resumed by the caller, since nobody else will.
func (m *membership) Inherit(ctx context.Context) (left store.Inherited, err error) {
	owner, mayEnd := m.db.owner(), m.isSteady(time.Now())
	// Asked at short intervals, and mostly there is nothing: the write transaction would lock the row of the table format
	// each time, for which whoever joins waits.
	var isAny bool
	err = m.db.read(ctx, func(ctx context.Context) error {
		return m.db.pool.QueryRow(ctx, isAnyLeft, owner, mayEnd).Scan(&isAny)
	})
	if err == nil && isAny {
		err = m.db.write(ctx, func(t *tx) error {
			left = store.Inherited{}
			return m.inherit(t, mayEnd, &left)
		})
	}
	if _, isUnknown := errors.AsType[*unknownError](err); isUnknown {
		// What may be this process's now would wait until its end, so that its membership ends here.
		m.noteLost(owner)
	}
	if err != nil {
		return store.Inherited{}, fmt.Errorf("inherit what other replicas have left: %w", err)
	}
	return left, nil
}

// inherit is the transaction of Inherit; mayEnd: also memberships that were not ended in order. It adds to left what
// this process has from then on.
func (m *membership) inherit(t *tx, mayEnd bool, left *store.Inherited) error {
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
	return t.send(func(b *pgx.Batch) {
		var form string
		b.Queue(takeClaims, owner, keyTexts(keysOf(left))).Query(each([]any{&form}, func() error {
			left.Keys = append(left.Keys, parseKey(form))
			return nil
		}))
		b.Queue(deleteClaims)
	})
}

// endMembers deletes the rows of members whose time is over. Without its row a member is nobody.
func (t *tx) endMembers(owner int64, mayEnd bool, left *store.Inherited) error {
	err := t.send(func(b *pgx.Batch) {
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

// takeRows makes the messages and posts of nobody those of a member.
func (t *tx) takeRows(owner int64, left *store.Inherited) error {
	return t.send(func(b *pgx.Batch) {
		b.Queue(takeMessages, owner).Query(eachRecord(t.db, "inbox", func(r store.Received) {
			left.Messages = append(left.Messages, r)
		}))
		b.Queue(takePosts, owner).Query(eachRecord(t.db, "posts", func(p store.Post) {
			// A post that was given up, and whose place was told so, needs no more work.
			if !p.Notified {
				left.Posts = append(left.Posts, p)
			}
		}))
	})
}

// keysOf returns the keys that go with what was left: those of the channels in which there is something to resume,
// and LeaderKey.
func keysOf(left *store.Inherited) []string {
	keys := []string{store.LeaderKey}
	for _, r := range left.Messages {
		keys = append(keys, store.ClaimKey(r.Message.Conversation))
	}
	for _, p := range left.Posts {
		// A post that was given up is not resumed, so that its channel need not belong to this replica.
		if p.Error == "" {
			keys = append(keys, store.ClaimKey(p.To))
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
