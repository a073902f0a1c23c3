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
	// View runs fn in a read transaction. A file shows fn one state of the store. A database may show each read the
	// state at its own time. fn may run more than once, after a lost connection, and must set its results each time.
	View(ctx context.Context, fn func(Tx) error) error
	// Update runs fn in a write transaction, which is on disk when Update returns nil. After an error nothing is
	// changed. Changes of concurrent callers may share one commit, so fn may run more than once and must set its
	// results each time. A transaction without changes costs no commit. ctx limits the wait for the beginning of the
	// transaction, not the transaction itself.
	Update(ctx context.Context, w Write, fn func(Tx) error) error
	// NoteDamage reports whether err wraps a *store.DamagedError, and keeps the damage for the store's health.
	NoteDamage(err error) bool
	// Now returns the time by the clock of the store.
	Now() time.Time
}

// Write holds the options of a write transaction.
type Write struct {
	// Scopes name the data that the transaction reads before it writes, such as a channel. Transactions with a common
	// scope run one at a time, in all processes. A transaction that does not depend on its reads needs no scope.
	Scopes []string
	// Patience is how long the transaction may wait for another commit that it can share.
	Patience time.Duration
	// Free makes the transaction's records with an Owner belong to nobody, until a process takes them. If *Free is
	// false, they belong to nobody only if their collection has older free records, and *Free becomes true. Nil makes
	// new records belong to this process.
	Free *bool
}

// Ref names a record.
type Ref struct {
	Spec       *Spec
	Group, Key string
}

// Tx is a transaction. Only one goroutine may use it, and only until fn returns. Returned values must not be changed,
// or used after that. Writes fail in a read transaction. Keys are not empty and have up to MaxKey bytes.
//
// The records of a collection are in groups if its Spec says so. Otherwise the group is "". A group exists while it
// has a record or a number above 0.
type Tx interface {
	// Get returns the value of a record, or nil. A damaged value is a *store.DamagedError.
	Get(s *Spec, group, key string) ([]byte, error)
	// Put stores a value, and replaces a value with the same key. It keeps no reference to value.
	Put(s *Spec, group, key string, value []byte) error
	// Delete deletes a record, which may be missing.
	Delete(s *Spec, group, key string) error
	// Scan calls visit with the records of a group in the byte order of their keys, until visit returns an error. Scan
	// returns that error unless it is ErrStop. visit must not write to the collection.
	Scan(s *Spec, r Range, visit func(Entry) error) error
	// Count returns the number of records of a group.
	Count(s *Spec, group string) (int, error)
	// Groups calls visit with the names of the groups with a prefix in order, starting at a name. It ends as Scan
	// does.
	Groups(s *Spec, from, prefix string, visit func(group string) error) error
	// DeleteGroup deletes the records and the number of a group, which may be missing.
	DeleteGroup(s *Spec, group string) error
	// Next adds 1 to the number of a group, or of a collection without groups, and returns it. Without groups, numbers
	// may be missing, and a transaction that commits later may have the lower number.
	Next(s *Spec, group string) (uint64, error)
	// Raise sets the number of a group to n if it is below.
	Raise(s *Spec, group string, n uint64) error
	// Number returns the number of a group, or 0.
	Number(s *Spec, group string) (uint64, error)
	// Prefetch names the records that Get will read, and the groups for which Next will be called once, by Refs
	// without a key. A remote engine fetches them together, in the order in which the collections are first named, so
	// that a record moved concurrently to a later collection is found in at least one.
	Prefetch(refs ...Ref) error
	// Damaged returns err as a *store.DamagedError that names a record.
	Damaged(s *Spec, group, key string, err error) error
}

// ErrStop ends a Scan or Groups without an error.
var ErrStop = errors.New("stop")

// MaxKey limits the bytes of a key and of the name of a group. An index of PostgreSQL takes 2,704 bytes an entry.
const MaxKey = 1200

// Range selects records of a group.
type Range struct {
	Group    string
	From, To string // keys: the first one, and the first one after the range; "" is no bound
	Reverse  bool   // descending order
	Limit    int    // 0 is no limit
	KeysOnly bool   // Entry has no Value
	Mine     bool   // only records that belong to this process, of a collection with an Owner
	// Before selects the records whose time, by Spec.At, is before it. The zero time selects all.
	Before time.Time
}

// Entry is a record of a Scan.
type Entry struct {
	Key   string
	Value []byte
	Sum   uint64 // changes with the value
	Err   error  // a *store.DamagedError for an unreadable record, without Value and Sum
}

// Spec describes a collection to the engines.
type Spec struct {
	Name    string // of the bucket or table: lower-case letters, digits and _
	Grouped bool   // its records are in groups
	// At returns the time from which a record ages, for collections with many records that are deleted by age.
	At func(value []byte) (time.Time, error)
	// Owner returns the claim that a process needs to act on a record, for records that only one process at a time may
	// act on. A record belongs to the process that put it first, unless Write.Free says otherwise, or to the process
	// that has taken it. The records of an ended process belong to nobody. An empty claim means that nobody acts on
	// the record any more.
	Owner func(value []byte) (claim string, err error)
	// Watch returns the name under which other processes are notified of a change of a record. "" notifies nobody. key
	// is "" if the whole group was deleted.
	Watch func(group, key string, deleted bool) string
}

// After returns the smallest key after key.
func After(key string) string { return key + "\x00" }

// AfterPrefix returns the smallest key after all keys with a prefix, or "".
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

// Taken is the work that now belongs to this process.
type Taken struct {
	From   []store.Replica        // whose memberships were ended
	Values map[*Spec][]TakenValue // of the records with an Owner
	Keys   []string               // claims that were free and now belong to this process
}

// TakenValue is the value of a taken record.
type TakenValue struct {
	Value   []byte
	IsFresh bool // it was put with Write.Free, and belonged to no process before
}

// Engine is an open DB with its operations.
type Engine interface {
	DB
	store.Operations
	// Size, Commits and Close are as in store.Store.
	Size() (bytes, free int64, err error)
	Commits() uint64
	Close() error
}

// SharedEngine is an Engine that several processes use at once.
type SharedEngine interface {
	Engine
	// Changes returns a counter for each name that Spec.Watch of other processes has returned. A counter differs after
	// each change, and may differ without one. It is fast.
	Changes(ctx context.Context) (map[string]int64, error)
	// Changed returns a channel that receives a value soon after Changes would differ. It may receive one without a
	// reason, and may miss one.
	Changed() <-chan struct{}
}

// Membership is store.Membership with raw records.
type Membership interface {
	Join(ctx context.Context, address string) (store.Replica, error)
	Lost() <-chan struct{}
	// HasFree reports whether there may be work to take. It is cheap.
	HasFree(ctx context.Context) (bool, error)
	// Take ends expired memberships. It takes free records for which may returns true and whose claims are free or
	// belong to this process.
	Take(ctx context.Context, may func(s *Spec, value []byte) bool) (Taken, error)
	Claim(ctx context.Context, key string) (store.Replica, error)
	Release(ctx context.Context, keys ...string) error
	Replicas(ctx context.Context) ([]store.Replica, error)
	Tell(ctx context.Context, topic string, mine json.RawMessage) (others map[int64]json.RawMessage, err error)
	Waiting() <-chan struct{}
	Leave(ctx context.Context) error
	store.Shards
}
