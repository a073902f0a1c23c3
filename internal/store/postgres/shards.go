package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"ravenbot/internal/store"
)

// Times of beginning sessions.
const (
	// identifyPause is how long after a session has begun in a bucket nobody begins another one there: Discord's rule.
	identifyPause = 5 * time.Second
	// identifyTime is longer than beginning a session may take.
	identifyTime = 70 * time.Second
)

// The row of a bot is locked before anything else of it is read, so that its shards change one after another. Owners
// without a row in the table replicas are nobody: Take has ended their memberships.
const (
	addPlan  = `insert into ravenbot.shard_plans (bot, shards) values ($1, $2) on conflict (bot) do nothing`
	lockPlan = `select shards from ravenbot.shard_plans where bot = $1 for update`
	// $2 is who asks.
	countOtherMembers = `select count(*) from ravenbot.shard_members m join ravenbot.replicas r on r.id = m.owner
		where m.bot = $1 and m.owner <> $2`
	setPlan          = `update ravenbot.shard_plans set shards = $2 where bot = $1`
	deleteShards     = `delete from ravenbot.shards where bot = $1`
	deleteOldMembers = `delete from ravenbot.shard_members where bot = $1 and ` + ofNobody
	addShardMember   = `insert into ravenbot.shard_members (bot, owner) values ($1, $2) on conflict (bot, owner) ` +
		`do nothing`

	readShardTable = `select p.shards,
		(select count(*) from ravenbot.shard_members m join ravenbot.replicas r on r.id = m.owner where m.bot = p.bot),
		(select count(*) from ravenbot.shard_identifies i
			where i.bot = p.bot and i.at > clock_timestamp() - interval '1 day'),
		(select coalesce(json_object_agg(s.shard, s.owner), '{}') from ravenbot.shards s
			join ravenbot.replicas r on r.id = s.owner where s.bot = p.bot)
		from ravenbot.shard_plans p where p.bot = $1`
	countOwnShards = `select count(*) from ravenbot.shards where bot = $1 and owner = $2`
	readShard      = `select coalesce(session, ''), ` + ofNobody + ` from ravenbot.shards where bot = $1 and shard = $2`
	claimShard     = `insert into ravenbot.shards (bot, shard, owner) values ($1, $2, $3)
		on conflict (bot, shard) do update set owner = excluded.owner, session = null`
	releaseShard     = `update ravenbot.shards set owner = 0, session = $4 where bot = $1 and shard = $2 and owner = $3`
	freeShards       = `update ravenbot.shards set owner = 0 where bot = $1 and owner = $2`
	deleteMembership = `delete from ravenbot.shard_members where bot = $1 and owner = $2`

	forgetIdentifies = `delete from ravenbot.shard_identifies where bot = $1 and at <= clock_timestamp() - ` +
		`interval '1 day'`
	// How long nobody may begin a session because of the limit of a day, and because of the bucket, in seconds. Who
	// begins one there is ready long before the end of its time, so that it is asked again.
	readDay = `select extract(epoch from at + interval '1 day' - clock_timestamp())::float8
		from ravenbot.shard_identifies where bot = $1 order by at desc offset $2 limit 1`
	readBucket = `select least(extract(epoch from until - clock_timestamp())::float8, $3) from ravenbot.shard_buckets
		where bot = $1 and bucket = $2 and (owner = 0 or not ` + ofNobody + `)`
	addIdentify = `with counted as (insert into ravenbot.shard_identifies (bot) values ($1) returning id)
		insert into ravenbot.shard_buckets (bot, bucket, owner, identify, until)
		select $1, $2, $3, id, clock_timestamp() + make_interval(secs => $4) from counted
		on conflict (bot, bucket) do update
			set owner = excluded.owner, identify = excluded.identify, until = excluded.until`
	// Afterwards the pause counts, whether the owner is still there or not.
	endIdentify = `update ravenbot.shard_buckets set owner = 0, until = clock_timestamp() + make_interval(secs => $4)
		where bot = $1 and bucket = $2 and owner = $3`
	uncountIdentify = `delete from ravenbot.shard_identifies where id =
		(select identify from ravenbot.shard_buckets where bot = $1 and bucket = $2 and owner = $3)`
)

// JoinShards has this process take part in the shards of a bot, and returns how many there are: want, where nobody else
// takes part or what the others use is fewer than least, else what the others use. Where the number changes nobody owns
// a shard any more.
func (m *Membership) JoinShards(ctx context.Context, bot string, want, least int) (count int, err error) {
	bot, owner := keyText(bot), m.db.owner()
	err = m.db.write(ctx, func(t *tx) error {
		var others int
		err := t.send(func(b *batch) {
			b.Queue(addPlan, bot, want)
			b.Queue(lockPlan, bot).QueryRow(func(row pgx.Row) error { return row.Scan(&count) })
			b.Queue(countOtherMembers, bot, owner).QueryRow(func(row pgx.Row) error { return row.Scan(&others) })
			b.Queue(deleteOldMembers, bot)
			b.Queue(addShardMember, bot, owner)
		})
		if err != nil || count == want || others > 0 && count >= least {
			return err
		}
		count = want
		return t.send(func(b *batch) {
			b.Queue(setPlan, bot, want)
			b.Queue(deleteShards, bot)
		})
	})
	if err != nil {
		return 0, fmt.Errorf("take part in the shards of a bot: %w", err)
	}
	return count, nil
}

// ShardTable returns who owns the shards of a bot, as of one statement. It locks nothing, so that a shard that is free
// may be claimed by another process a moment later.
func (m *Membership) ShardTable(ctx context.Context, bot string) (table store.ShardTable, err error) {
	owner := m.db.owner()
	err = m.db.read(ctx, func(ctx context.Context) error {
		table = store.ShardTable{}
		var raw []byte
		row := m.db.pool.QueryRow(ctx, readShardTable, keyText(bot))
		if err := row.Scan(&table.Count, &table.Replicas, &table.Identifies, &raw); err != nil {
			return err
		}
		owners := map[int]int64{}
		if err := json.Unmarshal(raw, &owners); err != nil {
			return err
		}
		for n := range table.Count {
			switch by, isOwned := owners[n]; {
			case !isOwned:
				table.Free = append(table.Free, n)
			case by == owner:
				table.Own = append(table.Own, n)
			}
		}
		return nil
	})
	if err != nil {
		return store.ShardTable{}, fmt.Errorf("read who owns the shards of a bot: %w", err)
	}
	return table, nil
}

// ClaimShard makes a shard this process's where nobody owns it and this process has fewer than its part. former is what
// the last owner has left of its session, once; nil: nothing. isOwn is false also where the shards are divided among
// another number than count.
func (m *Membership) ClaimShard(
	ctx context.Context,
	bot string,
	shard, count int,
) (former []byte, isOwn bool, err error) {
	bot, owner := keyText(bot), m.db.owner()
	err = m.db.write(ctx, func(t *tx) error {
		former, isOwn = nil, false
		var planned, others, own int
		var session string
		isFree := true
		err := t.send(func(b *batch) {
			b.Queue(lockPlan, bot).QueryRow(func(row pgx.Row) error { return row.Scan(&planned) })
			b.Queue(countOtherMembers, bot, owner).QueryRow(func(row pgx.Row) error { return row.Scan(&others) })
			b.Queue(countOwnShards, bot, owner).QueryRow(func(row pgx.Row) error { return row.Scan(&own) })
			b.Queue(readShard, bot, shard).Query(each([]any{&session, &isFree}, func() error { return nil }))
		})
		part := store.ShardTable{Count: planned, Replicas: others + 1}.Part()
		// Where the number of shards was changed meanwhile, this one is of the former division, and would bring events that
		// others get as well.
		if err != nil || planned != count || own >= part || !isFree {
			return orUnchanged(err)
		}
		if session != "" {
			former = []byte(session)
		}
		isOwn = true
		_, err = t.exec(claimShard, bot, shard, owner)
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("claim shard %d: %w", shard, err)
	}
	return former, isOwn, nil
}

// ReleaseShard returns a shard of this process to nobody, with what the next owner gets as former; nil: nothing. A
// shard that is not this process's stays as it is.
func (m *Membership) ReleaseShard(ctx context.Context, bot string, shard int, session []byte) error {
	var left *string
	if session != nil {
		s := string(session)
		left = &s
	}
	bot, owner := keyText(bot), m.db.owner()
	err := m.db.write(ctx, func(t *tx) error {
		return t.send(func(b *batch) {
			b.Queue(lockPlan, bot)
			b.Queue(releaseShard, bot, shard, owner, left)
		})
	})
	if err != nil {
		return fmt.Errorf("release shard %d: %w", shard, err)
	}
	return nil
}

// LeaveShards has this process take no part any more.
func (m *Membership) LeaveShards(ctx context.Context, bot string) error {
	bot, owner := keyText(bot), m.db.owner()
	err := m.db.write(ctx, func(t *tx) error {
		return t.send(func(b *batch) {
			b.Queue(lockPlan, bot)
			b.Queue(freeShards, bot, owner)
			b.Queue(deleteMembership, bot, owner)
		})
	})
	if err != nil {
		return fmt.Errorf("leave the shards of a bot: %w", err)
	}
	return nil
}

// BeginIdentify counts a session that this process is about to begin and returns 0, or returns when to ask again: the
// limit of a day is used up, or another process begins one in the bucket. What was counted has to be ended by
// EndIdentify; a process that cannot do so keeps the bucket for identifyTime.
func (m *Membership) BeginIdentify(
	ctx context.Context,
	bot string,
	bucket, maxPerDay int,
) (wait time.Duration, err error) {
	bot, owner := keyText(bot), m.db.owner()
	err = m.db.write(ctx, func(t *tx) error {
		var s, seconds float64
		longer := each([]any{&s}, func() error {
			seconds = max(seconds, s)
			return nil
		})
		err := t.send(func(b *batch) {
			b.Queue(lockPlan, bot)
			b.Queue(forgetIdentifies, bot)
			b.Queue(readDay, bot, max(maxPerDay-1, 0)).Query(longer)
			b.Queue(readBucket, bot, bucket, identifyPause.Seconds()).Query(longer)
		})
		if wait = time.Duration(seconds * float64(time.Second)); err != nil || wait > 0 {
			return orUnchanged(err)
		}
		_, err = t.exec(addIdentify, bot, bucket, owner, identifyTime.Seconds())
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("ask whether a session may be begun: %w", err)
	}
	return wait, nil
}

// EndIdentify ends what BeginIdentify began. hasBegun false takes the session out of the count of the day.
func (m *Membership) EndIdentify(ctx context.Context, bot string, bucket int, hasBegun bool) error {
	bot, owner := keyText(bot), m.db.owner()
	err := m.db.write(ctx, func(t *tx) error {
		return t.send(func(b *batch) {
			b.Queue(lockPlan, bot)
			var pause time.Duration
			if hasBegun {
				pause = identifyPause
			} else {
				// Before endIdentify, which takes the owner out of the row by which the counted session is found.
				b.Queue(uncountIdentify, bot, bucket, owner)
			}
			b.Queue(endIdentify, bot, bucket, owner, pause.Seconds())
		})
	})
	if err != nil {
		return fmt.Errorf("note the end of beginning a session: %w", err)
	}
	return nil
}
