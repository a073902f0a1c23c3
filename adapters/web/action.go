package web

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/store"
)

// Limits of what comes from buttons and forms.
const (
	maxButtonValue = 100 // bytes of a button's value, a form's ID or a post's number
	formTimeout    = time.Second
)

// workMark is kept with a press or a form, so that its answer ends the view of the work on it.
type workMark struct {
	Of string `json:"of"`
}

// pressBelowNone begins the ID of the press of a button that is below no post: Stop, beside work under way.
const pressBelowNone = "press//"

// tokenPattern matches the token by which the page makes a press or a form unique.
var tokenPattern = text.Pattern(`^[a-z0-9]{1,40}$`)

// newToken returns a random token that is in no other page, press or room.
func newToken() string { return strings.ToLower(rand.Text()) }

// acceptAction hands over the press of a button or a form that was sent. It returns when that is safe on disk. The
// error of accept is wrapped.
func (w *Web) acceptAction(ctx context.Context, m chat.Message) error {
	accept, err := w.awaitAccept(ctx)
	if err != nil {
		return err
	}
	if err := accept(ctx, m); err != nil {
		return fmt.Errorf("take it: %w", err)
	}
	return nil
}

// newPress returns the press of a button below the post with a Seq; an empty post means that it is below none. Each
// press is another message. The error is an *InputError where no button of the page sends that.
func (w *Web) newPress(room, post, value string) (chat.Message, error) {
	if err := CheckRoom(room); err != nil {
		return chat.Message{}, err
	}
	if _, err := strconv.ParseUint(post, 10, 64); value == "" || len(value) > maxButtonValue ||
		post != "" && err != nil {
		return chat.Message{}, &InputError{"this is not a button of the page"}
	}
	return w.completeAction(
		room,
		"press/"+post+"/"+newToken(),
		chat.Message{Command: chat.Pressed, Text: value, Reply: chat.Reply{MessageID: post}},
	)
}

// completeAction adds to a press or a form where it happened, who did it and when.
func (w *Web) completeAction(room, id string, m chat.Message) (chat.Message, error) {
	handle, err := json.Marshal(workMark{Of: id})
	if err != nil {
		return m, fmt.Errorf("mark what was done: %w", err)
	}
	m.ID, m.Conversation, m.Author = id, chat.Address{Platform: w.Name(), Channel: room}, chat.Operator()
	m.Reach, m.Reply.Handle, m.Time = chat.Addressed, handle, w.o.Now()
	return m, nil
}

// markedWork returns the press or the form that a post answers; empty if it answers neither.
func markedWork(to chat.Reply) string {
	var m workMark
	if json.Unmarshal(to.Handle, &m) != nil {
		return ""
	}
	return m.Of
}

// endedWork returns the presses and forms whose work a post ends. A post that replaces another one
// may answer any press below that.
func (r *room) endedWork(d chat.Draft) []string {
	if of := markedWork(d.Reply); of != "" {
		return []string{of}
	}
	if len(d.Replaces.IDs) == 0 {
		return nil
	}
	// The button may have been below another post, such as a failure that is not replaced.
	var ids []string
	for _, t := range r.currentWork() {
		if strings.HasPrefix(t.ID, "press/"+d.Replaces.IDs[0]+"/") ||
			d.Reply.MessageID != "" && strings.HasPrefix(t.ID, "press/"+d.Reply.MessageID+"/") {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// deleteFailure takes the content of the failure below which a button was pressed, if what was pressed for has appeared
// in another line. The caller holds r.order.
func (w *Web) deleteFailure(ctx context.Context, r *room, to chat.Reply, appeared store.Entry) error {
	e, found, err := w.failureAt(ctx, r, to)
	if err != nil || !found || e.Seq == appeared.Seq {
		return err
	}
	e.Draft, e.Deleted = emptyDraft(*e.Draft), true
	_, err = w.writeEntry(ctx, r, e, Event{Anew: true})
	return err
}

// failureAt returns the failure below which a button was pressed that a draft answers; false if it answers none.
func (w *Web) failureAt(ctx context.Context, r *room, to chat.Reply) (store.Entry, bool, error) {
	line := parseLine(to.MessageID)
	if line == 0 {
		return store.Entry{}, false, nil
	}
	e, found, err := w.lineAt(ctx, r.name, line)
	return e, found && e.Draft != nil && e.Draft.Failed && !e.Deleted, err
}

// findReplaced returns the entry that a draft replaces: the one that it names, or the answer to what was said before an
// edit. It returns false if there is none. The caller holds r.order.
func (w *Web) findReplaced(ctx context.Context, r *room, d chat.Draft) (store.Entry, bool, error) {
	if len(d.Replaces.IDs) > 0 {
		// What is no number is of an earlier version, or of another platform.
		if seq, err := strconv.ParseUint(d.Replaces.IDs[0], 10, 64); err == nil {
			e, found, err := w.lineAt(ctx, r.name, seq)
			if err != nil || found && e.Draft != nil {
				return e, found, err
			}
		}
	}
	// Where an answer is, is known to who asks for it for some days, and not of a failure that takes its place.
	if line, ok := r.edited[d.Reply.MessageID]; ok {
		return w.findAnswer(ctx, r, d.Reply.MessageID, line)
	}
	if !d.Failed {
		return store.Entry{}, false, nil
	}
	return w.failureAt(ctx, r, d.Reply)
}

// shownForm is what the template of a form shows.
type shownForm struct {
	*chat.Form
	Action           string // the address that it is sent to
	Room, Post, Once string
	IsDanger         bool // what it does cannot be undone
}

// renderForm sends a form, as a fragment to the page's own requests.
func (w *Web) renderForm(rw http.ResponseWriter, r *http.Request, f shownForm) {
	name := "form-page"
	if r.Header.Get("HX-Request") != "" {
		name = "show-form"
	}
	w.render(rw, r, name, f)
}

// offerForm shows the form that a message asks for, or says why there is none. It returns false if
// the message asks for none.
func (w *Web) offerForm(rw http.ResponseWriter, r *http.Request, m chat.Message) bool {
	if w.o.Former == nil || m.Kind() == chat.EventMessage {
		return false
	}
	ctx, cancel := context.WithTimeout(r.Context(), formTimeout)
	defer cancel()
	form, err := w.o.Former(ctx, m)
	switch {
	case ctx.Err() != nil, form == nil && err == nil:
		return false
	case err != nil:
		w.writeError(rw, r, &formRefusal{err})
	default:
		form.Intro = chat.TypedForm(form.Intro)
		room := m.Conversation.Channel
		w.renderForm(rw, r, shownForm{
			Form:   form,
			Action: "/chat/" + room + "/forms",
			Room:   room,
			Post:   m.Reply.MessageID,
			Once:   newToken(),
		})
	}
	return true
}

// formRefusal is the sentence with which a Former refused.
type formRefusal struct{ error }

// servePress handles the press of a button.
func (w *Web) servePress(rw http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(rw, r.Body, maxForm)
	m, err := w.newPress(r.PathValue("room"), r.PostFormValue("post"), r.PostFormValue("value"))
	if err == nil && w.offerForm(rw, r, m) {
		return
	}
	if err == nil {
		err = w.acceptAction(r.Context(), m)
	}
	w.answerTaken(rw, r, err, "")
}

// serveForm handles a form that was filled in. Each is taken once.
func (w *Web) serveForm(rw http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(rw, r.Body, maxForm)
	m, err := w.parseForm(r)
	if err == nil {
		err = w.acceptAction(r.Context(), m)
	}
	w.answerTaken(rw, r, err, "hide-form")
}

// parseForm returns the message of a form that was filled in. Its id holds the token of the page, so that a form that
// is sent twice is one message. Faults of the input are *InputError.
func (w *Web) parseForm(r *http.Request) (chat.Message, error) {
	room := r.PathValue("room")
	if err := CheckRoom(room); err != nil {
		return chat.Message{}, err
	}
	if err := r.ParseForm(); err != nil {
		return chat.Message{}, &InputError{"the form could not be read; is it longer than 64 KiB?"}
	}
	id, once := r.PostForm.Get("form"), r.PostForm.Get("once")
	if id == "" || len(id) > maxButtonValue || !tokenPattern().MatchString(once) {
		return chat.Message{}, &InputError{"this is not a form of the page"}
	}
	values := map[string]string{}
	for key, list := range r.PostForm {
		if name, ok := strings.CutPrefix(key, "one:"); ok { // a box that is not ticked leaves what is hidden beside it
			values[name] = strings.ReplaceAll(list[len(list)-1], "\r\n", "\n")
		}
		if name, ok := strings.CutPrefix(key, "several:"); ok {
			values[name] = strings.Join(list[1:], "\n") // the first is hidden, and says that there is such a field
		}
	}
	return w.completeAction(
		room,
		"form/"+once,
		chat.Message{
			Command: chat.Submitted,
			Text:    id,
			Values:  values,
			Reply:   chat.Reply{MessageID: r.PostForm.Get("post")},
		},
	)
}

// answerTaken answers a request of the page whose message was taken, with a fragment unless that is
// empty.
func (w *Web) answerTaken(rw http.ResponseWriter, r *http.Request, err error, fragment string) {
	switch {
	case err != nil:
		w.writeError(rw, r, err)
	case r.Header.Get("HX-Request") == "":
		http.Redirect(rw, r, "/chat/"+r.PathValue("room"), http.StatusSeeOther)
	case fragment != "":
		w.render(rw, r, fragment, nil)
	default:
		rw.WriteHeader(http.StatusNoContent)
	}
}

// refusalText returns the sentence with which a Former refused; false if err is another error.
func refusalText(err error) (string, bool) {
	var no *formRefusal
	if !errors.As(err, &no) {
		return "", false
	}
	return no.Error(), true
}
