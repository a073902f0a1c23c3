package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

//go:embed static templates
var files embed.FS

const (
	// pageSize is how many lines of a room are shown at once.
	pageSize = 50
	// cacheTime is how long a message without an answer is shown as being worked on
	// when this process does not know it.
	cacheTime = time.Hour
	// maxForm is the largest form taken, in bytes: a message in its encoded form.
	maxForm = 4*maxText + 1024
	// MaxBody is the largest body of a request that Handler takes: a message with its files.
	MaxBody = maxForm + maxFilesBytes
)

// page is what the handlers need besides the rooms.
type page struct {
	static fs.FS
	tags   map[string]string // entity tag of each static file
	// templates returns the parts of the page, parsed once.
	templates func() *template.Template
}

// newPage returns the embedded files with their tags, which are hashes of their content, and the templates.
// isCommand tells commands from other words.
func newPage(isCommand func(said string) bool) *page {
	static, err := fs.Sub(files, "static")
	if err != nil {
		panic(err) // the folder is embedded
	}
	parse := func() *template.Template { return parseTemplates(isCommand) }
	p := &page{static: static, tags: map[string]string{}, templates: sync.OnceValue(parse)}
	names, err := fs.ReadDir(static, ".")
	if err != nil {
		panic(err)
	}
	for _, n := range names {
		data, err := fs.ReadFile(static, n.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(data)
		p.tags[n.Name()] = `"` + hex.EncodeToString(sum[:8]) + `"`
	}
	return p
}

// Handler serves the page: /, /chat/…, /static/…. It neither asks who is there
// nor guards against foreign origins; whoever mounts it does, and sets the
// security headers. Everyone who gets through is the operator.
func (w *Web) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", http.RedirectHandler("/chat/general", http.StatusSeeOther))
	mux.HandleFunc("GET /chat", w.showSearch)
	mux.HandleFunc("POST /chat", w.openRoom)
	mux.HandleFunc("GET /chat/{room}", w.showRoom)
	mux.HandleFunc("POST /chat/{room}", w.changeRoom)
	mux.HandleFunc("GET /chat/{room}/rooms", w.showRoomList)
	mux.HandleFunc("GET /chat/{room}/export", w.exportRoom)
	mux.HandleFunc("GET /chat/{room}/earlier", w.showEarlier)
	mux.HandleFunc("GET /chat/{room}/events", w.serveStream)
	mux.HandleFunc("GET /chat/{room}/pictures/{line}/{card}", w.servePicture)
	mux.HandleFunc("GET /chat/{room}/files/{n}", w.serveFile)
	mux.HandleFunc("POST /chat/{room}/messages", w.takeMessage)
	mux.HandleFunc("POST /chat/{room}/press", w.servePress)
	mux.HandleFunc("POST /chat/{room}/forms", w.serveForm)
	mux.HandleFunc("POST /chat/{room}/agent", w.chooseAgent)
	mux.HandleFunc("GET /chat/{room}/lines/{line}/edit", w.showEdit)
	mux.HandleFunc("POST /chat/{room}/lines/{line}/edit", w.takeEdit)
	mux.HandleFunc("GET /chat/{room}/lines/{line}/delete", w.showDelete)
	mux.HandleFunc("POST /chat/{room}/lines/{line}/delete", w.takeDelete)
	mux.HandleFunc("GET /static/{file}", w.serveStatic)
	mux.HandleFunc("GET /", func(rw http.ResponseWriter, _ *http.Request) {
		w.writeFailure(rw, http.StatusNotFound, "failure", notFound)
	})
	return mux
}

// Static serves what the pages load, below /static/, for where the chat page
// itself is not served.
func (w *Web) Static() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /static/{file}", w.serveStatic)
	return mux
}

// roomView is what the template of a room shows.
type roomView struct {
	Room    string
	Rooms   []roomLink
	Entries []store.Entry
	Before  uint64 // Seq below which there is more; 0: nothing is
	Newest  uint64 // Seq of the last entry
	State   string // of the room, as old as the entries or older
	Working []workView
	Agents  *Offer // nil: there is no choice
	Past    bool   // newer lines are not shown, nor any that come
	Query   string // that was searched for; none is on the page of a room
}

// Current returns the room that is shown.
func (v roomView) Current() roomLink {
	i := slices.IndexFunc(v.Rooms, func(l roomLink) bool { return l.IsCurrent })
	if i < 0 {
		return roomLink{Room: v.Room, Title: v.Room}
	}
	return v.Rooms[i]
}

// linesBehind is how many lines are shown behind one that somebody looks for.
const linesBehind = pageSize / 2

// showRoom serves the page of a room with its newest lines or, where they do not include the one that the address
// names, with those around that one.
func (w *Web) showRoom(rw http.ResponseWriter, r *http.Request) {
	name := r.PathValue("room")
	if err := CheckRoom(name); err != nil {
		w.writeError(rw, r, err)
		return
	}
	rooms, err := w.roomLinks(r.Context(), name)
	if err != nil {
		w.writeError(rw, r, err)
		return
	}
	v, err := w.loadRoom(r.Context(), name, 0)
	if err != nil {
		w.writeError(rw, r, err)
		return
	}
	if line := parseLine(r.FormValue("line")); line > 0 && line < v.Before {
		if v, err = w.loadRoom(r.Context(), name, line+linesBehind); err != nil {
			w.writeError(rw, r, err)
			return
		}
		v.Past = true
	}
	v.Rooms = rooms
	if w.o.Agents != nil {
		offer := w.o.Agents.Offered(name)
		v.Agents = &offer
	}
	w.render(rw, r, "page", v)
}

// loadRoom returns up to pageSize lines below before, oldest first, and the present work if these are the newest (0).
func (w *Web) loadRoom(ctx context.Context, name string, before uint64) (roomView, error) {
	v := roomView{Room: name, State: w.room(name).state()}
	entries, err := w.o.Log.Entries(ctx, name, before, pageSize+1)
	if err != nil {
		return roomView{}, err
	}
	v.Entries = entries
	if len(entries) > pageSize {
		v.Entries = entries[1:]
		v.Before = v.Entries[0].Seq
	}
	if n := len(v.Entries); n > 0 {
		v.Newest = v.Entries[n-1].Seq
	}
	if before == 0 {
		// After the log was read, so that nothing answered meanwhile is shown twice.
		v.Working = w.workUnderWay(name, v.Entries)
	}
	return v, nil
}

// workUnderWay adds to the work of this process the messages that an earlier process left without
// an answer.
func (w *Web) workUnderWay(name string, entries []store.Entry) []workView {
	list := w.room(name).currentWork()
	known := map[string]bool{}
	for _, t := range list {
		known[t.ID] = true
	}
	for _, e := range entries {
		if e.Draft != nil {
			for _, id := range e.Draft.For() {
				known[id] = true
			}
		}
	}
	var left []workView
	for _, e := range entries {
		if e.User != nil && !e.Deleted && !known[e.ID] && w.o.Now().Sub(e.At) < cacheTime {
			left = append(left, workView{Room: name, ID: e.ID})
		}
	}
	return append(left, list...)
}

// roomNames returns general, the configured rooms, those that hold anything, and the one that is shown, each once; ""
// stands for none.
func (w *Web) roomNames(ctx context.Context, current string) ([]string, error) {
	used, err := w.o.Log.Rooms(ctx)
	if err != nil {
		return nil, err
	}
	slices.Sort(used)
	var names []string
	for _, n := range slices.Concat([]string{"general"}, w.o.Rooms, used, []string{current}) {
		if CheckRoom(n) == nil && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names, nil
}

// showEarlier serves the lines of a room before a line, as a fragment.
func (w *Web) showEarlier(rw http.ResponseWriter, r *http.Request) {
	name := r.PathValue("room")
	before, err := strconv.ParseUint(r.FormValue("before"), 10, 64)
	if err != nil || before == 0 || CheckRoom(name) != nil {
		w.writeError(rw, r, &InputError{"want a room and before=N, the number of a line"})
		return
	}
	v, err := w.loadRoom(r.Context(), name, before)
	if err != nil {
		w.writeError(rw, r, err)
		return
	}
	w.render(rw, r, "entries", v)
}

// takeMessage handles a message from the form. What is said appears by the stream; a command may be
// answered with a form to fill in.
func (w *Web) takeMessage(rw http.ResponseWriter, r *http.Request) {
	files, err := readMessage(rw, r)
	if err != nil {
		w.writeError(rw, r, err)
		return
	}
	name := r.PathValue("room")
	text, user := strings.ReplaceAll(r.PostForm.Get("text"), "\r\n", "\n"), chat.Operator()
	m, err := w.newMessage(store.Entry{ID: "room/asked", Room: name, At: w.o.Now(), User: &user, Text: text})
	if err == nil && CheckRoom(name) == nil && w.offerForm(rw, r, m) {
		return
	}
	if err == nil {
		// The page repeats what it got no answer for, and so does a replica whose leader has ended.
		token := newToken()
		if key := r.Header.Get("Idempotency-Key"); key != "" {
			// A key may be anything, and is that of one person in one room.
			sum := sha256.Sum256([]byte(name + "\x00" + user.ID + "\x00" + key))
			token = hex.EncodeToString(sum[:16])
		}
		if _, err = w.sayOnce(r.Context(), token, name, user, text, files...); err == nil {
			w.titleRoom(r.Context(), name, strings.TrimSpace(text))
		}
	}
	w.answerTaken(rw, r, err, "")
}

// readMessage parses the form of a message and returns its files. The error is an *InputError.
func readMessage(rw http.ResponseWriter, r *http.Request) ([]chat.File, error) {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if media != "multipart/form-data" {
		r.Body = http.MaxBytesReader(rw, r.Body, maxForm)
		if r.ParseForm() != nil {
			return nil, &InputError{"the message could not be read; is it longer than 64 KiB?"}
		}
		return nil, nil
	}
	r.Body = http.MaxBytesReader(rw, r.Body, MaxBody)
	files, err := readFiles(r)
	r.Body = http.NoBody // the body that was read holds the files a second time
	var input *InputError
	if err != nil && !errors.As(err, &input) {
		words := "the message could not be read; are the files larger than %d MiB together?"
		err = &InputError{fmt.Sprintf(words, maxFilesBytes>>20)}
	}
	return files, err
}

// chooseAgent lets another agent answer in a room.
func (w *Web) chooseAgent(rw http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(rw, r.Body, maxForm)
	name := r.PathValue("room")
	err := CheckRoom(name)
	if err == nil && w.o.Agents == nil {
		err = &InputError{"there is no choice of agents here"}
	}
	if err == nil {
		err = w.o.Agents.Choose(r.Context(), name, r.PostFormValue("agent"))
	}
	w.answerTaken(rw, r, err, "chosen")
}

// writeError answers with an error: as a fragment to the page's own requests, otherwise as a page.
func (w *Web) writeError(rw http.ResponseWriter, r *http.Request, err error) {
	status, words := http.StatusInternalServerError, "Something went wrong here; the bot's log has the reason."
	var input *InputError
	sentence, refused := refusalText(err)
	switch {
	case refused:
		status, words = http.StatusForbidden, sentence
	case errors.As(err, &input):
		status, words = http.StatusBadRequest, "That did not work: "+input.What+"."
	case errors.Is(err, chat.ErrBusy):
		status, words = http.StatusServiceUnavailable, "The bot is busy right now. Please try again in a moment."
	// Also where the request ended with the bot: without an answer the browser would take it for done.
	case errors.Is(err, errStopped), errors.Is(err, context.DeadlineExceeded), r.Context().Err() != nil:
		status, words = http.StatusServiceUnavailable, "The bot is starting or stopping. Please try again in a moment."
	default:
		w.o.Logger.Error("failed to serve a page", "path", r.URL.Path, "error", err)
	}
	if r.Header.Get("HX-Request") != "" {
		w.writeFailure(rw, status, "problem", words)
		return
	}
	w.writeFailure(rw, status, "failure", failure{"That did not work", words})
}

// failure is what the template of a page that is an error shows.
type failure struct{ Title, Words string }

var notFound = failure{"Not found", "There is no page at this address."}

// writeFailure answers with a template of an error.
func (w *Web) writeFailure(rw http.ResponseWriter, status int, name string, v any) {
	rw.Header().Set("Content-Type", "text/html; charset=utf-8")
	rw.WriteHeader(status)
	if err := w.page.templates().ExecuteTemplate(rw, name, v); err != nil {
		w.o.Logger.Debug("page not sent", "error", err)
	}
}

// render sends a template as a whole, or an error if it fails.
func (w *Web) render(rw http.ResponseWriter, r *http.Request, name string, v any) {
	b, err := w.page.fragment(name, v)
	if err != nil {
		w.writeError(rw, r, err)
		return
	}
	rw.Header().Set("Content-Type", "text/html; charset=utf-8")
	rw.Header().Set("Cache-Control", "no-store")
	_, _ = rw.Write(b) // the reader is gone when this fails
}

// fragment returns a template over a value as HTML. It is rendered as a whole, so that a fault in it is no half page.
func (p *page) fragment(name string, v any) ([]byte, error) {
	var b bytes.Buffer
	if err := p.templates().ExecuteTemplate(&b, name, v); err != nil {
		return nil, fmt.Errorf("render %s: %w", name, err)
	}
	return b.Bytes(), nil
}

// serveStatic serves the embedded files. Browsers ask again with the tag.
func (w *Web) serveStatic(rw http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	tag, ok := w.page.tags[name]
	if !ok {
		http.NotFound(rw, r)
		return
	}
	rw.Header().Set("ETag", tag)
	rw.Header().Set("Cache-Control", "private, max-age=3600")
	http.ServeFileFS(rw, r, w.page.static, name)
}
