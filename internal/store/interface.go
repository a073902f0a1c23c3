package store

import (
	"context"
	"encoding/json"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
)

// Store holds all stored data of the bot. Package storetest is its test suite. All methods may be called concurrently.
// A write is one transaction: a nil error means that all of it is on disk, and an error that nothing is. Packages that
// need storage declare the few methods that they call; only construction names the whole interface. Errors are wrapped
// with the attempted action. A fault of the store itself is a *DamagedError or a *SystemError.
type Store interface {
	Inbox
	Outbox
	Conversations
	Messages
	ToolCalls
	Digests
	Rooms
	Notes

	// CountUsage adds the usage of a model to the sums of the day, channel, user and model.
	CountUsage(ctx context.Context, u Usage) error
	// Usage returns up to n sums since a day, written as 2006-01-02, after a cursor, and the next cursor. The cursor
	// is empty for the first page and after the last.
	Usage(ctx context.Context, from, cursor string, n int) ([]Usage, string, error)

	// Settings returns every layer of settings, as JSON, by its scope.
	Settings(ctx context.Context) (map[string][]byte, error)
	// SwapSetting replaces a layer. Nil means no layer. It returns false and changes nothing if the present layer is
	// not the expected one.
	SwapSetting(ctx context.Context, scope string, was, now []byte) (bool, error)

	Blobs
	Items

	// Prune deletes expired records, in small transactions between which others can write. It returns the
	// conversations that lost turns or their summary.
	Prune(ctx context.Context, keep Retention) ([]chat.Address, error)

	// Size returns the bytes of the store's file, and its free bytes.
	Size() (bytes, free int64, err error)
	// Commits returns the number of write transactions since the store was opened.
	Commits() uint64
	// Close closes the store. Other methods fail afterwards.
	Close() error
}

// Blobs keeps values of any size under one key.
type Blobs interface {
	// LoadBlob returns the last saved value of a key, or nil.
	LoadBlob(ctx context.Context, key string) ([]byte, error)
	// SaveBlob keeps JSON under a key.
	SaveBlob(ctx context.Context, key string, data []byte) error
}

// Items keeps small values by kind and name.
type Items interface {
	// SaveItem keeps JSON under a kind and a name. It returns ErrExists if the name exists and overwrite is false.
	SaveItem(ctx context.Context, kind, name string, item json.RawMessage, overwrite bool) error
	// Items returns all items of a kind, by name.
	Items(ctx context.Context, kind string) (map[string]json.RawMessage, error)
	// Item returns one item, or ErrNotFound.
	Item(ctx context.Context, kind, name string) (json.RawMessage, error)
	// DeleteItem returns ErrNotFound where there is no such item.
	DeleteItem(ctx context.Context, kind, name string) error
	// SwapItem replaces an item and stores posts, as SavePosts does, in one transaction. Nil means no item. It returns
	// false and changes nothing if the present item is not the expected one.
	SwapItem(ctx context.Context, kind, name string, was, now json.RawMessage, posts []Post) (bool, error)
}

// Inbox keeps messages until they have an outcome.
type Inbox interface {
	// Accept stores a message. It returns false if the message was accepted before.
	Accept(ctx context.Context, r Received) (bool, error)
	// Unanswered returns the messages without an outcome, oldest first. In a shared store, it returns only the
	// messages of this process, as PendingPosts and Unnotified do.
	Unanswered(ctx context.Context) ([]Received, error)
	// SaveAnswer stores the answer to messages, named by their keys: the turn, which may be nil, and the posts, in one
	// transaction. Without posts the messages are done.
	SaveAnswer(
		ctx context.Context,
		to chat.Address,
		messages []string,
		turn *conversation.Turn,
		posts []Post,
	) error
	// LastSeen returns the newest message of each conversation of a platform that was accepted after a time.
	LastSeen(ctx context.Context, platform string, since time.Time) ([]chat.LastSeen, error)
	// ConversationOf returns the conversation of a waiting or answered message, by its subject, or false.
	ConversationOf(ctx context.Context, subject string) (chat.Address, bool, error)
}

// Outbox keeps posts until they have an outcome, and feedback on them.
type Outbox interface {
	// SavePosts stores posts to be sent, and sets their Seq. A post whose key was stored before
	// is skipped, and its Seq is 0.
	SavePosts(ctx context.Context, posts []Post) error
	// PendingPosts returns the posts without an outcome, oldest first.
	PendingPosts(ctx context.Context) ([]Post, error)
	// SaveOutcomes stores the outcomes of posts and marks the answered messages as done. It may wait for up to
	// patience, to share the transaction of another write.
	SaveOutcomes(ctx context.Context, outcomes []Outcome, patience time.Duration) error
	// Undelivered returns the undelivered posts of the last week.
	Undelivered(ctx context.Context) ([]Post, error)
	// Unnotified returns the undelivered posts whose places have no notice yet, oldest first.
	Unnotified(ctx context.Context) ([]Post, error)
	// MarkNotified records that the places of undelivered posts got their notice.
	MarkNotified(ctx context.Context, keys []string) error
	// PostRef returns the platform's reference of a post of the last days, or false.
	PostRef(ctx context.Context, key string) (chat.Ref, bool, error)
	// SaveStream stores the reference of a partly shown answer, until its post has an outcome.
	SaveStream(ctx context.Context, key string, ref chat.Ref) error
	// Stream returns the value of SaveStream, or false.
	Stream(ctx context.Context, key string) (chat.Ref, bool, error)
	// ShownTurn returns the data of a message of the bot, by the message's id and channel.
	ShownTurn(ctx context.Context, in chat.Address, id string) (ShownTurn, bool, error)

	// SaveFeedback stores the feedback of a user on a turn and replaces their earlier one.
	SaveFeedback(ctx context.Context, f Feedback) error
	// Feedback returns the feedback of the last year.
	Feedback(ctx context.Context) ([]Feedback, error)
	// FeedbackCounts returns the numbers of helpful and unhelpful answers. It reads the feedback only if it has
	// changed since the last call.
	FeedbackCounts(ctx context.Context) (good, bad int, err error)
	// SaveReaction applies a reaction to a post, or its removal, to the feedback of its user.
	SaveReaction(ctx context.Context, r Reaction) error
}

// Conversations keeps the turns of conversations.
type Conversations interface {
	// SaveTurn stores a turn, with the calls that ended since the last save. It sets the Seq of a new turn.
	SaveTurn(ctx context.Context, a chat.Address, turn *conversation.Turn, calls ...ToolCall) error
	// Turns returns the turns of a range, oldest first.
	Turns(ctx context.Context, a chat.Address, r Range) ([]conversation.Turn, error)
	// TurnOf returns the turn with a message. It returns ErrNotFound if there is none. If the turn was deleted, it
	// returns the conversation with the error.
	TurnOf(ctx context.Context, subject string) (chat.Address, conversation.Turn, error)
	// DeleteTurn deletes a turn and its index entries. The turn may be missing.
	DeleteTurn(ctx context.Context, a chat.Address, seq uint64) error
	// TurnsQuoting returns the locations of the turns that quoted a message when they were first stored, by the
	// message's subject. A turn may be deleted, or no longer quote it.
	TurnsQuoting(ctx context.Context, subject string) ([]TurnRef, error)
	// Summary returns the summary of the older turns. Its Upto is 0 if there is none.
	Summary(ctx context.Context, a chat.Address) (conversation.Summary, error)
	// SaveSummary replaces the summary of a conversation.
	SaveSummary(ctx context.Context, a chat.Address, s conversation.Summary) error
	// HasConversation reports whether the store has data of a conversation.
	HasConversation(ctx context.Context, a chat.Address) (bool, error)
	// Conversations returns up to n conversations with data, by address, after a cursor, and the next cursor. The
	// cursor is empty for the first page and after the last.
	Conversations(ctx context.Context, cursor string, n int) ([]ConversationInfo, string, error)
	// DeleteConversation deletes the data of a conversation, in small transactions. The first of them hides the
	// conversation, and Prune finishes a deletion after a crash. It returns ErrNotFound if there is no data.
	DeleteConversation(ctx context.Context, a chat.Address) error
}

// Messages keeps messages of conversations that are not in turns. They are deleted with their conversation.
type Messages interface {
	// SaveMessages stores the messages whose IDs are new in their conversation, and returns their number.
	SaveMessages(ctx context.Context, list []Message) (int, error)
	// Messages returns up to n messages of a conversation, oldest first, and the next cursor. An empty cursor begins
	// with the oldest.
	Messages(ctx context.Context, a chat.Address, cursor string, n int) ([]Message, string, error)
	// NewestMessages returns the newest n messages of a conversation, oldest first, and the cursor for older ones,
	// which is empty if there are none. An empty cursor begins with the newest.
	NewestMessages(ctx context.Context, a chat.Address, cursor string, n int) ([]Message, string, error)
	// DeleteMessage deletes the messages of an ID in all conversations of a platform. There may be none.
	DeleteMessage(ctx context.Context, platform, id string) error
	// Versions returns the versions of a channel and its threads with data. It is fast: no record is decoded.
	Versions(ctx context.Context, channel chat.Address) ([]ConversationVersion, error)
}

// ToolCalls keeps the calls of tools, their results and their approvals.
type ToolCalls interface {
	// SaveCalls stores calls without a turn, or with a turn that is saved later, with their Whole texts.
	SaveCalls(ctx context.Context, calls []ToolCall) error
	// ToolCalls returns up to n calls that match, newest first, with a Seq below before; 0
	// begins with the newest.
	ToolCalls(ctx context.Context, before uint64, n int, match func(ToolCall) bool) ([]ToolCall, error)
	// ToolResult returns a result that was too large to show at once, or ErrNotFound.
	ToolResult(ctx context.Context, id string) (ToolResult, error)
	// SaveApproval stores an approval and replaces an earlier one of the same turn and call.
	SaveApproval(ctx context.Context, a Approval) error
	// DecideApproval stores the decision on an undecided approval. It returns false and changes nothing if the
	// approval is already decided, or has another ID.
	DecideApproval(ctx context.Context, a Approval) (bool, error)
	// Approvals returns the approvals requested since a time. The zero time returns all.
	Approvals(ctx context.Context, since time.Time) ([]Approval, error)
}

// Digests keeps feeds, subscriptions and runs of digests.
type Digests interface {
	// LoadFeed returns the record of a feed, or false.
	LoadFeed(ctx context.Context, url string) (Feed, bool, error)
	// SaveFeeds stores the records of feeds with different addresses in one transaction.
	SaveFeeds(ctx context.Context, feeds ...Feed) error
	// LastRuns returns the newest n runs of a digest, newest first.
	LastRuns(ctx context.Context, digest string, n int) ([]Run, error)
	// SeenItems returns the items that a digest has seen, and whether it ever ran.
	SeenItems(ctx context.Context, digest string, ids []string) (map[string]bool, bool, error)
	// FinishRun stores a run with its seen items and its posts, and replaces items by name, in one transaction. It
	// returns false and stores nothing if there is already a run for that due time.
	FinishRun(ctx context.Context, r Run, saw []string, posts []Post, items ...Item) (bool, error)
	// AmendRun replaces a run, and marks items as unseen.
	AmendRun(ctx context.Context, r Run, forget []string) error
	// SaveSubscription replaces a subscription of the same conversation to the same feed.
	SaveSubscription(ctx context.Context, s Subscription) error
	// DeleteSubscription returns ErrNotFound if there is none.
	DeleteSubscription(ctx context.Context, to chat.Address, url string) error
	// Subscriptions returns all subscriptions.
	Subscriptions(ctx context.Context) ([]Subscription, error)
}

// Rooms keeps the lines of web rooms.
type Rooms interface {
	// SaveEntry stores a line, and returns it with its Seq. It replaces a line with the same ID, unless the stored
	// line has a higher Revision. Then it changes nothing and returns the stored line.
	SaveEntry(ctx context.Context, e Entry) (Entry, error)
	// Entries returns up to n lines with a Seq below before (0 for the newest), oldest first.
	Entries(ctx context.Context, room string, before uint64, n int) ([]Entry, error)
	// Rooms returns the names of the rooms that have lines.
	Rooms(ctx context.Context) ([]string, error)
	// SaveRoomFile stores a file of a room, and returns its number. Only the newest files are kept.
	SaveRoomFile(ctx context.Context, room string, f chat.File) (uint64, error)
	// RoomFile returns ErrNotFound for a missing or deleted file.
	RoomFile(ctx context.Context, room string, n uint64) (chat.File, error)
	// RoomFilePart is RoomFile with up to most bytes of the data, starting at the index from, and the total number as
	// Size. Only the first part, from 0, is checked for damage of the whole file.
	RoomFilePart(ctx context.Context, room string, n uint64, from int64, most int) (chat.File, error)
	// DeleteRoomFile deletes a file, which may be missing.
	DeleteRoomFile(ctx context.Context, room string, n uint64) error
	// DeleteRoom deletes the lines and the files of a room.
	DeleteRoom(ctx context.Context, room string) error
}

// Notes keeps people's notes, by scope.
type Notes interface {
	// SaveMemory stores a note, and returns it with its number. It returns the stored note and false if the scope has
	// one with the same text, and ErrFull if it holds limit notes.
	SaveMemory(ctx context.Context, m Memory, limit int) (Memory, bool, error)
	// Memories returns the notes of a scope, oldest first.
	Memories(ctx context.Context, scope string) ([]Memory, error)
	// MemoryScopes returns the scopes that may have notes, in order.
	MemoryScopes(ctx context.Context) ([]string, error)
	// ReplaceMemory replaces the text, author and time of a note, by its scope and number, and returns the old and the
	// new note. If another note of the scope has the same text, it deletes the old note and returns the other one. It
	// returns ErrNotFound if the note is missing.
	ReplaceMemory(ctx context.Context, m Memory) (before, kept Memory, err error)
	// DeleteMemory returns ErrNotFound if the note is missing.
	DeleteMemory(ctx context.Context, scope string, n uint64) error
	// DeleteMemories deletes all notes of a scope. There may be none.
	DeleteMemories(ctx context.Context, scope string) error
}
