package web

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/store"
	"ravenbot/internal/turn/markdown"
)

// Limits of a search. Rooms are read side by side from the newest line back: what is left out is the oldest.
const (
	maxQuery      = 200 // characters
	maxFound      = 100
	maxSearched   = 100_000 // lines
	searchTimeout = 3 * time.Second
	searchBatch   = 200 // lines of a room that are read at a time
	// passageBefore and passageAfter are how much of a line is shown around the first word that was found, in bytes.
	passageBefore = 80
	passageAfter  = 240
)

// foundLine is a line that was found.
type foundLine struct {
	Room    string
	Seq     uint64
	At      time.Time
	Who     string
	Passage []passagePart

	said string // all of it
}

// passagePart is a piece of a line; Found: it is one of the words that were looked for.
type passagePart struct {
	Text  string
	Found bool
}

// searchView is what the template of a search shows.
type searchView struct {
	Query string
	Room  string // that none is shown
	Rooms []roomLink
	Named []roomLink // whose title or name has all of the words
	Found []foundLine
	More  bool      // there are more than are shown
	Since time.Time // what was said before was not read; zero: everything was
}

// showSearch serves a search over all rooms.
func (w *Web) showSearch(rw http.ResponseWriter, r *http.Request) {
	links, err := w.roomLinks(r.Context(), "")
	if err != nil {
		w.writeError(rw, r, err)
		return
	}
	query := text.Shorten(text.OneLine(r.FormValue("q")), maxQuery)
	rooms := make([]string, len(links))
	for i, l := range links {
		rooms[i] = l.Room
	}
	v, err := w.search(r.Context(), rooms, query)
	if err != nil {
		w.writeError(rw, r, err)
		return
	}
	v.Rooms = links
	if words := parseQuery(query); len(words) > 0 {
		v.Named = slices.DeleteFunc(slices.Clone(links), func(l roomLink) bool { return !containsAll(l.Title+" "+l.Room, words) })
	}
	w.render(rw, r, "search-page", v)
}

// search returns the lines of rooms that hold all words of a query, the newest first.
func (w *Web) search(ctx context.Context, rooms []string, query string) (searchView, error) {
	v := searchView{Query: query}
	words := parseQuery(query)
	if len(words) == 0 {
		return v, nil
	}
	until := w.o.Now().Add(searchTimeout)
	// Lines of different rooms do not come in the order of time: each room tells how far it was read.
	before, read := map[string]uint64{}, 0
	for left := slices.Clone(rooms); len(left) > 0; {
		var more []string
		for _, room := range left {
			lines, err := w.o.Log.Entries(ctx, room, before[room], searchBatch)
			if err != nil {
				return v, err
			}
			for _, e := range lines {
				if w.o.IsOver != nil && w.o.IsOver(chat.Address{Platform: w.Name(), Channel: room}, e.At) {
					continue
				}
				if said := wordsOf(e); containsAll(text.OneLine(said), words) {
					v.Found = append(v.Found, foundLine{Room: room, Seq: e.Seq, At: e.At, Who: whoSaid(e), said: said})
				}
			}
			read += len(lines)
			if len(lines) < searchBatch {
				continue
			}
			if before[room] = lines[0].Seq; read >= maxSearched || !w.o.Now().Before(until) {
				// Of the rooms that were read less far than this one as much is missing.
				v.Since = laterOf(v.Since, lines[0].At)
				continue
			}
			more = append(more, room)
		}
		left = more
	}
	slices.SortStableFunc(v.Found, func(a, b foundLine) int { return b.At.Compare(a.At) })
	if v.More = len(v.Found) > maxFound; v.More {
		v.Found = v.Found[:maxFound]
	}
	pattern := newPattern(words)
	for i, f := range v.Found {
		// Without the signs of Markdown, unless what was looked for is among them, as in the address of a link.
		if plain := text.OneLine(markdown.Plain(f.said)); containsAll(plain, words) {
			f.said = plain
		}
		v.Found[i].Passage = cutPassage(text.OneLine(f.said), pattern)
	}
	return v, nil
}

// laterOf returns the later of two times.
func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// parseQuery returns the words that a query looks for, in lower case; what stands between quotation marks is one.
func parseQuery(query string) []string {
	var words []string
	for i, part := range strings.Split(strings.ToLower(query), `"`) {
		list := strings.Fields(part)
		if i%2 == 1 && len(list) > 0 {
			list = []string{strings.Join(list, " ")}
		}
		words = append(words, list...)
	}
	return words
}

// newPattern returns a pattern that matches each of some words, in any case.
func newPattern(words []string) *regexp.Regexp {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = regexp.QuoteMeta(word)
	}
	// The longest first: of two that begin at the same place the pattern takes the one that comes first in it.
	slices.SortFunc(quoted, func(a, b string) int { return len(b) - len(a) })
	return regexp.MustCompile("(?i)" + strings.Join(quoted, "|"))
}

// containsAll reports whether a text has all of some words, which are in lower case.
func containsAll(said string, words []string) bool {
	if said == "" {
		return false
	}
	said = strings.ToLower(said)
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(said, word) })
}

// cutPassage returns the piece of a line around the first word that was found, in parts.
func cutPassage(said string, pattern *regexp.Regexp) []passagePart {
	from, to := 0, len(said)
	// None where the pattern and containsAll differ in what is the same letter.
	if first := pattern.FindStringIndex(said); first != nil {
		from, to = max(0, first[0]-passageBefore), min(to, first[1]+passageAfter)
	}
	to = min(to, from+passageBefore+passageAfter+maxQuery*4)
	piece := strings.ToValidUTF8(said[from:to], "")
	if from > 0 {
		piece = "…" + piece
	}
	if to < len(said) {
		piece += "…"
	}
	var parts []passagePart
	end := 0
	for _, at := range pattern.FindAllStringIndex(piece, -1) {
		parts = append(parts, passagePart{piece[end:at[0]], false}, passagePart{piece[at[0]:at[1]], true})
		end = at[1]
	}
	parts = append(parts, passagePart{piece[end:], false})
	return slices.DeleteFunc(parts, func(p passagePart) bool { return p.Text == "" })
}

// wordsOf returns what a line says; empty where it was deleted.
func wordsOf(e store.Entry) string {
	list := saidIn([]store.Entry{e})
	if len(list) == 0 {
		return ""
	}
	return list[0].Text
}

// whoSaid returns the name of whoever said a line.
func whoSaid(e store.Entry) string {
	if e.User == nil {
		return botName
	}
	return e.User.Name
}
