// Package web is the chat page as a platform: rooms that people read in a browser. Programs can talk in them through
// Ask.
//
// It promises that every line is recorded before anybody sees it, that a reload shows the same lines, that a post
// repeated under its key appears once, that a slow or disconnected reader delays nobody, and that no message, post or
// tool result becomes active markup. The server of Handler decides who can see the page. The agent decides the
// answers.
//
// A room is a list of lines in the store and a set of readers that receive each new line (room.go, stream.go). A
// browser reads the lines as server-sent events and sends the number of its last line, so that a broken connection
// loses nothing. Unfinished answers are shown from memory only.
package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/store"
)

// Log keeps the lines of rooms. An entry with the ID of an earlier one takes its place and its Seq, unless the earlier
// one has a higher Revision; a new one gets a higher Seq than all before it. Its methods are called concurrently, but
// SaveEntry for one room by one goroutine at a time.
type Log interface {
	// SaveEntry returns the entry as it is on record, with its Seq. What it returns must survive a crash.
	SaveEntry(ctx context.Context, e store.Entry) (store.Entry, error)
	// Entries returns up to n lines with Seq below before (0: the newest), oldest first.
	Entries(ctx context.Context, room string, before uint64, n int) ([]store.Entry, error)
	// Rooms names the rooms that hold anything.
	Rooms(ctx context.Context) ([]string, error)
	// SaveRoomFile stores a file of a room and returns its number, under which RoomFile returns it,
	// or store.ErrNotFound once newer ones have pushed it out.
	SaveRoomFile(ctx context.Context, room string, f chat.File) (uint64, error)
	RoomFile(ctx context.Context, room string, n uint64) (chat.File, error)
	// RoomFilePart is RoomFile with up to most bytes of the data, from the byte with the index from on, and with how many
	// there are in all as Size.
	RoomFilePart(ctx context.Context, room string, n uint64, from int64, most int) (chat.File, error)
	// DeleteRoomFile deletes a file; there may be none.
	DeleteRoomFile(ctx context.Context, room string, n uint64) error

	// These keep small values by kind and name. Item and DeleteItem return store.ErrNotFound if there is none.
	SaveItem(ctx context.Context, kind, name string, item json.RawMessage, overwrite bool) error
	Items(ctx context.Context, kind string) (map[string]json.RawMessage, error)
	Item(ctx context.Context, kind, name string) (json.RawMessage, error)
	DeleteItem(ctx context.Context, kind, name string) error
}

// Options are what a Web needs.
type Options struct {
	Log    Log
	Now    func() time.Time
	Logger *slog.Logger
	Rooms  []string // shown even while they are empty; general always is
	// Commands are the words that may follow a slash in a message.
	Commands []chat.CommandSpec
	// Former returns the forms that commands and buttons of the page ask for; nil: none do.
	Former chat.Former
	// Agents are who may answer in rooms; nil: the page offers no choice.
	Agents Agents
	// Picture fetches the pictures of cards; nil: none is shown.
	Picture Picture
	// IsOver reports whether a line is over the retention of its room, and not to be found any more; nil: none is.
	IsOver func(chat.Address, time.Time) bool
}

// Agents tells who may answer in rooms, and takes a choice of one.
type Agents interface {
	// Offered is asked each time a room is shown.
	Offered(room string) Offer
	// Choose has an agent answer in a room; "": as the configuration says. Faults of the input are *InputError.
	Choose(ctx context.Context, room, agent string) error
}

// Offer is who may answer in a room.
type Offer struct {
	Names      []string
	Chosen     string // for this room; none: as the configuration says
	Configured string // who answers where none is chosen
}

// InputError says what is wrong with what a person sent.
type InputError struct{ What string }

func (e *InputError) Error() string { return e.What }

// BadInput marks the error as one that the sender can correct.
func (e *InputError) BadInput() bool { return true }

var (
	// errStopped is returned to people while Run has ended; errDropped never leaves the package.
	errStopped = errors.New("the chat is stopping; try again in a moment")
	errDropped = errors.New("reader too slow")
)

// Web is the chat platform "web". It is safe for concurrent use.
type Web struct {
	o       Options
	page    *page
	started chan struct{} // closed when Run begins
	stopped chan struct{} // closed when Run ends
	// pictures has a place for each that is being fetched.
	pictures chan struct{}

	// mu guards the three fields below. It is held for moments only; a room has locks of its own.
	mu     sync.Mutex
	accept func(context.Context, chat.Message) error
	since  time.Time
	rooms  map[string]*room
}

// New returns a Web that takes messages once Run runs. Pages may be served before that.
func New(o Options) *Web {
	w := &Web{
		o:        o,
		started:  make(chan struct{}),
		stopped:  make(chan struct{}),
		pictures: make(chan struct{}, maxPictureFetches),
		rooms:    map[string]*room{},
	}
	w.page = newPage(w.isCommand)
	return w
}

// Name returns "web".
func (w *Web) Name() string { return "web" }

// Limits returns generous limits: a page has none of its own.
func (w *Web) Limits() chat.Limits { return chat.Limits{Text: 100_000, Cards: 100} }

// Run takes messages until ctx ends, for which it returns nil; then the streams to browsers end, too. It is called
// once.
func (w *Web) Run(ctx context.Context, accept func(context.Context, chat.Message) error) error {
	w.mu.Lock()
	w.accept, w.since = accept, w.o.Now()
	w.mu.Unlock()
	close(w.started)
	<-ctx.Done()
	w.mu.Lock()
	w.accept = nil
	w.mu.Unlock()
	close(w.stopped)
	return nil
}

// Health reports whether messages are taken.
func (w *Web) Health() chat.Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.accept == nil {
		return chat.Health{Detail: "the chat page takes no messages yet, or no longer"}
	}
	return chat.Health{Connected: true, Since: w.since}
}

// CheckRoom returns an *InputError if a room cannot have that name.
func CheckRoom(name string) error {
	if !roomPattern().MatchString(name) {
		return &InputError{
			fmt.Sprintf("room %q: a room's name has 1 to 64 characters of a-z, 0-9, - and _", shorten(name, 80)),
		}
	}
	return nil
}

var roomPattern = text.Pattern(`^[a-z0-9_-]{1,64}$`)

// maxText is the longest message taken, in bytes.
const maxText = 64 << 10

// Say says something in a room as a person, with files that hold their data. It returns when the message is safe on
// disk; the answer arrives as a post. It waits up to ten seconds for Run to begin. Faults of the input are *InputError;
// the error of accept is wrapped, chat.ErrBusy among them.
func (w *Web) Say(
	ctx context.Context,
	name string,
	user chat.User,
	text string,
	files ...chat.File,
) (chat.Message, error) {
	return w.sayOnce(ctx, newToken(), name, user, text, files...)
}

// sayOnce is Say under a token. What was said under it before is not said again.
func (w *Web) sayOnce(
	ctx context.Context,
	token, name string,
	user chat.User,
	text string,
	files ...chat.File,
) (chat.Message, error) {
	if err := CheckRoom(name); err != nil {
		return chat.Message{}, err
	}
	text, err := checkText(text, len(files))
	if err != nil {
		return chat.Message{}, err
	}
	accept, err := w.awaitAccept(ctx)
	if err != nil {
		return chat.Message{}, err
	}
	// Files are stored first: the message refers to them.
	if files, err = w.keepFiles(ctx, name, files); err != nil {
		return chat.Message{}, err
	}
	e := store.Entry{
		ID:    "room/" + token,
		Room:  name,
		At:    w.o.Now(),
		User:  &user,
		Text:  text,
		Files: files,
	}
	m, err := w.newMessage(e)
	if err != nil {
		return m, err
	}
	r := w.room(name)
	// The answer may come before the line is written; Post waits for this lock.
	r.order.Lock()
	defer r.order.Unlock()
	if err := accept(ctx, m); err != nil {
		return m, fmt.Errorf("take the message: %w", err)
	}
	// The message is taken, so that its line is kept also where the browser has gone.
	if _, err := w.writeEntry(context.WithoutCancel(ctx), r, e, Event{}); err != nil {
		// The message is safe, and the post that answers it writes the line.
		w.o.Logger.Error("failed to store a line of a room", "room", name, "message", m.Key(), "error", err)
	}
	return m, nil
}

// checkText returns a text as it is said, beside a number of files. The error is an *InputError.
func checkText(text string, files int) (string, error) {
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
	if text == "" && files == 0 {
		return "", &InputError{"the message is empty"}
	}
	if len(text) > maxText {
		return "", &InputError{fmt.Sprintf("the message has %d bytes; at most %d can be taken", len(text), maxText)}
	}
	return text, nil
}

// newMessage returns the message of a person's entry. The entry is kept as the reply's handle, so that it is not lost
// if the process ends between storing the two: Post writes it again, and Revise that of a change.
func (w *Web) newMessage(e store.Entry) (chat.Message, error) {
	handle, err := json.Marshal(e)
	if err != nil {
		return chat.Message{}, fmt.Errorf("write down the line: %w", err)
	}
	command, text := chat.Typed(e.Text, w.o.Commands)
	author := *e.User
	author.Operator = true // whoever writes in a web room has signed in with the admin token
	return chat.Message{
		ID:           e.ID,
		Conversation: chat.Address{Platform: "web", Channel: e.Room},
		Author:       author,
		Text:         text,
		Files:        e.Files,
		Reach:        chat.Addressed,
		Command:      command,
		Reply:        chat.Reply{MessageID: e.ID, Handle: handle},
		Time:         e.At,
	}, nil
}

// awaitAccept waits until Run has begun, and returns its accept.
func (w *Web) awaitAccept(ctx context.Context) (func(context.Context, chat.Message) error, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	select {
	case <-w.started:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the chat to begin: %w", ctx.Err())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.accept == nil {
		return nil, errStopped
	}
	return w.accept, nil
}

// Post records a draft and shows it, in the place of the one that it replaces. The ref is the entry's Seq. Repeating a
// post under its key changes nothing. An address that is no room is a permanent *chat.PostError; other errors are the
// store's.
func (w *Web) Post(ctx context.Context, to chat.Address, d chat.Draft) (chat.Ref, error) {
	err := CheckRoom(to.Channel)
	if to.Platform != w.Name() || to.Workspace != "" || to.Thread != "" {
		err = fmt.Errorf("%s is not a web room", to)
	}
	if err != nil {
		return chat.Ref{}, &chat.PostError{Permanent: true, Err: fmt.Errorf("post to the chat page: %w", err)}
	}
	d.Text = chat.TypedForm(d.Text)
	r := w.room(to.Channel)
	r.order.Lock()
	defer r.order.Unlock()
	// One entry per key: repeating a post writes the same entry again.
	e := store.Entry{ID: "post/" + d.Key, Room: r.name, At: w.o.Now(), Draft: &d}
	for _, to := range append(slices.Clone(d.Answers), d.Reply) {
		line, err := w.restoreEntry(ctx, r, to)
		if err != nil {
			return chat.Ref{}, err
		}
		// It was deleted when the answer was there already, and the answer goes with it.
		e.Deleted = e.Deleted || line.Deleted
	}
	// The answer that was stopped says so itself.
	e.Deleted = e.Deleted || d.Ephemeral && strings.HasPrefix(markedWork(d.Reply), pressBelowNone)
	// Looked up before the entry is replaced: the presses below the old one end with it.
	ends := r.endedWork(d)
	old, again, err := w.findReplaced(ctx, r, d)
	if err != nil {
		return chat.Ref{}, err
	}
	answered := d.Reply
	if again {
		e.Earlier = r.earlierAnswers(old, d)
		e.ID, e.Deleted = old.ID, e.Deleted || old.Deleted
		d.Reply, d.Answers = old.Draft.Reply, old.Draft.Answers
	}
	if e.Deleted {
		d, e.Earlier = *emptyDraft(d), nil
	}
	if d.Files, err = w.keepFiles(ctx, r.name, d.Files); err != nil {
		return chat.Ref{}, err
	}
	// The handle is the asker's entry, which is in the log already.
	d.Reply.Handle, d.Answers, d.Replaces = nil, slices.Clone(d.Answers), chat.Ref{}
	for i := range d.Answers {
		d.Answers[i].Handle = nil
	}
	kept, err := w.writeEntry(ctx, r, e, Event{Anew: again, Ends: ends})
	if err != nil {
		return chat.Ref{}, err
	}
	delete(r.edited, answered.MessageID)
	if again {
		if err := w.deleteFailure(ctx, r, answered, kept); err != nil {
			return chat.Ref{}, err
		}
	}
	return chat.Ref{IDs: []string{strconv.FormatUint(kept.Seq, 10)}}, nil
}

// restoreEntry records the entry that a post answers unless this process has done so, and returns it as it is on
// record: it may have been edited or deleted since the handle was made. The entry is zero where nothing was done. The
// caller holds r.order. A handle that cannot be read is logged and left out: the answer is worth more than its
// question's line.
func (w *Web) restoreEntry(ctx context.Context, r *room, to chat.Reply) (store.Entry, error) {
	if len(to.Handle) == 0 || markedWork(to) != "" || r.isRecorded(to.MessageID) {
		return store.Entry{}, nil
	}
	var e store.Entry
	if err := json.Unmarshal(to.Handle, &e); err != nil || e.ID != to.MessageID || e.Room != r.name || e.User == nil {
		w.o.Logger.Error("failed to restore a line of a room", "room", r.name, "message", to.MessageID, "error", err)
		return store.Entry{}, nil
	}
	return w.writeEntry(ctx, r, e, Event{})
}

// readLast finds out the highest Seq of a room. The caller holds r.order.
func (w *Web) readLast(ctx context.Context, r *room) error {
	if r.isLastKnown {
		return nil
	}
	newest, err := w.o.Log.Entries(ctx, r.name, 0, 1)
	if err != nil {
		return err
	}
	for _, e := range newest {
		r.last = e.Seq
	}
	r.isLastKnown = true
	return nil
}

// writeEntry records an entry, shows it if it is new or if how says so, and returns it as it is on record. The caller
// holds r.order.
func (w *Web) writeEntry(ctx context.Context, r *room, e store.Entry, how Event) (store.Entry, error) {
	// Without it the lines of an earlier process would count as new when they are written again.
	if err := w.readLast(ctx, r); err != nil {
		return store.Entry{}, err
	}
	kept, err := w.o.Log.SaveEntry(ctx, e)
	if err != nil {
		return store.Entry{}, err
	}
	// An entry that was recorded before, by this process or an earlier one, is on the pages
	// already.
	isNew := kept.Seq > r.last
	r.last = max(r.last, kept.Seq)
	how.Entry = &kept
	r.record(how, isNew)
	return kept, nil
}

// Show passes progress of work to whoever reads the room. It returns at once, and is kept nowhere but in memory.
func (w *Web) Show(to chat.Address, p chat.Progress) {
	if CheckRoom(to.Channel) == nil {
		w.room(to.Channel).showProgress(p)
	}
}

// room returns what this process knows of a room, which it begins with the first mention of its name.
func (w *Web) room(name string) *room {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.rooms[name]
	if r == nil {
		r = &room{name: name, token: newToken(), edited: map[string]uint64{}, subs: map[chan Event]struct{}{}}
		w.rooms[name] = r
	}
	return r
}

// shorten returns the first n characters of a text, with an ellipsis if it was cut.
func shorten(s string, n int) string {
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n]) + "…"
	}
	return s
}
