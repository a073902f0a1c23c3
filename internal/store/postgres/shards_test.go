package postgres_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/testing/pgtest"
)

// bot is the name of a bot with shards.
const bot = "discord/1"

// joinShards has replicas take part in the shards of a bot.
func joinShards(t *testing.T, count int, replicas ...*replica) {
	t.Helper()
	for _, r := range replicas {
		if n, err := r.JoinShards(t.Context(), bot, count, 1); n != count || err != nil {
			t.Fatalf("%d shards (%v), want %d", n, err, count)
		}
	}
}

// table returns who owns the shards as one of the replicas sees it.
func (r *replica) table(t *testing.T) store.ShardTable {
	t.Helper()
	table, err := r.ShardTable(t.Context(), bot)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// claims has a replica claim a shard, and returns whether it owns it, with what was left of its session.
func (r *replica) claims(t *testing.T, shard, count int) (string, bool) {
	t.Helper()
	former, isOwn, err := r.ClaimShard(t.Context(), bot, shard, count)
	if err != nil {
		t.Fatal(err)
	}
	return string(former), isOwn
}

func TestShards_EachReplicaClaimsItsPartAlone(t *testing.T) {
	url := pgtest.Start(t)
	a, b, c := joinReplica(t, url), joinReplica(t, url), joinReplica(t, url)
	joinShards(t, 5, a, b, c)
	var wg sync.WaitGroup
	for _, r := range []*replica{a, b, c} {
		wg.Go(func() {
			for n := range 5 {
				if _, _, err := r.ClaimShard(t.Context(), bot, n, 5); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var owned []int
	for _, r := range []*replica{a, b, c} {
		table := r.table(t)
		if len(table.Own) > 2 || len(table.Free) > 0 || table.Replicas != 3 || table.Count != 5 {
			t.Errorf("%+v, want two of five at most, and none free", table)
		}
		owned = append(owned, table.Own...)
	}
	if slices.Sort(owned); !slices.Equal(owned, []int{0, 1, 2, 3, 4}) {
		t.Errorf("owned are %v", owned)
	}
	if _, isOwn := a.claims(t, a.table(t).Own[0], 6); isOwn {
		t.Error("claimed a shard of another number of shards")
	}
}

// What a replica leaves of a session is for the next owner alone.
func TestReleaseShard_SessionGoesToTheNextOwnerOnce(t *testing.T) {
	url := pgtest.Start(t)
	a, b := joinReplica(t, url), joinReplica(t, url)
	joinShards(t, 1, a, b)
	if left, isOwn := a.claims(t, 0, 1); !isOwn || left != "" {
		t.Fatalf("claimed: %v, %q", isOwn, left)
	}
	if _, isOwn := b.claims(t, 0, 1); isOwn {
		t.Error("a shard has two owners")
	}
	if err := b.ReleaseShard(t.Context(), bot, 0, nil); err != nil || len(a.table(t).Own) != 1 {
		t.Errorf("another replica released it: %v, %+v", err, a.table(t))
	}
	if err := a.ReleaseShard(t.Context(), bot, 0, []byte("session")); err != nil {
		t.Fatal(err)
	}
	if left, isOwn := b.claims(t, 0, 1); !isOwn || left != "session" {
		t.Errorf("claimed: %v, %q", isOwn, left)
	}
	if err := b.LeaveShards(t.Context(), bot); err != nil {
		t.Fatal(err)
	}
	if left, isOwn := a.claims(t, 0, 1); !isOwn || left != "" {
		t.Errorf("claimed after that: %v, %q", isOwn, left)
	}
	if table := a.table(t); table.Replicas != 1 {
		t.Errorf("%d replicas take part, want one", table.Replicas)
	}
	// Also where nobody is there in between.
	if err := a.ReleaseShard(t.Context(), bot, 0, []byte("last")); err != nil {
		t.Fatal(err)
	}
	if err := a.LeaveShards(t.Context(), bot); err != nil {
		t.Fatal(err)
	}
	joinShards(t, 1, b)
	if left, isOwn := b.claims(t, 0, 1); !isOwn || left != "last" {
		t.Errorf("claimed by who begins: %v, %q", isOwn, left)
	}
}

// What changes the shards of a bot waits for whoever is changing them.
func TestShards_RowOfTheBotIsLocked_ChangesWait(t *testing.T) {
	url := pgtest.Start(t)
	r, conn, watching := joinReplica(t, url), connect(t, url), connect(t, url)
	joinShards(t, 1, r)
	ctx := t.Context()
	for name, change := range map[string]func() error{
		"JoinShards":                       func() error { return errOf(r.JoinShards(ctx, bot, 1, 1)) },
		"ClaimShard":                       func() error { _, _, err := r.ClaimShard(ctx, bot, 0, 1); return err },
		"ReleaseShard":                     func() error { return r.ReleaseShard(ctx, bot, 0, nil) },
		"LeaveShards":                      func() error { return r.LeaveShards(ctx, bot) },
		"BeginIdentify":                    func() error { return errOf(r.BeginIdentify(ctx, bot, 0, 9)) },
		"EndIdentify":                      func() error { return r.EndIdentify(ctx, bot, 0, true) },
		"EndIdentify, which has not begun": func() error { return r.EndIdentify(ctx, bot, 0, false) },
	} {
		tx, err := conn.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(ctx, `select from ravenbot.shard_plans for update`); err != nil {
			t.Fatal(err)
		}
		changed := make(chan error, 1)
		go func() { changed <- change() }()
		waitFor(t, func() bool {
			var waits bool
			err := watching.QueryRow(ctx, `select exists (select from pg_stat_activity
				where datname = current_database() and wait_event_type = 'Lock')`).Scan(&waits)
			return err == nil && waits || len(changed) > 0
		})
		if len(changed) > 0 {
			t.Errorf("%s does not wait", name)
		}
		if err := errors.Join(tx.Rollback(ctx), <-changed); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A replica that is over owns its shards until another one has inherited, and can neither claim nor release any
// afterwards.
func TestShards_OfAReplicaThatIsOver_AreFreeWhenItIsInherited(t *testing.T) {
	url := pgtest.Start(t)
	a, b, conn := joinReplica(t, url), joinReplica(t, url), connect(t, url)
	joinShards(t, 2, a, b)
	if _, isOwn := a.claims(t, 0, 2); !isOwn {
		t.Fatal("not claimed")
	}
	if _, isOwn := b.claims(t, 0, 2); isOwn {
		t.Error("claimed a shard of a member")
	}
	pause(t, conn, a, b)
	if table := b.table(t); len(table.Free) != 2 || table.Replicas != 1 {
		t.Errorf("%+v, want both free, and one replica", table)
	}
	if _, isOwn := b.claims(t, 0, 2); !isOwn {
		t.Error("what the dead one owned is not free")
	}
	if _, _, err := a.ClaimShard(t.Context(), bot, 1, 2); err == nil {
		t.Error("a replica that is no member claimed a shard")
	}
	if err := a.ReleaseShard(t.Context(), bot, 0, nil); err == nil {
		t.Error("a replica that is no member released a shard")
	}
	if wait, err := a.BeginIdentify(t.Context(), bot, 0, 1000); err == nil {
		t.Errorf("a replica that is no member may begin a session in %v", wait)
	}
}

// While a claim of a dead owner is in its transaction, nobody inherits from it: it is owned or refused, never both.
func TestClaimShard_PausedBeforeItsCommit_IsWaitedFor(t *testing.T) {
	url := pgtest.Start(t)
	p, behind := newProxy(t, url)
	paused, heir, conn := joinBehind(t, behind, postgres.Options{}), joinReplica(t, url), connect(t, url)
	joinShards(t, 1, paused, heir)
	reached, release := holdCommit(p)
	claimed := make(chan bool, 1)
	go func() {
		_, isOwn, err := paused.ClaimShard(t.Context(), bot, 0, 1)
		claimed <- isOwn && err == nil
	}()
	<-reached
	const sql = "update ravenbot.replicas set expires_at = '-infinity' where id = $1"
	if _, err := conn.Exec(t.Context(), sql, paused.id); err != nil {
		t.Fatal(err)
	}
	inherited := make(chan kv.Taken, 1)
	go func() { inherited <- heir.take(t) }()
	owned := make(chan bool, 1)
	go func() { // waits for the row of the bot
		_, isOwn, err := heir.ClaimShard(t.Context(), bot, 0, 1)
		owned <- isOwn && err == nil
	}()
	release()
	if !<-claimed {
		t.Error("the claim that was committed was refused")
	}
	left := <-inherited
	isOwned := <-owned
	for len(left.From) == 0 { // it was renewed meanwhile
		left = pause(t, conn, paused, heir)
	}
	if _, isOwn := heir.claims(t, 0, 1); !isOwned && !isOwn {
		t.Error("the heir cannot claim what was left")
	}
}

func TestJoinShards_NumberIsThatOfWhoeverBegan(t *testing.T) {
	url := pgtest.Start(t)
	a, b := joinReplica(t, url), joinReplica(t, url)
	joinShards(t, 2, a)
	if _, isOwn := a.claims(t, 1, 2); !isOwn {
		t.Fatal("not claimed")
	}
	for _, c := range []struct {
		name              string
		r                 *replica
		want, least, make int
	}{
		{"others use less", b, 4, 1, 2},
		{"others use more", b, 1, 1, 2},
		{"others use less than the platform takes", b, 4, 3, 4},
		{"it is told the same again", a, 4, 3, 4},
	} {
		if n, err := c.r.JoinShards(t.Context(), bot, c.want, c.least); n != c.make || err != nil {
			t.Errorf("%s: %d shards (%v), want %d", c.name, n, err, c.make)
		}
	}
	if table := a.table(t); len(table.Own) != 0 || len(table.Free) != 4 {
		t.Errorf("%+v, want no owner of the new shards", table)
	}
	if err := b.LeaveShards(t.Context(), bot); err != nil {
		t.Fatal(err)
	}
	if n, err := a.JoinShards(t.Context(), bot, 1, 1); n != 1 || err != nil {
		t.Errorf("alone: %d shards (%v), want one", n, err)
	}
}

// Of one bucket one replica at a time begins a session, and the next one five seconds later.
func TestBeginIdentify_OneAtATimeInABucket(t *testing.T) {
	url := pgtest.Start(t)
	a, b, conn := joinReplica(t, url), joinReplica(t, url), connect(t, url)
	joinShards(t, 4, a, b)
	may := func(r *replica, bucket, maxPerDay int) time.Duration {
		t.Helper()
		wait, err := r.BeginIdentify(t.Context(), bot, bucket, maxPerDay)
		if err != nil {
			t.Fatal(err)
		}
		return wait
	}
	end := func(r *replica, bucket int, hasBegun bool) {
		t.Helper()
		if err := r.EndIdentify(t.Context(), bot, bucket, hasBegun); err != nil {
			t.Fatal(err)
		}
	}
	var waits [2]time.Duration
	var wg sync.WaitGroup
	for i, r := range []*replica{a, b} {
		wg.Go(func() { waits[i] = may(r, 0, 1000) })
	}
	wg.Wait()
	if (waits[0] == 0) == (waits[1] == 0) {
		t.Fatalf("two at once wait for %v", waits)
	}
	first, second := a, b
	if waits[1] == 0 {
		first, second = b, a
	}
	if wait := may(second, 1, 1000); wait != 0 {
		t.Errorf("another bucket waits for %v", wait)
	}
	end(second, 0, true) // not its own
	if wait := may(second, 0, 1000); wait != 5*time.Second {
		t.Errorf("the bucket of another one is asked for again in %v, want five seconds", wait)
	}
	end(first, 0, true)
	if wait := may(second, 0, 1000); wait <= 0 || wait > 5*time.Second {
		t.Errorf("the bucket is free in %v, want five seconds", wait)
	}
	end(second, 1, false)
	if wait := may(first, 1, 1000); wait != 0 {
		t.Errorf("a bucket in which nothing was begun is free in %v", wait)
	}
	if n := first.table(t).Identifies; n != 2 {
		t.Errorf("%d sessions were counted, want 2", n)
	}
	if wait := may(first, 2, 2); wait < 23*time.Hour {
		t.Errorf("more sessions than a day has: free in %v", wait)
	}
	if _, err := conn.Exec(t.Context(), "update ravenbot.shard_identifies set at = at - interval '1 day'"); err != nil {
		t.Fatal(err)
	}
	if wait := may(first, 2, 1); wait != 0 {
		t.Errorf("a day later: free in %v", wait)
	}
	if wait := may(first, 3, 1000); wait != 0 {
		t.Errorf("a bucket that was never used is free in %v", wait)
	}
	end(first, 3, true)
	pause(t, conn, first, second)
	if wait := may(second, 3, 1000); wait <= 0 {
		t.Error("the pause after a session of a replica that is over does not count")
	}
	if wait := may(second, 2, 1000); wait != 0 {
		t.Errorf("the bucket of a replica that is over is free in %v", wait)
	}
}

// shardOwners are the owners of shards, as they found out themselves.
type shardOwners struct {
	mu   sync.Mutex
	by   map[int]int64
	conn *pgx.Conn
}

// note notes a new owner, and returns whether another member thinks that it owns the shard, too.
func (o *shardOwners) note(ctx context.Context, shard int, id int64) (isTwice bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.by[shard]
	o.by[shard] = id
	const sql = "select exists (select from ravenbot.replicas where id = $1)"
	err = o.conn.QueryRow(ctx, sql, before).Scan(&isTwice)
	return isTwice && before != id, err
}

// forget notes that an owner is about to release a shard.
func (o *shardOwners) forget(shard int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.by, shard)
}

// Replicas claim, release and end at any moment: no shard ever has two owners, and none is left without one.
func TestShards_ReplicasEndAtAnyMoment_EachShardHasOneOwner(t *testing.T) {
	url := pgtest.Start(t)
	watcher := joinReplica(t, url)
	joinShards(t, 4, watcher)
	o := &shardOwners{by: map[int]int64{}, conn: connect(t, url)}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for ctx.Err() == nil {
				r, err := joinMember(t, url, postgres.Options{MaxConns: 2})
				if err != nil {
					t.Error(err)
					return
				}
				for range 5 {
					o.churn(t, r)
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for ended := 0; ended < 20; {
		left, err := watcher.Take(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		ended += len(left.From)
	}
	stop()
	wg.Wait()
	await(t, "all is inherited", func() bool { watcher.take(t); return watcher.table(t).Replicas == 1 })
	for n := range 4 {
		if _, isOwn := watcher.claims(t, n, 4); !isOwn {
			t.Errorf("shard %d cannot be claimed", n)
		}
	}
}

// churn has a replica claim all that it may, and release one shard.
func (o *shardOwners) churn(t *testing.T, r *replica) {
	ctx := context.WithoutCancel(t.Context())
	if _, err := r.JoinShards(ctx, bot, 4, 1); err != nil {
		t.Error(err)
	}
	own := r.table(t).Own
	for shard := range 4 {
		_, isOwn, err := r.ClaimShard(ctx, bot, shard, 4)
		if err != nil {
			t.Error(err)
		}
		if !isOwn {
			continue
		}
		own = append(own, shard)
		if isTwice, err := o.note(ctx, shard, r.id); isTwice || err != nil {
			t.Errorf("shard %d has two owners (%v)", shard, err)
		}
	}
	if len(own) > 0 {
		o.forget(own[0])
		if err := r.ReleaseShard(ctx, bot, own[0], nil); err != nil {
			t.Error(err)
		}
	}
}
