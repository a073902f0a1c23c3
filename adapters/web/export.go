package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/store"
)

// exportedLine is a line of a room in an export.
type exportedLine struct {
	ID    string    `json:"id"`
	At    time.Time `json:"at"`
	Who   string    `json:"author"`
	Bot   bool      `json:"bot"`
	Text  string    `json:"text"`
	Files []string  `json:"files,omitempty"`
}

// exportRoom serves all that was said in a room, as a file: JSON with ?as=json, otherwise Markdown.
func (w *Web) exportRoom(rw http.ResponseWriter, r *http.Request) {
	name := r.PathValue("room")
	err := CheckRoom(name)
	var info roomInfo
	var lines []exportedLine
	if err == nil {
		info, err = w.loadInfo(r.Context(), name)
	}
	if err == nil {
		lines, err = w.exportedLines(r.Context(), name)
	}
	if err != nil {
		w.writeError(rw, r, err)
		return
	}
	content := writeMarkdown(cmp.Or(info.Title, name), lines)
	kind, ending := "text/markdown; charset=utf-8", "md"
	if r.FormValue("as") == "json" {
		if content, err = json.MarshalIndent(map[string]any{"room": name, "title": info.Title, "lines": lines}, "", "  "); err != nil {
			w.writeError(rw, r, err)
			return
		}
		kind, ending = "application/json", "json"
	}
	rw.Header().Set("Content-Type", kind)
	rw.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", name+"."+ending))
	rw.Header().Set("Cache-Control", "no-store")
	_, _ = rw.Write(content) // the reader is gone when this fails
}

// exportedLines returns the lines of a room that were not deleted, oldest first.
func (w *Web) exportedLines(ctx context.Context, room string) ([]exportedLine, error) {
	lines := []exportedLine{}
	for before := uint64(0); ; {
		list, err := w.o.Log.Entries(ctx, room, before, pageSize)
		if err != nil {
			return nil, err
		}
		for _, e := range slices.Backward(list) {
			if !e.Deleted {
				lines = append(lines, newExportedLine(e))
			}
		}
		if len(list) < pageSize {
			slices.Reverse(lines)
			return lines, nil
		}
		before = list[0].Seq
	}
}

func newExportedLine(e store.Entry) exportedLine {
	line := exportedLine{ID: e.ID, At: e.At.UTC(), Who: "ravenbot", Bot: e.Draft != nil, Text: e.Text}
	files := e.Files
	if e.Draft != nil {
		line.Text, files = e.Draft.Text, e.Draft.Files
		for _, c := range e.Draft.Cards {
			line.Text += fmt.Sprintf("\n\n%s[%s](%s) %s", c.Label(), cmp.Or(c.Title, c.URL), c.URL, c.Text)
		}
	} else if e.User != nil {
		line.Who = cmp.Or(e.User.Name, e.User.ID)
	}
	for _, f := range files {
		line.Files = append(line.Files, f.Name)
	}
	return line
}

// writeMarkdown returns the lines of a room as Markdown.
func writeMarkdown(title string, lines []exportedLine) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", title)
	for _, l := range lines {
		fmt.Fprintf(&b, "\n**%s**, %s\n\n%s\n", l.Who, l.At.Format("2 January 2006 15:04 MST"), strings.TrimSpace(l.Text))
		for _, f := range l.Files {
			fmt.Fprintf(&b, "\nFile: %s\n", f)
		}
	}
	return []byte(b.String())
}
