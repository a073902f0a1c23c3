package chat

// EventKind is the kind of event that a Message reports. All kinds are stored, ordered and deduplicated in the same
// way.
type EventKind string

// The kinds of events, with the fields of Message that each uses.
const (
	EventMessage  EventKind = "message"  // Text, Files
	EventCommand  EventKind = "command"  // Command, Text
	EventEdit     EventKind = "edit"     // Change, Revision, Text
	EventDelete   EventKind = "delete"   // Change
	EventPress    EventKind = "press"    // Text is the button's Value, Reply.MessageID the post with the button
	EventForm     EventKind = "form"     // Text is the form's ID, Values the filled-in values
	EventReaction EventKind = "reaction" // Reaction
)

// Kind returns the kind of event.
func (m Message) Kind() EventKind {
	// The order matters: an edit keeps the Command of the message that it changes.
	switch {
	case m.Reaction != nil:
		return EventReaction
	case m.Change == Deleted:
		return EventDelete
	case m.Change != "":
		return EventEdit
	case m.Command == Pressed:
		return EventPress
	case m.Command == Submitted:
		return EventForm
	case m.Command != "":
		return EventCommand
	}
	return EventMessage
}

// IsQuestion reports whether the message is a plain message or the command "ask": no edit, press, form or other
// command.
func (m Message) IsQuestion() bool {
	kind := m.Kind()
	return kind == EventMessage || kind == EventCommand && m.Command == CommandAsk
}

// AuthorManages reports whether the author may manage the stored data of the conversation. In a direct conversation
// everybody may, elsewhere an administrator.
func (m Message) AuthorManages() bool { return m.Direct || m.Author.Admin }
