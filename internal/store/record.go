package store

import "context"

// Record is a record in the form for moving it between engines.
type Record struct {
	Kind string
	// Group is the owner of the record, if its kind has groups: a conversation, a digest, a room, the scope of notes,
	// the kind of an item.
	Group string
	// Key is the key in its group, in a form that sorts by bytes.
	Key string
	// Body is the record as JSON. A record without a body represents its group, which may have no other records, and
	// whose numbers continue after Seq.
	Body []byte
	Seq  uint64
}

// Source is a store of which every record can be read.
type Source interface {
	// Records calls fn with every record, those of a kind together.
	Records(ctx context.Context, fn func(Record) error) error
	// Close closes the source.
	Close() error
}

// Target is a store that receives the records of another one. Until Complete has returned nil, no daemon opens it, and
// filling can start again.
type Target interface {
	Source
	// AddRecords stores records that are missing, in one transaction. An unknown kind is an error.
	AddRecords(ctx context.Context, list []Record) error
	// Complete marks the store as complete, as the last step.
	Complete(ctx context.Context) error
}
