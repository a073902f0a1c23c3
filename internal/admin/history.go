package admin

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"ravenbot/internal/history"
)

// History searches what was said in conversations.
type History interface {
	Search(ctx context.Context, q history.Query) ([]history.Message, error)
}

// saidView is a message as the API shows it.
type saidView struct {
	ID     string    `json:"id"`
	Author string    `json:"author"`
	Bot    bool      `json:"bot,omitempty"`
	At     time.Time `json:"at"`
	Text   string    `json:"text"`
	Link   string    `json:"link"`
	Thread string    `json:"thread"`
}

// defaultSaid is how many messages a search returns without a limit.
const defaultSaid = 10

// searchConversation writes what was said in a conversation and fits ?q.
func (s *Server) searchConversation(w http.ResponseWriter, r *http.Request) {
	a, ok := parseConversation(w, r)
	if !ok {
		return
	}
	q := r.URL.Query()
	limit, err := parseNumber(q.Get("limit"), defaultSaid)
	if err != nil || limit < 1 || limit > maxPageSize {
		writeError(w, http.StatusBadRequest, "bad_request",
			fmt.Sprintf("limit is %.40q, want a number from 1 to %d", q.Get("limit"), maxPageSize), "leave it out for ten")
		return
	}
	if strings.TrimSpace(q.Get("q")) == "" {
		writeError(w, http.StatusBadRequest, "bad_request", "q is empty", "add ?q= with what to look for")
		return
	}
	found, err := s.o.History.Search(r.Context(), history.Query{In: a, Text: q.Get("q"), Limit: limit})
	if err != nil {
		s.writeFailure(w, r, "the conversation could not be searched", err)
		return
	}
	items := make([]saidView, len(found))
	for i, m := range found {
		items[i] = saidView{m.ID, m.Author, m.Bot, m.At.UTC(), m.Text, m.Link, m.Conversation.Thread}
	}
	writePage(w, items, "")
}
