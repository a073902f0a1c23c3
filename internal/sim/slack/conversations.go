package simslack

import (
	"slices"
	"strconv"
)

func (s *Server) readable(a args) (*Channel, *slackError) {
	c := s.channel(a["channel"])
	switch {
	case c == nil:
		return nil, refuse("channel_not_found")
	case !c.Member:
		return nil, refuse("not_in_channel")
	}
	return c, nil
}

func (s *Server) conversationInfo(a args) (map[string]any, *slackError) {
	c := s.channel(a["channel"])
	if c == nil {
		return nil, refuse("channel_not_found")
	}
	return map[string]any{"channel": s.channelWire(c)}, nil
}

func (s *Server) listConversations(a args) (map[string]any, *slackError) {
	list := []any{}
	for _, c := range s.channels {
		if c.User == "" {
			list = append(list, s.channelWire(c))
		}
	}
	page, cursor := cut(list, a, 100)
	return map[string]any{"channels": page, "response_metadata": map[string]any{"next_cursor": cursor}}, nil
}

// cut takes the page that cursor and limit ask for.
func cut(list []any, a args, normal int) (page []any, next string) {
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

// within tells whether a message lies in the time asked for; ts are of one
// length, so that they compare as text.
func within(p *Post, a args) bool {
	inclusive := a.on("inclusive")
	if o := a["oldest"]; o != "" && o != "0" && (p.TS < o || p.TS == o && !inclusive) {
		return false
	}
	if l := a["latest"]; l != "" && (p.TS > l || p.TS == l && !inclusive) {
		return false
	}
	return true
}

func (s *Server) history(a args) (map[string]any, *slackError) {
	c, err := s.readable(a)
	if err != nil {
		return nil, err
	}
	list := []any{}
	for _, p := range slices.Backward(s.posts[c.ID]) {
		if !p.Deleted && (p.ThreadTS == "" || p.Broadcast) && within(p, a) {
			list = append(list, s.wire(p, a.on("include_all_metadata")))
		}
	}
	return pageOf(list, a), nil
}

func pageOf(list []any, a args) map[string]any {
	page, next := cut(list, a, 100)
	return map[string]any{"messages": page, "has_more": next != "", "response_metadata": map[string]any{"next_cursor": next}}
}

func (s *Server) replies(a args) (map[string]any, *slackError) {
	c, err := s.readable(a)
	if err != nil {
		return nil, err
	}
	root := s.message(c.ID, a["ts"])
	if root == nil {
		return nil, refuse("thread_not_found")
	}
	list := []any{s.wire(root, a.on("include_all_metadata"))}
	for _, p := range s.posts[c.ID] {
		if !p.Deleted && p.ThreadTS == root.TS && within(p, a) {
			list = append(list, s.wire(p, a.on("include_all_metadata")))
		}
	}
	return pageOf(list, a), nil
}

func (s *Server) openConversation(a args) (map[string]any, *slackError) {
	if _, ok := s.user(a["users"]); !ok {
		return nil, refuse("user_not_found")
	}
	return map[string]any{"channel": s.channelWire(s.dm(a["users"]))}, nil
}

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

func (s *Server) userInfo(a args) (map[string]any, *slackError) {
	u, ok := s.user(a["user"])
	if a["user"] == BotUserID {
		u, ok = User{ID: BotUserID, Name: "ravenbot"}, true
	}
	if !ok {
		return nil, refuse("user_not_found")
	}
	return map[string]any{"user": map[string]any{"id": u.ID, "team_id": TeamID, "name": u.Name, "real_name": u.Name, "tz": "Europe/Oslo",
		"is_admin": u.Admin, "is_owner": false, "is_bot": u.ID == BotUserID, "profile": map[string]any{"display_name": u.Name}}}, nil
}

func (s *Server) reacted(a args) (*Post, *slackError) {
	if s.channel(a["channel"]) == nil {
		return nil, refuse("channel_not_found")
	}
	p := s.message(a["channel"], a["timestamp"])
	if p == nil {
		return nil, refuse("message_not_found")
	}
	return p, nil
}

func (s *Server) addReaction(a args) (map[string]any, *slackError) {
	p, err := s.reacted(a)
	if err != nil {
		return nil, err
	}
	if a["name"] == "" {
		return nil, refuse("invalid_name")
	}
	if slices.Contains(p.reactions[a["name"]], BotUserID) {
		return nil, refuse("already_reacted")
	}
	if p.reactions == nil {
		p.reactions = map[string][]string{}
	}
	p.reactions[a["name"]] = append(p.reactions[a["name"]], BotUserID)
	return nil, nil
}

func (s *Server) removeReaction(a args) (map[string]any, *slackError) {
	p, err := s.reacted(a)
	if err != nil {
		return nil, err
	}
	users := p.reactions[a["name"]]
	i := slices.Index(users, BotUserID)
	if i < 0 {
		return nil, refuse("no_reaction")
	}
	if p.reactions[a["name"]] = slices.Delete(users, i, i+1); len(users) == 1 {
		delete(p.reactions, a["name"])
	}
	return nil, nil
}
