package store

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"time"

	"ravenbot/internal/core/chat"
)

// Engine is an open Store with its operations.
type Engine interface {
	Store
	Operations
}

// Operations are the methods of an engine that do not access records.
type Operations interface {
	// Run maintains and monitors the store until ctx ends.
	Run(ctx context.Context, log *slog.Logger)
	// Owned returns an error if another process may have taken over the records. It asks no server, so that callers
	// can call it right before they send a post.
	Owned() error
	// IsShared reports whether another process can take over, so that Owned can return an error.
	IsShared() bool
	// Health returns the fault of the store, or nil.
	Health() error
	// Problem returns Health in a few words without paths and addresses, or "".
	Problem() string
	// Clock returns the fault of this machine's clock in a few words. It returns "" if there is none, or no other
	// clock to compare with.
	Clock() string
	// Damage returns the results of the checks of the running store.
	Damage() []string
	// Checked returns the time of the last check that found the whole store intact. It is zero if the store is not
	// checked here.
	Checked() time.Time
}

// Backups makes verified copies of a store at intervals and keeps the newest ones.
type Backups interface {
	// Run makes backups until ctx ends.
	Run(ctx context.Context)
	// Copy returns an open copy of the store, which is deleted when the caller closes it.
	Copy(ctx context.Context) (*os.File, error)
	// Make makes a backup and keeps it.
	Make(ctx context.Context) error
	// List returns the backups, newest first.
	List() []BackupStatus
	// Status returns the state of the newest backup of any process.
	Status() BackupStatus
}

// BackupStatus describes the newest backup and the last failure since.
type BackupStatus struct {
	Folder string    `json:"folder"`
	File   string    `json:"file,omitempty"` // in the folder
	Time   time.Time `json:"time,omitzero"`
	Bytes  int64     `json:"bytes,omitempty"`
	Error  string    `json:"error,omitempty"` // of the last attempt, if it failed
	Failed time.Time `json:"failed,omitzero"`
}

// Membership is the part of one process in a shared store. Only the database's clock decides when it ends. Every write
// of a member is refused once another process has taken over.
type Membership interface {
	// Join adds this process, and keeps it a member until Leave, or until Lost is closed. address is its HTTP address
	// for the other processes. A process joins once, and can retry a failed Join. Join returns an *InUseError while a
	// process uses the store exclusively.
	Join(ctx context.Context, address string) (Replica, error)
	// Lost is closed when another process has ended this membership, and if the outcome of Take is unknown. The
	// process must then start again.
	Lost() <-chan struct{}
	// HasFree reports whether there may be work to take. It is cheap.
	HasFree(ctx context.Context) (bool, error)
	// Take ends expired memberships. It takes messages and posts that were stored for any process or belong to ended
	// members, if may returns true for their place, and their channel is free or this process's. It claims free
	// channels. since is the time at which the message or post was stored. The caller must work on the result, or read
	// it with Unanswered, PendingPosts and Unnotified.
	Take(ctx context.Context, may func(to chat.Address, since time.Time) bool) (Taken, error)
	// Claim returns the replica that owns a key, and claims the key for this replica if nobody owns it. An expired
	// owner keeps the key until Take ends its membership. Nothing else takes a key from its owner.
	Claim(ctx context.Context, key string) (Replica, error)
	// Release releases keys of this process. Keys of other processes are skipped.
	Release(ctx context.Context, keys ...string) error
	// Replicas returns the members that have not expired, in the order in which they joined.
	Replicas(ctx context.Context) ([]Replica, error)
	// Tell replaces this process's published value for a topic, as JSON, and returns all processes' values by their
	// IDs. A value is deleted with its membership.
	Tell(ctx context.Context, topic string, mine json.RawMessage) (others map[int64]json.RawMessage, err error)
	// AcceptFor is Inbox.Accept for a process that has claimed the channel of the message (isOwn) or has not. isMine
	// is false if the message must be taken first, by another process or by this one after older messages.
	AcceptFor(ctx context.Context, r Received, isOwn bool) (isNew, isMine bool, err error)
	// IsHeard reports whether a message of a conversation was accepted after a time.
	IsHeard(ctx context.Context, conversation chat.Address, since time.Time) (bool, error)
	// FreePost makes a post of this process available for taking.
	FreePost(ctx context.Context, p Post) error
	// Waiting sends a value soon after there is work to take. It may send one without a reason, and may miss one.
	Waiting() <-chan struct{}
	// Leave lets the others take the work of this process immediately. Nothing is written afterwards.
	Leave(ctx context.Context) error
	Shards
}

// Replica is a process that shares a store.
type Replica struct {
	ID      int64  // counts the processes that have joined
	Name    string // of its machine, and its process id
	Address string // its HTTP address, host:port
}

// LeaderKey is the key of the process that does the work that must happen once. A process that ends the membership of
// the leader becomes the leader, since only the leader may be able to continue the taken work.
const LeaderKey = "leader"

// ClaimKey returns the key for owning the conversations of a channel.
func ClaimKey(a chat.Address) string { return a.Base().String() }

// Taken is the work that a process has taken, in storage order.
type Taken struct {
	From     []Replica  // whose memberships were ended
	Messages []Received // without an outcome
	// Posts have no outcome, or failed without a notice to their places.
	Posts []Post
	Keys  []string // that were free and now belong to this process
}
