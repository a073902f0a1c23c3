package admin

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"ravenbot/internal/core/chat"
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
	writeError(w, http.StatusBadRequest, "bad_request", "cursor must be the next of the page before",
		"leave it out for the first page")
}

// writeList writes the page that is asked for of a list that is bounded. key returns what tells an item from the others.
func writeList[T any](w http.ResponseWriter, r *http.Request, items []T, key func(T) string) {
	limit, after, ok := parseMarkedPage(w, r)
	if !ok {
		return
	}
	from := find(after, items, key)
	writeMarkedPage(w, items[from:min(from+limit, len(items))], from, from+limit < len(items), key)
}

// mark is where a page begins: behind an item. Its number alone would show items twice, or not at all, where others
// were added or removed since.
type mark struct {
	n   int // how many items were before the page
	key string
}

// find returns the index of the first item behind a mark. An item that is gone has left its number to the next one.
func find[T any](m mark, items []T, key func(T) string) int {
	if m.n == 0 {
		return 0
	}
	// Where several have the same key, as lines of a log may, the nearest one counts.
	best := -1
	for i, item := range items {
		if key(item) == m.key && (best < 0 || abs(i+1-m.n) < abs(best+1-m.n)) {
			best = i
		}
	}
	if best < 0 {
		return min(m.n-1, len(items))
	}
	return best + 1
}

func abs(n int) int { return max(n, -n) }

// parseMarkedPage is parsePage for lists whose cursor is a mark.
func parseMarkedPage(w http.ResponseWriter, r *http.Request) (limit int, after mark, ok bool) {
	limit, cursor, ok := parsePage(w, r)
	if !ok || cursor == "" {
		return limit, mark{}, ok
	}
	number, encoded, found := strings.Cut(cursor, ".")
	n, err := strconv.Atoi(number)
	key, keyErr := base64.RawURLEncoding.DecodeString(encoded)
	if !found || n < 1 || err != nil || keyErr != nil {
		writeBadCursor(w)
		return 0, mark{}, false
	}
	return limit, mark{n, string(key)}, true
}

// writeMarkedPage writes a page behind from items; more says that others follow it.
func writeMarkedPage[T any](w http.ResponseWriter, items []T, from int, more bool, key func(T) string) {
	next := ""
	if more {
		last := key(items[len(items)-1])
		next = strconv.Itoa(from+len(items)) + "." + base64.RawURLEncoding.EncodeToString([]byte(last))
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
	after, isRoom := strings.CutPrefix(cursor, roomsCursor)
	if !isRoom {
		writeBadCursor(w)
		return
	}
	rooms, err := s.silentRooms(r, after)
	if err != nil {
		s.writeFailure(w, r, "the conversations could not be listed", err)
		return
	}
	n := min(len(rooms), limit-len(items))
	items = append(items, rooms[:n]...)
	switch {
	case n == len(rooms):
		next = ""
	case n > 0:
		next = roomsCursor + rooms[n-1].Address
	default:
		next = cursor
	}
	writePage(w, items, next)
}

// silentRooms returns the web rooms behind an address in which nothing was asked yet, by name.
func (s *Server) silentRooms(r *http.Request, after string) ([]conversationItem, error) {
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
		if !has && a.String() > after {
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
