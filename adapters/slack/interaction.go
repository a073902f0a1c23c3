package slack

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"ravenbot/internal/core/chat"
)

// wireAction is what a person did with something that the bot posted.
type wireAction struct {
	Type    string   `json:"type"`
	Trigger string   `json:"trigger_id"`
	Address string   `json:"response_url"`
	OrgWide wireFlag `json:"is_enterprise_install"`
	Team    struct {
		ID string `json:"id"`
	} `json:"team"`
	User struct {
		ID   string `json:"id"`
		Name string `json:"username"`
	} `json:"user"`
	Channel struct {
		ID string `json:"id"`
	} `json:"channel"`
	Container struct {
		TS       string `json:"message_ts"`
		ThreadTS string `json:"thread_ts"`
	} `json:"container"`
	Callback string          `json:"callback_id"` // of a shortcut
	TS       string          `json:"message_ts"`  // of the message that it was used on
	Message  json.RawMessage `json:"message"`
	Actions  []struct {
		ID    string `json:"action_id"`
		Value string `json:"value"`
		TS    string `json:"action_ts"`
	} `json:"actions"`
}

// isInteraction reports whether a message is a command, a press or a form. Slack sends
// each but once and wants an answer within three seconds.
func isInteraction(m chat.Message) bool {
	switch m.Kind() {
	case chat.EventCommand, chat.EventPress, chat.EventForm:
		return true
	}
	return false
}

// parseInteraction translates what a person did with a post or a form; false if it does not concern
// the bot.
func (s *Slack) parseInteraction(payload []byte) (chat.Message, bool) {
	var kind struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(payload, &kind) // what cannot be read is no press of ours either
	switch kind.Type {
	case "view_submission":
		return s.parseSubmission(payload)
	case "message_action":
		return s.parseShortcut(payload)
	}
	return s.parsePress(payload)
}

// parseShortcut translates a shortcut of ours that was used on a message; false if it is none. Target is the message
// that it was used on; the conversation is where that stands.
func (s *Slack) parseShortcut(payload []byte) (chat.Message, bool) {
	var i wireAction
	known := func(c chat.MessageCommand) bool { return c.Name == i.Callback }
	if json.Unmarshal(payload, &i) != nil || i.Channel.ID == "" || i.User.ID == "" || i.Trigger == "" || i.TS == "" ||
		!slices.ContainsFunc(s.o.MessageCommands, known) {
		return chat.Message{}, false
	}
	raw, err := json.Marshal(handle{ResponseURL: i.Address, Received: s.o.Now(), User: i.User.ID, Press: true})
	if err != nil {
		return chat.Message{}, false
	}
	var target wireMessage
	_ = json.Unmarshal(i.Message, &target) // without it the message is known by its timestamp
	at := chat.Address{Platform: s.Name(), Workspace: s.workspace(i.OrgWide, i.Team.ID), Channel: i.Channel.ID}
	// The first message of a thread names itself as its thread, but stands in the channel.
	if target.ThreadTS != i.TS {
		at.Thread = target.ThreadTS
	}
	said := chat.Said{
		ID:   i.TS,
		By:   cmp.Or(s.knownName(target.User), target.User),
		ByID: target.User,
		Bot:  target.BotID != "",
		Text: s.saidText(&target, nil),
		At:   parseTimestamp(i.TS),
	}
	return chat.Message{
		ID:           interactionID("shortcut", i.Trigger, i.Channel.ID, i.TS, i.User.ID, i.Callback),
		Author:       chat.User{ID: i.User.ID, Name: i.User.Name, Handle: i.User.Name},
		Time:         s.o.Now(),
		Reach:        chat.Addressed,
		Command:      i.Callback,
		Target:       &said,
		Reply:        chat.Reply{Handle: raw},
		Conversation: at,
		Direct:       isDirectChannel(at.Channel),
	}, true
}

// parsePress translates the press of a button of ours; false if it is none.
func (s *Slack) parsePress(payload []byte) (chat.Message, bool) {
	var i wireAction
	if json.Unmarshal(payload, &i) != nil || i.Type != "block_actions" || i.Channel.ID == "" || i.User.ID == "" ||
		i.Trigger == "" ||
		len(i.Actions) == 0 || !strings.HasPrefix(i.Actions[0].ID, buttonPrefix) ||
		i.Actions[0].Value == "" {
		return chat.Message{}, false
	}
	raw, err := json.Marshal(handle{ResponseURL: i.Address, Received: s.o.Now(), User: i.User.ID, Press: true})
	if err != nil {
		return chat.Message{}, false
	}
	var pressed struct {
		ThreadTS string `json:"thread_ts"`
	}
	_ = json.Unmarshal(i.Message, &pressed) // the container tells as well
	at := chat.Address{Platform: s.Name(), Workspace: s.workspace(i.OrgWide, i.Team.ID), Channel: i.Channel.ID,
		Thread: pressed.ThreadTS}
	if at.Thread == "" {
		at.Thread = i.Container.ThreadTS
	}
	if at.Thread == i.Container.TS { // it is the root of a thread, not in one
		at.Thread = ""
	}
	did := i.Actions[0]
	id := interactionID("press", i.Trigger, i.Address, i.Channel.ID, i.Container.TS, i.User.ID, did.Value, did.TS)
	return chat.Message{
		ID:           id,
		Author:       chat.User{ID: i.User.ID, Name: i.User.Name, Handle: i.User.Name},
		Time:         s.o.Now(),
		Reach:        chat.Addressed,
		Command:      chat.Pressed,
		Text:         i.Actions[0].Value,
		Reply:        chat.Reply{MessageID: i.Container.TS, Handle: raw},
		Conversation: at,
		Direct:       isDirectChannel(at.Channel),
	}, true
}
