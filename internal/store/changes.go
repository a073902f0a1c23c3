package store

import "context"

// Names of the change counters of a shared store, in addition to the kinds of items. Kinds of items with a slash count
// under the part before it.
const (
	SettingChanges  = "settings"
	ApprovalChanges = "approvals"
	FeedbackChanges = "feedback"
	// ConversationChanges counts deletions of conversations and turns.
	ConversationChanges = "conversations"
	// BlobChanges is a prefix of the first part of a blob's key.
	BlobChanges = "blob "
)

// Shared is a part of the bot that caches records which other processes may change.
type Shared interface {
	// SharedKinds returns the kinds of records that it caches. A part without kinds reloads twice a second.
	SharedKinds() []string
	// Reload reads the changes of other processes. It may be called at any time, and keeps concurrent changes of this
	// process.
	Reload(ctx context.Context) error
}
