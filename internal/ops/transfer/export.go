package transfer

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/recall/history"
	"ravenbot/internal/store"
)

// Store is what is exported and imported.
type Store interface {
	Conversations(ctx context.Context, cursor string, n int) ([]store.ConversationInfo, string, error)
	Versions(ctx context.Context, channel chat.Address) ([]store.ConversationVersion, error)
	Turns(ctx context.Context, a chat.Address, r store.Range) ([]conversation.Turn, error)
	TurnOf(ctx context.Context, subject string) (chat.Address, conversation.Turn, error)
	Messages(ctx context.Context, a chat.Address, cursor string, n int) ([]store.Message, string, error)
	SaveMessages(ctx context.Context, list []store.Message) (int, error)
	MemoryScopes(ctx context.Context) ([]string, error)
	Memories(ctx context.Context, scope string) ([]store.Memory, error)
	SaveMemory(ctx context.Context, m store.Memory, limit int) (store.Memory, bool, error)
	Settings(ctx context.Context) (map[string][]byte, error)
	SwapSetting(ctx context.Context, scope string, was, now []byte) (bool, error)
	Subscriptions(ctx context.Context) ([]store.Subscription, error)
	SaveSubscription(ctx context.Context, s store.Subscription) error
	Items(ctx context.Context, kind string) (map[string]json.RawMessage, error)
	SaveItem(ctx context.Context, kind, name string, item json.RawMessage, overwrite bool) error
}

// SealedStore is a Store that keeps some items encrypted.
type SealedStore interface {
	// Unreadable returns the names of the items of a kind that Items leaves out, since they cannot be decrypted.
	Unreadable(ctx context.Context, kind string) ([]string, error)
}

// Options configure a Service.
type Options struct {
	Store Store
	// Reload puts into effect what an import added to the store: digests, agents, servers and settings.
	Reload func(ctx context.Context) error
	// IsConfigured reports whether the configuration has a digest of a name. None is imported beside it: the name
	// would have passed from one to the other, and that of the configuration would begin anew.
	IsConfigured func(digest string) bool
	// Check returns an error if a setting, or an item that was made through the API or in chat, could not be used. It would
	// be stored, and skipped at each start.
	Check func(kind, name string, value json.RawMessage) error
	// IsOver reports whether a message is over the retention of its conversation: it is neither exported nor imported; nil: none
	// is.
	IsOver func(chat.Address, time.Time) bool
}

// Service exports and imports. It is safe for concurrent use; New makes one.
type Service struct{ o Options }

// New returns a Service.
func New(o Options) *Service { return &Service{o: o} }

// isOver reports whether a message is over its retention.
func (s *Service) isOver(in chat.Address, at time.Time) bool {
	return s.o.IsOver != nil && s.o.IsOver(in, at)
}

// readBatch is how many turns or messages are read at a time.
const readBatch = 500

// Export writes all records as JSON lines or, with a conversation, those of that channel or thread. Records are in the
// same order whenever they are the same. Those that Missing returns are left out.
func (s *Service) Export(ctx context.Context, w io.Writer, only chat.Address) error {
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	if only.IsZero() {
		for _, kind := range exportedItems() {
			items, err := s.o.Store.Items(ctx, itemKinds()[kind])
			if err != nil {
				return err
			}
			for _, name := range slices.Sorted(maps.Keys(items)) {
				if kind == kindPause && !isPaused(items[name]) {
					continue
				}
				if err := lines.Encode(item{kind, name, items[name]}); err != nil {
					return err
				}
			}
		}
	}
	for _, step := range []func(context.Context, *json.Encoder, chat.Address) error{
		s.exportSettings, s.exportSubscriptions, s.exportMemories, s.exportConversations,
	} {
		if err := step(ctx, lines, only); err != nil {
			return err
		}
	}
	return nil
}

// Missing returns which records an export of a conversation, or of everything, lacks because they cannot be decrypted, each
// as its kind and name.
func (s *Service) Missing(ctx context.Context, only chat.Address) (records []string, err error) {
	sealed, ok := s.o.Store.(SealedStore)
	if !ok || !only.IsZero() {
		return nil, nil
	}
	for _, kind := range exportedItems() {
		names, err := sealed.Unreadable(ctx, itemKinds()[kind])
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			records = append(records, kind+" "+name)
		}
	}
	return records, nil
}

// exportedItems returns the kinds of itemKinds in the order in which they are exported.
func exportedItems() []string {
	return []string{kindServer, kindAgent, kindDigest, kindJob, kindFilter, kindUnsubscribed, kindPause}
}

// isPaused reports whether what is stored of the pauses of a digest says that it is paused now. A digest that is not is
// exported without.
func isPaused(raw json.RawMessage) bool {
	var p struct{ Paused bool }
	return json.Unmarshal(raw, &p) == nil && p.Paused
}

// covers reports whether an address belongs to an export of one conversation.
func covers(only, a chat.Address) bool {
	return only.IsZero() || a == only || only.Thread == "" && a.Base() == only
}

// exportSettings writes the layers of settings, or those of one channel, in the order of their scopes.
func (s *Service) exportSettings(ctx context.Context, lines *json.Encoder, only chat.Address) error {
	layers, err := s.o.Store.Settings(ctx)
	if err != nil {
		return err
	}
	for _, scope := range slices.Sorted(maps.Keys(layers)) {
		if !only.IsZero() && !strings.HasSuffix(scope, "/"+only.Base().String()) {
			continue
		}
		if err := lines.Encode(setting{kindSetting, scope, layers[scope]}); err != nil {
			return err
		}
	}
	return nil
}

// exportSubscriptions writes who has subscribed to which feed, or what was subscribed to in one channel.
func (s *Service) exportSubscriptions(ctx context.Context, lines *json.Encoder, only chat.Address) error {
	list, err := s.o.Store.Subscriptions(ctx)
	if err != nil {
		return err
	}
	for _, one := range list {
		if !covers(only, one.To) {
			continue
		}
		line := subscription{kindSubscription, one.To.String(), one.URL, one.Title, one.At.UTC()}
		if err := lines.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// exportMemories writes the notes of all people and channels, or those of one channel.
func (s *Service) exportMemories(ctx context.Context, lines *json.Encoder, only chat.Address) error {
	scopes, err := s.o.Store.MemoryScopes(ctx)
	if err != nil {
		return err
	}
	for _, scope := range scopes {
		written := writeScope(scope)
		if !only.IsZero() && written != "channel:"+only.Base().String() {
			continue
		}
		list, err := s.o.Store.Memories(ctx, scope)
		if err != nil {
			return err
		}
		for _, m := range list {
			if err := lines.Encode(memory{kindMemory, written, m.Text, m.By, m.User, m.At.UTC(), m.Origin}); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeScope returns the written form of a scope of notes, and readScope what the store calls it: user/slack/U1 is
// written user:slack/U1.
func writeScope(scope string) string { return strings.Replace(scope, "/", ":", 1) }

// readScope returns the scope of notes in the store's form from that of a file, user:PLATFORM/ID or channel:ADDRESS.
func readScope(written string) (string, error) {
	kind, of, found := strings.Cut(written, ":")
	switch {
	case found && kind == "user" && strings.Contains(of, "/"):
		return kind + "/" + of, nil
	case found && kind == "channel":
		a, err := chat.ParseAddress(of)
		return kind + "/" + a.Base().String(), err
	}
	return "", fmt.Errorf(`"scope" is %.80q, want user:PLATFORM/ID or channel:ADDRESS`, written)
}

// exportConversations writes the messages of conversations by address, each in the order of time.
func (s *Service) exportConversations(ctx context.Context, lines *json.Encoder, only chat.Address) error {
	for cursor := ""; ; {
		list, next, err := s.o.Store.Conversations(ctx, cursor, readBatch)
		if err != nil {
			return err
		}
		for _, c := range list {
			if !covers(only, c.Address) {
				continue
			}
			if err := s.exportConversation(ctx, lines, c.Address); err != nil {
				return err
			}
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

// exportConversation writes what was said in a conversation, oldest first.
func (s *Service) exportConversation(ctx context.Context, lines *json.Encoder, a chat.Address) error {
	messages, err := s.readConversation(ctx, a)
	if err != nil {
		return err
	}
	for _, m := range messages {
		if s.isOver(m.Conversation, m.At) {
			continue
		}
		err := lines.Encode(message{
			Kind:         kindMessage,
			Conversation: m.Conversation.String(),
			ID:           m.ID,
			Author:       author{m.AuthorID, m.Author},
			Bot:          m.Bot,
			At:           m.At.UTC(),
			Text:         m.Text,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readConversation returns what was said in a conversation, in turns and outside of them, by time.
func (s *Service) readConversation(ctx context.Context, a chat.Address) ([]history.Message, error) {
	var list []history.Message
	versions, err := s.o.Store.Versions(ctx, a)
	if err != nil {
		return nil, err
	}
	newest := uint64(0)
	for _, v := range versions {
		if v.Address == a && len(v.Turns) > 0 {
			newest = slices.Max(slices.Collect(maps.Keys(v.Turns)))
		}
	}
	// A batch that is not full is not the last one: turns that were deleted leave gaps between the numbers.
	for after := uint64(0); after < newest; after += readBatch {
		turns, err := s.o.Store.Turns(ctx, a, store.Range{After: after, Upto: after + readBatch, Newest: readBatch})
		if err != nil {
			return nil, err
		}
		for _, t := range turns {
			list = append(list, history.FromTurn(a, t)...)
		}
	}
	for cursor := ""; ; {
		messages, next, err := s.o.Store.Messages(ctx, a, cursor, readBatch)
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			list = append(list, history.FromStored(m))
		}
		if cursor = next; len(messages) < readBatch {
			break
		}
	}
	slices.SortStableFunc(list, func(a, b history.Message) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.ID, b.ID))
	})
	return list, nil
}
