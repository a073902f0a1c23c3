package store

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
