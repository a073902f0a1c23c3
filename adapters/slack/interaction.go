package slack

import (
	"encoding/json"
	"strings"

	"ravenbot/internal/chat"
)

// wireAction is what a person did with something that the bot posted.
type wireAction struct {
	Type    string `json:"type"`
	Trigger string `json:"trigger_id"`
	Address string `json:"response_url"`
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
	Message struct {
		ThreadTS string `json:"thread_ts"`
	} `json:"message"`
	Actions []struct {
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
	if json.Unmarshal(payload, &kind) == nil && kind.Type == "view_submission" {
		return s.parseSubmission(payload)
	}
	return s.parsePress(payload)
}

// parsePress translates the press of a button of ours; false if it is none.
func (s *Slack) parsePress(payload []byte) (chat.Message, bool) {
	var i wireAction
	if json.Unmarshal(payload, &i) != nil || i.Type != "block_actions" || i.Channel.ID == "" || i.User.ID == "" || i.Trigger == "" ||
		len(i.Actions) == 0 || !strings.HasPrefix(i.Actions[0].ID, buttonPrefix) ||
		i.Actions[0].Value == "" {
		return chat.Message{}, false
	}
	if i.Team.ID == "" {
		i.Team.ID = s.self.team
	}
	raw, err := json.Marshal(handle{ResponseURL: i.Address, Received: s.o.Now(), User: i.User.ID, Press: true})
	if err != nil {
		return chat.Message{}, false
	}
	at := chat.Address{Platform: s.Name(), Workspace: i.Team.ID, Channel: i.Channel.ID, Thread: i.Message.ThreadTS}
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
