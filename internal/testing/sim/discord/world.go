package simdiscord

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Channel types that are simulated.
const (
	KindText   = 0
	KindDM     = 1
	KindThread = 11 // public
	KindSecret = 12 // a private thread
	KindForum  = 15 // holds posts, which are threads
)

// Guild is a server in Discord's everyday language.
type Guild struct{ ID, Name string }

// Channel is a text channel, a thread (then ParentID is its channel) or a
// direct message (then GuildID is empty).
type Channel struct {
	ID, GuildID, ParentID, Name string
	Topic                       string
	OwnerID                     string   // of a thread: who opened it; empty: the bot
	Tags                        []string // of a post in a forum, by their names
	Kind                        int
	recipient                   string
}

// User is a person or a bot. Manager grants the Manage Server permission in
// every guild.
type User struct {
	ID, Name     string
	Global       string // what they chose to be called; empty: Name
	Nick         string // what they are called in every guild; empty: they have no such name
	Bot, Manager bool
}

// world is who and what exists; the server's lock guards it.
type world struct {
	bot      User
	lastID   int64
	guilds   []Guild
	channels []Channel
	users    []User
	posts    map[string]*Post
	order    map[string][]*Post // by channel, oldest first
	typing   map[string]int
	emoji    map[string]map[string][]string // message, emoji, user ids
	nonces   map[string]*Post               // author and nonce
	expired  int                            // how often the addresses of files ended
	granted  map[string]string              // permissions of the bot by guild; absent: those of everyone
	hidden   map[string]bool                // channels whose history the bot may not read
	botOnly  map[string]bool                // channels whose history the bot alone may read
	tags     map[string][]string            // of forums, by channel; their ids are the channel\'s with a digit behind it
	needTags map[string]bool                // forums whose posts need a tag
	archived map[string]time.Time           // threads, by when they were archived
	readers  map[string][]string            // channels that these users, the bot and nobody else can see
}

// newWorld returns a world with nobody and nothing in it.
func newWorld() world {
	return world{
		posts:    map[string]*Post{},
		order:    map[string][]*Post{},
		typing:   map[string]int{},
		emoji:    map[string]map[string][]string{},
		nonces:   map[string]*Post{},
		hidden:   map[string]bool{},
		botOnly:  map[string]bool{},
		readers:  map[string][]string{},
		archived: map[string]time.Time{},
		tags:     map[string][]string{},
		needTags: map[string]bool{},
		granted:  map[string]string{},
	}
}

const epoch = 1420070400000 // Discord's first millisecond

// newID returns an id of Discord's form: milliseconds since 2015 in the upper bits, never the same twice and always
// greater than the one before.
func (w *world) newID() string {
	w.lastID = max(w.lastID+1, (time.Now().UnixMilli()-epoch)<<22)
	return strconv.FormatInt(w.lastID, 10)
}

// addUser adds a user under a new id. The lock is held.
func (w *world) addUser(u User) User {
	u.ID = w.newID()
	w.users = append(w.users, u)
	return u
}

// channel returns a channel, thread or private channel by id. The lock is held.
func (w *world) channel(id string) (Channel, bool) {
	i := slices.IndexFunc(w.channels, func(c Channel) bool { return c.ID == id })
	if i < 0 {
		return Channel{}, false
	}
	return w.channels[i], true
}

// mustChannel serves actions: acting where nothing exists is a fault of the test.
func (w *world) mustChannel(id string) Channel {
	c, ok := w.channel(id)
	if !ok {
		panic(fmt.Sprintf("simdiscord: no channel %q", id))
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

// guild returns a server by id. The lock is held.
func (w *world) guild(id string) (Guild, bool) {
	i := slices.IndexFunc(w.guilds, func(g Guild) bool { return g.ID == id })
	if i < 0 {
		return Guild{}, false
	}
	return w.guilds[i], true
}

// Bot returns the application's own user; its id is the application's too.
func (s *Server) Bot() User {
	s.state.Lock()
	defer s.state.Unlock()
	return s.bot
}

// Mention returns the text that mentions the bot.
func (s *Server) Mention() string { return "<@" + s.Bot().ID + ">" }

// AddUser adds a person without special permissions.
func (s *Server) AddUser(name string) User { return s.newUser(User{Name: name}) }

// AddPerson adds somebody with other names than that of the account. The ID is the server's to give.
func (s *Server) AddPerson(u User) User { return s.newUser(u) }

// AddManager adds a person with the Manage Server permission.
func (s *Server) AddManager(name string) User { return s.newUser(User{Name: name, Manager: true}) }

// AddBot adds another bot.
func (s *Server) AddBot(name string) User { return s.newUser(User{Name: name, Bot: true}) }

// newUser adds a user under a new id.
func (s *Server) newUser(u User) User {
	s.state.Lock()
	defer s.state.Release()
	return s.addUser(u)
}

// AddGuild lets the bot join a new guild.
func (s *Server) AddGuild(name string) Guild { return s.AddGuildOn(0, 1, name) }

// AddGuildOn adds a guild whose events come by one shard of so many.
func (s *Server) AddGuildOn(shard, count int, name string) Guild {
	s.state.Lock()
	defer s.state.Release()
	for id := s.newID(); shardOf(id, count) != shard; id = s.newID() {
		s.lastID = (s.lastID>>22 + 1) << 22
	}
	g := Guild{ID: strconv.FormatInt(s.lastID, 10), Name: name}
	s.guilds = append(s.guilds, g)
	s.emit(event{name: "GUILD_CREATE", intent: IntentGuilds, guild: g.ID, data: s.guildWire(g)})
	return g
}

// AddChannel adds a text channel to a guild.
func (s *Server) AddChannel(guild Guild, name string) Channel {
	return s.newChannel(Channel{GuildID: guild.ID, Name: name, Kind: KindText}, "CHANNEL_CREATE")
}

// SetTopic says what a channel is for.
func (s *Server) SetTopic(channel, topic string) {
	s.state.Lock()
	defer s.state.Release()
	for i := range s.channels {
		if s.channels[i].ID == channel {
			s.channels[i].Topic = topic
			data := s.channelWire(s.channels[i])
			s.emit(event{name: "CHANNEL_UPDATE", intent: IntentGuilds, guild: s.channels[i].GuildID, data: data})
		}
	}
}

// AddThreadBy adds a public thread that a user opened.
func (s *Server) AddThreadBy(parent Channel, by User, name string) Channel {
	c := Channel{GuildID: parent.GuildID, ParentID: parent.ID, Name: name, OwnerID: by.ID, Kind: KindThread}
	return s.newChannel(c, "THREAD_CREATE")
}

// AddThread adds a public thread to a text channel.
func (s *Server) AddThread(parent Channel, name string) Channel {
	return s.newChannel(
		Channel{GuildID: parent.GuildID, ParentID: parent.ID, Name: name, Kind: KindThread},
		"THREAD_CREATE",
	)
}

// AddPrivateThread adds a thread to a text channel that only those see who were added to it, the bot among them.
func (s *Server) AddPrivateThread(parent Channel, name string) Channel {
	c := Channel{GuildID: parent.GuildID, ParentID: parent.ID, Name: name, Kind: KindSecret}
	return s.newChannel(c, "THREAD_CREATE")
}

// DeleteChannel deletes a channel or thread.
func (s *Server) DeleteChannel(id string) {
	s.state.Lock()
	defer s.state.Release()
	s.channels = slices.DeleteFunc(s.channels, func(c Channel) bool { return c.ID == id })
}

// Archive archives a thread.
func (s *Server) Archive(thread string) {
	s.state.Lock()
	defer s.state.Release()
	c := s.mustChannel(thread)
	s.archived[thread] = time.Now()
	s.emit(event{name: "THREAD_UPDATE", intent: IntentGuilds, guild: c.GuildID, data: s.channelWire(c)})
}

func (c Channel) isThread() bool { return c.Kind == KindThread || c.Kind == KindSecret }

// AddForum adds a forum to a guild.
func (s *Server) AddForum(guild Guild, name string) Channel {
	return s.newChannel(Channel{GuildID: guild.ID, Name: name, Kind: KindForum}, "CHANNEL_CREATE")
}

// SetTags gives a forum tags, of which each post needs one if required.
func (s *Server) SetTags(forum string, required bool, names ...string) {
	s.state.Lock()
	defer s.state.Release()
	s.mustChannel(forum)
	s.tags[forum], s.needTags[forum] = names, required
}

// tagID is the id of a tag of a forum by its place.
func tagID(forum string, n int) string { return forum + strconv.Itoa(n) }

// AddForumPost lets a user post in a forum: a thread that begins with a message of
// the same id.
func (s *Server) AddForumPost(forum Channel, by User, title, text string) (Channel, Post) {
	c := s.newChannel(Channel{GuildID: forum.GuildID, ParentID: forum.ID, Name: title, Kind: KindThread}, "THREAD_CREATE")
	return c, s.Say(c.ID, by, text, func(p *Post) { p.ID = c.ID })
}

// newChannel adds a channel or thread under a new id, and announces it under the name of an event.
func (s *Server) newChannel(c Channel, eventName string) Channel {
	s.state.Lock()
	defer s.state.Release()
	c.ID = s.newID()
	s.channels = append(s.channels, c)
	s.emit(event{name: eventName, intent: IntentGuilds, guild: c.GuildID, data: s.channelWire(c)})
	return c
}

// HideHistory takes from the bot the permission to read a channel's history. It
// still sees and answers what is said there while it listens.
func (s *Server) HideHistory(channel string) {
	s.state.Lock()
	defer s.state.Release()
	c := s.mustChannel(channel)
	s.hidden[channel] = true
	s.emit(event{name: "CHANNEL_UPDATE", intent: IntentGuilds, guild: c.GuildID, data: s.channelWire(c)})
}

// HideHistoryFromPeople takes from everybody but the bot the permission to read a channel's history.
func (s *Server) HideHistoryFromPeople(channel string) {
	s.state.Lock()
	defer s.state.Release()
	c := s.mustChannel(channel)
	s.botOnly[channel] = true
	s.emit(event{name: "CHANNEL_UPDATE", intent: IntentGuilds, guild: c.GuildID, data: s.channelWire(c)})
}

// LimitReaders lets these users, the bot and nobody else see a channel.
func (s *Server) LimitReaders(channel string, users ...User) {
	s.state.Lock()
	defer s.state.Release()
	c := s.mustChannel(channel)
	s.readers[channel] = []string{s.bot.ID}
	for _, u := range users {
		s.readers[channel] = append(s.readers[channel], u.ID)
	}
	s.emit(event{name: "CHANNEL_UPDATE", intent: IntentGuilds, guild: c.GuildID, data: s.channelWire(c)})
}

// Grant sets the permissions that the bot is told to have in a guild. Requests are
// not held to them.
func (s *Server) Grant(guild string, bits int64) {
	s.state.Lock()
	defer s.state.Release()
	s.granted[guild] = strconv.FormatInt(bits, 10)
}

// AddDM returns the direct-message channel of a user and the bot.
func (s *Server) AddDM(with User) Channel {
	s.state.Lock()
	defer s.state.Release()
	return s.dm(with.ID)
}

// dm returns the private channel with a user, made when there is none. The lock is held.
func (s *Server) dm(user string) Channel {
	for _, c := range s.channels {
		if c.Kind == KindDM && c.recipient == user {
			return c
		}
	}
	c := Channel{ID: s.newID(), Kind: KindDM, recipient: user}
	s.channels = append(s.channels, c)
	return c
}

// orNull returns a text, or null where it is empty.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// userWire returns a user as Discord sends one. Users have no discriminator any more: "0" (since 2023).
func userWire(u User) map[string]any {
	return map[string]any{
		"id":            u.ID,
		"username":      u.Name,
		"global_name":   cmp.Or(u.Global, u.Name),
		"discriminator": "0",
		"avatar":        nil,
		"bot":           u.Bot,
		"public_flags":  0,
	}
}

const (
	everyonePermissions = 1<<6 | 1<<10 | 1<<11 | 1<<14 | 1<<15 | 1<<16 | 1<<31 | 1<<35 | 1<<38
	manageGuild         = 1 << 5
	readHistory         = 1 << 16
	viewChannel         = 1 << 10
)

// permissions returns what somebody may do, as the decimal bit set of Discord's API.
func permissions(u User) string {
	p := int64(everyonePermissions)
	if u.Manager {
		p |= manageGuild
	}
	return strconv.FormatInt(p, 10)
}

// managerRole returns the id of the guild's role that carries Manage Server.
func managerRole(guild string) string { return guild + "0" }

// memberWire returns somebody as a member of a server, without the user itself: it stands beside it in messages, within
// it elsewhere.
func memberWire(guild string, u User) map[string]any {
	roles := []string{}
	if u.Manager {
		roles = append(roles, managerRole(guild))
	}
	return map[string]any{"roles": roles, "joined_at": "2024-01-01T00:00:00.000000+00:00", "deaf": false, "mute": false,
		"nick": orNull(u.Nick), "avatar": nil, "flags": 0, "pending": false}
}

// rolesWire returns the roles of a server: that of everybody, which has the server's own id, and one for managers.
func rolesWire(guild string) []any {
	role := func(id, name string, bits int64) map[string]any {
		return map[string]any{"id": id, "name": name, "permissions": strconv.FormatInt(bits, 10), "position": 0, "color": 0,
			"hoist": false, "managed": false, "mentionable": false, "flags": 0}
	}
	return []any{
		role(guild, "@everyone", everyonePermissions),
		role(managerRole(guild), "managers", everyonePermissions|manageGuild),
	}
}

// channelWire returns a channel as Discord sends one. The lock is held.
func (s *Server) channelWire(c Channel) map[string]any {
	wire := map[string]any{"id": c.ID, "type": c.Kind, "flags": 0, "last_message_id": nil}
	if posts := s.order[c.ID]; len(posts) > 0 {
		wire["last_message_id"] = posts[len(posts)-1].ID // deleted or not
	}
	switch c.Kind {
	case KindDM:
		u, _ := s.user(c.recipient)
		wire["recipients"] = []any{userWire(u)}
		return wire
	case KindThread, KindSecret:
		wire["owner_id"] = cmp.Or(c.OwnerID, s.bot.ID)
		at, archived := s.archived[c.ID]
		wire["thread_metadata"] = map[string]any{
			"archived":              archived,
			"auto_archive_duration": 1440,
			"archive_timestamp":     at.UTC().Format("2006-01-02T15:04:05.000000+00:00"),
			"locked":                false,
		}
		wire["member_count"], wire["message_count"] = 1, len(s.order[c.ID])
	default:
		if c.Kind == KindForum {
			tags := []any{}
			for n, name := range s.tags[c.ID] {
				tags = append(tags, map[string]any{"id": tagID(c.ID, n), "name": name, "moderated": false, "emoji_id": nil,
					"emoji_name": nil})
			}
			if wire["available_tags"] = tags; s.needTags[c.ID] {
				wire["flags"] = 1 << 4
			}
		}
		wire["permission_overwrites"], wire["position"], wire["nsfw"], wire["topic"] = []any{}, 0, false, orNull(c.Topic)
		overwrites := []any{}
		if s.hidden[c.ID] || s.botOnly[c.ID] {
			everyone := map[string]any{"id": c.GuildID, "type": 0, "allow": "0", "deny": strconv.Itoa(readHistory)}
			overwrites = append(overwrites, everyone)
		}
		if s.botOnly[c.ID] {
			bot := map[string]any{"id": s.bot.ID, "type": 1, "allow": strconv.Itoa(readHistory), "deny": "0"}
			overwrites = append(overwrites, bot)
		}
		if readers, limited := s.readers[c.ID]; limited {
			overwrites = append(overwrites, map[string]any{"id": c.GuildID, "type": 0, "allow": "0",
				"deny": strconv.Itoa(viewChannel)})
			for _, id := range readers {
				overwrites = append(overwrites, map[string]any{"id": id, "type": 1,
					"allow": strconv.Itoa(viewChannel), "deny": "0"})
			}
		}
		wire["permission_overwrites"] = overwrites
	}
	wire["guild_id"], wire["name"], wire["parent_id"] = c.GuildID, c.Name, nil
	if c.ParentID != "" {
		wire["parent_id"] = c.ParentID
	}
	return wire
}

// guildWire returns a server as GUILD_CREATE has it, with its channels, threads and members. The lock is held.
func (s *Server) guildWire(g Guild) map[string]any {
	wire := s.plainGuildWire(g)
	channels, threads, members := []any{}, []any{}, []any{}
	for _, c := range s.channels {
		if c.GuildID != g.ID {
			continue
		}
		if _, archived := s.archived[c.ID]; archived {
			continue
		}
		if c.isThread() {
			threads = append(threads, s.channelWire(c))
		} else {
			channels = append(channels, s.channelWire(c))
		}
	}
	bot := memberWire(g.ID, s.bot)
	bot["user"] = userWire(s.bot)
	members = append(members, bot)
	wire["channels"], wire["threads"], wire["members"] = channels, threads, members
	wire["joined_at"] = "2024-01-01T00:00:00.000000+00:00"
	wire["large"] = false
	wire["unavailable"] = false
	wire["member_count"] = len(s.users)
	for _, empty := range []string{"presences", "voice_states", "stage_instances", "guild_scheduled_events"} {
		wire[empty] = []any{}
	}
	return wire
}

// plainGuildWire returns a server as the REST API has it.
func (s *Server) plainGuildWire(g Guild) map[string]any {
	return map[string]any{
		"id":                            g.ID,
		"name":                          g.Name,
		"owner_id":                      g.ID,
		"roles":                         rolesWire(g.ID),
		"emojis":                        []any{},
		"features":                      []any{},
		"preferred_locale":              "en-US",
		"verification_level":            0,
		"default_message_notifications": 0,
		"explicit_content_filter":       0,
		"mfa_level":                     0,
		"premium_tier":                  0,
		"nsfw_level":                    0,
		"afk_timeout":                   300,
		"system_channel_flags":          0,
	}
}
