package admin

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"ravenbot/internal/chat"
)

// Pages of lists.
const (
	pageSize    = 100
	maxPageSize = 1000
)

// writePage writes a page of a list. next asks for the page after it and is empty on the last.
func writePage[T any](w http.ResponseWriter, items []T, next string) {
	// Clients expect [], and nil would become null.
	if items == nil {
		items = []T{}
	}
	writeJSON(w, http.StatusOK, struct {
		Items []T    `json:"items"`
		Next  string `json:"next"`
	}{items, next})
}

// parsePage returns ?limit and ?cursor, which is also known as ?next. It answers the request itself where limit is no
// number.
func parsePage(w http.ResponseWriter, r *http.Request) (limit int, cursor string, ok bool) {
	q := r.URL.Query()
	limit, err := parseNumber(q.Get("limit"), pageSize)
	if err != nil || limit < 1 {
		writeError(w, http.StatusBadRequest, "bad_request", "limit has to be a whole number above 0",
			"leave it out for "+strconv.Itoa(pageSize))
		return 0, "", false
	}
	return min(limit, maxPageSize), cmp.Or(q.Get("cursor"), q.Get("next")), true
}

// writeBadCursor answers a request whose cursor is none of ours.
func writeBadCursor(w http.ResponseWriter) {
	writeError(w, http.StatusBadRequest, "bad_request", "cursor has to be what the page before gave as next",
		"leave it out for the first page")
}

// writeList writes the page that is asked for of a list that is bounded.
func writeList[T any](w http.ResponseWriter, r *http.Request, items []T) {
	limit, from, ok := parseNumberedPage(w, r)
	if !ok {
		return
	}
	items = items[min(from, len(items)):]
	more := len(items) > limit
	writeNumberedPage(w, items[:min(limit, len(items))], from, more)
}

// parseNumberedPage is parsePage for lists whose cursor is the number of items before the page.
func parseNumberedPage(w http.ResponseWriter, r *http.Request) (limit, from int, ok bool) {
	limit, cursor, ok := parsePage(w, r)
	if !ok {
		return 0, 0, false
	}
	from, err := parseNumber(cursor, 0)
	if err != nil {
		writeBadCursor(w)
		return 0, 0, false
	}
	return limit, from, true
}

// writeNumberedPage writes a page behind from items; more says that others follow it.
func writeNumberedPage[T any](w http.ResponseWriter, items []T, from int, more bool) {
	next := ""
	if more {
		next = strconv.Itoa(from + len(items))
	}
	writePage(w, items, next)
}

// Cursors of the list of conversations begin with what is listed from there on: conversations of the store, and then
// the web rooms in which nothing was asked yet.
const (
	storedCursor = "s"
	roomsCursor  = "r"
)

// listConversations writes conversations by address, and then the web rooms that hold posts alone.
func (s *Server) listConversations(w http.ResponseWriter, r *http.Request) {
	limit, cursor, ok := parsePage(w, r)
	if !ok {
		return
	}
	items, next := []conversationItem{}, roomsCursor
	if cursor == "" || strings.HasPrefix(cursor, storedCursor) {
		list, after, err := s.o.Conversations.Conversations(r.Context(), strings.TrimPrefix(cursor, storedCursor), limit)
		if isBadInput(err) {
			writeBadCursor(w)
			return
		}
		if err != nil {
			s.writeFailure(w, r, "the conversations could not be listed", err)
			return
		}
		for _, c := range list {
			items = append(items, conversationItem{c.Address.String(), c.Turns, c.Last})
		}
		if cursor = roomsCursor; after != "" {
			writePage(w, items, storedCursor+after)
			return
		}
	}
	from, err := parseNumber(strings.TrimPrefix(cursor, roomsCursor), 0)
	if err != nil {
		writeBadCursor(w)
		return
	}
	rooms, err := s.silentRooms(r)
	if err != nil {
		s.writeFailure(w, r, "the conversations could not be listed", err)
		return
	}
	rooms = rooms[min(from, len(rooms)):]
	n := min(len(rooms), limit-len(items))
	items = append(items, rooms[:n]...)
	if next = ""; n < len(rooms) {
		next = roomsCursor + strconv.Itoa(from+n)
	}
	writePage(w, items, next)
}

// silentRooms returns the web rooms in which nothing was asked yet, by name.
func (s *Server) silentRooms(r *http.Request) ([]conversationItem, error) {
	names, err := s.o.Conversations.Rooms(r.Context())
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var items []conversationItem
	for _, name := range names {
		a := chat.Address{Platform: s.o.Rooms.Name(), Channel: name}
		has, err := s.o.Conversations.HasConversation(r.Context(), a)
		if err != nil {
			return nil, err
		}
		if !has {
			items = append(items, conversationItem{Address: a.String()})
		}
	}
	return items, nil
}

// listUsage writes the usage of the last 30 days by day, model, channel and user.
func (s *Server) listUsage(w http.ResponseWriter, r *http.Request) {
	limit, cursor, ok := parsePage(w, r)
	if !ok {
		return
	}
	items, next, err := s.o.Spending.Page(r.Context(), cursor, limit)
	switch {
	case isBadInput(err):
		writeBadCursor(w)
	case err != nil:
		s.writeFailure(w, r, "the usage could not be read", err)
	default:
		writePage(w, items, next)
	}
}
