package discord

import (
	"encoding/json"
	"slices"
	"strings"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
)

// Bounds of what a session remembers of channels and threads.
const (
	maxRecentMessages = 64      // of a channel or thread: more than a question brings along
	maxRecentBytes    = 4 << 20 // of all
)

// newRecent returns the memory of what was said on the servers of a session. It lives as long as the session: what was
// missed between two connections of it Discord sends again, in order, before anything else. Other processes have
// sessions of their own and take nothing away.
func (d *Discord) newRecent() *kit.Recent[*wireMessage] {
	r := &kit.Recent[*wireMessage]{MaxMessages: maxRecentMessages, MaxBytes: maxRecentBytes, Now: d.o.Now}
	r.SetLive(true)
	return r
}

// recentPlace names a channel or thread in the memory; the server stands first, so that all of it can be dropped.
func recentPlace(guild, channel string) string { return guild + "/" + channel }

// recentOf returns the memory of a server's messages; an empty one where its session has no connection, so that edits
// and deletions may be missing.
func (d *Discord) recentOf(guild string) *kit.Recent[*wireMessage] {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.shardOf(guild)
	if s == nil || s.recent == nil || s.connectionFault() != "" {
		return &kit.Recent[*wireMessage]{}
	}
	return s.recent
}

// noteMessage remembers a message that an event brought. In direct messages the history has everything that was said.
func (d *shard) noteMessage(w wireMessage) {
	if w.GuildID != "" && w.Flags&flagEphemeral == 0 && d.recent != nil {
		d.recent.Add(recentPlace(w.GuildID, w.ChannelID), newRecentMessage(w))
	}
}

// noteUpdate remembers what a message says now.
func (d *shard) noteUpdate(w wireMessage, isWhole bool) {
	if w.GuildID == "" || d.recent == nil {
		return
	}
	place := recentPlace(w.GuildID, w.ChannelID)
	if isWhole && w.Author.ID != "" && !w.Timestamp.IsZero() {
		d.recent.Replace(place, newRecentMessage(w))
		return
	}
	// What the message says now is not known, and what it said before must not be shown.
	d.recent.Drop(func(other string) bool { return other == place })
}

// noteDeletion forgets a message, and what the bot answered to it: that would tell what it said.
func (d *shard) noteDeletion(guild, channel, id string) {
	if d.recent == nil {
		return
	}
	self := d.botUser().ID
	isAnswer := func(w *wireMessage) bool { return w.Author.ID == self && w.Reference.MessageID == id }
	d.recent.Delete(recentPlace(guild, channel), id, isAnswer)
}

// newRecentMessage returns a message as it is kept, with about how many bytes it takes.
func newRecentMessage(w wireMessage) kit.RecentMessage[*wireMessage] {
	// What it replies to is not shown with it; that it is gone counts.
	if string(w.Referenced) != "null" {
		w.Referenced = nil
	}
	size := len(w.Content) + len(w.Components) + len(w.Poll)
	for _, raw := range slices.Concat(w.Embeds, w.Stickers) {
		size += len(raw)
	}
	for _, forwarded := range w.Snapshots {
		size += messageOverhead + len(forwarded.Message.Content)
	}
	size += messageOverhead + 500*(len(w.Attachments)+len(w.Mentions))
	return kit.RecentMessage[*wireMessage]{ID: w.ID, Value: &w, Size: size}
}

// messageOverhead is what a message counts as beside its texts, in bytes.
const messageOverhead = 1000

// rightsEvents are the events of a server after which the bot may see more, or other, channels than before: what was
// said in them until then did not come.
var rightsEvents = map[string]bool{
	"GUILD_CREATE":        true,
	"GUILD_DELETE":        true,
	"GUILD_MEMBER_UPDATE": true,
	"GUILD_ROLE_UPDATE":   true,
	"GUILD_ROLE_DELETE":   true,
	"CHANNEL_UPDATE":      true,
	"CHANNEL_DELETE":      true,
	"THREAD_LIST_SYNC":    true,
}

// threadEvents are those after which the bot may see one thread that it did not see before.
var threadEvents = map[string]bool{
	"THREAD_CREATE":         true,
	"THREAD_UPDATE":         true,
	"THREAD_DELETE":         true,
	"THREAD_MEMBERS_UPDATE": true,
}

// noteRights forgets what an event of rights makes uncertain.
func (d *shard) noteRights(f frame) {
	if !rightsEvents[f.Type] && !threadEvents[f.Type] || d.recent == nil {
		return
	}
	var e struct {
		ID      string `json:"id"`
		GuildID string `json:"guild_id"`
	}
	_ = json.Unmarshal(f.Data, &e) // without ids everything is forgotten
	place := recentPlace(e.GuildID, e.ID)
	switch {
	case f.Type == "GUILD_CREATE", f.Type == "GUILD_DELETE":
		place = recentPlace(e.ID, "")
	case rightsEvents[f.Type]:
		place = recentPlace(e.GuildID, "")
	}
	d.recent.Drop(func(other string) bool { return strings.HasPrefix(other, place) })
}

// passage is what is wanted of what was said in a channel or thread before a message.
type passage struct {
	channel string
	before  string // id of the message
	after   string // id of the last message that is known already; empty: none is
	max     int    // the newest so many
}

// recallPassage returns the messages of a passage and maybe others, oldest first, if all of them are remembered.
func (r contextReader) recallPassage(p passage) ([]wireMessage, bool) {
	w, ok := r.recentOf(r.guild).Window(recentPlace(r.guild, p.channel), p.before)
	if !ok {
		return nil, false
	}
	spoken := 0
	all := make([]wireMessage, 0, len(w.Values))
	for _, m := range w.Values {
		all = append(all, *m)
		if r.isTold(*m, p) {
			spoken++
		}
	}
	return all, w.Since == "" || p.after != "" && !isNewer(w.Since, p.after) || spoken >= p.max
}

// isTold reports whether a message of a passage is told to the model.
func (r contextReader) isTold(w wireMessage, p passage) bool {
	// An answer whose question was deleted would tell what that said.
	isOrphan := r.botUser().ID == w.Author.ID && string(w.Referenced) == "null"
	return w.isSpoken() && !isOrphan && (p.after == "" || isNewer(w.ID, p.after))
}

// recallRoot returns the message that the thread of the message began with, if it is remembered and what was said in
// the thread until now is, too.
func (r contextReader) recallRoot(at chat.Address) (wireMessage, bool) {
	recent := r.recentOf(r.guild)
	if _, ok := recent.Window(recentPlace(r.guild, at.Thread), r.m.ID); !ok {
		return wireMessage{}, false
	}
	w, ok := recent.Get(recentPlace(r.guild, at.Channel), at.Thread)
	if !ok {
		return wireMessage{}, false
	}
	return *w, true
}
