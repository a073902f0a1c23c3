package simslack

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// Identifiers of the one workspace, app and bot.
const (
	TeamID    = "T0SIMTEAM"
	AppID     = "A0SIMAPP"
	BotID     = "B0SIMBOT"
	BotUserID = "U0SIMBOT"
)

// User is a person; Admin makes a workspace admin.
type User struct {
	ID, Name string
	Display  string // what the person wants to be called; empty: Name
	Zone     string // IANA name; empty: Europe/Oslo
	Admin    bool
	Bot      bool // the user of another app
	Guest    bool // in the channels alone that they were added to
	// Team is the workspace of a person of another company, in channels that are shared with it; empty: TeamID.
	Team string
}

// Channel is a public channel, one for its members, or a direct message with User.
type Channel struct {
	ID, Name string
	Topic    string
	TopicBy  string
	User     string // set for direct messages
	Member   bool   // whether the bot is in it
	Archived bool
	Members  []string // of a private channel, beside the bot; nil: it is public
}

// Post is a message as it stands now.
type Post struct {
	TS, Channel string
	User        string // author
	Text        string
	Markdown    string // markdown_text, streamed text included
	Blocks      json.RawMessage
	Attachments json.RawMessage
	ThreadTS    string
	Broadcast   bool
	Metadata    json.RawMessage
	Unfurl      string // "unfurl_links" and "unfurl_media" as sent, joined by a comma
	Files       []File
	Pings       Pings
	Sent        time.Time
	Edits       int
	EditedTS    string // when it was last edited
	Deleted     bool
	Tombstone   bool              // deleted, but there is a thread below it
	Streaming   bool              // started and not stopped
	Appends     int               // of a stream
	Recipient   string            // of a stream, with their workspace, as user/team
	Tasks       map[string]string // of a stream: the state of its task cards, by id
	Response    bool              // came by a response URL
	EphemeralTo string
	reactions   map[string][]string
}

// Shown returns all text of a post a reader sees: text, or what takes its place.
func (p Post) Shown() string {
	if p.Markdown != "" {
		return p.Markdown
	}
	return p.Text
}

// File is an upload.
type File struct {
	ID, Name, Title string
	Type            string // media type
	Body            []byte
}

// world is who and what exists; the server's lock guards it.
type world struct {
	origin    string // of this server's addresses
	lastID    int
	lastTS    int64
	users     []User
	groups    []UserGroup
	channels  []*Channel
	posts     map[string][]*Post // by channel, oldest first
	ephemeral []Post
	files     map[string]*File
	threads   map[string]*AssistantThread
	guestIn   map[string][]string // public channels, by guest
	views     []View
}

// newWorld returns a workspace with nobody and nothing in it.
func newWorld() world {
	return world{posts: map[string][]*Post{}, files: map[string]*File{}, threads: map[string]*AssistantThread{},
		guestIn: map[string][]string{}}
}

// newID returns an id with a prefix that tells its kind: U, C, D, F, V. The lock is held.
func (w *world) newID(prefix string) string {
	w.lastID++
	return fmt.Sprintf("%s%08d", prefix, w.lastID)
}

// newTS returns the timestamp of a message: microseconds, always greater than the one before. The lock is held.
func (w *world) newTS() string {
	w.lastTS = max(w.lastTS+1, time.Now().UnixMicro())
	return strconv.FormatInt(w.lastTS/1e6, 10) + "." + fmt.Sprintf("%06d", w.lastTS%1e6)
}

// BotMention is the text that mentions the bot.
const BotMention = "<@" + BotUserID + ">"

// AddUser adds a person.
func (s *Server) AddUser(name string) User { return s.addUser(User{Name: name}) }

// AddAdmin adds a workspace admin.
func (s *Server) AddAdmin(name string) User { return s.addUser(User{Name: name, Admin: true}) }

// AddOutsider adds a person of another company, who meets the bot in channels that are shared with it, and administers
// their own workspace.
func (s *Server) AddOutsider(name, team string) User {
	return s.addUser(User{Name: name, Team: team, Admin: true})
}

// AddGuest adds a guest of the workspace who is in some public channels; members of private ones are named there.
func (s *Server) AddGuest(name string, in ...Channel) User {
	u := s.addUser(User{Name: name, Guest: true})
	s.state.Lock()
	defer s.state.Release()
	for _, c := range in {
		s.guestIn[u.ID] = append(s.guestIn[u.ID], c.ID)
	}
	return u
}

// AddBot adds the user of another app.
func (s *Server) AddBot(name string) User { return s.addUser(User{Name: name, Bot: true}) }

// UserGroup is a group of people in the workspace.
type UserGroup struct {
	ID, Handle string
	Users      []string
}

// AddUserGroup adds a user group with members.
func (s *Server) AddUserGroup(handle string, members ...User) UserGroup {
	s.state.Lock()
	defer s.state.Release()
	g := UserGroup{ID: fmt.Sprintf("S%08d", len(s.groups)+1), Handle: handle}
	for _, m := range members {
		g.Users = append(g.Users, m.ID)
	}
	s.groups = append(s.groups, g)
	return g
}

// listUserGroups answers usergroups.list (https://docs.slack.dev/reference/methods/usergroups.list, 2026-11).
func (s *Server) listUserGroups(a args) (map[string]any, *slackError) {
	list := []any{}
	for _, g := range s.groups {
		one := map[string]any{"id": g.ID, "team_id": TeamID, "handle": g.Handle, "name": g.Handle, "is_usergroup": true}
		if a["include_users"] == "true" {
			one["users"] = g.Users
		}
		list = append(list, one)
	}
	return map[string]any{"usergroups": list}, nil
}

// SetProfile changes what a person wants to be called, and their time zone.
func (s *Server) SetProfile(user, display, zone string) {
	s.state.Lock()
	defer s.state.Release()
	for i := range s.users {
		if s.users[i].ID == user {
			s.users[i].Display, s.users[i].Zone = display, zone
		}
	}
}

// SetTopic lets a user change the topic of a channel.
func (s *Server) SetTopic(channel string, by User, topic string) {
	s.state.Lock()
	defer s.state.Release()
	c := s.mustChannel(channel)
	c.Topic, c.TopicBy = topic, by.ID
}

// addUser adds a user under a new id.
func (s *Server) addUser(u User) User {
	s.state.Lock()
	defer s.state.Release()
	u.ID = s.newID("U")
	s.users = append(s.users, u)
	return u
}

// AddChannel adds a public channel with the bot in it.
func (s *Server) AddChannel(name string) Channel {
	return s.addChannel(Channel{Name: name, Member: true})
}

// AddOtherChannel adds a public channel that the bot has not joined.
func (s *Server) AddOtherChannel(name string) Channel { return s.addChannel(Channel{Name: name}) }

// AddPrivateChannel adds a channel that its members and the bot alone can read.
func (s *Server) AddPrivateChannel(name string, members ...User) Channel {
	c := Channel{Name: name, Member: true, Members: []string{}}
	for _, m := range members {
		c.Members = append(c.Members, m.ID)
	}
	return s.addChannel(c)
}

// Archive archives a channel.
func (s *Server) Archive(channel string) {
	s.state.Lock()
	defer s.state.Release()
	s.mustChannel(channel).Archived = true
}

// RemoveMember takes somebody out of a private channel.
func (s *Server) RemoveMember(channel string, who User) {
	s.state.Lock()
	defer s.state.Release()
	c := s.mustChannel(channel)
	c.Members = slices.DeleteFunc(slices.Clone(c.Members), func(id string) bool { return id == who.ID })
}

// addChannel adds a channel under a new id.
func (s *Server) addChannel(c Channel) Channel {
	s.state.Lock()
	defer s.state.Release()
	c.ID = s.newID("C")
	s.channels = append(s.channels, &c)
	return c
}

// AddDM returns the direct-message channel of a user and the bot.
func (s *Server) AddDM(with User) Channel {
	s.state.Lock()
	defer s.state.Release()
	return *s.dm(with.ID)
}

// dm returns the private conversation with a user, made when there is none. The lock is held.
func (w *world) dm(user string) *Channel {
	for _, c := range w.channels {
		if c.User == user {
			return c
		}
	}
	c := &Channel{ID: w.newID("D"), User: user, Member: true}
	w.channels = append(w.channels, c)
	return c
}

// channel returns a channel by id; nil: there is none. The lock is held.
func (w *world) channel(id string) *Channel {
	i := slices.IndexFunc(w.channels, func(c *Channel) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return w.channels[i]
}

// mustChannel serves actions: acting where nothing exists is a fault of the test.
func (w *world) mustChannel(id string) *Channel {
	c := w.channel(id)
	if c == nil {
		panic(fmt.Sprintf("simslack: no channel %q", id))
	}
	return c
}

// user returns a user by id. The lock is held.
func (w *world) user(id string) (User, bool) {
	i := slices.IndexFunc(w.users, func(u User) bool { return u.ID == id })
	if i < 0 {
		return User{}, false
	}
	return w.users[i], true
}

// teamOf returns the workspace of a user. What a person of another company does in a shared channel names theirs, beside
// that through which the app hears of it (Slack Connect, 2026-11).
func (w *world) teamOf(user string) string {
	u, _ := w.user(user)
	return cmp.Or(u.Team, TeamID)
}

// message returns a message by channel and timestamp; nil: there is none, or it was deleted. The lock is held.
func (w *world) message(channel, ts string) *Post {
	for _, p := range w.posts[channel] {
		if p.TS == ts && !p.Deleted {
			return p
		}
	}
	return nil
}

// root finds what a thread may hang below: a message, or where one was.
func (w *world) root(channel, ts string) *Post {
	for _, p := range w.posts[channel] {
		if p.TS == ts && (!p.Deleted || p.Tombstone) {
			return p
		}
	}
	return nil
}

func (w *world) mustMessage(channel, ts string) *Post {
	p := w.message(channel, ts)
	if p == nil {
		panic(fmt.Sprintf("simslack: no message %s in %s", ts, channel))
	}
	return p
}

// wire renders a message as history and events do.
func (w *world) wire(p *Post, metadata bool) map[string]any {
	m := map[string]any{"type": "message", "user": p.User, "text": p.Shown(), "ts": p.TS, "team": w.teamOf(p.User)}
	switch {
	case p.Tombstone:
		m["subtype"], m["hidden"], m["user"], m["text"] = "tombstone", true, "USLACKBOT", "This message was deleted."
	case p.User == BotUserID:
		m["bot_id"], m["app_id"] = BotID, AppID
		m["bot_profile"] = map[string]any{"id": BotID, "app_id": AppID, "name": "ravenbot", "team_id": TeamID}
	default:
		m["client_msg_id"] = "client-" + p.TS
	}
	if u, _ := w.user(p.User); u.Bot {
		m["bot_id"], m["bot_profile"] = "B"+u.ID, map[string]any{"id": "B" + u.ID, "name": u.Name, "team_id": TeamID}
	}
	w.wireThread(p, m)
	if p.Tombstone {
		return m
	}
	if p.Blocks != nil {
		m["blocks"] = p.Blocks
	}
	if p.Attachments != nil {
		m["attachments"] = p.Attachments
	}
	if p.Metadata != nil && metadata {
		m["metadata"] = p.Metadata
	}
	if p.EditedTS != "" {
		m["edited"] = map[string]any{"user": p.User, "ts": p.EditedTS}
	}
	if len(p.Files) > 0 {
		m["files"] = w.filesWire(p.Files)
		if w.teamOf(p.User) != TeamID {
			m["files"] = hiddenFilesWire(p.Files)
		}
		if !p.Broadcast {
			m["subtype"] = "file_share"
		}
	}
	var reactions []any
	for name, users := range p.reactions {
		reactions = append(reactions, map[string]any{"name": name, "users": users, "count": len(users)})
	}
	if reactions != nil {
		m["reactions"] = reactions
	}
	return m
}

// wireThread adds what a message tells of its thread.
func (w *world) wireThread(p *Post, m map[string]any) {
	if p.ThreadTS != "" {
		m["thread_ts"] = p.ThreadTS
		if parent := w.root(p.Channel, p.ThreadTS); parent != nil {
			m["parent_user_id"] = parent.User
		}
		if p.Broadcast {
			m["subtype"] = "thread_broadcast"
		}
		return
	}
	replies := w.replies(p)
	if len(replies) == 0 {
		return
	}
	var users []string
	for _, r := range replies {
		users = addNew(users, r.User)
	}
	m["thread_ts"], m["reply_count"], m["latest_reply"] = p.TS, len(replies), replies[len(replies)-1].TS
	m["reply_users"], m["reply_users_count"] = users[:min(len(users), maxReplyUsers)], len(users)
}

// maxReplyUsers is how many of those who answered a message names.
const maxReplyUsers = 5

func (w *world) filesWire(files []File) []any {
	list := []any{}
	for _, f := range files {
		list = append(list, w.fileWire(f))
	}
	return list
}

func (w *world) fileWire(f File) map[string]any {
	return map[string]any{"id": f.ID, "name": f.Name, "title": f.Title, "mimetype": f.Type, "size": len(f.Body),
		"url_private": w.origin + pathFiles + f.ID + "/" + url.PathEscape(f.Name)}
}

// hiddenFilesWire returns files as Slack sends those of another company: an app has to ask files.info for more
// (https://docs.slack.dev/reference/objects/file-object, 2026-11).
func hiddenFilesWire(files []File) []any {
	list := []any{}
	for _, f := range files {
		list = append(list, map[string]any{"id": f.ID, "file_access": "check_file_info", "created": 0, "timestamp": 0})
	}
	return list
}

func (w *world) replies(p *Post) []*Post {
	var replies []*Post
	for _, r := range w.posts[p.Channel] {
		if r.ThreadTS == p.TS && !r.Deleted {
			replies = append(replies, r)
		}
	}
	return replies
}

// channelWire returns a channel as Slack sends one. The lock is held.
func (w *world) channelWire(c *Channel) map[string]any {
	if c.User != "" {
		return map[string]any{"id": c.ID, "is_im": true, "user": c.User, "is_open": true}
	}
	return map[string]any{
		"id":          c.ID,
		"name":        c.Name,
		"is_channel":  true,
		"is_member":   c.Member,
		"is_private":  c.Members != nil,
		"is_archived": c.Archived,
		"topic":       map[string]any{"value": c.Topic, "creator": c.TopicBy, "last_set": 0},
		"purpose":     map[string]any{"value": "", "creator": "", "last_set": 0},
		"num_members": len(w.users),
	}
}

// channelType returns the channel_type of events.
func channelType(c *Channel) string {
	if c.User != "" {
		return "im"
	}
	return "channel"
}
