package web

import (
	"net/http"
	"strconv"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/store"
)

// fieldWords is the field with the words of a line that is edited.
const fieldWords = "words"

// showEdit serves the form in which a line is edited.
func (w *Web) showEdit(rw http.ResponseWriter, r *http.Request) {
	w.showLineForm(rw, r, "edit", editForm)
}

// editForm returns the form in which a line is edited.
func editForm(e store.Entry) *chat.Form {
	return &chat.Form{
		Title:  "Edit your message",
		Submit: "Save",
		Fields: []chat.Field{{
			Name:     fieldWords,
			Label:    "Message",
			Help:     "It is answered again, and the answer takes the place of the one there is.",
			Kind:     chat.Text,
			Value:    e.Text,
			Required: len(e.Files) == 0,
		}},
	}
}

// showDelete serves the form that asks whether a line is to be deleted.
func (w *Web) showDelete(rw http.ResponseWriter, r *http.Request) {
	w.showLineForm(rw, r, "delete", deleteForm)
}

// maxQuotedChars is how much of a message is repeated where it is to be deleted.
const maxQuotedChars = 120

// deleteForm returns the form that asks whether a line is to be deleted.
func deleteForm(e store.Entry) *chat.Form {
	quoted := text.EscapeMarkdown(text.Shorten(text.OneLine(e.Text), maxQuotedChars))
	if quoted == "" {
		quoted = "a message with files only"
	}
	return &chat.Form{
		Title: "Delete this message?",
		Intro: "> " + quoted + "\n\nIts files and the answer to it go with it, from this room and from what the bot " +
			"remembers. This cannot be undone.",
		Submit: "Delete",
	}
}

// showLineForm serves a form about a line, which is sent back to its own address.
func (w *Web) showLineForm(rw http.ResponseWriter, r *http.Request, what string, form func(store.Entry) *chat.Form) {
	room, seq := r.PathValue("room"), r.PathValue("line")
	e, err := w.ownLine(r.Context(), room, parseLine(seq), chat.Operator())
	if err == nil && e.Deleted {
		err = &InputError{"the message has been deleted"}
	}
	if err != nil {
		w.writeError(rw, r, err)
		return
	}
	w.renderForm(rw, r, shownForm{
		Form:     form(e),
		Room:     room,
		Action:   "/chat/" + room + "/lines/" + seq + "/" + what,
		IsDanger: what == "delete",
	})
}

// takeEdit handles a line that was edited.
func (w *Web) takeEdit(rw http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(rw, r.Body, maxForm)
	err := error(&InputError{"the message could not be read; is it longer than 64 KiB?"})
	if r.ParseForm() == nil {
		words := strings.ReplaceAll(r.PostForm.Get("one:"+fieldWords), "\r\n", "\n")
		err = w.Edit(r.Context(), r.PathValue("room"), parseLine(r.PathValue("line")), chat.Operator(), words)
	}
	w.answerTaken(rw, r, err, "hide-form")
}

// takeDelete handles the deletion of a line.
func (w *Web) takeDelete(rw http.ResponseWriter, r *http.Request) {
	err := w.Delete(r.Context(), r.PathValue("room"), parseLine(r.PathValue("line")), chat.Operator())
	w.answerTaken(rw, r, err, "hide-form")
}

// parseLine returns the Seq that an address names; 0, which no line has, if it is none.
func parseLine(s string) uint64 {
	seq, _ := strconv.ParseUint(s, 10, 64)
	return seq
}

// isCommand reports whether what somebody said is a command. Commands are not edited: what one did stays done.
func (w *Web) isCommand(said string) bool {
	command, _ := chat.Typed(said, w.o.Commands)
	return command != ""
}

// againValue returns what a button says that has a question answered again; empty: the draft answers none.
func againValue(d chat.Draft) string {
	if d.Reply.MessageID == "" {
		return "" // a digest has the same buttons
	}
	for _, b := range d.Buttons {
		if turn, ok := strings.CutPrefix(b.Value, chat.PressGood); ok {
			return chat.PressRetry + turn
		}
	}
	return ""
}
