package web

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// Event is something that happened in a room: an Entry that is on record, or a passing view of work. One of the two is
// set. Events are shared between readers and must not be changed, nor what they point to.
type Event struct {
	Entry    *store.Entry
	Progress *chat.Progress
	// Anew is set where the Entry replaces one that was shown. Ends are the messages, besides
	// those that it answers, whose work is done with it.
	Anew bool
	Ends []string
}

// room is what this process knows of a room: who looks, and what is worked on.
type room struct {
	name  string
	token string // tells the room of one process from that of another

	// order is held from before a line is written until it is shown, so that lines
	// are shown in the order of their Seq. It guards the three fields below.
	order       sync.Mutex
	isLastKnown bool              // last has been read from the log
	last        uint64            // highest Seq in the log
	edited      map[string]uint64 // Seq of lines that were edited and are to be answered again, by ID of their message

	// mu guards the fields below. Where both are held, order is taken first.
	mu      sync.Mutex
	changes int // lines that took another's place
	// turns are the messages that are worked on, oldest first; subs are the readers.
	turns []*turnState
	subs  map[chan Event]struct{}
}

// turnState is a message that is being answered.
type turnState struct {
	id   string // of the message
	said bool   // this process has put the message's line on record
	text strings.Builder
	// tools are the calls of the answer so far; text and note are what is shown of it now.
	tools []chat.ToolRun
	note  string
}

// maxWaitingEvents is how far a reader may fall behind before it is dropped.
const maxWaitingEvents = 256

// Subscribe returns what happens in a room from now on. The channel is closed when the reader falls too far behind, by
// maxWaitingEvents; it must then read the log and subscribe again. cancel must be called; it does not close the
// channel.
func (w *Web) Subscribe(name string) (events <-chan Event, cancel func()) {
	events, _, cancel = w.room(name).subscribe()
	return events, cancel
}

// subscribe subscribes, and returns what is being worked on at that moment.
func (r *room) subscribe() (events <-chan Event, now []workView, cancel func()) {
	sub := make(chan Event, maxWaitingEvents)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.subs[sub] = struct{}{}
	return sub, r.copyWork(), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.subs, sub)
	}
}

// publish sends an event to every reader. It is called with r.mu held.
func (r *room) publish(e Event) {
	for sub := range r.subs {
		select {
		case sub <- e:
		default:
			// Waiting for a slow browser with r.mu held would stop the answer for all others.
			delete(r.subs, sub)
			close(sub)
		}
	}
}

// dropReaders has every reader read the log and subscribe again.
func (r *room) dropReaders() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for sub := range r.subs {
		delete(r.subs, sub)
		close(sub)
	}
}

// record notes an entry that is now in the log, and shows it if it is new or replaces another one.
func (r *room) record(event Event, isNew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := event.Entry
	switch {
	case e.Draft == nil && e.Deleted:
		r.removeTurn(e.ID)
	case e.Draft == nil && isNew:
		r.turnOf(e.ID).said = true
	case e.Draft != nil:
		r.removeTurn(append(e.Draft.For(), event.Ends...)...)
	}
	if event.Anew {
		r.changes++
	}
	if isNew || event.Anew {
		r.publish(event)
	}
}

// state returns a name for the entries that replaced others until now. A browser that shows another state may show a
// line as it was before; after a restart every state is another one.
func (r *room) state() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.token + "." + strconv.Itoa(r.changes)
}

// isRecorded reports whether this process has recorded the entry of a message.
func (r *room) isRecorded(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.turns, func(t *turnState) bool { return t.id == id && t.said })
}

// turnOf returns the work on a message, which it begins if there is none. It is called with r.mu
// held.
func (r *room) turnOf(id string) *turnState {
	for _, t := range r.turns {
		if t.id == id {
			return t
		}
	}
	t := &turnState{id: id}
	r.turns = append(r.turns, t)
	return t
}

// removeTurn ends the work on messages. It is called with r.mu held.
func (r *room) removeTurn(ids ...string) {
	r.turns = slices.DeleteFunc(r.turns, func(t *turnState) bool { return slices.Contains(ids, t.id) })
}

// showProgress adds a step of work to what is shown of it: text is appended, a tool call takes the place of its earlier
// state, Reset begins the text again, Ended takes it away.
func (r *room) showProgress(p chat.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.publish(Event{Progress: &p}) }()
	if p.Ended {
		r.removeTurn(p.Message)
		return
	}
	t := r.turnOf(p.Message)
	switch {
	case p.Reset:
		t.text.Reset()
		t.note = p.Note
	case p.Tool != nil:
		i := slices.IndexFunc(t.tools, func(run chat.ToolRun) bool { return run.ID == p.Tool.ID })
		if i < 0 {
			t.tools = append(t.tools, *p.Tool)
		} else {
			t.tools[i] = *p.Tool
		}
	case p.Note != "":
		t.note = p.Note
	default:
		t.text.WriteString(p.Text)
		t.note = ""
	}
}

// workView is a copy of the work on a message for showing.
type workView struct {
	Room  string
	ID    string // of the message
	Text  string
	Note  string
	Tools []chat.ToolRun
}

// currentWork returns what is being worked on, oldest first.
func (r *room) currentWork() []workView {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.copyWork()
}

// copyWork returns what is being worked on. It is called with r.mu held.
func (r *room) copyWork() []workView {
	list := make([]workView, 0, len(r.turns))
	for _, t := range r.turns {
		list = append(
			list,
			workView{Room: r.name, ID: t.id, Text: t.text.String(), Note: t.note, Tools: slices.Clone(t.tools)},
		)
	}
	return list
}
