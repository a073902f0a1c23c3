package store

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"time"

	"ravenbot/internal/core/chat"
)

// Engine is an open Store with what its operation needs.
type Engine interface {
	Store
	Operations
}

// Operations are the methods of an engine that are not about records.
type Operations interface {
	// Run maintains the store and watches over it until ctx ends.
	Run(ctx context.Context, log *slog.Logger)
	// Owned returns nil while this process is the one that may act on the records, else why it may
	// not: another process may have taken over. It asks nobody, so that whoever sends something out
	// can call it right before.
	Owned() error
	// IsShared reports whether another process can take over, so that Owned can return an error.
	IsShared() bool
	// Health returns what keeps the store from working, or nil.
	Health() error
	// Problem returns Health in a few words that name no path or address; "" where nothing is wrong.
	Problem() string
	// Clock returns what is wrong with the clock of this machine, in a few words; "" where nothing is, and where there is
	// no other one to compare it with.
	Clock() string
	// Damage returns what the checks of the running store have found.
	Damage() []string
	// Checked returns when the whole store was last found to be good; zero where it is not ours to check.
	Checked() time.Time
}

// Backups makes verified copies of a store at intervals and keeps the newest ones.
type Backups interface {
	// Run makes backups until ctx ends.
	Run(ctx context.Context)
	// Copy returns an open copy of the store, which is deleted when the caller closes it.
	Copy(ctx context.Context) (*os.File, error)
	// Make makes a backup that is kept.
	Make(ctx context.Context) error
	// List returns the backups that are kept, newest first.
	List() []BackupStatus
	// Status returns the state of the newest backup, whoever made it.
	Status() BackupStatus
}

// BackupStatus describes the newest backup and the last failure since.
type BackupStatus struct {
	Folder string    `json:"folder"`
	File   string    `json:"file,omitempty"` // in the folder
	Time   time.Time `json:"time,omitzero"`
	Bytes  int64     `json:"bytes,omitempty"`
	Error  string    `json:"error,omitempty"` // of the last try, where it failed
	Failed time.Time `json:"failed,omitzero"`
}

// Membership is the part of one process in a store that several share. The clock of the database alone
// decides when it is over. Every write of a member is refused from the moment at which another one has
// taken over.
type Membership interface {
	// Join adds this process, and keeps it a member until Leave, or until Lost is closed. address is where
	// it serves HTTP to the others. A process joins once; a Join that failed may be tried again. It returns
	// an *InUseError while a process uses the store alone.
	Join(ctx context.Context, address string) (Replica, error)
	// Lost is closed when another process has ended this one's membership, and if it cannot be found out whether Take has
	// taken place. Then the process must start again.
	Lost() <-chan struct{}
	// HasFree reports whether there may be something to take. It is cheap.
	HasFree(ctx context.Context) (bool, error)
	// Take ends the memberships whose time is over. It takes messages and posts that were stored for any process, and those
	// of members that have ended, if may returns true for their place and their channel is free or this process's. It claims
	// a free channel. since is when the message or post was stored. The caller has to work on the result, or to read it
	// by Unanswered, PendingPosts and Unnotified.
	Take(ctx context.Context, may func(to chat.Address, since time.Time) bool) (Taken, error)
	// Claim returns the replica that owns a key, and makes it this one if nobody does. If the time of the owner is over, it
	// stays the owner until Take ends its membership. Nothing else takes a key from its owner.
	Claim(ctx context.Context, key string) (Replica, error)
	// Release returns keys of this process to nobody. Those of others are skipped.
	Release(ctx context.Context, keys ...string) error
	// Replicas returns the members whose time is not over, in the order in which they joined.
	Replicas(ctx context.Context) ([]Replica, error)
	// Tell replaces what this process tells the others under a topic, as JSON, and returns what each of them tells under
	// it, by their IDs. What a process tells is forgotten with its membership.
	Tell(ctx context.Context, topic string, mine json.RawMessage) (others map[int64]json.RawMessage, err error)
	// AcceptFor is Inbox.Accept of a process that has claimed the channel of the message (isOwn), or has not. isMine is
	// false if the message waits to be taken: by another process, or by this one after older messages.
	AcceptFor(ctx context.Context, r Received, isOwn bool) (isNew, isMine bool, err error)
	// IsHeard reports whether a message of a conversation was accepted since a time.
	IsHeard(ctx context.Context, conversation chat.Address, since time.Time) (bool, error)
	// FreePost makes a post of this process wait to be taken.
	FreePost(ctx context.Context, p Post) error
	// Waiting brings a value soon after there is something to take. It may bring one without a reason, and may miss one.
	Waiting() <-chan struct{}
	// Leave lets the others take at once what this process leaves. Nothing is written afterwards.
	Leave(ctx context.Context) error
	Shards
}

// Replica is a process that shares a store.
type Replica struct {
	ID      int64  // counts the processes that have joined
	Name    string // of its machine, and its process id
	Address string // where it serves HTTP: host:port
}

// LeaderKey is the key of the process that does what only one process may do. A process that ends the membership of the
// leader becomes the leader, since only the leader may be able to continue the work that it takes.
const LeaderKey = "leader"

// ClaimKey returns the key by which a replica owns the conversations of a channel.
func ClaimKey(a chat.Address) string { return a.Base().String() }

// Taken is work that a process has taken, in the order in which it was stored.
type Taken struct {
	From     []Replica  // whose memberships were ended
	Messages []Received // without an outcome
	// Posts have no outcome, or were given up and their places were not told.
	Posts []Post
	Keys  []string // that were free and are this process's now
}
