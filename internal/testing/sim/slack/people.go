package simslack

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Event is what a user's action set off: the message and its events.
type Event struct {
	TS, Channel string
	IDs         []string // event ids
}

// Say lets a user write a message to a channel. If it mentions the bot, the
// app hears of it twice, as message and as app_mention.
func (s *Server) Say(channel string, by User, text string) Event { return s.say(channel, by, text, "") }

// Mention is Say with the bot's mention before the text.
func (s *Server) Mention(channel string, by User, text string) Event {
	return s.say(channel, by, BotMention+" "+text, "")
}

// DM lets a user write to the bot directly.
func (s *Server) DM(by User, text string) Event { return s.say(s.AddDM(by).ID, by, text, "") }

// ThreadReply lets a user answer in the thread of a message.
func (s *Server) ThreadReply(channel, threadTS string, by User, text string) Event {
	return s.say(channel, by, text, threadTS)
}

// ThreadBroadcast is ThreadReply, also shown in the channel.
func (s *Server) ThreadBroadcast(channel, threadTS string, by User, text string) Event {
	return s.write(&Post{Channel: channel, User: by.ID, Text: text, ThreadTS: threadTS, Broadcast: true})
}

// Upload stores a file, for messages that are written with SayWith.
func (s *Server) Upload(f File) File {
	s.state.Lock()
	defer s.state.Release()
	f.ID = s.newID("F")
	s.files[f.ID] = &f
	return f
}

// Share lets a user write a message with a file, in a thread if one is named.
func (s *Server) Share(channel, threadTS string, by User, text string, f File) Event {
	return s.write(&Post{Channel: channel, User: by.ID, Text: text, ThreadTS: threadTS, Files: []File{s.Upload(f)}})
}

// SayWith is Say of a message that is changed before it is written, such as by blocks of an app.
func (s *Server) SayWith(channel string, by User, text string, alter func(*Post)) Event {
	p := &Post{Channel: channel, User: by.ID, Text: text}
	alter(p)
	return s.write(p)
}

func (s *Server) say(channel string, by User, text, thread string) Event {
	return s.write(&Post{Channel: channel, User: by.ID, Text: text, ThreadTS: thread})
}

// write stores what a person wrote and sends the events that Slack sends: app_mention where the bot is called, and
// message.
func (s *Server) write(p *Post) Event {
	s.state.Lock()
	defer s.state.Release()
	c := s.mustChannel(p.Channel)
	p.Sent, p.Pings = time.Now(), pingsOf(args{"text": p.Text})
	s.storePost(p)
	e := Event{TS: p.TS, Channel: c.ID}
	e.IDs = s.emitMention(p)
	if id := s.emitMessage(p); id != "" {
		e.IDs = append(e.IDs, id)
	}
	return e
}

// Edit lets the author change a message.
func (s *Server) Edit(channel, ts, text string) Event {
	s.state.Lock()
	defer s.state.Release()
	p := s.mustMessage(channel, ts)
	return Event{TS: ts, Channel: channel, IDs: s.changePost(p, func() { p.Text = text })}
}

// Unfurl puts the preview of a link below a message, which tells the app of a
// change although nobody edited it.
func (s *Server) Unfurl(channel, ts, link string) Event {
	s.state.Lock()
	defer s.state.Release()
	p := s.mustMessage(channel, ts)
	before := s.wire(p, false)
	p.Attachments = mustJSON([]any{map[string]any{"from_url": link, "title": "A page", "id": 1}})
	return Event{TS: ts, Channel: channel, IDs: []string{s.emitChanged(p, before)}}
}

// Delete lets someone delete a message, the bot's own included.
func (s *Server) Delete(channel, ts string) Event {
	s.state.Lock()
	defer s.state.Release()
	return Event{TS: ts, Channel: channel, IDs: []string{s.deletePost(s.mustMessage(channel, ts))}}
}

// React lets a user put a reaction, such as "+1", on a message; Unreact takes it back.
// Without the scope reactions:read the app is told of neither.
func (s *Server) React(channel, ts string, by User, name string) Event {
	s.state.Lock()
	defer s.state.Release()
	p := s.mustMessage(channel, ts)
	p.react(name, by.ID)
	return s.emitReaction("reaction_added", p, by.ID, name)
}

// Unreact removes a reaction.
func (s *Server) Unreact(channel, ts string, by User, name string) Event {
	s.state.Lock()
	defer s.state.Release()
	p := s.mustMessage(channel, ts)
	if !p.unreact(name, by.ID) {
		panic(fmt.Sprintf("simslack: message %s has no reaction %q of %s", ts, name, by.ID))
	}
	return s.emitReaction("reaction_removed", p, by.ID, name)
}

// emitReaction tells the app about a reaction, where it has the scope and is in the channel. The lock is held.
func (s *Server) emitReaction(kind string, p *Post, user, name string) Event {
	e := Event{TS: p.TS, Channel: p.Channel}
	if s.checkScope("reactions:read") != nil || !s.mustChannel(p.Channel).Member {
		return e
	}
	inner := map[string]any{
		"type":     kind,
		"user":     user,
		"reaction": name,
		"item":     map[string]any{"type": "message", "channel": p.Channel, "ts": p.TS},
	}
	if p.User != "" { // what webhooks wrote has no user
		inner["item_user"] = p.User
	}
	e.IDs = []string{s.event(inner)}
	return e
}

// OpenMessages lets a user open the bot's direct messages in the agent view.
func (s *Server) OpenMessages(by User) Event {
	c := s.AddDM(by)
	return s.Emit(map[string]any{"type": "app_home_opened", "user": by.ID, "channel": c.ID, "tab": "messages"})
}

// StartThread lets a user begin a thread in the assistant view, which apps had
// before the agent view; its root is nobody's message.
func (s *Server) StartThread(by User) Event {
	c := s.AddDM(by)
	s.state.Lock()
	defer s.state.Release()
	root := &Post{Channel: c.ID, User: BotUserID, Text: "New chat", Sent: time.Now()}
	s.storePost(root)
	return Event{TS: root.TS, Channel: c.ID, IDs: []string{s.event(map[string]any{"type": "assistant_thread_started",
		"assistant_thread": map[string]any{
			"user_id":    by.ID,
			"channel_id": c.ID,
			"thread_ts":  root.TS,
			"context":    map[string]any{},
		}})}}
}

// Emit delivers any inner event.
func (s *Server) Emit(inner map[string]any) Event {
	s.state.Lock()
	defer s.state.Release()
	return Event{IDs: []string{s.event(maps.Clone(inner))}}
}

// SayUntold lets a user say something of which the app is not told, as when an event gets lost.
func (s *Server) SayUntold(channel string, by User, text string) Event {
	s.state.Lock()
	defer s.state.Release()
	p := &Post{Channel: channel, User: by.ID, Text: text, Sent: time.Now()}
	s.storePost(p)
	return Event{TS: p.TS, Channel: channel}
}

// Inject sends a frame as it is to the connection whose turn it is; it
// reports whether there was one.
func (s *Server) Inject(frame string) bool {
	s.state.Lock()
	defer s.state.Unlock()
	l := s.pickLink()
	if l != nil {
		l.sock.Send([]byte(frame))
	}
	return l != nil
}

// InjectPayload delivers any JSON as the payload of an envelope that is
// awaited, retried and recorded like others. What is no JSON goes by Inject.
func (s *Server) InjectPayload(kind string, payload json.RawMessage) (eventID string) {
	s.state.Lock()
	defer s.state.Release()
	id := s.newID("Ev")
	s.deliver(&envelope{event: id, kind: kind, inner: "injected", payload: payload})
	return id
}

// Call is a slash command, click or form that the bot may answer.
type Call struct {
	EventID     string // identifies its deliveries
	TriggerID   string
	ResponseURL string
	Channel     string
	User        User
	token       string
}

// newCall starts a command or a press: with a trigger id and a response_url, both of which end after a while. The lock
// is held.
func (s *Server) newCall(channel string, by User, source *Post) Call {
	call := Call{EventID: s.newID("In"), TriggerID: s.newID("trigger."), Channel: channel, User: by, token: rand.Text()}
	call.ResponseURL = s.URL() + "/commands/" + call.token
	s.triggers[call.TriggerID] = time.Now()
	s.responses[call.token] = &response{channel: channel, user: by.ID, born: time.Now(), source: source}
	return call
}

// Slash lets a user run a slash command such as "/raven" with a text.
func (s *Server) Slash(channel string, by User, command, text string) Call {
	s.state.Lock()
	defer s.state.Release()
	c := s.mustChannel(channel)
	name := c.Name
	if c.User != "" {
		name = "directmessage"
	}
	call := s.newCall(c.ID, by, nil)
	s.deliver(
		&envelope{
			event: call.EventID,
			kind:  KindCommand,
			inner: command,
			payload: mustJSON(map[string]string{
				"token":                 "legacy",
				"team_id":               TeamID,
				"team_domain":           "sim",
				"channel_id":            c.ID,
				"channel_name":          name,
				"user_id":               by.ID,
				"user_name":             by.Name,
				"command":               command,
				"text":                  text,
				"api_app_id":            AppID,
				"is_enterprise_install": "false",
				"response_url":          call.ResponseURL,
				"trigger_id":            call.TriggerID,
			}),
		},
	)
	return call
}

// Click lets a user press the button with an action id on a post.
func (s *Server) Click(channel, ts string, by User, actionID string) Call {
	s.state.Lock()
	defer s.state.Release()
	p := s.mustMessage(channel, ts)
	action := findAction(p.Blocks, actionID)
	if action == nil {
		panic(fmt.Sprintf("simslack: message %s has no action %q", ts, actionID))
	}
	action["action_ts"] = s.newTS()
	call := s.newCall(channel, by, p)
	s.interactive(
		call,
		"block_actions",
		map[string]any{"actions": []any{action}, "message": s.wire(p, true), "response_url": call.ResponseURL,
			"channel":   map[string]any{"id": channel, "name": s.mustChannel(channel).Name},
			"container": map[string]any{"type": "message", "message_ts": ts, "channel_id": channel, "is_ephemeral": false},
			"state":     map[string]any{"values": map[string]any{}}},
	)
	return call
}

// Shortcut lets a user choose a shortcut of the app in the menu of a message.
func (s *Server) Shortcut(channel, ts string, by User, callback string) Call {
	s.state.Lock()
	defer s.state.Release()
	p := s.mustMessage(channel, ts)
	call := s.newCall(channel, by, nil)
	s.interactive(call, "message_action", map[string]any{"callback_id": callback, "message_ts": ts,
		"message":      s.wire(p, true),
		"response_url": call.ResponseURL, "action_ts": s.newTS(), "is_enterprise_install": false,
		"channel": map[string]any{"id": channel, "name": s.mustChannel(channel).Name}})
	return call
}

// SubmitView lets a user send a form; values are by block id, then action id.
func (s *Server) SubmitView(v View, by User, values map[string]map[string]any) Call {
	s.state.Lock()
	defer s.state.Release()
	call := s.newCall("", by, nil)
	wire := viewWire(v)
	wire["state"] = map[string]any{"values": values}
	s.interactive(call, "view_submission", map[string]any{"view": wire, "response_urls": []any{}})
	return call
}

// interactive delivers an interaction of a kind with what all of them have in common. The lock is held.
func (s *Server) interactive(call Call, kind string, extra map[string]any) {
	extra["type"], extra["trigger_id"], extra["api_app_id"], extra["token"] = kind, call.TriggerID, AppID, "legacy"
	extra["user"] = map[string]any{
		"id":       call.User.ID,
		"username": call.User.Name,
		"name":     call.User.Name,
		"team_id":  s.teamOf(call.User.ID),
	}
	extra["team"] = map[string]any{"id": s.teamOf(call.User.ID), "domain": "sim"}
	s.deliver(&envelope{event: call.EventID, kind: KindInteractive, inner: kind, payload: mustJSON(extra)})
}

// findAction returns an element of blocks by its action_id, with the id of its block; nil: there is none.
func findAction(blocks json.RawMessage, id string) map[string]any {
	var list []map[string]any
	if json.Unmarshal(blocks, &list) != nil {
		return nil
	}
	for _, b := range list {
		elements, _ := b["elements"].([]any)
		if accessory, ok := b["accessory"]; ok {
			elements = slices.Concat(elements, []any{accessory})
		}
		for _, e := range elements {
			if el, ok := e.(map[string]any); ok && el["action_id"] == id {
				el["block_id"] = b["block_id"]
				if el["block_id"] == nil {
					el["block_id"] = "block"
				}
				return el
			}
		}
	}
	return nil
}
