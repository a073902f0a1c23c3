package store

import (
	"context"
	"time"
)

// Shards divides the sessions by which events of one bot come (shards) among the replicas that share a store. A shard
// has one owner at most, and only a member of the store owns any: what a replica owned is free when its membership was
// ended. A bot is a name that is the same for all of them.
type Shards interface {
	// JoinShards has this replica take part in the shards of a bot, and returns how many there are: the number that the
	// others which take part use, unless that is less than least; else want. Where the number changes no shard has an
	// owner any more.
	JoinShards(ctx context.Context, bot string, want, least int) (count int, err error)
	// ShardTable returns who owns the shards of a bot.
	ShardTable(ctx context.Context, bot string) (ShardTable, error)
	// ClaimShard makes a shard this replica's, where nobody owns it, there are count of them, and this replica has less
	// than its part. former is what its last owner has left of its session; nil: nothing.
	ClaimShard(ctx context.Context, bot string, shard, count int) (former []byte, isOwn bool, err error)
	// ReleaseShard returns a shard of this replica to nobody. session is what its next owner may go on with; nil: nothing.
	ReleaseShard(ctx context.Context, bot string, shard int, session []byte) error
	// LeaveShards has this replica take no part any more. Its shards are free.
	LeaveShards(ctx context.Context, bot string) error
	// BeginIdentify returns 0 where this replica may begin a session now, of a shard in a bucket of which one at a time
	// begins a session: then it is counted, and EndIdentify must be called. Else it returns when to ask again. In 24
	// hours the replicas together begin maxPerDay.
	BeginIdentify(ctx context.Context, bot string, bucket, maxPerDay int) (wait time.Duration, err error)
	// EndIdentify ends what BeginIdentify began. hasBegun is false where no session was begun: then it does not count.
	EndIdentify(ctx context.Context, bot string, bucket int, hasBegun bool) error
}

// ShardTable is who owns the shards of a bot.
type ShardTable struct {
	Count      int   // of shards
	Replicas   int   // that take part
	Own, Free  []int // shards of this replica and of nobody, in order
	Identifies int   // sessions that all began in 24 hours
}

// Part returns how many shards a replica may claim.
func (t ShardTable) Part() int { return (t.Count + t.Replicas - 1) / max(t.Replicas, 1) }
