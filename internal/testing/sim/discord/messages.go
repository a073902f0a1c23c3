package simdiscord

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

// routeMessages registers reading, writing, changing and deleting messages, typing and the bot's own reactions.
func (s *Server) routeMessages(mux *http.ServeMux) {
	const messages = "/channels/{channel}/messages"
	s.handle(mux, "GET "+messages, s.withLock(s.listMessages))
	s.handle(mux, "POST "+messages, s.withLock(s.createMessage))
	s.handle(mux, "GET "+messages+"/{message}", s.withLock(s.getMessage))
	s.handle(mux, "PATCH "+messages+"/{message}", s.withLock(s.editMessage))
	s.handle(mux, "DELETE "+messages+"/{message}", s.withLock(s.deleteMessage))
	s.handle(mux, "POST /channels/{channel}/typing", s.withLock(s.signalTyping))
	const reaction = messages + "/{message}/reactions/{emoji}/@me"
	s.handle(mux, "PUT "+reaction, s.withLock(s.addReaction))
	s.handle(mux, "DELETE "+reaction, s.withLock(s.removeReaction))
}

// checkRate refuses the message that is one too many for a channel.
func (s *Server) checkRate(channel string) *apiError {
	if s.opts.ChannelBurst == 0 {
		return nil
	}
	// The burst is counted over five seconds.
	const window = 5 * time.Second
	now := time.Now()
	recent := slices.DeleteFunc(s.bursts[channel], func(t time.Time) bool { return now.Sub(t) >= window })
	s.bursts[channel] = recent
	if len(recent) < s.opts.ChannelBurst {
		s.bursts[channel] = append(recent, now)
		return nil
	}
	wait := recent[0].Add(window).Sub(now).Seconds()
	return &apiError{status: http.StatusTooManyRequests,
		body: map[string]any{"message": "You are being rate limited.", "retry_after": wait, "global": false},
		header: map[string]string{"Retry-After": strconv.Itoa(int(wait) + 1), "X-RateLimit-Remaining": "0",
			"X-RateLimit-Reset-After": strconv.FormatFloat(wait, 'f', 3, 64), "X-RateLimit-Scope": "user"}}
}

// createMessage posts a message of the bot. With enforce_nonce the same nonce within Options.NonceLife returns the
// message that is there. Code 50006 for an empty one.
func (s *Server) createMessage(c *call) (int, any, *apiError) {
	ch, err := s.channelOf(c)
	if err != nil {
		return 0, nil, err
	}
	if err := s.checkRate(ch.ID); err != nil {
		return 0, nil, err
	}
	d, err := c.draft()
	if err != nil {
		return 0, nil, err
	}
	if d.Embeds != nil && len(*d.Embeds) > 0 && s.opts.NoEmbeds == "refuse" {
		return 0, nil, fail(403, 50013, "Missing Permissions")
	}
	if d.isEmpty(len(c.files)) {
		return 0, nil, fail(400, 50006, "Cannot send an empty message")
	}
	if s.opts.NoEmbeds == "drop" {
		d.Embeds = nil
	}
	// With enforce_nonce Discord returns the first message instead of posting a second one.
	key := s.bot.ID + " " + d.nonce()
	if old := s.nonces[key]; old != nil && d.EnforceNonce && d.nonce() != "" && time.Since(old.Sent) < s.opts.NonceLife {
		return 200, s.wire(old, true), nil
	}
	p := &Post{ChannelID: ch.ID, Author: s.bot, Nonce: d.nonce()}
	if err := s.setReference(p, d); err != nil {
		return 0, nil, err
	}
	d.apply(p, s.withIDs(c.files))
	p.Flags &^= FlagEphemeral | FlagLoading // for answers to interactions only
	rule := allowEverything()
	if d.AllowedMentions != nil {
		rule = *d.AllowedMentions
	}
	s.setPings(p, rule)
	s.store(p)
	s.nonces[key] = p
	s.announce("MESSAGE_CREATE", p)
	return 200, s.wire(p, true), nil
}

// setReference lets a message answer another one of its channel. What cannot be found is refused, unless
// fail_if_not_exists is false: then the message is posted without a reference.
func (s *Server) setReference(p *Post, d draft) *apiError {
	if d.Reference == nil {
		return nil
	}
	if s.hidden[p.ChannelID] {
		return fail(400, 160002, "Cannot reply without permission to read message history")
	}
	r, ok := s.posts[d.Reference.MessageID]
	if !ok || r.Deleted || r.ChannelID != p.ChannelID {
		// By default a reply to a message that is gone fails.
		if strict := d.Reference.FailIfNotExists; strict == nil || *strict {
			return badForm("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
		}
		return nil
	}
	p.ReplyTo, p.kind = r.ID, 19
	return nil
}

// setPings records whom a message notifies.
func (s *Server) setPings(p *Post, rule allowed) {
	replied := ""
	if r, ok := s.posts[p.ReplyTo]; ok {
		replied = r.Author.ID
	}
	p.Pings = pings(pingText(p.Content, p.Components), replied, rule)
}

// messageOf returns the message of a path. Ephemeral messages cannot be reached by it.
func (s *Server) messageOf(c *call) (*Post, *apiError) {
	ch, err := s.channelOf(c)
	if err != nil {
		return nil, err
	}
	p, ok := s.posts[c.PathValue("message")]
	if !ok || p.Deleted || p.ChannelID != ch.ID || p.Ephemeral() {
		return nil, unknownError(10008, "Message")
	}
	return p, nil
}

// mayRead reports whether REST shows content: for REST the application's
// setting counts, not what a session asked for.
func (s *Server) mayRead() bool { return s.opts.Privileged&IntentMessageContent != 0 }

// getMessage returns a message; code 50001 where the bot may not read the history.
func (s *Server) getMessage(c *call) (int, any, *apiError) {
	if s.hidden[c.PathValue("channel")] {
		return 0, nil, fail(403, 50001, "Missing Access")
	}
	p, err := s.messageOf(c)
	if err != nil {
		return 0, nil, err
	}
	return 200, s.historyWire(p), nil
}

// historyWire renders a message as a history shows it: without the nonce, which is for
// who sends and for who listens.
func (s *Server) historyWire(p *Post) map[string]any {
	wire := s.wire(p, s.mayRead())
	delete(wire, "nonce")
	return wire
}

// editMessage changes a message of the bot; code 50005 for one of somebody else, 50083 in an archived thread.
func (s *Server) editMessage(c *call) (int, any, *apiError) {
	p, err := s.messageOf(c)
	if err != nil {
		return 0, nil, err
	}
	if p.Author.ID != s.bot.ID {
		return 0, nil, fail(403, 50005, "Cannot edit a message authored by another user")
	}
	if _, archived := s.archived[p.ChannelID]; archived {
		return 0, nil, fail(400, 50083, "Thread is archived")
	}
	d, err := c.draft()
	if err != nil {
		return 0, nil, err
	}
	return s.rewrite(p, d, c.files)
}

// rewrite applies an edit by the bot. Edits never notify anybody.
func (s *Server) rewrite(p *Post, d draft, files []File) (int, any, *apiError) {
	next := *p
	next.Files = slices.Clone(p.Files)
	d.apply(&next, s.withIDs(files))
	next.Flags = next.Flags&^(FlagLoading|FlagEphemeral) | p.Flags&FlagEphemeral
	if next.Content == "" && len(next.Embeds) == 0 && len(next.Components) == 0 && len(next.Files) == 0 {
		return 0, nil, fail(400, 50006, "Cannot send an empty message")
	}
	next.Edited = time.Now()
	next.Edits++
	*p = next
	s.announce("MESSAGE_UPDATE", p)
	return 200, s.wire(p, true), nil
}

// deleteMessage deletes a message of the bot; code 50013 for one of somebody else, for the bot has no right to manage
// messages.
func (s *Server) deleteMessage(c *call) (int, any, *apiError) {
	p, err := s.messageOf(c)
	if err != nil {
		return 0, nil, err
	}
	if p.Author.ID != s.bot.ID {
		return 0, nil, fail(403, 50013, "Missing Permissions")
	}
	s.deletePost(p)
	return 204, nil, nil
}

// listMessages returns at most 100 messages of a channel, the newest first, before, after or around an id. Where the
// history is hidden from the bot the list is empty and no error, as with Discord.
func (s *Server) listMessages(c *call) (int, any, *apiError) {
	ch, err := s.channelOf(c)
	if err != nil {
		return 0, nil, err
	}
	q := c.URL.Query()
	limit := 50
	if text := q.Get("limit"); text != "" {
		n, bad := strconv.Atoi(text)
		if bad != nil || n < 1 || n > 100 {
			return 0, nil, badForm("limit", "NUMBER_TYPE_MAX", "int value should be between 1 and 100.")
		}
		limit = n
	}
	var visible []*Post
	for _, p := range s.order[ch.ID] {
		if !s.hidden[ch.ID] && !p.Deleted && !p.Ephemeral() {
			visible = append(visible, p)
		}
	}
	picked := window(visible, q.Get("before"), q.Get("after"), q.Get("around"), limit)
	list := []any{}
	for _, p := range slices.Backward(picked) { // newest first
		list = append(list, s.historyWire(p))
	}
	return 200, list, nil
}

// window picks from posts, oldest first, as the query asks.
func window(posts []*Post, before, after, around string, limit int) []*Post {
	from := func(id string) int { // index of the first post not older than id
		n, _ := strconv.ParseInt(id, 10, 64)
		i := slices.IndexFunc(posts, func(p *Post) bool { own, _ := strconv.ParseInt(p.ID, 10, 64); return own >= n })
		if i < 0 {
			return len(posts)
		}
		return i
	}
	lo, hi := 0, len(posts)
	switch {
	case around != "":
		lo = max(0, from(around)-limit/2)
		hi = min(hi, lo+limit)
	case before != "":
		hi = from(before)
		lo = max(0, hi-limit)
	case after != "":
		lo = from(after)
		if lo < hi && posts[lo].ID == after {
			lo++
		}
		hi = min(hi, lo+limit)
	default:
		lo = max(0, hi-limit)
	}
	return posts[lo:hi]
}

// signalTyping counts that the bot was shown as typing.
func (s *Server) signalTyping(c *call) (int, any, *apiError) {
	ch, err := s.channelOf(c)
	if err != nil {
		return 0, nil, err
	}
	s.typing[ch.ID]++
	return 204, nil, nil
}

// addReaction adds a reaction of the bot; adding it again changes nothing.
func (s *Server) addReaction(c *call) (int, any, *apiError) {
	p, err := s.messageOf(c)
	if err != nil {
		return 0, nil, err
	}
	s.react(p, s.bot.ID, c.PathValue("emoji"))
	return 204, nil, nil
}

// removeReaction removes a reaction of the bot; without one nothing changes.
func (s *Server) removeReaction(c *call) (int, any, *apiError) {
	p, err := s.messageOf(c)
	if err != nil {
		return 0, nil, err
	}
	s.unreact(p, s.bot.ID, c.PathValue("emoji"))
	return 204, nil, nil
}
