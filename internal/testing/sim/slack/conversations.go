package simslack

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"ravenbot/internal/core/text"
)

// readableChannel finds a channel whose messages the token may read.
func (s *Server) readableChannel(a args) (*Channel, *slackError) {
	c := s.channel(a["channel"])
	if c == nil {
		return nil, refuse("channel_not_found")
	}
	scope := "channels:history"
	if c.User != "" {
		scope = "im:history"
	}
	if err := s.checkScope(scope); err != nil {
		return nil, err
	}
	if !c.Member {
		return nil, refuse("not_in_channel")
	}
	return c, nil
}

// conversationInfo serves conversations.info.
func (s *Server) conversationInfo(a args) (map[string]any, *slackError) {
	c := s.channel(a["channel"])
	if c == nil {
		return nil, refuse("channel_not_found")
	}
	return map[string]any{"channel": s.channelWire(c)}, nil
}

// conversationMembers answers conversations.members (https://docs.slack.dev/reference/methods/conversations.members,
// 2026-11).
func (s *Server) conversationMembers(a args) (map[string]any, *slackError) {
	c := s.channel(a["channel"])
	if c == nil {
		return nil, refuse("channel_not_found")
	}
	list := []any{BotUserID}
	for _, u := range s.users {
		if c.Members == nil && c.User == "" && (!u.Guest || slices.Contains(s.guestIn[u.ID], c.ID)) ||
			slices.Contains(c.Members, u.ID) ||
			c.User == u.ID {
			list = append(list, u.ID)
		}
	}
	page, cursor := paginate(list, a, 100)
	return map[string]any{"members": page, "response_metadata": map[string]any{"next_cursor": cursor}}, nil
}

// listConversations serves conversations.list for channels; private conversations are left out.
func (s *Server) listConversations(a args) (map[string]any, *slackError) {
	list := []any{}
	for _, c := range s.channels {
		if c.User == "" {
			list = append(list, s.channelWire(c))
		}
	}
	page, cursor := paginate(list, a, 100)
	return map[string]any{"channels": page, "response_metadata": map[string]any{"next_cursor": cursor}}, nil
}

// paginate takes the page that cursor and limit ask for.
func paginate(list []any, a args, normal int) (page []any, next string) {
	from, _ := strconv.Atoi(a["cursor"])
	limit, _ := strconv.Atoi(a["limit"])
	if limit <= 0 || limit > 1000 {
		limit = normal
	}
	from = max(0, min(from, len(list)))
	to := min(len(list), from+limit)
	if to < len(list) {
		next = strconv.Itoa(to)
	}
	return list[from:to], next
}

var timestamp = text.Pattern(`^[0-9]{1,10}(\.[0-9]{1,6})?$`)

// timeRange is the part of a conversation that is asked for. Timestamps are of one
// length before the point, so that they compare as text.
type timeRange struct {
	oldest, latest string
	inclusive      bool
	limit          int
	after, before  string // from a cursor
}

// parseTimeRange reads which messages a history is asked for. A limit is 1 to 999, 100 where none is given; oldest "0"
// is the beginning.
func parseTimeRange(a args) (timeRange, *slackError) {
	w := timeRange{oldest: a["oldest"], latest: a["latest"], inclusive: a.isSet("inclusive"), limit: 100}
	if w.oldest == "0" {
		w.oldest = ""
	}
	switch {
	case w.oldest != "" && !timestamp().MatchString(w.oldest):
		return w, refuse("invalid_ts_oldest")
	case w.latest != "" && !timestamp().MatchString(w.latest):
		return w, refuse("invalid_ts_latest")
	}
	if a["limit"] != "" {
		n, err := strconv.Atoi(a["limit"])
		if err != nil || n < 1 || n > 999 {
			return w, refuse("invalid_limit")
		}
		w.limit = n
	}
	if a["cursor"] == "" {
		return w, nil
	}
	side, ts, _ := strings.Cut(a["cursor"], ":")
	switch {
	case !timestamp().MatchString(ts):
		return w, refuse("invalid_cursor")
	case side == "after":
		w.after = ts
	case side == "before":
		w.before = ts
	default:
		return w, refuse("invalid_cursor")
	}
	return w, nil
}

// contains reports whether a message is in the range. The bounds themselves are in it with inclusive alone, those of a
// cursor never.
func (w timeRange) contains(p *Post) bool {
	switch {
	case w.oldest != "" && (p.TS < w.oldest || p.TS == w.oldest && !w.inclusive),
		w.latest != "" && (p.TS > w.latest || p.TS == w.latest && !w.inclusive),
		w.after != "" && p.TS <= w.after, w.before != "" && p.TS >= w.before:
		return false
	}
	return true
}

// page takes the oldest of a list that is in order, or the newest.
func (w timeRange) page(list []*Post, oldestFirst bool) (page []*Post, cursor string) {
	switch {
	case len(list) <= w.limit:
		return list, ""
	case oldestFirst:
		page = list[:w.limit]
		return page, "after:" + page[len(page)-1].TS
	}
	page = list[len(list)-w.limit:]
	return page, "before:" + page[0].TS
}

// history returns a page newest first. Which page comes first depends: without
// latest it is the one next to oldest (slackhq/slack-api-docs#4).
func (s *Server) history(a args) (map[string]any, *slackError) {
	c, err := s.readableChannel(a)
	if err != nil {
		return nil, err
	}
	w, err := parseTimeRange(a)
	if err != nil {
		return nil, err
	}
	var list []*Post
	for _, p := range s.posts[c.ID] {
		if (!p.Deleted || p.Tombstone) && (p.ThreadTS == "" || p.Broadcast) && w.contains(p) {
			list = append(list, p)
		}
	}
	page, next := w.page(list, w.oldest != "" && w.latest == "")
	slices.Reverse(page)
	return s.pageWire(page, next, a), nil
}

// pageWire returns a page of a history; next is the cursor of the one behind it, empty for the last.
func (s *Server) pageWire(page []*Post, next string, a args) map[string]any {
	list := []any{}
	for _, p := range page {
		list = append(list, s.wire(p, a.isSet("include_all_metadata")))
	}
	return map[string]any{
		"messages":          list,
		"has_more":          next != "",
		"response_metadata": map[string]any{"next_cursor": next},
	}
}

// readReplies returns a thread oldest first, its root before all.
func (s *Server) readReplies(a args) (map[string]any, *slackError) {
	c, err := s.readableChannel(a)
	if err != nil {
		return nil, err
	}
	w, err := parseTimeRange(a)
	if err != nil {
		return nil, err
	}
	root := s.root(c.ID, a["ts"])
	if root == nil {
		return nil, refuse("thread_not_found")
	}
	var list []*Post
	for _, p := range s.world.replies(root) {
		if w.contains(p) {
			list = append(list, p)
		}
	}
	page, next := w.page(list, true)
	return s.pageWire(append([]*Post{root}, page...), next, a), nil
}

// openConversation serves conversations.open: the private conversation with one user, made when there is none.
func (s *Server) openConversation(a args) (map[string]any, *slackError) {
	if _, ok := s.user(a["users"]); !ok {
		return nil, refuse("user_not_found")
	}
	return map[string]any{"channel": s.channelWire(s.dm(a["users"]))}, nil
}

// joinConversation serves conversations.join, which makes the bot a member of a channel.
func (s *Server) joinConversation(a args) (map[string]any, *slackError) {
	c := s.channel(a["channel"])
	switch {
	case c == nil:
		return nil, refuse("channel_not_found")
	case c.User != "":
		return nil, refuse("method_not_supported_for_channel_type")
	}
	c.Member = true
	return map[string]any{"channel": s.channelWire(c)}, nil
}

// userInfo serves users.info, for the bot's own user as well.
func (s *Server) userInfo(a args) (map[string]any, *slackError) {
	u, ok := s.user(a["user"])
	if a["user"] == BotUserID {
		u, ok = User{ID: BotUserID, Name: "ravenbot"}, true
	}
	if !ok {
		return nil, refuse("user_not_found")
	}
	return map[string]any{"user": s.userWire(u)}, nil
}

// fileInfo serves files.info.
func (s *Server) fileInfo(a args) (map[string]any, *slackError) {
	f, ok := s.files[a["file"]]
	if !ok {
		return nil, refuse("file_not_found")
	}
	return map[string]any{"file": s.fileWire(*f), "comments": []any{}}, nil
}

// listUsers answers users.list (https://docs.slack.dev/reference/methods/users.list, 2026-11).
func (s *Server) listUsers(a args) (map[string]any, *slackError) {
	list := []any{s.userWire(User{ID: BotUserID, Name: "ravenbot"})}
	for _, u := range s.users {
		list = append(list, s.userWire(u))
	}
	page, cursor := paginate(list, a, 200)
	return map[string]any{"members": page, "response_metadata": map[string]any{"next_cursor": cursor}}, nil
}

// userWire returns a user as Slack sends one. A guest of one channel is "ultra restricted", one of several
// "restricted".
func (s *Server) userWire(u User) map[string]any {
	return map[string]any{
		"id":                  u.ID,
		"team_id":             s.teamOf(u.ID),
		"name":                u.Name,
		"real_name":           u.Name,
		"tz":                  cmp.Or(u.Zone, "Europe/Oslo"),
		"is_admin":            u.Admin,
		"is_owner":            false,
		"is_primary_owner":    false,
		"is_restricted":       u.Guest,
		"is_ultra_restricted": u.Guest && len(s.guestIn[u.ID]) == 1,
		"is_bot":              u.Bot || u.ID == BotUserID,
		"profile":             map[string]any{"display_name": u.Display, "real_name": u.Name},
	}
}

// reactionPost returns the message of a reaction.
func (s *Server) reactionPost(a args) (*Post, *slackError) {
	if s.channel(a["channel"]) == nil {
		return nil, refuse("channel_not_found")
	}
	p := s.message(a["channel"], a["timestamp"])
	if p == nil {
		return nil, refuse("message_not_found")
	}
	return p, nil
}

// addReaction serves reactions.add; a second one of the same name is refused with already_reacted.
func (s *Server) addReaction(a args) (map[string]any, *slackError) {
	p, err := s.reactionPost(a)
	if err != nil {
		return nil, err
	}
	if a["name"] == "" {
		return nil, refuse("invalid_name")
	}
	if !p.react(a["name"], BotUserID) {
		return nil, refuse("already_reacted")
	}
	s.emitReaction("reaction_added", p, BotUserID, a["name"])
	return nil, nil
}

// removeReaction serves reactions.remove; refused with no_reaction where there is none.
func (s *Server) removeReaction(a args) (map[string]any, *slackError) {
	p, err := s.reactionPost(a)
	if err != nil {
		return nil, err
	}
	if !p.unreact(a["name"], BotUserID) {
		return nil, refuse("no_reaction")
	}
	s.emitReaction("reaction_removed", p, BotUserID, a["name"])
	return nil, nil
}

// react notes a reaction; false: it is there.
func (p *Post) react(name, user string) bool {
	if slices.Contains(p.reactions[name], user) {
		return false
	}
	if p.reactions == nil {
		p.reactions = map[string][]string{}
	}
	p.reactions[name] = append(p.reactions[name], user)
	return true
}

// unreact removes a reaction; false: there is none.
func (p *Post) unreact(name, user string) bool {
	users := p.reactions[name]
	i := slices.Index(users, user)
	if i < 0 {
		return false
	}
	if p.reactions[name] = slices.Delete(users, i, i+1); len(users) == 1 {
		delete(p.reactions, name)
	}
	return true
}
