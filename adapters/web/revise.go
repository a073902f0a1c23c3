package web

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

var _ chat.Reviser = (*Web)(nil)

// Edit gives a line that a person said other words; its files stay. It returns when the change is safe on disk and
// shown; the answer takes the place of the former one. Faults of the input are *InputError; the error of accept is
// wrapped.
func (w *Web) Edit(ctx context.Context, room string, line uint64, user chat.User, words string) error {
	return w.changeLine(ctx, room, line, user, chat.Edited, func(e store.Entry) (store.Entry, error) {
		now, err := checkText(words, len(e.Files))
		switch {
		case err != nil:
			return e, err
		case e.Deleted:
			return e, &InputError{"the message has been deleted"}
		}
		switch {
		case w.isCommand(e.Text):
			return e, &InputError{"a command cannot be edited; give it again"}
		// To carry one out takes a message of its own.
		case w.isCommand(now):
			return e, &InputError{"a message cannot become a command; send the command as a message"}
		}
		e.Text = now
		return e, nil
	})
}

// Delete takes the content of a line that a person said, with its files, and of the answers to it. It returns when that
// is safe on disk and shown. Deleting a line again does nothing. Errors are as for Edit.
func (w *Web) Delete(ctx context.Context, room string, line uint64, user chat.User) error {
	return w.changeLine(ctx, room, line, user, chat.Deleted, func(e store.Entry) (store.Entry, error) {
		e.Text, e.Files, e.Deleted = "", nil, true
		return e, nil
	})
}

// changeLine has a change of a line accepted, and notes it. alter returns the line as it is to be.
func (w *Web) changeLine(
	ctx context.Context,
	room string,
	line uint64,
	user chat.User,
	change chat.Change,
	alter func(store.Entry) (store.Entry, error),
) error {
	accept, err := w.awaitAccept(ctx)
	if err != nil {
		return err
	}
	r := w.room(room)
	// Of two changes at once each needs a revision of its own.
	r.order.Lock()
	defer r.order.Unlock()
	kept, err := w.ownLine(ctx, room, line, user)
	if err != nil {
		return err
	}
	e, err := alter(kept)
	if err != nil || e.Text == kept.Text && e.Deleted == kept.Deleted {
		return err
	}
	// By the clock, too: a change that was accepted and could not be noted has used up a revision.
	e.Revision = max(kept.Revision+1, w.o.Now().UnixMicro())
	// The line is kept with the change, for Revise.
	m, err := w.newMessage(e)
	if err != nil {
		return err
	}
	m.Change, m.Revision = change, fmt.Sprintf("%020d", e.Revision)
	if err := accept(ctx, m); err != nil {
		return fmt.Errorf("take the change: %w", err)
	}
	return w.replaceLine(context.WithoutCancel(ctx), r, kept, e)
}

// ownLine returns a line that a user may change. The error is an *InputError where there is none.
func (w *Web) ownLine(ctx context.Context, room string, line uint64, user chat.User) (store.Entry, error) {
	if err := CheckRoom(room); err != nil {
		return store.Entry{}, err
	}
	e, found, err := w.lineAt(ctx, room, line)
	if err != nil {
		return store.Entry{}, err
	}
	// Operators share one account on the page, and have another one in the terminal.
	if !found || e.User == nil || e.User.ID != user.ID && !user.Operator {
		return store.Entry{}, &InputError{"there is no such message of yours in this room"}
	}
	return e, nil
}

// lineAt returns the line with a Seq; false if there is none.
func (w *Web) lineAt(ctx context.Context, room string, seq uint64) (store.Entry, bool, error) {
	list, err := w.o.Log.Entries(ctx, room, seq+1, 1)
	if err != nil || len(list) == 0 || list[0].Seq != seq {
		return store.Entry{}, false, err
	}
	return list[0], true, nil
}

// Revise notes a change that was accepted, if that was not done yet: the process that took it may have ended first.
func (w *Web) Revise(ctx context.Context, m chat.Message) error {
	var e store.Entry
	err := json.Unmarshal(m.Reply.Handle, &e)
	if err != nil || e.ID != m.ID || e.Room != m.Conversation.Channel || CheckRoom(e.Room) != nil {
		w.o.Logger.Error("failed to store the change of a line", "room", m.Conversation.Channel, "message", m.Key(), "error", err)
		return nil
	}
	r := w.room(e.Room)
	r.order.Lock()
	defer r.order.Unlock()
	kept, found, err := w.lineAt(ctx, e.Room, e.Seq)
	if err != nil || !found || kept.ID != e.ID {
		return err // newer lines have pushed it out
	}
	if e.Deleted {
		// What was shown of the work on it before that was stopped.
		r.showProgress(chat.Progress{Message: e.ID, Ended: true})
	}
	if kept.Revision >= e.Revision {
		r.noteEdit(e)
		return nil
	}
	return w.replaceLine(ctx, r, kept, e)
}

// replaceLine writes a line as it is now. Of a deleted one the answers and the files go first: the line tells that they
// are to go. The caller holds r.order.
func (w *Web) replaceLine(ctx context.Context, r *room, kept, e store.Entry) error {
	if e.Deleted {
		if err := w.deleteAnswers(ctx, r, e); err != nil {
			return err
		}
		if err := w.deleteFiles(ctx, kept.Files); err != nil {
			return err
		}
	}
	r.noteEdit(e)
	_, err := w.writeEntry(ctx, r, e, Event{Anew: true})
	return err
}

// noteEdit notes that the answer to an edited line takes the place of the former one. It is called with r.order held.
func (r *room) noteEdit(e store.Entry) {
	if e.Deleted {
		delete(r.edited, e.ID)
	} else {
		r.edited[e.ID] = e.Seq
	}
}

// maxEarlier is how many earlier versions of an answer are kept.
const maxEarlier = 5

// earlierAnswers returns the earlier versions of an answer that a draft replaces. An answer to words that were edited is
// no version. The caller holds r.order.
func (r *room) earlierAnswers(old store.Entry, d chat.Draft) []string {
	_, isEdit := r.edited[d.Reply.MessageID]
	switch {
	case isEdit:
		return nil
	case old.Deleted, old.Draft.Failed, old.Draft.Key == d.Key, againValue(*old.Draft) == "":
		return old.Earlier
	}
	list := append(slices.Clone(old.Earlier), old.Draft.Text)
	return list[max(0, len(list)-maxEarlier):]
}

// deleteAnswers takes the content of the answers to a line, and of what was answered to presses below them. The caller
// holds r.order.
func (w *Web) deleteAnswers(ctx context.Context, r *room, line store.Entry) error {
	about := []string{line.ID}
	for e, err := range w.linesAfter(ctx, r, line.Seq) {
		if err != nil {
			return err
		}
		isAbout := func(id string) bool { return slices.Contains(about, id) }
		if e.Draft == nil || !slices.ContainsFunc(e.Draft.For(), isAbout) {
			continue
		}
		about = append(about, strconv.FormatUint(e.Seq, 10))
		if e.Deleted {
			continue
		}
		if err := w.deleteFiles(ctx, e.Draft.Files); err != nil {
			return err
		}
		e.Draft, e.Earlier, e.Deleted, e.Revision = emptyDraft(*e.Draft), nil, true, line.Revision
		if _, err := w.writeEntry(ctx, r, e, Event{Anew: true}); err != nil {
			return err
		}
	}
	return nil
}

// findAnswer returns the first answer to the message with an ID, whose line has a Seq; false if there is none. The
// caller holds r.order.
func (w *Web) findAnswer(ctx context.Context, r *room, id string, line uint64) (store.Entry, bool, error) {
	for e, err := range w.linesAfter(ctx, r, line) {
		if err != nil {
			return store.Entry{}, false, err
		}
		if !e.Deleted && isAnswer(e, id) {
			return e, true, nil
		}
	}
	return store.Entry{}, false, nil
}

// linesAfter yields the lines of a room behind one, oldest first. The caller holds r.order.
func (w *Web) linesAfter(ctx context.Context, r *room, line uint64) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		if err := w.readLast(ctx, r); err != nil {
			yield(store.Entry{}, err)
			return
		}
		for from := line; from < r.last; from += pageSize {
			list, err := w.o.Log.Entries(ctx, r.name, from+pageSize+1, pageSize)
			if err != nil {
				yield(store.Entry{}, err)
				return
			}
			for _, e := range list {
				// Where lines are missing in between, earlier ones fill the page.
				if e.Seq > from && !yield(e, nil) {
					return
				}
			}
		}
	}
}

// emptyDraft returns what is left of a draft that was deleted: which post it is, and what it answered.
func emptyDraft(d chat.Draft) *chat.Draft {
	left := chat.Draft{Key: d.Key, Reply: chat.Reply{MessageID: d.Reply.MessageID}}
	for _, to := range d.Answers {
		left.Answers = append(left.Answers, chat.Reply{MessageID: to.MessageID})
	}
	return &left
}

// deleteFiles deletes files of lines.
func (w *Web) deleteFiles(ctx context.Context, files []chat.File) error {
	for _, f := range files {
		var at fileHandle
		if json.Unmarshal(f.Handle, &at) != nil {
			continue // it was only named
		}
		if err := w.o.Log.DeleteRoomFile(ctx, at.Room, at.N); err != nil {
			return err
		}
	}
	return nil
}
