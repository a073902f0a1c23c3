package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
)

// eventEnvelope is the body of an Events API request. It and what follows are decoded by
// hand: slack-go's types refuse events with a field of an unexpected kind, which
// would then never be acknowledged (v0.34.0, 2026-11).
type eventEnvelope struct {
	Type        string    `json:"type"`
	TeamID      string    `json:"team_id"`
	ContextTeam string    `json:"context_team_id"`     // through which the app got the event
	LimitedAt   int64     `json:"minute_rate_limited"` // of app_rate_limited; Unix time
	Event       wireEvent `json:"event"`
	// Authorizations names one installation of the app that may see the event.
	Authorizations []struct {
		OrgWide wireFlag `json:"is_enterprise_install"`
	} `json:"authorizations"`
}

// wireFlag is true or false, which Slack writes as text in commands (2026-11).
type wireFlag bool

// UnmarshalJSON never fails: what is not true is false.
func (f *wireFlag) UnmarshalJSON(raw []byte) error {
	*f = strings.Trim(string(raw), `"`) == "true"
	return nil
}

// workspace returns the workspace in which something happened, by those that Slack names with it. What happens in a
// channel that is shared with another company, or is done by one of its people, may name their workspace (Slack
// Connect, 2026-11), so that the app's own counts unless it is installed in a whole organization.
func (s *Slack) workspace(orgWide wireFlag, named ...string) string {
	if orgWide {
		return cmp.Or(append(named, s.self.team)...)
	}
	return s.self.team
}

// workspaceOf returns the workspace of an event.
func (s *Slack) workspaceOf(o *eventEnvelope) string {
	var orgWide wireFlag
	if len(o.Authorizations) > 0 {
		orgWide = o.Authorizations[0].OrgWide
	}
	return s.workspace(orgWide, o.ContextTeam, o.TeamID)
}

// wireEvent is an event: a message, or what other events have beside the fields of one.
type wireEvent struct {
	wireMessage
	wireReaction
	Tab    string `json:"tab"` // of app_home_opened
	Thread struct {
		Channel string `json:"channel_id"`
		TS      string `json:"thread_ts"`
	} `json:"assistant_thread"` // of assistant_thread_started
}

// wireMessage is a message, a change of one, or a message as it is read from a conversation.
type wireMessage struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	User    string `json:"user"`
	BotID   string `json:"bot_id"`
	Text    string `json:"text"`
	TS      string `json:"ts"`
	// EventTS is when the event happened, of an edit for example, while TS names the message.
	EventTS string `json:"event_ts"`
	// ThreadTS is the timestamp of the thread's first message, also in that message itself once it has replies.
	ThreadTS   string `json:"thread_ts"`
	ParentUser string `json:"parent_user_id"` // who began the thread
	Channel    string `json:"channel"`
	// ChannelType is im, mpim, group or channel; only events of messages have it.
	ChannelType string            `json:"channel_type"`
	Files       []json.RawMessage `json:"files"`
	Attachments []json.RawMessage `json:"attachments"`
	Blocks      json.RawMessage   `json:"blocks"`
	Edited      struct {
		TS string `json:"ts"`
	} `json:"edited"`

	// Of a change.
	Message   json.RawMessage `json:"message"`
	Previous  json.RawMessage `json:"previous_message"`
	DeletedTS string          `json:"deleted_ts"`

	// Of a message that is read.
	ReplyCount int             `json:"reply_count"`
	LastReply  string          `json:"latest_reply"` // timestamp
	ReplyUsers []string        `json:"reply_users"`  // some of those who answered in its thread
	Metadata   json.RawMessage `json:"metadata"`
	Username   string          `json:"username"` // that a bot posts under
	BotProfile struct {
		Name string `json:"name"`
	} `json:"bot_profile"`

	isRead bool       // it was read from a conversation, with its metadata if it has any
	label  *postLabel // of a post of the bot that is remembered; nil: it is in the Metadata, if there is one
}

// spokenSubtypes are the subtypes of messages that people wrote.
var spokenSubtypes = map[string]bool{"": true, "file_share": true, "thread_broadcast": true, "me_message": true}

// parseEvent translates an event. It returns false if the event is not a person's message, a change
// of one, or a reaction to a post. Both events of one mention give the same message.
func (s *Slack) parseEvent(o *eventEnvelope) (chat.Message, bool) {
	if o.Type == "app_rate_limited" {
		s.noteRateLimit(o)
		return chat.Message{}, false
	}
	e := &o.Event.wireMessage
	e.fillText()
	if s.handleOpened(&o.Event) {
		return chat.Message{}, false
	}
	if e.Type == "member_joined_channel" && e.User == s.self.user && e.Channel != "" {
		s.dropRecent(e.Channel) // what was said while the bot was not in it did not come
		s.greet(chat.Address{Platform: "slack", Workspace: s.workspaceOf(o), Channel: e.Channel})
		return chat.Message{}, false
	}
	if e.Type == "reaction_added" || e.Type == "reaction_removed" {
		return s.parseReaction(o)
	}
	if e.Channel == "" {
		return chat.Message{}, false
	}
	team := s.workspaceOf(o)
	switch {
	case e.Type == "message" && e.Subtype == "message_changed":
		return s.parseEdit(team, e)
	case e.Type == "message" && e.Subtype == "message_deleted":
		s.noteDeletion(e)
		return s.parseDeletion(team, e, e.DeletedTS)
	case e.Type == "message", e.Type == "app_mention":
		// Slack sends again, minutes later, what was not acknowledged; it may be deleted by then.
		if gone, _ := s.deleted.Get(threadKey(e.Channel, e.TS)); gone {
			return chat.Message{}, false
		}
		if e.Type == "message" {
			s.noteMessage(e)
		}
		m, ok := s.parseMessage(team, e)
		// An edit that mentions the bot comes as a mention, too, and as no other event where the
		// app may read mentions alone.
		if e.Type == "app_mention" && e.Edited.TS != "" {
			m.Change, m.Revision = chat.Edited, max(e.Edited.TS, e.EventTS)
		}
		return m, ok
	}
	return chat.Message{}, false
}

// noteRateLimit tells the operator that Slack keeps events back for a minute: what people said
// then is missing (30,000 events an hour and workspace, 2026).
func (s *Slack) noteRateLimit(o *eventEnvelope) {
	s.mu.Lock()
	s.health.RateLimited++
	s.mu.Unlock()
	s.recent.Pause(rateLimitPause)
	s.o.Log.Warn("slack withholds events: there are too many", "team", o.TeamID,
		"minute", time.Unix(o.LimitedAt, 0).UTC(), "remedy", "invite the bot to fewer channels, or divide them among apps")
}

// greetingText says how to use the bot.
const greetingText = "Hello! Mention me with a question and I answer in a thread, " +
	"where you can go on without mentioning me. `/raven help` lists what else I can do."

// greet posts how to use the bot in a channel that it has joined, once: Slack may tell of it again.
func (s *Slack) greet(to chat.Address) {
	d := chat.Draft{Key: "greeting/" + to.String(), Text: greetingText}
	if known, _ := s.greeted.Change(to.Channel, func(bool, bool) bool { return true }); known {
		return
	}
	s.queueChore(func(ctx context.Context) error {
		_, err := s.Post(ctx, to, d)
		return err
	})
}

// parseMessage translates a message; false if no person wrote it, or it is a notice. A direct message, a mention and a
// reply in a thread that the bot began are addressed to the bot; other replies are followed, and all else is overheard.
// Mentions, and direct messages in the agent view, begin a thread: their own timestamp is the conversation's thread.
func (s *Slack) parseMessage(team string, e *wireMessage) (chat.Message, bool) {
	if !spokenSubtypes[e.Subtype] || e.BotID != "" || e.User == "" || e.User == s.self.user ||
		e.User == "USLACKBOT" ||
		e.TS == "" {
		return chat.Message{}, false
	}
	direct := e.ChannelType == "im" || isDirectChannel(e.Channel)
	mentioned := e.Type == "app_mention" || strings.Contains(e.Text, "<@"+s.self.user+">") ||
		strings.Contains(e.Text, "<@"+s.self.user+"|")
	// A reply has the timestamp of the thread's first message beside its own; that message has the same twice.
	threaded := e.ThreadTS != "" && e.ThreadTS != e.TS
	m := chat.Message{
		ID:           messageID(team, e.Channel, e.TS),
		Direct:       direct,
		Author:       chat.User{ID: e.User},
		Time:         parseTimestamp(e.TS),
		Text:         s.incomingText(e),
		Files:        parseFiles(e.Files),
		Reach:        chat.Overheard,
		Conversation: chat.Address{Platform: "slack", Workspace: team, Channel: e.Channel},
	}
	switch {
	case direct || mentioned,
		threaded && e.ParentUser == s.self.user && !strings.HasPrefix(strings.TrimSpace(e.Text), "<@"):
		m.Reach = chat.Addressed
	case threaded:
		m.Reach = chat.Followed
		m.ForOther = strings.HasPrefix(strings.TrimSpace(e.Text), "<@")
	}
	if m.Reach == chat.Overheard {
		m.ForOther = len(mentionedIn(e.Text)) > 0 // the bot is not among them
	}
	switch {
	case threaded:
		m.Conversation.Thread = e.ThreadTS
	case mentioned && !direct, direct && s.self.agent:
		m.Conversation.Thread = e.TS
	}
	m.Reply.MessageID = e.TS
	if threaded && (direct || mentioned) && e.Edited.TS == "" {
		s.readCommand(&m)
	}
	return m, true
}

// readCommand turns a message to the bot into the command that it names. Slack has no slash commands in threads
// (https://docs.slack.dev/interactivity/implementing-slash-commands, 2026-11).
func (s *Slack) readCommand(m *chat.Message) {
	command, rest := chat.Mentioned(m.Text, s.o.Commands)
	if command == "" {
		return
	}
	// With a user in its handle an answer can be for the asker alone.
	if raw, err := json.Marshal(handle{Received: m.Time, User: m.Author.ID}); err == nil {
		m.Command, m.Text, m.Reply.Handle = command, rest, raw
	}
}

// parseEdit translates an edit; false if only a link preview or a pin was added, or no person wrote the message.
func (s *Slack) parseEdit(team string, e *wireMessage) (chat.Message, bool) {
	var now, was wireMessage
	if json.Unmarshal(e.Message, &now) != nil {
		return chat.Message{}, false
	}
	now.fillText()
	s.noteEdit(e.Channel, &now)
	if now.Subtype == "tombstone" { // there is a thread below it
		return s.parseDeletion(team, e, now.TS)
	}
	_ = json.Unmarshal(e.Previous, &was) // may be missing
	was.fillText()
	now.Channel, now.ChannelType = e.Channel, e.ChannelType
	was.Channel, was.ChannelType, was.TS = e.Channel, e.ChannelType, now.TS
	m, ok := s.parseMessage(team, &now)
	if !ok || now.Edited.TS == "" || now.Text == was.Text {
		return chat.Message{}, false
	}
	if before, ok := s.parseMessage(team, &was); ok && m.Conversation.Thread == "" {
		m.Conversation = before.Conversation // the mention that made it a thread is gone
	}
	// The edit's own time counts in seconds (2026-11); that of the event tells two in
	// one second apart.
	m.Change, m.Revision = chat.Edited, max(now.Edited.TS, e.TS)
	return m, true
}

// parseDeletion translates the deletion of the message with a timestamp; false if it was not a
// person's.
func (s *Slack) parseDeletion(team string, e *wireMessage, ts string) (chat.Message, bool) {
	if ts == "" {
		return chat.Message{}, false
	}
	s.deleted.Put(threadKey(e.Channel, ts), true)
	gone := chat.Message{
		ID:           messageID(team, e.Channel, ts),
		Change:       chat.Deleted,
		Direct:       e.ChannelType == "im" || isDirectChannel(e.Channel),
		Conversation: chat.Address{Platform: "slack", Workspace: team, Channel: e.Channel},
	}
	var was wireMessage
	// Whose it was is not said. The deletion of a message that the bot does not know changes nothing.
	if json.Unmarshal(e.Previous, &was) != nil {
		return gone, true
	}
	was.fillText()
	was.Channel, was.ChannelType, was.TS = e.Channel, e.ChannelType, ts
	m, ok := s.parseMessage(team, &was)
	gone.Conversation = m.Conversation
	return gone, ok
}

// messageID returns the ID of a message of ours for Slack's timestamp.
func messageID(team, channel, ts string) string { return team + "/" + channel + "/" + ts }

// ephemeralPrefix stands before the timestamp of a post that one person alone sees.
const ephemeralPrefix = "ephemeral/"

// timestampOf returns the timestamp within a message's ID, or of a post; empty if it has none by which Slack would find
// it, such as a command, an answer at a response_url, or an ephemeral post.
func timestampOf(id string) string {
	if strings.HasPrefix(id, ephemeralPrefix) {
		return ""
	}
	ts := id[strings.LastIndexByte(id, '/')+1:]
	if !timestampPattern().MatchString(ts) {
		return ""
	}
	return ts
}

// timestampPattern matches Slack's name of a message. Timestamps compare as text as they do in
// time.
var timestampPattern = text.Pattern(`^[0-9]{10}\.[0-9]{6}$`)

// formatTimestamp returns the timestamp of a time, to the microsecond.
func formatTimestamp(t time.Time) string {
	micros := t.UnixMicro()
	return fmt.Sprintf("%010d.%06d", micros/1e6, micros%1e6)
}

// parseTimestamp reads a timestamp such as 1712345678.000200; the zero time where it is none.
func parseTimestamp(ts string) time.Time {
	seconds, micros, _ := strings.Cut(ts, ".")
	sec, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}
	}
	usec, _ := strconv.ParseInt(micros, 10, 64)
	return time.Unix(sec, usec*1000).UTC()
}

// wireCommand is a slash command, as JSON over the socket or as a form over HTTP.
type wireCommand struct {
	TeamID      string   `json:"team_id"`
	OrgWide     wireFlag `json:"is_enterprise_install"`
	ChannelID   string   `json:"channel_id"`
	UserID      string   `json:"user_id"`
	UserName    string   `json:"user_name"`
	Text        string   `json:"text"`
	ResponseURL string   `json:"response_url"`
	TriggerID   string   `json:"trigger_id"`
}

// handle is what is kept with a command or a press in order to answer it later.
type handle struct {
	// ResponseURL takes up to five answers within 30 minutes of Received (see countResponseUse); it needs no token, so
	// that it is kept out of logs and errors.
	ResponseURL string    `json:"responseURL"`
	Received    time.Time `json:"received"`
	// User is who gave the command or pressed: private answers are for this user alone.
	User string `json:"user"`
	// Press: a button, a shortcut or a form, whose answer is always private.
	Press bool `json:"press,omitempty"`
}

// interactionID returns an ID for something a person did once, so that a second delivery is
// recognized. Slack does not promise that no two triggers are alike, so the ID covers what was
// done, too.
func interactionID(kind, trigger string, did ...string) string {
	return kind + "/" + trigger + "/" + shortKey(strings.Join(did, "\x00"))
}

// triggerOf returns the trigger within an ID of interactionID.
func triggerOf(id string) string {
	_, rest, _ := strings.Cut(id, "/")
	if end := strings.LastIndexByte(rest, '/'); end >= 0 {
		return rest[:end]
	}
	return rest
}

// parseCommand translates /raven; false if it names no channel or user. Received is when this process saw it, because
// Slack sends no time with a command.
func (s *Slack) parseCommand(c wireCommand) (chat.Message, bool) {
	if c.ChannelID == "" || c.UserID == "" {
		return chat.Message{}, false
	}
	raw, err := json.Marshal(handle{ResponseURL: c.ResponseURL, Received: s.o.Now(), User: c.UserID})
	if err != nil {
		return chat.Message{}, false
	}
	word, rest := chat.SplitCommand(s.incomingText(&wireMessage{Text: c.Text}), s.o.Commands)
	id := interactionID("cmd", c.TriggerID, c.ResponseURL, c.ChannelID, c.UserID, c.Text)
	return chat.Message{ID: id, Author: chat.User{ID: c.UserID, Name: c.UserName, Handle: c.UserName}, Time: s.o.Now(),
		Reach: chat.Addressed, Command: word, Text: rest, Reply: chat.Reply{Handle: raw},
		Conversation: chat.Address{
			Platform:  "slack",
			Workspace: s.workspace(c.OrgWide, c.TeamID),
			Channel:   c.ChannelID,
		}, Direct: isDirectChannel(c.ChannelID)}, true
}
