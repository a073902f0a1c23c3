package discord

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/bwmarrin/discordgo"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
)

// Bounds of what is told of a message.
const (
	maxNames   = 10   // people in a text who are looked up
	maxLinked  = 5    // links to other messages that are followed
	maxNotices = 10   // read beside what is wanted: some messages are only notices of Discord's
	maxNicks   = 4096 // people whose names in servers are remembered at least
	maxQuotes  = 256  // messages replied to that are remembered at least
)

var (
	_ chat.ContextReader = (*Discord)(nil)
	_ chat.Formatter     = (*Discord)(nil)
)

// hiddenReason says why Discord keeps the words of others from the bot (its reference of 2026-08).
const hiddenReason = "Discord shows me only messages that mention me or reply to me; my operator can switch " +
	"on the Message Content Intent for the app in Discord's developer portal"

// contextReader reads what one message is about.
type contextReader struct {
	*Discord
	state *discordgo.State
	// isAsked: another process has the shard, so that state has what Discord said when it was asked.
	isAsked bool
	m       chat.Message
	guild   string // empty in a direct message
}

// newContextReader returns a reader for what one message is about. Where another replica has the shard it asks Discord
// for the server first.
func (d *Discord) newContextReader(ctx context.Context, m chat.Message) contextReader {
	r := contextReader{Discord: d, m: m}
	r.state, r.isAsked = d.stateOf(ctx, m.Conversation.Workspace)
	if m.Conversation.Workspace != directGuild {
		r.guild = m.Conversation.Workspace
	}
	return r
}

// Context returns what a message is about: where it was said and by whom, what it replies to, what
// was said before it there, and the messages of its channel that it links to. What Discord does not
// tell before ctx ends is missing.
func (d *Discord) Context(ctx context.Context, m chat.Message, q chat.ContextQuery) chat.Context {
	if key := m.Conversation.Workspace + "/" + m.Author.ID; d.o.Sharing != nil && m.Author.Name != "" {
		// Another process may have read the message, which knew what its author is called there. Histories do not tell.
		if _, isKnown := d.nicks.Get(key); !isKnown {
			d.nicks.Put(key, m.Author.Name)
		}
	}
	r := d.newContextReader(ctx, m)
	var c chat.Context
	var replyNotes, recentNotes, linkNotes []string
	// Side by side, so that one slow answer costs no more than itself.
	var parts sync.WaitGroup
	parts.Go(func() { c.Place = d.placeOf(ctx, r.state, m.Conversation) })
	parts.Go(func() { c.Names = r.readNames(ctx) })
	parts.Go(func() { c.Reply, replyNotes = r.readReply(ctx) })
	if r.mayReadHistory() {
		parts.Go(func() { c.Linked, linkNotes = r.readLinked(ctx) })
		parts.Go(func() { c.Recent, recentNotes = r.readRecent(ctx, q) })
		parts.Go(func() { c.Root = r.readRoot(ctx, q) })
	} else {
		recentNotes = []string{
			"Earlier messages were not read, because the asker cannot read them in this channel.",
		}
	}
	parts.Wait()
	c.Notes = slices.Concat(replyNotes, recentNotes, linkNotes)
	return c
}

// mayReadHistory reports whether the author may read what was said in the channel before. What the
// bot reads it tells them.
func (r contextReader) mayReadHistory() bool {
	if r.guild == "" {
		return true
	}
	allowed, err := snapshotChannel(r.state, r.guild, r.m.Conversation.Channel).MessagePermissions(&discordgo.Message{
		ChannelID: r.m.Conversation.Channel, // threads have the permissions of their channel
		Author:    &discordgo.User{ID: r.m.Author.ID},
		Member:    &discordgo.Member{Roles: r.m.Author.Roles},
	})
	if err != nil && r.isAsked && serverName(r.state, r.guild) == "" {
		return false // Discord did not say
	}
	// Of a channel that no event has shown the permissions are not known, and then only its members
	// can have spoken to the bot.
	return err != nil || allowed&discordgo.PermissionReadMessageHistory != 0
}

// mentionedUser matches a user in the text of a message whose name was not known when it came.
var mentionedUser = text.Pattern(`@(\d{17,20})\b`)

// readNames returns the names of the author and of those in the text who have none there.
func (r contextReader) readNames(ctx context.Context) map[string]string {
	names := map[string]string{}
	author := wireUser{ID: r.m.Author.ID, Username: r.m.Author.Name}
	if name := r.nameOf(r.guild, author); name != "" {
		names[author.ID] = name
	}
	for n, found := range mentionedUser().FindAllStringSubmatch(r.m.Text, -1) {
		if n >= maxNames || r.guild == "" {
			break
		}
		// Who is no member of the server, or cannot be looked up in time, is left out.
		if name, _ := r.members.Get(ctx, r.guild+"/"+found[1]); name != "" {
			names[found[1]] = name
		}
	}
	return names
}

// readReply returns the message that the message replies to; nil where it replies to none.
func (r contextReader) readReply(ctx context.Context) (*chat.Said, []string) {
	if r.m.ReplyTo == "" {
		return nil, nil
	}
	var w wireMessage
	raw, _ := r.quoted.Get(r.m.ID)
	// The event brought it, but not its words where only the app may read them.
	if json.Unmarshal(raw, &w) != nil || w.ID != r.m.ReplyTo || w.isEmpty() {
		fetched, err := r.fetchMessage(ctx, channelOf(r.m.Conversation), r.m.ReplyTo)
		switch {
		case isCode(err, errUnknownMessage):
			return nil, []string{"The message that this one replies to was deleted."}
		case err != nil && w.ID != r.m.ReplyTo:
			return nil, []string{"The message that this one replies to could not be read."}
		case err == nil:
			w = fetched
		}
	}
	said := r.said(w)
	if said.Hidden {
		return &said, []string{"The message that this one replies to is not shown to me, because " + said.Reason + "."}
	}
	return &said, nil
}

// readRecent returns the newest messages before the message in its place that Discord shows, oldest first, and says how
// many it does not.
func (r contextReader) readRecent(ctx context.Context, q chat.ContextQuery) ([]chat.Said, []string) {
	if q.Messages <= 0 {
		return nil, nil
	}
	channel := channelOf(r.m.Conversation)
	// A thread that was opened for this very answer has no past; what was said before the command
	// stands in the channel.
	if opened, _ := r.openedThreads.Get(r.m.ID); opened == channel {
		channel = r.m.Conversation.Channel
	}
	p := passage{channel: channel, before: r.m.ID, after: q.After, max: q.Messages}
	messages, ok := r.recallPassage(p)
	if !ok {
		var err error
		messages, err = r.fetchPassage(ctx, p)
		switch {
		case isRefused(err):
			return nil, []string{"The messages before this one are not shown to me; " +
				"giving my role Read Message History in this channel helps."}
		case err != nil:
			return nil, []string{"The messages before this one could not be read in time."}
		}
	}
	var all []chat.Said
	for _, w := range messages {
		if r.isTold(w, p) {
			all = append(all, r.said(w))
		}
	}
	all = all[max(0, len(all)-q.Messages):]
	var notes []string
	if note := chat.HiddenNote(all); note != "" {
		notes = []string{note}
	}
	return slices.DeleteFunc(all, func(s chat.Said) bool { return s.Text == "" && len(s.Files) == 0 }), notes
}

// fetchPassage asks Discord for the messages of a passage.
func (r contextReader) fetchPassage(ctx context.Context, p passage) ([]wireMessage, error) {
	recent, place := r.recentOf(r.guild), recentPlace(r.guild, p.channel)
	reading := recent.BeginReading(place)
	page, isWhole, err := r.fetchPage(ctx, p.channel, p.before, min(p.max+maxNotices, pageSize))
	messages := make([]wireMessage, 0, len(page))
	known := make([]kit.RecentMessage[*wireMessage], 0, len(page))
	for _, w := range page {
		messages, known = append(messages, w.wireMessage), append(known, newRecentMessage(w.wireMessage))
	}
	since, before := "", p.before
	switch {
	case err != nil || !isWhole && len(messages) == 0:
		before = "" // nothing is known
	case !isWhole:
		since = messages[0].ID
	}
	recent.EndReading(reading, since, before, known)
	return messages, err
}

// readRoot returns the message that the thread of the message began with; nil where there is none.
// It has the id of the thread, and stands in the channel, or in the thread where that is a post of a
// forum.
func (r contextReader) readRoot(ctx context.Context, q chat.ContextQuery) *chat.Said {
	at := r.m.Conversation
	if at.Thread == "" || q.Messages <= 0 {
		return nil
	}
	if w, ok := r.recallRoot(at); ok {
		said := r.said(w)
		return &said
	}
	channel := at.Channel
	switch r.channelInfo(ctx, r.state, r.guild, at.Channel).kind {
	case discordgo.ChannelTypeGuildForum, discordgo.ChannelTypeGuildMedia:
		channel = at.Thread
	}
	w, err := r.fetchMessage(ctx, channel, at.Thread)
	if err != nil {
		return nil // a thread may have been opened below no message
	}
	said := r.said(w)
	return &said
}

// messageLink matches the address of a message as Discord copies it.
var messageLink = text.Pattern(`https://(?:\w+\.)?discord(?:app)?\.com/channels/(@me|\d+)/(\d+)/(\d+)`)

// readLinked returns the messages that the message links to, as far as they are in its own channel
// or in public threads of it: nothing tells whether its author may read others.
func (r contextReader) readLinked(ctx context.Context) (linked []chat.Said, notes []string) {
	for n, found := range messageLink().FindAllStringSubmatch(r.m.Text, -1) {
		link, guild, channel, message := found[0], found[1], found[2], found[3]
		if n >= maxLinked {
			note := fmt.Sprintf("Only the first %d linked messages were looked at.", maxLinked)
			return linked, append(notes, note)
		}
		if guild != r.m.Conversation.Workspace || !r.isReadableByAll(ctx, channel) {
			notes = append(notes, "The linked message "+link+" was not read, because it is in another channel, "+
				"which the asker may not be allowed to read.")
			continue
		}
		w, err := r.fetchTarget(ctx, channel, message)
		if err != nil {
			notes = append(notes, "The linked message "+link+" could not be read.")
			continue
		}
		said := r.said(w)
		if linked = append(linked, said); said.Hidden {
			notes = append(notes, "The linked message "+link+" is not shown to me, because "+said.Reason+".")
		}
	}
	return linked, notes
}

// fetchTarget returns a message, as it came with a command that was used on it, else as Discord shows it now.
func (r contextReader) fetchTarget(ctx context.Context, channel, message string) (wireMessage, error) {
	var w wireMessage
	if raw, ok := r.targets.Get(message); ok && json.Unmarshal(raw, &w) == nil && w.ChannelID == channel {
		return w, nil
	}
	return r.fetchMessage(ctx, channel, message)
}

// isReadableByAll reports whether whoever reads the message's channel may read another one, too: it
// is the same, the channel that a thread belongs to, or a public thread.
func (r contextReader) isReadableByAll(ctx context.Context, channel string) bool {
	at := r.m.Conversation
	if channel == channelOf(at) || channel == at.Channel {
		return true
	}
	c, found := findChannel(r.state, r.guild, channel)
	known := channelInfo{kind: c.Type, parent: c.ParentID}
	if !found && r.isAsked {
		known = r.channelInfo(ctx, r.state, r.guild, channel)
		found = known.parent != ""
	}
	public := known.kind == discordgo.ChannelTypeGuildPublicThread || known.kind == discordgo.ChannelTypeGuildNewsThread
	return found && public && known.parent == at.Channel
}

// fetchMessage returns one message of a channel; an *apiError with errUnknownMessage where there is none.
func (d *Discord) fetchMessage(ctx context.Context, channel, id string) (wireMessage, error) {
	var w wireMessage
	path := "/channels/" + channel + "/messages/"
	err := d.api.do(ctx, request{method: "GET", path: path + id, route: "GET" + path + "one"}, &w)
	return w, err
}

// fetchPage returns up to limit messages of a channel, oldest first: the newest before the one with
// an id; "" is the end. isWhole: there are no older ones.
func (d *Discord) fetchPage(
	ctx context.Context,
	channel, before string,
	limit int,
) (page []wirePost, isWhole bool, err error) {
	path := "/channels/" + channel + "/messages"
	r := request{method: "GET", path: path + "?limit=" + strconv.Itoa(limit), route: "GET" + path}
	if before != "" {
		r.path += "&before=" + before
	}
	var raw []json.RawMessage
	if err := d.api.do(ctx, r, &raw); err != nil {
		return nil, false, err
	}
	if len(raw) == 0 {
		return nil, true, d.checkReadable(ctx, channel, "")
	}
	for _, data := range slices.Backward(raw) { // they come newest first
		var w wirePost
		if json.Unmarshal(data, &w) == nil {
			page = append(page, w)
		}
	}
	return page, len(raw) < limit, nil
}

// said returns a message as it is read back. It is Hidden where Discord keeps its words from the bot, with the reason.
func (r contextReader) said(w wireMessage) chat.Said {
	w.GuildID = r.guild // what is read back does not name its server
	reader := r.newReader(r.state, w)
	said := chat.Said{
		ID:      w.ID,
		Subject: r.subjectOf(reader),
		By:      cmp.Or(r.nameOf(r.guild, w.Author), w.Author.ID),
		ByID:    w.Author.ID,
		Bot:     w.Author.Bot || w.WebhookID != "",
		Self:    reader.isSelf(w.Author),
		Text:    reader.saidText(),
		At:      w.Timestamp,
		Files:   w.parseFiles(),
		Link:    "https://discord.com/channels/" + cmp.Or(r.guild, directGuild) + "/" + w.ChannelID + "/" + w.ID,
	}
	if !r.o.MessageContent && w.isEmpty() && len(w.Snapshots) == 0 && !said.Self && r.guild != "" {
		said.Hidden, said.Reason = true, hiddenReason
	}
	return said
}

// subjectOf returns the subject of a message, under which it is forgotten when it is deleted; of a post of the bot that
// of what it answers, and "" if it answers nothing.
func (r contextReader) subjectOf(m messageReader) string {
	id := m.w.ID
	if m.isSelf(m.w.Author) {
		id = cmp.Or(m.w.Reference.MessageID, m.w.Interaction.ID)
	}
	if id == "" {
		return ""
	}
	return r.Name() + "/" + id
}

// Formatting returns what Discord's Markdown shows (reference of 2026-11).
func (d *Discord) Formatting() string {
	return "Discord shows bold, italics, headings of levels 1 to 3, lists, block quotes, links and code; tables " +
		"appear as a box of plain characters, so keep them narrow. " +
		"A message holds 2,000 characters: prefer answers that fit in one."
}
