package store

import (
	"context"
	"time"
)

// Shards divides the sessions for one bot's events (shards) among the replicas that share a store. A shard has at most
// one owner, which is a member of the store. The end of a membership frees its shards. All replicas use the same name
// for a bot.
type Shards interface {
	// JoinShards adds this replica to the shards of a bot, and returns their number: the present number of the
	// participants if it is at least least, otherwise want. A change of the number frees all shards.
	JoinShards(ctx context.Context, bot string, want, least int) (count int, err error)
	// ShardTable returns the owners of the shards of a bot.
	ShardTable(ctx context.Context, bot string) (ShardTable, error)
	// ClaimShard claims a shard for this replica, if the shard is free, count matches and this replica has less than
	// its part. former is the session of the last owner, or nil.
	ClaimShard(ctx context.Context, bot string, shard, count int) (former []byte, isOwn bool, err error)
	// ReleaseShard releases a shard of this replica. session is the state for the next owner, or nil.
	ReleaseShard(ctx context.Context, bot string, shard int, session []byte) error
	// LeaveShards ends the participation of this replica and frees its shards.
	LeaveShards(ctx context.Context, bot string) error
	// BeginIdentify returns 0 if this replica may begin a session now, in a bucket in which one session at a time may
	// begin. The session is then counted, and the caller must call EndIdentify. Otherwise it returns the wait before
	// the next attempt. In 24 hours the replicas together begin at most maxPerDay sessions.
	BeginIdentify(ctx context.Context, bot string, bucket, maxPerDay int) (wait time.Duration, err error)
	// EndIdentify ends BeginIdentify. If hasBegun is false, no session has begun, and it does not count.
	EndIdentify(ctx context.Context, bot string, bucket int, hasBegun bool) error
}

// ShardTable holds the owners of the shards of a bot.
type ShardTable struct {
	Count      int   // of shards
	Replicas   int   // that participate
	Own, Free  []int // free shards and shards of this replica, in order
	Identifies int   // sessions of all replicas in 24 hours
}

// Part returns how many shards a replica may claim.
func (t ShardTable) Part() int { return (t.Count + t.Replicas - 1) / max(t.Replicas, 1) }
