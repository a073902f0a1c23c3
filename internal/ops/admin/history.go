package admin

import (
	"context"
	"net/http"
	"strings"
	"time"

	"ravenbot/internal/recall/history"
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

// searchConversation writes what was said in a conversation and fits ?q, best first.
func (s *Server) searchConversation(w http.ResponseWriter, r *http.Request) {
	a, ok := parseConversation(w, r)
	if !ok {
		return
	}
	limit, after, ok := parseMarkedPage(w, r)
	if !ok {
		return
	}
	q := r.URL.Query().Get("q")
	if strings.TrimSpace(q) == "" {
		writeHints(w, http.StatusBadRequest, "bad_request", "q is empty", "add ?q= with what to look for", "")
		return
	}
	// One more shows whether there is a further page.
	found, err := s.o.History.Search(r.Context(), history.Query{In: a, Text: q, Limit: min(after.n, maxSaid) + limit + 1})
	if err != nil {
		s.writeFailure(w, r, "the conversation could not be searched", err)
		return
	}
	items := make([]saidView, len(found))
	for i, m := range found {
		items[i] = saidView{m.ID, m.Author, m.Bot, m.At.UTC(), m.Text, m.Link, m.Conversation.Thread}
	}
	writeList(w, r, items, func(v saidView) string { return v.Thread + "/" + v.ID })
}

// maxSaid is how many messages of a search can be paged through.
const maxSaid = 100_000
