package web

import (
	"context"
	"iter"
	"slices"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// Ask says something in a room and yields the work on it, and last the entry whose draft is the answer, or says that
// the message was deleted. An error ends the sequence. The message is answered even if ctx ends or the loop is left
// early.
func (w *Web) Ask(ctx context.Context, name string, user chat.User, text string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		// Subscribed before anything is said, so that a quick answer is not missed.
		events, cancel := w.Subscribe(name)
		defer func() { cancel() }()
		m, err := w.Say(ctx, name, user, text)
		if err != nil {
			yield(Event{}, err)
			return
		}
		for {
			answered, err := w.follow(ctx, events, m.ID, yield)
			if answered {
				return
			}
			if err != errDropped {
				yield(Event{}, err)
				return
			}
			cancel()
			var now []workView
			// Before the log is read: an answer that comes in between is in one of the two.
			events, now, cancel = w.room(name).subscribe()
			if done, err := w.catchUp(ctx, m, now, yield); done || err != nil {
				if err != nil {
					yield(Event{}, err)
				}
				return
			}
		}
	}
}

// follow yields what concerns a message. It returns true when the answer was yielded or the caller
// wants no more.
func (w *Web) follow(
	ctx context.Context,
	events <-chan Event,
	id string,
	yield func(Event, error) bool,
) (bool, error) {
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-w.stopped:
			return false, errStopped
		case e, ok := <-events:
			switch {
			case !ok:
				return false, errDropped
			case e.Entry != nil && isGone(*e.Entry, id):
				yield(goneEvent(*e.Entry), nil)
				return true, nil
			case e.Entry != nil && isAnswer(*e.Entry, id):
				yield(e, nil)
				return true, nil
			case e.Progress != nil && e.Progress.Message == id:
				if !yield(e, nil) {
					return true, nil
				}
			}
		}
	}
}

// catchUp yields what a reader who fell behind has missed: the answer, or the work so far.
func (w *Web) catchUp(
	ctx context.Context,
	m chat.Message,
	now []workView,
	yield func(Event, error) bool,
) (done bool, err error) {
	id := m.ID
	entries, err := w.o.Log.Entries(ctx, m.Conversation.Channel, 0, pageSize)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if isGone(e, id) {
			yield(goneEvent(e), nil)
			return true, nil
		}
		if isAnswer(e, id) {
			yield(Event{Entry: &e}, nil)
			return true, nil
		}
	}
	for _, t := range now {
		if t.ID != id {
			continue
		}
		missed := []chat.Progress{{Message: id, Reset: true, Note: t.Note}}
		if t.Text != "" {
			missed = append(missed, chat.Progress{Message: id, Text: t.Text})
		}
		for _, run := range t.Tools {
			missed = append(missed, chat.Progress{Message: id, Tool: &run})
		}
		for _, p := range missed {
			if !yield(Event{Progress: &p}, nil) {
				return true, nil
			}
		}
	}
	return false, nil
}

// isGone reports whether an entry of a room is the message with an id, which was deleted.
func isGone(e store.Entry, id string) bool { return e.ID == id && e.Deleted }

// goneEvent returns what whoever waits for the answer to a deleted message gets in its place, such as a terminal.
func goneEvent(e store.Entry) Event {
	e.User, e.Draft = nil, &chat.Draft{Text: "The message was deleted before it was answered.", Failed: true}
	return Event{Entry: &e}
}

// isAnswer reports whether an entry of a room answers the message with an id.
func isAnswer(e store.Entry, id string) bool {
	return e.Draft != nil && slices.Contains(e.Draft.For(), id)
}
