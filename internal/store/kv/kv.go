// Package kv defines the only transaction interface to stored records, and typed collections on top of it. Two engines
// implement it: bolt, a file, and postgres, a database that several processes share. Package kvtest is the test suite
// of an engine.
//
// The package that owns a kind of records declares its collection once (see Spec and Of). Engines create the bucket or
// table when they open the store. Copying a store, salvage, retention and change notifications are loops over the
// declared collections.
package kv

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"ravenbot/internal/store"
)

// DB is an open store. Its methods may be called concurrently.
type DB interface {
	// View runs fn in a read transaction. A file shows fn one state of the store; a database may show each read the
	// state at its own time. fn may run more than once, after a lost connection, and sets its results each time.
	View(ctx context.Context, fn func(Tx) error) error
	// Update runs fn in a write transaction, which is on disk when Update returns nil. With an error nothing was changed.
	// Changes of concurrent callers may share one commit, so fn may run more than once and sets its results each time. A
	// transaction that changes nothing costs no commit. ctx ends the wait for the transaction to begin; a transaction
	// that has begun is completed.
	Update(ctx context.Context, w Write, fn func(Tx) error) error
	// NoteDamage reports whether err is, or wraps, a *store.DamagedError, and keeps the damage for the store's health.
	NoteDamage(err error) bool
	// Now returns the time by the clock of the store.
	Now() time.Time
}

// Write says how a write transaction runs.
type Write struct {
	// Scopes name what the transaction reads before it writes, such as a channel. Of the transactions with a scope in
	// common, one runs at a time, in all processes. A transaction that depends on no record that it reads needs none.
	Scopes []string
	// Patience is how long the transaction may wait for a commit of somebody else that it can share.
	Patience time.Duration
	// Free makes records with an Owner that the transaction puts belong to nobody, until a process takes them. With
	// *Free false, they belong to nobody only if their collection has such records, which are older; *Free is true then.
	// nil makes new records belong to this process.
	Free *bool
}

// Ref names a record.
type Ref struct {
	Spec       *Spec
	Group, Key string
}

// Tx is a transaction. It is used by one goroutine, and not after fn has returned. Values that it returns must not be
// changed, nor be used after that. Writes fail in a read transaction. Keys are not empty and have up to MaxKey bytes.
//
// The records of a collection are in groups if its Spec says so; otherwise the group is "". A group exists while it has a
// record or a number above 0.
type Tx interface {
	// Get returns the value of a record, or nil if there is none. A value that is damaged is a *store.DamagedError.
	Get(s *Spec, group, key string) ([]byte, error)
	// Put stores a value, in the place of one with the same key. It keeps no reference to value.
	Put(s *Spec, group, key string, value []byte) error
	// Delete deletes a record; there may be none.
	Delete(s *Spec, group, key string) error
	// Scan calls visit with the records of a group in the order of their keys, compared by bytes, until visit returns an
	// error, which Scan returns unless it is ErrStop. visit must not write to the collection.
	Scan(s *Spec, r Range, visit func(Entry) error) error
	// Count returns the number of records of a group.
	Count(s *Spec, group string) (int, error)
	// Groups calls visit with the names of the groups in order: those from a name on that begin with a prefix. It ends as
	// Scan does.
	Groups(s *Spec, from, prefix string, visit func(group string) error) error
	// DeleteGroup deletes the records and the number of a group; there may be none.
	DeleteGroup(s *Spec, group string) error
	// Next adds 1 to the number of a group, or of a collection without groups, and returns it. Without groups, numbers
	// may be missing, and a transaction that commits later may have the lower number.
	Next(s *Spec, group string) (uint64, error)
	// Raise sets the number of a group to n if it is below.
	Raise(s *Spec, group string, n uint64) error
	// Number returns the number of a group; 0 if it has none.
	Number(s *Spec, group string) (uint64, error)
	// Prefetch says which records Get will read, and for which groups Next will be called once, by Refs without a key. An
	// engine far away fetches them together, the collections in the order in which they are first named: what was moved
	// from one collection to a later one meanwhile is in one of them at least.
	Prefetch(refs ...Ref) error
	// Damaged returns err as a *store.DamagedError that names a record.
	Damaged(s *Spec, group, key string, err error) error
}

// ErrStop ends a Scan or Groups without an error.
var ErrStop = errors.New("stop")

// MaxKey bounds the bytes of a key and of the name of a group. An index of PostgreSQL takes 2,704 bytes an entry.
const MaxKey = 1200

// Range selects records of a group.
type Range struct {
	Group    string
	From, To string // keys: the first one that may be selected, and the first behind that may not; "" is no bound
	Reverse  bool   // the last keys come first
	Limit    int    // 0 is no limit
	KeysOnly bool   // Entry has no Value
	Mine     bool   // only records that belong to this process, of a collection with an Owner
	// Before selects the records whose time, by Spec.At, is before it; the zero time selects all.
	Before time.Time
}

// Entry is a record that Scan found.
type Entry struct {
	Key   string
	Value []byte
	Sum   uint64 // changes with the value
	Err   error  // a *store.DamagedError if the record cannot be read; Value and Sum are not set then
}

// Spec describes a collection to the engines.
type Spec struct {
	Name    string // of the bucket or table: lower-case letters, digits and _
	Grouped bool   // its records are in groups
	// At returns the time of a record by which it grows old, for collections with many records that are deleted by age.
	At func(value []byte) (time.Time, error)
	// Owner returns what a process must have claimed to act on a record, for records that one process at a time acts on.
	// A record belongs to the process that put it first, unless Write.Free says otherwise, or to the process that has
	// taken it. The records of a process that has ended belong to nobody. An empty claim stands for a record on which
	// nobody acts any more.
	Owner func(value []byte) (claim string, err error)
	// Watch returns the name under which a change of a record is announced to other processes; "" announces none. key is ""
	// if the whole group was deleted.
	Watch func(group, key string, deleted bool) string
}

// After returns the least key that comes after key.
func After(key string) string { return key + "\x00" }

// AfterPrefix returns the least key that comes after all keys with a prefix; "" if there is none.
func AfterPrefix(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return ""
}

// Prefix returns the range of the keys with a prefix.
func Prefix(group, prefix string) Range {
	return Range{Group: group, From: prefix, To: AfterPrefix(prefix)}
}

// Taken is the work that belongs to this process from now on.
type Taken struct {
	From   []store.Replica        // whose memberships were ended
	Values map[*Spec][]TakenValue // of the records with an Owner
	Keys   []string               // claims that were free and are this process's now
}

// TakenValue is the value of a record that was taken.
type TakenValue struct {
	Value   []byte
	IsFresh bool // it was put with Write.Free, and belonged to no process before
}

// Engine is an open DB with what its operation needs.
type Engine interface {
	DB
	store.Operations
	// Size, Commits and Close are those of store.Store.
	Size() (bytes, free int64, err error)
	Commits() uint64
	Close() error
}

// SharedEngine is an Engine that several processes use at once.
type SharedEngine interface {
	Engine
	// Changes returns a number for each name that Spec.Watch of other processes has returned: another one after each
	// change. They may change without one. It is quick.
	Changes(ctx context.Context) (map[string]int64, error)
	// Changed returns what brings a value soon after Changes would differ. It may bring one without a reason, and may miss
	// one.
	Changed() <-chan struct{}
}

// Membership is store.Membership with records that are not decoded.
type Membership interface {
	Join(ctx context.Context, address string) (store.Replica, error)
	Lost() <-chan struct{}
	// HasFree reports whether there may be something to take. It is cheap.
	HasFree(ctx context.Context) (bool, error)
	// Take ends the memberships whose time is over, and takes the records of nobody for which may returns true and whose
	// claims are free or this process's.
	Take(ctx context.Context, may func(s *Spec, value []byte) bool) (Taken, error)
	Claim(ctx context.Context, key string) (store.Replica, error)
	Release(ctx context.Context, keys ...string) error
	Replicas(ctx context.Context) ([]store.Replica, error)
	Tell(ctx context.Context, topic string, mine json.RawMessage) (others map[int64]json.RawMessage, err error)
	Waiting() <-chan struct{}
	Leave(ctx context.Context) error
	store.Shards
}
