package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/text"
	"ravenbot/internal/store"
)

// roomInfoKind is the kind under which the store keeps a roomInfo, by the names of rooms.
const roomInfoKind = "web room"

// roomInfo is the title and the state of a room, as a user has set them.
type roomInfo struct {
	Title      string `json:"title,omitempty"` // "": its name
	IsArchived bool   `json:"archived,omitempty"`
}

// maxTitle is the longest title of a room, in characters.
const maxTitle = 60

// roomLink is a room in the list of rooms.
type roomLink struct {
	Room       string
	Title      string
	Last       time.Time // of the newest line; zero: it has none
	Newest     uint64    // Seq of that line
	IsArchived bool
	IsCurrent  bool
}

// roomLinks returns the rooms by their last use, newest first. Rooms without lines come last, in the order of roomNames.
func (w *Web) roomLinks(ctx context.Context, current string) ([]roomLink, error) {
	names, err := w.roomNames(ctx, current)
	if err != nil {
		return nil, err
	}
	infos, err := w.o.Log.Items(ctx, roomInfoKind)
	if err != nil {
		return nil, err
	}
	links := make([]roomLink, len(names))
	for i, name := range names {
		info, err := parseInfo(infos[name])
		if err != nil {
			w.o.Logger.Error("failed to read the title of a room", "room", name, "error", err)
		}
		links[i] = roomLink{Room: name, Title: cmp.Or(info.Title, name), IsArchived: info.IsArchived}
		links[i].IsCurrent = name == current
		newest, err := w.o.Log.Entries(ctx, name, 0, 1)
		if err != nil {
			return nil, err
		}
		for _, e := range newest {
			links[i].Last, links[i].Newest = e.At, e.Seq
		}
	}
	slices.SortStableFunc(links, func(a, b roomLink) int { return b.Last.Compare(a.Last) })
	return links, nil
}

func parseInfo(raw json.RawMessage) (info roomInfo, err error) {
	if raw != nil {
		err = json.Unmarshal(raw, &info)
	}
	return info, err
}

// loadInfo returns the title and the state of a room.
func (w *Web) loadInfo(ctx context.Context, name string) (roomInfo, error) {
	raw, err := w.o.Log.Item(ctx, roomInfoKind, name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return roomInfo{}, err
	}
	info, err := parseInfo(raw)
	if err != nil {
		return info, fmt.Errorf("read the title of room %s: %w", name, err)
	}
	return info, nil
}

// ChangeRoom gives a room a title, "" for its name, and takes it to the archive or back; nil changes nothing. Faults of
// the input are *InputError.
func (w *Web) ChangeRoom(ctx context.Context, name string, title *string, isArchived *bool) error {
	if err := CheckRoom(name); err != nil {
		return err
	}
	info, err := w.loadInfo(ctx, name)
	if err != nil {
		return err
	}
	if title != nil {
		if info.Title = text.OneLine(*title); len([]rune(info.Title)) > maxTitle {
			return &InputError{fmt.Sprintf("a title has at most %d characters", maxTitle)}
		}
	}
	if isArchived != nil {
		info.IsArchived = *isArchived
	}
	raw, err := json.Marshal(info)
	if err != nil {
		return err
	}
	return w.o.Log.SaveItem(ctx, roomInfoKind, name, raw, true)
}

// ForgetRoom deletes the title of a room whose lines were deleted. Pages that show the room become empty.
func (w *Web) ForgetRoom(ctx context.Context, name string) error {
	w.mu.Lock()
	old := w.rooms[name]
	delete(w.rooms, name) // the lines of the next one are numbered from 1 again
	w.mu.Unlock()
	if old != nil {
		old.dropReaders()
	}
	if err := w.o.Log.DeleteItem(ctx, roomInfoKind, name); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return nil
}

// showRoomList serves the list of rooms, as a fragment.
func (w *Web) showRoomList(rw http.ResponseWriter, r *http.Request) {
	links, err := w.roomLinks(r.Context(), r.PathValue("room"))
	if err != nil {
		w.writeError(rw, r, err)
		return
	}
	w.render(rw, r, "room-list", links)
}

// openRoom redirects to a new conversation, or to the room with a name that is given. What cannot be the name of a room
// becomes the title of a new one.
func (w *Web) openRoom(rw http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(rw, r.Body, maxForm)
	title := text.OneLine(r.PostFormValue("name"))
	name := strings.ReplaceAll(strings.ToLower(title), " ", "-")
	if CheckRoom(name) != nil {
		name = newRoomPrefix + newToken()[:8]
		if title != "" {
			if err := w.ChangeRoom(r.Context(), name, &title, nil); err != nil {
				w.writeError(rw, r, err)
				return
			}
		}
	}
	http.Redirect(rw, r, "/chat/"+name, http.StatusSeeOther)
}

// newRoomPrefix begins the names of rooms that nobody has named, which newRoomPattern matches.
const newRoomPrefix = "chat-"

var newRoomPattern = text.Pattern(`^` + newRoomPrefix + `[a-z0-9]{8}$`)

// titleRoom gives a room that nobody has named the title of the first thing that is said there.
func (w *Web) titleRoom(ctx context.Context, name, said string) {
	if !newRoomPattern().MatchString(name) || said == "" {
		return
	}
	_, err := w.o.Log.Item(ctx, roomInfoKind, name)
	if errors.Is(err, store.ErrNotFound) {
		title := text.Shorten(text.OneLine(said), maxTitle-1)
		err = w.ChangeRoom(ctx, name, &title, nil)
	}
	if err != nil {
		w.o.Logger.Error("failed to give a room a title", "room", name, "error", err)
	}
}

// changeRoom handles the form about a room.
func (w *Web) changeRoom(rw http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(rw, r.Body, maxForm)
	var title *string
	var isArchived *bool
	if err := r.ParseForm(); err == nil && r.PostForm.Has("title") {
		title = new(r.PostForm.Get("title"))
	}
	if r.PostForm.Has("archived") {
		isArchived = new(r.PostForm.Get("archived") == "yes")
	}
	w.answerTaken(rw, r, w.ChangeRoom(r.Context(), r.PathValue("room"), title, isArchived), "")
}
