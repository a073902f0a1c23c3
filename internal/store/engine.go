package store

import (
	"context"
	"log/slog"
	"os"
	"time"
)

// Engine is an open Store with what its operation needs.
type Engine interface {
	Store

	// Run maintains the store and watches over it until ctx ends.
	Run(ctx context.Context, log *slog.Logger)
	// Owned returns nil while this process is the one that may act on the records, else why it may
	// not: another process may have taken over. Whoever sends something out asks right before.
	Owned() error
	// Health returns what keeps the store from working, or nil.
	Health() error
	// Problem returns Health in a few words that name no path or address; "" where nothing is wrong.
	Problem() string
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

// Lease is the right of one process among several to act on a store that they share. The clock of
// the database alone decides when it is over.
type Lease interface {
	// Acquire takes the lease where nobody holds it, and keeps it until Release, or until Lost is
	// closed. It returns who holds it otherwise. address is where this process serves HTTP to the others.
	Acquire(ctx context.Context, address string) (bool, Holder, error)
	// Lost is closed when another process has taken the lease, after Acquire has returned true.
	Lost() <-chan struct{}
	// Release lets another process take the lease at once.
	Release(ctx context.Context) error
}

// Holder is the process that holds a lease.
type Holder struct {
	Name    string // of its machine, and its process id
	Address string // where it serves HTTP: host:port
	Epoch   int64  // counts the holders
}
