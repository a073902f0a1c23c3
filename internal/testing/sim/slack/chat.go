package simslack

import (
	"encoding/json"
	"maps"
	"time"
)

// postChannel finds the channel of a message to write; a user id opens the direct message.
func (s *Server) postChannel(id string) (*Channel, *slackError) {
	if _, ok := s.user(id); ok {
		return s.dm(id), nil
	}
	c := s.channel(id)
	switch {
	case c == nil:
		return nil, refuse("channel_not_found")
	case c.Archived:
		return nil, refuse("is_archived")
	case !c.Member:
		return nil, refuse("not_in_channel")
	}
	return c, nil
}

// rawOrNil returns blocks or attachments as they were sent; nil: there are none.
func rawOrNil(text string) json.RawMessage {
	if text == "" || text == "[]" {
		return nil
	}
	return json.RawMessage(text)
}

// compose makes a post of the bot out of arguments that were checked.
func compose(c *Channel, a args) *Post {
	return &Post{
		Channel:     c.ID,
		User:        BotUserID,
		Text:        a["text"],
		Markdown:    a["markdown_text"],
		Blocks:      rawOrNil(a["blocks"]),
		Attachments: rawOrNil(a["attachments"]),
		ThreadTS:    a["thread_ts"],
		Broadcast:   a.isSet("reply_broadcast"),
		Metadata:    rawOrNil(a["metadata"]),
		Unfurl:      a["unfurl_links"] + "," + a["unfurl_media"],
		Pings:       pingsOf(a),
		Sent:        time.Now(),
	}
}

// storePost gives a post its timestamp and adds it to its channel.
func (s *Server) storePost(p *Post) {
	p.TS = s.newTS()
	s.posts[p.Channel] = append(s.posts[p.Channel], p)
}

// thread refuses to write into a thread whose first message is not there, or is itself a reply.
func (s *Server) thread(c *Channel, ts string) *slackError {
	if ts == "" {
		return nil
	}
	parent := s.root(c.ID, ts)
	if parent == nil {
		return refuse("thread_not_found")
	}
	if parent.ThreadTS != "" {
		return refuse("cannot_reply_to_message")
	}
	return nil
}

// postMessage serves chat.postMessage: it stores the message and sends it to the app as an event too, as Slack does
// with what a bot writes.
func (s *Server) postMessage(a args) (map[string]any, *slackError) {
	c, err := s.postChannel(a["channel"])
	if err != nil {
		return nil, err
	}
	if err := checkContent(a); err != nil {
		return nil, err
	}
	if err := s.thread(c, a["thread_ts"]); err != nil {
		return nil, err
	}
	p := compose(c, a)
	s.storePost(p)
	s.emitMessage(p)
	return map[string]any{"channel": c.ID, "ts": p.TS, "message": s.wire(p, true)}, nil
}

// postEphemeral serves chat.postEphemeral. The message is in no history, and there is no event for it.
func (s *Server) postEphemeral(a args) (map[string]any, *slackError) {
	c, err := s.postChannel(a["channel"])
	if err != nil {
		return nil, err
	}
	if _, ok := s.user(a["user"]); !ok {
		return nil, refuse("user_not_in_channel")
	}
	if err := checkContent(a); err != nil {
		return nil, err
	}
	p := compose(c, a)
	p.TS, p.EphemeralTo = s.newTS(), a["user"]
	s.ephemeral = append(s.ephemeral, *p)
	return map[string]any{"message_ts": p.TS}, nil
}

// ownPost finds a message of the bot.
func (s *Server) ownPost(a args, foreign string) (*Post, *slackError) {
	if s.channel(a["channel"]) == nil {
		return nil, refuse("channel_not_found")
	}
	p := s.message(a["channel"], a["ts"])
	switch {
	case p == nil:
		return nil, refuse("message_not_found")
	case p.User != BotUserID:
		return nil, refuse(foreign)
	}
	return p, nil
}

// updateMessage serves chat.update. The text is replaced, and blocks go when a text comes without them, as with Slack;
// metadata and previews stay where the request does not name them.
func (s *Server) updateMessage(a args) (map[string]any, *slackError) {
	p, err := s.ownPost(a, "cant_update_message")
	if err != nil {
		return nil, err
	}
	if p.Streaming {
		return nil, refuse("streaming_state_conflict")
	}
	if err := checkContent(a); err != nil {
		return nil, err
	}
	s.changePost(p, func() {
		p.Text, p.Markdown, p.Pings = a["text"], a["markdown_text"], pingsOf(a)
		if _, ok := a["blocks"]; ok || p.Markdown != "" || a["text"] != "" {
			p.Blocks = rawOrNil(a["blocks"])
		}
		if a["metadata"] != "" {
			p.Metadata = rawOrNil(a["metadata"])
		}
		if a["unfurl_links"]+a["unfurl_media"] != "" {
			p.Unfurl = a["unfurl_links"] + "," + a["unfurl_media"]
		}
	})
	return map[string]any{"channel": p.Channel, "ts": p.TS, "text": p.Shown(), "message": s.wire(p, true)}, nil
}

// deleteMessage serves chat.delete, for the bot's own messages.
func (s *Server) deleteMessage(a args) (map[string]any, *slackError) {
	p, err := s.ownPost(a, "cant_delete_message")
	if err != nil {
		return nil, err
	}
	s.deletePost(p)
	return map[string]any{"channel": p.Channel, "ts": p.TS}, nil
}

// startStream serves chat.startStream. A stream stands in a thread, and outside of private conversations it has to name
// its recipient and their workspace.
func (s *Server) startStream(a args) (map[string]any, *slackError) {
	c, err := s.postChannel(a["channel"])
	if err != nil {
		return nil, err
	}
	switch {
	case a["thread_ts"] == "":
		return nil, &slackError{code: "invalid_arguments", messages: []string{"[ERROR] missing required field: thread_ts"}}
	case c.User == "" && a["recipient_user_id"] == "":
		return nil, refuse("missing_recipient_user_id")
	case c.User == "" && a["recipient_team_id"] == "":
		return nil, refuse("missing_recipient_team_id")
	}
	if err := s.thread(c, a["thread_ts"]); err != nil {
		return nil, err
	}
	if err := checkStructure(a); err != nil {
		return nil, err
	}
	text, err := streamText(a)
	if err != nil {
		return nil, err
	}
	p := compose(c, a)
	p.Markdown, p.Streaming, p.Recipient = text, true, a["recipient_user_id"]+"/"+a["recipient_team_id"]
	p.Metadata = nil // it can be given when the stream stops
	p.track(a)
	s.storePost(p)
	return map[string]any{"channel": c.ID, "ts": p.TS}, nil
}

// streamText returns what an append adds, be it markdown_text or text chunks.
func streamText(a args) (string, *slackError) {
	text := a["markdown_text"]
	if raw := a["chunks"]; raw != "" {
		var chunks []textObject
		if json.Unmarshal([]byte(raw), &chunks) != nil {
			return "", refuse("invalid_chunks")
		}
		if text != "" {
			return "", refuse("cannot_provide_both_markdown_text_and_chunks")
		}
		for _, c := range chunks {
			if c.Type == "markdown_text" {
				text += c.Text
			}
		}
	}
	if runes(text) > maxMarkdown {
		return "", refuse("msg_too_long")
	}
	return text, nil
}

// track takes note of the task cards among the chunks.
func (p *Post) track(a args) {
	var chunks []struct{ Type, ID, Status string }
	if json.Unmarshal([]byte(a["chunks"]), &chunks) != nil {
		return
	}
	tasks := maps.Clone(p.Tasks) // a copy of the post may be in other hands
	for _, c := range chunks {
		if c.Type == "task_update" {
			if tasks == nil {
				tasks = map[string]string{}
			}
			tasks[c.ID] = c.Status
		}
	}
	p.Tasks = tasks
}

// streamingPost returns the bot's message to which a stream is still written.
func (s *Server) streamingPost(a args) (*Post, *slackError) {
	p, err := s.ownPost(a, "message_not_owned_by_app")
	if err != nil {
		return nil, err
	}
	if !p.Streaming {
		return nil, refuse("message_not_in_streaming_state")
	}
	return p, nil
}

// extend adds to the text of a stream, which holds at most maxMarkdown characters.
func (s *Server) extend(p *Post, a args) *slackError {
	text, err := streamText(a)
	if err != nil {
		return err
	}
	if runes(p.Markdown)+runes(text) > maxMarkdown {
		return refuse("msg_too_long")
	}
	p.Markdown += text
	p.track(a)
	// Words may meet only when joined, so the whole text is looked at again.
	p.Pings.scan(p.Markdown, false)
	var chunks any
	if json.Unmarshal([]byte(a["chunks"]), &chunks) == nil {
		p.Pings.scanBlocks(chunks, false)
	}
	return nil
}

// appendStream serves chat.appendStream; without text it is refused with no_text.
func (s *Server) appendStream(a args) (map[string]any, *slackError) {
	p, err := s.streamingPost(a)
	if err != nil {
		return nil, err
	}
	if a["markdown_text"]+a["chunks"] == "" {
		return nil, refuse("no_text")
	}
	if err := s.extend(p, a); err != nil {
		return nil, err
	}
	p.Appends++
	return map[string]any{"channel": p.Channel, "ts": p.TS}, nil
}

// stopStream serves chat.stopStream: it adds a last text and blocks, after which the message is one like others.
func (s *Server) stopStream(a args) (map[string]any, *slackError) {
	p, err := s.streamingPost(a)
	if err != nil {
		return nil, err
	}
	if err := checkStructure(a); err != nil {
		return nil, err
	}
	if err := s.extend(p, a); err != nil {
		return nil, err
	}
	if hasBlocks(a) {
		p.Blocks = rawOrNil(a["blocks"])
	}
	if a["metadata"] != "" {
		p.Metadata = rawOrNil(a["metadata"])
	}
	p.Streaming = false
	s.emitMessage(p)
	return map[string]any{"channel": p.Channel, "ts": p.TS, "message": s.wire(p, true)}, nil
}
