package store

import "context"

// Record is a record in the form in which it moves from one engine to another.
type Record struct {
	Kind string
	// Group is what the record belongs to, where its kind has groups: a conversation, a digest, a room, the
	// scope of notes, the kind of an item.
	Group string
	// Key is the key in its group, in a form that sorts by bytes.
	Key string
	// Body is the record as JSON. A record without one stands for its group, which may have no other, and
	// whose numbers count on from Seq.
	Body []byte
	Seq  uint64
}

// Source is a store of which every record can be read.
type Source interface {
	// Records calls fn with every record, those of a kind together.
	Records(ctx context.Context, fn func(Record) error) error
	// Close ends the use of the store.
	Close() error
}

// Target is a store that is filled with the records of another one. Before Complete has returned nil no
// daemon opens it, and it can be filled from the start again.
type Target interface {
	Source
	// AddRecords stores records that are not there yet. It is one transaction. A kind that it does
	// not know is an error.
	AddRecords(ctx context.Context, list []Record) error
	// Complete marks the store as filled, as the last step.
	Complete(ctx context.Context) error
}
