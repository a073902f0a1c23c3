package simdiscord

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/core/text"
)

func unknownError(code int, what string) *apiError {
	return fail(http.StatusNotFound, code, "Unknown "+what)
}

// withLock runs a handler under the server's lock and announces its changes.
func (s *Server) withLock(h handler) handler {
	return func(c *call) (int, any, *apiError) {
		s.state.Lock()
		defer s.state.Release()
		return h(c)
	}
}

// routeAccount registers what a bot asks about itself, its servers, channels and members, and the making of private
// channels and threads.
func (s *Server) routeAccount(mux *http.ServeMux) {
	get := func(path string, h handler) { s.handle(mux, "GET "+path, s.withLock(h)) }
	get("/gateway", func(*call) (int, any, *apiError) {
		return 200, map[string]any{"url": s.socketURL()}, nil
	})
	get("/gateway/bot", func(*call) (int, any, *apiError) {
		return 200, map[string]any{
			"url":    s.socketURL(),
			"shards": max(s.opts.Shards, s.minShards),
			"session_start_limit": map[string]any{
				"total":           1000,
				"remaining":       max(0, s.opts.Identifies-len(s.identifies)),
				"reset_after":     86400000,
				"max_concurrency": max(1, s.opts.MaxConcurrency),
			},
		}, nil
	})
	get("/users/@me", func(*call) (int, any, *apiError) { return 200, userWire(s.bot), nil })
	get("/users/@me/guilds", s.listGuilds)
	get("/users/{user}", s.getUser)
	get("/oauth2/applications/@me", s.getApplication)
	get("/applications/@me", s.getApplication)
	get("/channels/{channel}", func(c *call) (int, any, *apiError) {
		ch, err := s.channelOf(c)
		if err != nil {
			return 0, nil, err
		}
		return 200, s.channelWire(ch), nil
	})
	get("/guilds/{guild}", s.withGuild(func(g Guild, _ *call) (any, *apiError) { return s.plainGuildWire(g), nil }))
	get("/guilds/{guild}/roles", s.withGuild(func(g Guild, _ *call) (any, *apiError) { return rolesWire(g.ID), nil }))
	get("/guilds/{guild}/channels", s.withGuild(s.guildChannels))
	get("/guilds/{guild}/threads/active", s.withGuild(s.guildThreads))
	get("/channels/{channel}/threads/archived/public", s.archivedThreads)
	get("/guilds/{guild}/members/{user}", s.withGuild(s.guildMember))
	s.handle(mux, "POST /users/@me/channels", s.withLock(s.openDM))
	s.handle(mux, "POST /channels/{channel}/threads", s.withLock(s.startThread))
	s.handle(mux, "POST /channels/{channel}/messages/{message}/threads", s.withLock(s.startThread))
}

// channelOf returns the channel that a path names; code 10003 where there is none.
func (s *Server) channelOf(c *call) (Channel, *apiError) {
	ch, ok := s.channel(c.PathValue("channel"))
	if !ok {
		return ch, unknownError(10003, "Channel")
	}
	return ch, nil
}

// listGuilds returns the servers of the bot, ordered by id, behind the id in "after", with what the bot may do in each.
// A page holds 200, the default and most that Discord allows.
func (s *Server) listGuilds(c *call) (int, any, *apiError) {
	limit, after := 200, c.URL.Query().Get("after")
	if n, err := strconv.Atoi(c.URL.Query().Get("limit")); err == nil {
		limit = n
	}
	list := []any{}
	byID := func(a, b Guild) int { return strings.Compare(a.ID, b.ID) }
	for _, g := range slices.SortedFunc(slices.Values(s.guilds), byID) {
		granted, narrowed := s.granted[g.ID]
		if !narrowed {
			granted = permissions(s.bot)
		}
		if g.ID > after && len(list) < limit { // ids of one length
			list = append(
				list,
				map[string]any{"id": g.ID, "name": g.Name, "owner": false, "permissions": granted, "features": []any{}},
			)
		}
	}
	return 200, list, nil
}

// getUser returns a user by id; code 10013 where there is none.
func (s *Server) getUser(c *call) (int, any, *apiError) {
	u, ok := s.user(c.PathValue("user"))
	if !ok {
		return 0, nil, unknownError(10013, "User")
	}
	return 200, userWire(u), nil
}

// getApplication returns the bot's application. Its flags tell which privileged intents were switched on for an app in
// fewer than 100 servers: the GATEWAY_*_LIMITED bits of Discord's document on applications.
func (s *Server) getApplication(*call) (int, any, *apiError) {
	flags := 0
	for intent, bit := range map[int]int{IntentPresences: 1 << 13, IntentGuildMembers: 1 << 15,
		IntentMessageContent: 1 << 19} {
		if s.opts.Privileged&intent != 0 {
			flags |= bit
		}
	}
	return 200, map[string]any{"id": s.bot.ID, "name": s.bot.Name, "description": "", "icon": nil, "bot_public": true,
		"bot_require_code_grant": false, "verify_key": strings.Repeat("0", 64), "flags": flags, "bot": userWire(s.bot)}, nil
}

// withGuild lets h answer for the server that a path names, with status 200; code 10004 where there is none.
func (s *Server) withGuild(h func(Guild, *call) (any, *apiError)) handler {
	return func(c *call) (int, any, *apiError) {
		g, ok := s.guild(c.PathValue("guild"))
		if !ok {
			return 0, nil, unknownError(10004, "Guild")
		}
		body, err := h(g, c)
		return 200, body, err
	}
}

// guildChannels returns the channels of a server. Threads are not among them, as with Discord.
func (s *Server) guildChannels(g Guild, _ *call) (any, *apiError) {
	list := []any{}
	for _, c := range s.channels {
		if c.GuildID == g.ID && !c.isThread() {
			list = append(list, s.channelWire(c))
		}
	}
	return list, nil
}

// guildThreads returns the threads of a server that are not archived. Which of them the bot has joined is left empty.
func (s *Server) guildThreads(g Guild, _ *call) (any, *apiError) {
	list := []any{}
	for _, c := range s.channels {
		if _, archived := s.archived[c.ID]; !archived && c.GuildID == g.ID && c.isThread() {
			list = append(list, s.channelWire(c))
		}
	}
	return map[string]any{"threads": list, "members": []any{}}, nil
}

// archivedThreads returns the public threads of a channel that are archived, the last one first.
func (s *Server) archivedThreads(c *call) (int, any, *apiError) {
	ch, failed := s.channelOf(c)
	if failed != nil {
		return 0, nil, failed
	}
	if s.hidden[ch.ID] {
		return 0, nil, fail(403, 50001, "Missing Access")
	}
	query := c.URL.Query()
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil {
		limit = 50
	}
	before, err := time.Parse(time.RFC3339, query.Get("before"))
	if query.Has("before") && err != nil {
		return 0, nil, badForm("before", "DATE_TIME_TYPE_PARSE", "Could not parse the date.")
	}
	var threads []Channel
	for _, t := range s.channels {
		at, archived := s.archived[t.ID]
		if archived && t.ParentID == ch.ID && t.Kind == KindThread && (before.IsZero() || at.Before(before)) {
			threads = append(threads, t)
		}
	}
	slices.SortFunc(threads, func(a, b Channel) int { return s.archived[b.ID].Compare(s.archived[a.ID]) })
	list := []any{}
	for _, t := range threads[:min(limit, len(threads))] {
		list = append(list, s.channelWire(t))
	}
	return 200, map[string]any{"threads": list, "members": []any{}, "has_more": len(threads) > limit}, nil
}

// guildMember returns somebody as a member of a server; code 10007 where nobody has that id. Every user is a member of
// every server.
func (s *Server) guildMember(g Guild, c *call) (any, *apiError) {
	u, ok := s.user(c.PathValue("user"))
	if !ok {
		return nil, unknownError(10007, "Member")
	}
	m := memberWire(g.ID, u)
	m["user"] = userWire(u)
	return m, nil
}

// openDM returns the private channel with a user, made when it is asked for first. A bot cannot write to a bot: code
// 50007.
func (s *Server) openDM(c *call) (int, any, *apiError) {
	var d struct {
		Recipient string `json:"recipient_id"`
	}
	if json.Unmarshal(c.body, &d) != nil {
		return 0, nil, fail(400, 50109, "The request body contains invalid JSON.")
	}
	u, ok := s.user(d.Recipient)
	if !ok {
		return 0, nil, unknownError(10013, "User")
	}
	if u.Bot {
		return 0, nil, fail(400, 50007, "Cannot send messages to this user")
	}
	return 200, s.channelWire(s.dm(u.ID)), nil
}

// startThread makes a thread in a text channel, from a message or without one, or a post in a forum. It refuses names
// that are not of 1 to 100 characters, channels of other kinds (50024), messages that are not there (10008) and a
// second thread from one message (160004).
func (s *Server) startThread(c *call) (int, any, *apiError) {
	parent, err := s.channelOf(c)
	if err != nil {
		return 0, nil, err
	}
	var d struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(c.body, &d) != nil || d.Name == "" || len([]rune(d.Name)) > 100 {
		return 0, nil, badForm("name", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
	}
	if parent.Kind == KindForum && c.PathValue("message") == "" {
		return s.startForumPost(parent, d.Name, c)
	}
	if parent.Kind != KindText {
		return 0, nil, fail(400, 50024, "Cannot execute action on this channel type")
	}
	t := Channel{ID: s.newID(), GuildID: parent.GuildID, ParentID: parent.ID, Name: d.Name, Kind: KindThread}
	if message := c.PathValue("message"); message != "" {
		if p, ok := s.posts[message]; !ok || p.Deleted || p.ChannelID != parent.ID {
			return 0, nil, unknownError(10008, "Message")
		}
		if _, exists := s.channel(message); exists {
			return 0, nil, fail(400, 160004, "A thread has already been created for this message")
		}
		t.ID = message // a thread takes the id of the message it starts from
	}
	s.channels = append(s.channels, t)
	s.emit(event{name: "THREAD_CREATE", intent: IntentGuilds, guild: t.GuildID, data: s.channelWire(t)})
	return 201, s.channelWire(t), nil
}

// startForumPost begins a post in a forum: a thread with its first message, which has its id.
func (s *Server) startForumPost(forum Channel, title string, c *call) (int, any, *apiError) {
	var body struct {
		Tags    []string        `json:"applied_tags"`
		Message json.RawMessage `json:"message"`
	}
	if json.Unmarshal(c.body, &body) != nil || body.Message == nil {
		return 0, nil, badForm("message", "BASE_TYPE_REQUIRED", "This field is required")
	}
	t := Channel{ID: s.newID(), GuildID: forum.GuildID, ParentID: forum.ID, Name: title, Kind: KindThread}
	for _, id := range body.Tags {
		found := false
		for n, name := range s.tags[forum.ID] {
			if id == tagID(forum.ID, n) {
				t.Tags, found = append(t.Tags, name), true
			}
		}
		if !found {
			return 0, nil, badForm("applied_tags", "BASE_TYPE_CHOICES", "Unknown tag")
		}
	}
	if len(body.Tags) == 0 && s.needTags[forum.ID] {
		return 0, nil, fail(400, 40067, "A tag is required to create a forum post in this channel")
	}
	d, err := (&call{Request: c.Request, body: body.Message}).draft()
	if err != nil {
		return 0, nil, err
	}
	if d.isEmpty(0) {
		return 0, nil, fail(400, 50006, "Cannot send an empty message")
	}
	s.channels = append(s.channels, t)
	s.emit(event{name: "THREAD_CREATE", intent: IntentGuilds, guild: t.GuildID, data: s.channelWire(t)})
	p := &Post{ID: t.ID, ChannelID: t.ID, Author: s.bot}
	d.apply(p, nil)
	rule := allowEverything()
	if d.AllowedMentions != nil {
		rule = *d.AllowedMentions
	}
	s.setPings(p, rule)
	s.store(p)
	s.announce("MESSAGE_CREATE", p)
	return 201, s.channelWire(t), nil
}

// Threads returns the threads of a channel, the posts of a forum.
func (s *Server) Threads(channel string) []Channel {
	s.state.Lock()
	defer s.state.Unlock()
	var list []Channel
	for _, c := range s.channels {
		if c.ParentID == channel {
			list = append(list, c)
		}
	}
	return list
}

// command is an application command as registered.
type command = map[string]any

var commandName = text.Pattern(`^[-_'\p{L}\p{N}\p{Devanagari}\p{Thai}]+$`) // of 32 at most

// routeCommands registers the application's commands, those for all servers and those of one server alike.
func (s *Server) routeCommands(mux *http.ServeMux) {
	for _, scope := range []string{"/applications/{app}/commands", "/applications/{app}/guilds/{guild}/commands"} {
		s.handle(mux, "GET "+scope, s.withOwnApp(s.listCommands))
		s.handle(mux, "POST "+scope, s.withOwnApp(s.addCommand))
		s.handle(mux, "PUT "+scope, s.withOwnApp(s.replaceCommands))
		s.handle(mux, "GET "+scope+"/{command}", s.withOwnApp(s.getCommand))
		s.handle(mux, "PATCH "+scope+"/{command}", s.withOwnApp(s.editCommand))
		s.handle(mux, "DELETE "+scope+"/{command}", s.withOwnApp(s.deleteCommand))
	}
}

// withOwnApp lets h answer for the bot's own application: code 10002 for another one, 50001 for a server that the bot
// is not in.
func (s *Server) withOwnApp(h handler) handler {
	return s.withLock(func(c *call) (int, any, *apiError) {
		if c.PathValue("app") != s.bot.ID {
			return 0, nil, unknownError(10002, "Application")
		}
		if g := c.PathValue("guild"); g != "" {
			if _, ok := s.guild(g); !ok {
				return 0, nil, fail(403, 50001, "Missing Access")
			}
		}
		return h(c)
	})
}

func (s *Server) listCommands(c *call) (int, any, *apiError) {
	return 200, orEmpty(s.commands[c.PathValue("guild")]), nil
}

// validateCommand checks a command and sets its id: that of a command with the same name, if there is one.
func (s *Server) validateCommand(guild string, cmd command) *apiError {
	if _, ok := cmd["type"]; !ok {
		cmd["type"] = float64(1)
	}
	name, _ := cmd["name"].(string)
	text, _ := cmd["description"].(string)
	if cmd["type"] == float64(1) &&
		(!commandName().MatchString(name) || len([]rune(name)) > 32 || name != strings.ToLower(name)) {
		return badForm("name", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
	}
	// Commands in menus of messages and users may have spaces and capitals, and have neither description nor options.
	if cmd["type"] != float64(1) && (name == "" || len([]rune(name)) > 32 || text != "" || cmd["options"] != nil) {
		return badForm("name", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
	}
	if n := len([]rune(text)); cmd["type"] == float64(1) && (n < 1 || n > 100) {
		return badForm("description", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
	}
	cmd["id"], cmd["application_id"], cmd["version"] = s.newID(), s.bot.ID, s.newID()
	for _, unset := range []string{"name_localizations", "description_localizations",
		"default_member_permissions", "contexts"} {
		if _, ok := cmd[unset]; !ok {
			cmd[unset] = nil
		}
	}
	if i := s.findCommand(guild, func(old command) bool { return old["name"] == name }); i >= 0 {
		cmd["id"] = s.commands[guild][i]["id"]
	}
	if guild != "" {
		cmd["guild_id"] = guild
	}
	return nil
}

func (s *Server) findCommand(guild string, is func(command) bool) int {
	return slices.IndexFunc(s.commands[guild], is)
}

// addCommand adds a command, or replaces the one of the same name, whose id it takes over.
func (s *Server) addCommand(c *call) (int, any, *apiError) {
	var cmd command
	if json.Unmarshal(c.body, &cmd) != nil || cmd == nil {
		return 0, nil, fail(400, 50109, "The request body contains invalid JSON.")
	}
	guild := c.PathValue("guild")
	if err := s.validateCommand(guild, cmd); err != nil {
		return 0, nil, err
	}
	if i := s.findCommand(guild, func(old command) bool { return old["id"] == cmd["id"] }); i >= 0 {
		s.commands[guild][i] = cmd
		return 200, cmd, nil
	}
	s.commands[guild] = append(s.commands[guild], cmd)
	return 201, cmd, nil
}

// replaceCommands replaces all commands at once. When one of them is refused nothing is changed.
func (s *Server) replaceCommands(c *call) (int, any, *apiError) {
	var list []command
	if json.Unmarshal(c.body, &list) != nil {
		return 0, nil, fail(400, 50109, "The request body contains invalid JSON.")
	}
	guild := c.PathValue("guild")
	for _, cmd := range list {
		if err := s.validateCommand(guild, cmd); err != nil {
			return 0, nil, err
		}
	}
	s.commands[guild] = list
	return 200, orEmpty(list), nil
}

// commandOf returns the place of the command that a path names; code 10063 where there is none.
func (s *Server) commandOf(c *call) (int, *apiError) {
	i := s.findCommand(c.PathValue("guild"), func(cmd command) bool { return cmd["id"] == c.PathValue("command") })
	if i < 0 {
		return 0, unknownError(10063, "Application Command")
	}
	return i, nil
}

// getCommand returns a command by id.
func (s *Server) getCommand(c *call) (int, any, *apiError) {
	i, err := s.commandOf(c)
	if err != nil {
		return 0, nil, err
	}
	return 200, s.commands[c.PathValue("guild")][i], nil
}

// editCommand changes the fields of a command that the request names. Its id stays, its version is a new one.
func (s *Server) editCommand(c *call) (int, any, *apiError) {
	i, err := s.commandOf(c)
	if err != nil {
		return 0, nil, err
	}
	cmd := s.commands[c.PathValue("guild")][i]
	id := cmd["id"]
	if json.Unmarshal(c.body, &cmd) != nil || cmd == nil {
		return 0, nil, fail(400, 50109, "The request body contains invalid JSON.")
	}
	cmd["id"], cmd["version"] = id, s.newID()
	return 200, cmd, nil
}

// deleteCommand removes a command, without a body in the answer.
func (s *Server) deleteCommand(c *call) (int, any, *apiError) {
	i, err := s.commandOf(c)
	if err != nil {
		return 0, nil, err
	}
	guild := c.PathValue("guild")
	s.commands[guild] = slices.Delete(s.commands[guild], i, i+1)
	return 204, nil, nil
}
