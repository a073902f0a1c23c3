package elicit

import (
	"encoding/json"
	"fmt"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
)

// told is a question with a form as other replicas receive it. Any of them can then show and check the form when it
// receives the press of the button. The answer goes to the replica whose call waits for it.
type told struct {
	Server, Tool, Message string
	Schema                json.RawMessage
	At                    chat.Address
	User                  chat.User
}

// Topic names what replicas tell one another of questions.
func (*Service) Topic() string { return "questions" }

// Told returns the forms that calls of this process wait for, by the IDs of the questions.
func (s *Service) Told() (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := map[string]told{}
	for id, q := range s.open {
		if len(q.fields) > 0 && !q.answered {
			list[id] = told{q.Server, q.Tool, q.Message, q.Schema, q.caller.Conversation, q.caller.User}
		}
	}
	return json.Marshal(list)
}

// Hear takes the forms of other replicas.
func (s *Service) Hear(others map[int64]json.RawMessage) error {
	forms := map[string]*question{}
	for replica, text := range others {
		var list map[string]told
		if err := json.Unmarshal(text, &list); err != nil {
			return fmt.Errorf("read the questions of replica %d: %w", replica, err)
		}
		for id, t := range list {
			fields, err := parseFields(t.Schema)
			if err != nil {
				return fmt.Errorf("read a question of replica %d: %w", replica, err)
			}
			forms[id] = &question{Question: Question{Server: t.Server, Tool: t.Tool, Message: t.Message}, id: id,
				caller: tool.Caller{Conversation: t.At, User: t.User}, fields: fields}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others = forms
	return nil
}

// findForm is find for the press of a button that opens a form, and for a form that was sent: also of other replicas.
func (s *Service) findForm(m chat.Message) (q *question, what string) {
	q, what, _ = s.find(m)
	if _, id, _ := strings.Cut(strings.TrimSpace(m.Text), " "); q == nil && what == pressAnswer {
		s.mu.Lock()
		defer s.mu.Unlock()
		q = s.others[id]
	}
	return q, what
}
