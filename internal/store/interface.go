package store

import (
	"context"
	"encoding/json"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
)

// Store is everything that the bot keeps. Package storetest is its contract as a test suite.
// All methods may be called concurrently. A write is one transaction: when it returns nil,
// everything is on disk, and with an error nothing is. Packages that need storage declare the
// few methods that they call; only construction names the whole. Errors are wrapped with what was
// attempted. Where the store itself is the matter they wrap a *DamagedError or a *SystemError.
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
	// Usage returns up to n sums from a day on, written as 2006-01-02, that are behind a cursor, and
	// the cursor behind them; it is empty for the first and behind the last.
	Usage(ctx context.Context, from, cursor string, n int) ([]Usage, string, error)

	// Settings returns every layer of settings, which is JSON, by its scope.
	Settings(ctx context.Context) (map[string][]byte, error)
	// SwapSetting replaces a layer by another; nil stands for no layer. It returns false and changes nothing where the
	// layer is not, or no longer, the one to be replaced.
	SwapSetting(ctx context.Context, scope string, was, now []byte) (bool, error)

	Blobs
	Items

	// Prune deletes the records that are older than they are kept, in small transactions between
	// which others write. It returns the conversations that lost turns or their summary.
	Prune(ctx context.Context, keep Retention) ([]chat.Address, error)

	// Size returns the bytes of the store's file, and how many of them are free for reuse.
	Size() (bytes, free int64, err error)
	// Commits returns the number of write transactions since the store was opened.
	Commits() uint64
	// Close ends the use of the store. Other methods fail afterwards.
	Close() error
}

// Blobs keeps values of any size under one key.
type Blobs interface {
	// LoadBlob returns what was last saved under a key, or nil.
	LoadBlob(ctx context.Context, key string) ([]byte, error)
	// SaveBlob keeps JSON under a key.
	SaveBlob(ctx context.Context, key string, data []byte) error
}

// Items keeps small values by kind and name.
type Items interface {
	// SaveItem keeps JSON under a kind and a name. It returns ErrExists where the name is
	// taken and overwrite is false.
	SaveItem(ctx context.Context, kind, name string, item json.RawMessage, overwrite bool) error
	// Items returns all items of a kind, by name.
	Items(ctx context.Context, kind string) (map[string]json.RawMessage, error)
	// Item returns one item. It returns ErrNotFound where there is none.
	Item(ctx context.Context, kind, name string) (json.RawMessage, error)
	// DeleteItem returns ErrNotFound where there is no such item.
	DeleteItem(ctx context.Context, kind, name string) error
	// SwapItem replaces an item by another and stores posts, as SavePosts does, in one
	// transaction; nil stands for no item. It returns false and changes nothing where the item
	// is not, or no longer, the one to be replaced.
	SwapItem(ctx context.Context, kind, name string, was, now json.RawMessage, posts []Post) (bool, error)
}

// Inbox keeps messages until they have an outcome.
type Inbox interface {
	// Accept stores a message. It returns false where the message was accepted before.
	Accept(ctx context.Context, r Received) (bool, error)
	// Unanswered returns the messages without an outcome, oldest first. Like PendingPosts and Unnotified it
	// returns those of this process alone where it is a member of a store that several share.
	Unanswered(ctx context.Context) ([]Received, error)
	// SaveAnswer stores the answer to messages, named by their keys: the turn, which may be
	// nil, and the posts, in one transaction. Without posts the messages are done.
	SaveAnswer(
		ctx context.Context,
		to chat.Address,
		messages []string,
		turn *conversation.Turn,
		posts []Post,
	) error
	// LastSeen returns the newest accepted message of each conversation of a platform, of
	// those accepted since a time.
	LastSeen(ctx context.Context, platform string, since time.Time) ([]chat.LastSeen, error)
	// ConversationOf returns the conversation of a message that waits or was answered, by the
	// message's subject. It returns false where it is neither.
	ConversationOf(ctx context.Context, subject string) (chat.Address, bool, error)
}

// Outbox keeps posts until they have an outcome, and what people think of them.
type Outbox interface {
	// SavePosts stores posts to be sent, and sets their Seq. A post whose key was stored before
	// is skipped, and its Seq is 0.
	SavePosts(ctx context.Context, posts []Post) error
	// PendingPosts returns the posts without an outcome, oldest first.
	PendingPosts(ctx context.Context) ([]Post, error)
	// SaveOutcomes stores the outcomes of posts and marks the messages that they answer as done. It may wait for up to
	// patience, to share the transaction of another write.
	SaveOutcomes(ctx context.Context, outcomes []Outcome, patience time.Duration) error
	// Undelivered returns the posts of the last week that were given up.
	Undelivered(ctx context.Context) ([]Post, error)
	// Unnotified returns those of the posts that were given up whose places were not told so, oldest first.
	Unnotified(ctx context.Context) ([]Post, error)
	// MarkNotified records that the places of undelivered posts were told so.
	MarkNotified(ctx context.Context, keys []string) error
	// PostRef returns where a post of the last days is on its platform, or false.
	PostRef(ctx context.Context, key string) (chat.Ref, bool, error)
	// SaveStream stores where an answer has begun to be shown, until its post has an outcome.
	SaveStream(ctx context.Context, key string, ref chat.Ref) error
	// Stream returns what SaveStream stored, and false where there is nothing.
	Stream(ctx context.Context, key string) (chat.Ref, bool, error)
	// ShownTurn returns what is known of a message of the bot, by the message's id and channel.
	ShownTurn(ctx context.Context, in chat.Address, id string) (ShownTurn, bool, error)

	// SaveFeedback stores the feedback of a user on a turn and replaces their earlier one.
	SaveFeedback(ctx context.Context, f Feedback) error
	// Feedback returns the feedback of the last year.
	Feedback(ctx context.Context) ([]Feedback, error)
	// FeedbackCounts returns how many of those call their answer helpful, and how many do not. It reads them only
	// where they have changed since the last call.
	FeedbackCounts(ctx context.Context) (good, bad int, err error)
	// SaveReaction applies a reaction to a post, or its removal, to the feedback of its user.
	SaveReaction(ctx context.Context, r Reaction) error
}

// Conversations keeps the turns of conversations.
type Conversations interface {
	// SaveTurn stores a turn, with the calls that ended since it was last saved. It sets the
	// Seq of a new turn.
	SaveTurn(ctx context.Context, a chat.Address, turn *conversation.Turn, calls ...ToolCall) error
	// Turns returns the turns of a range, oldest first.
	Turns(ctx context.Context, a chat.Address, r Range) ([]conversation.Turn, error)
	// TurnOf returns the turn that holds a message. It returns ErrNotFound where none does;
	// where the turn itself was deleted the conversation is returned with the error.
	TurnOf(ctx context.Context, subject string) (chat.Address, conversation.Turn, error)
	// DeleteTurn deletes a turn, also from the indexes of its messages; there may be none.
	DeleteTurn(ctx context.Context, a chat.Address, seq uint64) error
	// TurnsQuoting returns where the turns are that quoted a message when they were first
	// stored, by the message's subject. A turn may be gone, or quote it no longer.
	TurnsQuoting(ctx context.Context, subject string) ([]TurnRef, error)
	// Summary returns the summary of the older turns; its Upto is 0 where there is none.
	Summary(ctx context.Context, a chat.Address) (conversation.Summary, error)
	// SaveSummary replaces the summary of a conversation.
	SaveSummary(ctx context.Context, a chat.Address, s conversation.Summary) error
	// HasConversation reports whether anything is kept of a conversation.
	HasConversation(ctx context.Context, a chat.Address) (bool, error)
	// Conversations returns up to n conversations that anything is kept of, by address, behind a
	// cursor, and the cursor behind them; it is empty for the first and behind the last.
	Conversations(ctx context.Context, cursor string, n int) ([]ConversationInfo, string, error)
	// DeleteConversation deletes what is kept of a conversation, in small transactions. Readers
	// miss it from the first of them on, and Prune ends what a crash left. It returns ErrNotFound
	// where nothing is kept.
	DeleteConversation(ctx context.Context, a chat.Address) error
}

// Messages keeps what was said in conversations and is part of no turn. It is deleted with its
// conversation.
type Messages interface {
	// SaveMessages stores those messages whose ID their conversation does not have yet, and
	// returns how many these are.
	SaveMessages(ctx context.Context, list []Message) (int, error)
	// Messages returns up to n messages of a conversation, oldest first, and the cursor behind
	// the last of them; an empty cursor begins with the oldest.
	Messages(ctx context.Context, a chat.Address, cursor string, n int) ([]Message, string, error)
	// NewestMessages returns the newest n messages of a conversation, oldest first, and the cursor before the first of
	// them, which asks for older ones; it is empty where there are none. An empty cursor begins with the newest.
	NewestMessages(ctx context.Context, a chat.Address, cursor string, n int) ([]Message, string, error)
	// DeleteMessage deletes the messages of an ID in all conversations of a platform; there may
	// be none.
	DeleteMessage(ctx context.Context, platform, id string) error
	// Versions returns the versions of a channel and of the threads in it, as far as anything is
	// kept of them. It is quick: no record is decoded.
	Versions(ctx context.Context, channel chat.Address) ([]ConversationVersion, error)
}

// ToolCalls keeps the calls of tools, their results and their approvals.
type ToolCalls interface {
	// SaveCalls stores calls that belong to no turn, or whose turn is saved later, with their Whole
	// texts.
	SaveCalls(ctx context.Context, calls []ToolCall) error
	// ToolCalls returns up to n calls that match, newest first, with a Seq below before; 0
	// begins with the newest.
	ToolCalls(ctx context.Context, before uint64, n int, match func(ToolCall) bool) ([]ToolCall, error)
	// ToolResult returns a result that was too large to be shown at once, or ErrNotFound.
	ToolResult(ctx context.Context, id string) (ToolResult, error)
	// SaveApproval stores an approval and replaces an earlier one of the same turn and call.
	SaveApproval(ctx context.Context, a Approval) error
	// DecideApproval stores the decision on an approval that is stored without one. It returns false and changes nothing
	// where it is decided already, or is not stored under that ID.
	DecideApproval(ctx context.Context, a Approval) (bool, error)
	// Approvals returns those that were asked for since a time; the zero time: all that are kept.
	Approvals(ctx context.Context, since time.Time) ([]Approval, error)
}

// Digests keeps feeds, subscriptions and runs of digests.
type Digests interface {
	// LoadFeed returns the record of a feed, and false where there is none.
	LoadFeed(ctx context.Context, url string) (Feed, bool, error)
	// SaveFeeds stores the records of feeds, which have different addresses, in one transaction.
	SaveFeeds(ctx context.Context, feeds ...Feed) error
	// LastRuns returns the newest n runs of a digest, newest first.
	LastRuns(ctx context.Context, digest string, n int) ([]Run, error)
	// SeenItems returns which of some items a digest has seen, and whether it ever ran.
	SeenItems(ctx context.Context, digest string, ids []string) (map[string]bool, bool, error)
	// FinishRun stores a run with what it saw, its posts and items, in the place of those of their names, in one
	// transaction. It returns false and stores nothing where a run for that due time is stored already.
	FinishRun(ctx context.Context, r Run, saw []string, posts []Post, items ...Item) (bool, error)
	// AmendRun replaces a run, and makes items unseen again.
	AmendRun(ctx context.Context, r Run, forget []string) error
	// SaveSubscription replaces a subscription of the same conversation to the same feed.
	SaveSubscription(ctx context.Context, s Subscription) error
	// DeleteSubscription returns ErrNotFound where there is none.
	DeleteSubscription(ctx context.Context, to chat.Address, url string) error
	// Subscriptions returns all subscriptions.
	Subscriptions(ctx context.Context) ([]Subscription, error)
}

// Rooms keeps the lines of web rooms.
type Rooms interface {
	// SaveEntry stores a line, and returns it with its Seq. It replaces a line with the same ID, unless that one has a
	// higher Revision: then it changes nothing, and returns that one.
	SaveEntry(ctx context.Context, e Entry) (Entry, error)
	// Entries returns up to n lines with a Seq below before (0: the newest), oldest first.
	Entries(ctx context.Context, room string, before uint64, n int) ([]Entry, error)
	// Rooms returns the names of the rooms that hold any line.
	Rooms(ctx context.Context) ([]string, error)
	// SaveRoomFile stores a file that was said or posted in a room, and returns its number. Only
	// the newest are kept.
	SaveRoomFile(ctx context.Context, room string, f chat.File) (uint64, error)
	// RoomFile returns ErrNotFound for a file that is not kept, or no longer.
	RoomFile(ctx context.Context, room string, n uint64) (chat.File, error)
	// RoomFilePart is RoomFile with up to most bytes of the data, from the byte with the index from on, and with how many
	// there are in all as Size. Only the first part, from 0, is checked for damage of the whole.
	RoomFilePart(ctx context.Context, room string, n uint64, from int64, most int) (chat.File, error)
	// DeleteRoomFile deletes a file; there may be none.
	DeleteRoomFile(ctx context.Context, room string, n uint64) error
	// DeleteRoom deletes the lines and the files of a room.
	DeleteRoom(ctx context.Context, room string) error
}

// Notes keeps what people want remembered, by scope.
type Notes interface {
	// SaveMemory stores a note, and returns it with its number. It returns the stored note and
	// false where the scope has one with the same text, and ErrFull where it holds limit notes.
	SaveMemory(ctx context.Context, m Memory, limit int) (Memory, bool, error)
	// Memories returns the notes of a scope, oldest first.
	Memories(ctx context.Context, scope string) ([]Memory, error)
	// MemoryScopes returns the scopes that may have notes, in order.
	MemoryScopes(ctx context.Context) ([]string, error)
	// ReplaceMemory replaces the text, author and time of a note, by its scope and number, and
	// returns it as it was and as it is. Where another note of the scope has the same text it
	// deletes the one and returns the other. It returns ErrNotFound where there is no such note.
	ReplaceMemory(ctx context.Context, m Memory) (before, kept Memory, err error)
	// DeleteMemory returns ErrNotFound where there is no such note.
	DeleteMemory(ctx context.Context, scope string, n uint64) error
	// DeleteMemories deletes all notes of a scope; there may be none.
	DeleteMemories(ctx context.Context, scope string) error
}
