package store

import "context"

// Names of what a store that several processes write to counts changes of, beside the kinds of items. Kinds of items
// that hold a slash count under what stands before it.
const (
	SettingChanges  = "settings"
	ApprovalChanges = "approvals"
	FeedbackChanges = "feedback"
	// ConversationChanges counts deletions of conversations and turns.
	ConversationChanges = "conversations"
	// BlobChanges stands before the first part of a blob's key.
	BlobChanges = "blob "
)

// Shared is a part of the bot that keeps in memory what is stored, where other processes may change it.
type Shared interface {
	// SharedKinds returns the kinds of records that it keeps. A part without kinds reloads twice a second.
	SharedKinds() []string
	// Reload reads what other processes have changed in the store. It may be called at any time, and keeps what this
	// process changes meanwhile.
	Reload(ctx context.Context) error
}
