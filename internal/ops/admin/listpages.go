package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/core/origin"
	"ravenbot/internal/core/text"
	"ravenbot/internal/feature/jobs"
	"ravenbot/internal/store"
)

// listPages returns the pages that are tables.
func (s *Server) listPages() []listPage {
	list := []listPage{
		{"/jobs", "Jobs", "Reminders and tasks of everybody. They are made in the chat with /remind or by asking, and " +
			"over the API.", s.loadJobs},
		{"/notes", "Notes", "Notes that the bot keeps for people and channels, because somebody asked for it.", s.loadNotes},
		{"/posts", "Posts", "Posts that could not be delivered. Each was tried until its platform refused it permanently, " +
			"or for six hours. The place that it was meant for is notified as soon as it can be reached. They are listed " +
			"for a week.", s.loadPosts},
		{"/usage", "Usage", "Usage of language models in the last 30 days, at current prices. Days end at midnight UTC.",
			s.loadUsage},
		{"/tokens", "Tokens", "Programs use the tools of the bot at /mcp with these tokens. A token is shown once, when " +
			"it is created.", s.loadTokens},
		{"/webhooks", "Webhooks", "Addresses at which other programs post a text or start a task. They are set up under " +
			"webhooks in config.json.", s.loadWebhooks},
		{"/backups", "Backups", "Copies of the store on this machine. The oldest are removed when a new one is made.",
			s.loadBackups},
	}
	if s.o.Audit != nil {
		list = append(list, listPage{"/audit", "Audit", "All changes with their authors, newest first. Secrets are masked.",
			s.loadAudit})
	}
	return list
}

// listActions adds the routes of the buttons and forms of these pages.
func (s *Server) listActions(mux *http.ServeMux) {
	mux.HandleFunc("POST /jobs/{id}/remove", s.act("The job is removed.", func(r *http.Request) error {
		return s.o.Jobs.Remove(r.Context(), r.PathValue("id"))
	}))
	mux.HandleFunc("POST /notes/{scope}/{n}/remove", s.deleteNoteOnPage)
	mux.HandleFunc("POST /tokens", s.createTokenOnPage)
	mux.HandleFunc("POST /tokens/revoke", s.act("The token is revoked.", func(r *http.Request) error {
		return s.o.Tokens.Revoke(r.Context(), Owner, r.FormValue("name"))
	}))
	mux.HandleFunc("POST /backups", s.act("The backup is made.", func(r *http.Request) error {
		err := s.o.Backups.Make(r.Context())
		if err == nil {
			s.record(r, "backup made", s.o.Backups.Status().File)
		}
		return err
	}))
}

// act returns the handler of a button: it does something, and says that it is done.
func (s *Server) act(done string, do func(*http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { s.showResult(w, r, do(r), done) }
}

// maxCellChars is how much of a text a cell shows.
const maxCellChars = 300

func (s *Server) loadJobs(r *http.Request, v *listView) error {
	list, err := s.o.Jobs.List(r.Context())
	f := v.addFilter(r, "once", "repeated", "never due")
	var rows [][]any
	for _, j := range list {
		isShown := f.isState("once", j.At != nil) && f.isState("repeated", j.Schedule != "") &&
			f.isState("never due", j.Error != "")
		what := cmp.Or(j.Text, j.Prompt)
		if w := j.Watch; w != nil {
			what = strings.TrimSpace("Watch " + cmp.Or(w.URL, w.Feed, w.Tool) + " " + w.For)
		}
		if !isShown || !f.has(append(j.Post, what, j.By, j.ID, j.Hook)...) {
			continue
		}
		var when any = cmp.Or(j.When, j.Schedule) + " " + j.Timezone
		if j.At != nil {
			when = *j.At
		}
		var next any = pill{"failed", j.Error}
		if j.Next != nil {
			next = *j.Next
		}
		remove := action{Label: "Remove", Of: "job " + j.ID, Path: "/jobs/" + url.PathEscape(j.ID) + "/remove",
			Confirm: "Remove this job?", IsDanger: true}
		rows = append(rows, []any{text.Shorten(text.OneLine(what), maxCellChars), when, next, codes(j.Post), jobMaker(j),
			[]action{remove}})
	}
	v.addTable("No jobs.", rows, "What", "When", "Next", "Posted to", "By", "")
	return err
}

// jobMaker says who or what made a job.
func jobMaker(j jobs.Info) string {
	if j.Hook != "" {
		return "webhook " + j.Hook
	}
	return cmp.Or(j.By, j.Source)
}

func (s *Server) loadNotes(r *http.Request, v *listView) error {
	f := v.addFilter(r)
	scopes, err := s.o.Memories.Scopes(r.Context())
	var rows [][]any
	for _, scope := range scopes {
		list, err := s.o.Memories.List(r.Context(), scope, "")
		if err != nil {
			return err
		}
		for _, m := range list {
			from := describeOrigin(m.Origin)
			remove := action{Label: "Delete", Of: fmt.Sprint("note ", m.N, " of ", scope), Confirm: "Delete this note?",
				Path: fmt.Sprintf("/notes/%s/%d/remove", url.PathEscape(scope), m.N), IsDanger: true}
			if f.has(scope, m.Text, m.By, from) {
				note := text.Shorten(text.OneLine(m.Text), maxCellChars)
				rows = append(rows, []any{codes{scope}, note, m.By, m.At, from, []action{remove}})
			}
		}
	}
	v.addTable("No notes.", rows, "Of", "Note", "Saved by", "When", "Origin", "")
	return err
}

// deleteNoteOnPage deletes a note from the button of the page.
func (s *Server) deleteNoteOnPage(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.ParseUint(r.PathValue("n"), 10, 64)
	if err != nil {
		err = formError{fmt.Errorf("%.40q is not the number of a note", r.PathValue("n"))}
	} else {
		err = s.o.Memories.Remove(r.Context(), r.PathValue("scope"), n)
	}
	if errors.Is(err, store.ErrNotFound) {
		w.Header().Set("HX-Trigger", "changed") // the page still lists it
		s.page(w, http.StatusNotFound, "problem", "This note no longer exists.")
		return
	}
	s.showResult(w, r, err, "The note is deleted.")
}

// describeOrigin says whose words a text holds; "": nobody else's.
func describeOrigin(o origin.Origin) string {
	if o.IsForeign() {
		return "text from outside: " + strings.Join(o.Taint, ", ")
	}
	return strings.Join(o.Authors, ", ")
}

func (s *Server) loadPosts(r *http.Request, v *listView) error {
	list, err := s.o.Conversations.Undelivered(r.Context())
	f := v.addFilter(r)
	var rows [][]any
	for _, p := range slices.Backward(list) {
		said := p.Draft.Text
		for _, c := range p.Draft.Cards {
			said += "\n" + c.Title + " " + c.URL
		}
		if !f.has(p.To.String(), p.Error, p.Key, said) {
			continue
		}
		notified := pill{"failed", "place not notified yet"}
		if p.Notified {
			notified = pill{"ok", "place notified"}
		}
		rows = append(rows, []any{p.At, codes{p.To.String()}, notified, p.Error, codes{p.Key},
			folded{"Show", said}})
	}
	v.addTable("Every post was delivered.", rows, "Made", "To", "State", "Reason", "Reference", "Text")
	words, feedbackErr := s.o.Conversations.Feedback(r.Context())
	good := 0
	for _, word := range words {
		if word.Good {
			good++
		}
	}
	v.Notes = append(v.Notes, pill{Text: fmt.Sprintf("Feedback on answers in the last year: %d helpful, %d not helpful.",
		good, len(words)-good)})
	return cmp.Or(err, feedbackErr)
}

// tokenLives are the choices of how long a token is valid.
var tokenLives = map[string]time.Duration{
	"until it is revoked": 0,
	"30 days":             30 * 24 * time.Hour,
	"90 days":             90 * 24 * time.Hour,
	"a year":              365 * 24 * time.Hour,
}

func (s *Server) loadTokens(r *http.Request, v *listView) error {
	var rows [][]any
	for _, t := range s.o.Tokens.List(Owner) {
		// Not in the path: browsers take ".." out of it, also in codes.
		path := "/tokens/revoke?" + url.Values{"name": {t.Name}}.Encode()
		revoke := action{Label: "Revoke", Of: t.Name, Path: path, IsDanger: true,
			Confirm: "Revoke this token? Programs that use it lose their access at once."}
		rows = append(rows, []any{codes{t.Name}, codes(t.Tools), t.Created, t.Expires, t.Used, []action{revoke}})
	}
	v.addTable("No tokens yet.", rows, "Name", "Tools", "Created", "Expires", "Last used", "")
	v.Form = &listForm{Title: "Create a token", Path: "/tokens", Submit: "Create", Fields: []field{
		{Name: "name", Label: "Name", Required: true, Placeholder: "laptop"},
		{Name: "tools", Label: "Tools that it may use, as names or patterns", Value: "*", Required: true},
		{Name: "life", Label: "Valid", Options: []string{"until it is revoked", "30 days", "90 days", "a year"}},
	}}
	return nil
}

// createTokenOnPage creates a token from the form of the page, and shows it once.
func (s *Server) createTokenOnPage(w http.ResponseWriter, r *http.Request) {
	_, secret, err := s.o.Tokens.Create(r.Context(), Owner, strings.TrimSpace(r.PostFormValue("name")),
		splitFields(r.PostFormValue("tools")), tokenLives[r.PostFormValue("life")], false)
	s.showResult(w, r, err, "Copy the token now, it is not shown again: "+secret)
}

func (s *Server) loadWebhooks(r *http.Request, v *listView) error {
	var rows [][]any
	for _, h := range s.o.Jobs.Webhooks() {
		does := "posts a text"
		switch {
		case h.Digest != "":
			does = "collected for the digest " + h.Digest
		case h.Prompt != "":
			does = "task of the agent " + h.Agent + ": " + text.Shorten(text.OneLine(h.Prompt), maxCellChars)
		}
		state := pill{"ok", "ready"}
		if h.Secret == "" {
			state = pill{"failed", "no secret, refuses everything"}
		}
		rows = append(rows, []any{h.Name, state, codes{s.baseURL(r) + "/hooks/" + h.Name}, does, codes(h.Post),
			codes(h.Tools), number(fmt.Sprint(h.PerMinute))})
	}
	v.addTable("No webhooks yet.", rows, "Name", "State", "Address", "Action", "Posted to", "Tools",
		"Limit per minute")
	return nil
}

func (s *Server) loadBackups(_ *http.Request, v *listView) error {
	var rows [][]any
	last := s.o.Backups.Status()
	if last.Error != "" {
		v.Notes = append(v.Notes, pill{"error", "The last backup failed: " + last.Error})
	}
	for _, b := range s.o.Backups.List() {
		rows = append(rows, []any{codes{b.File}, b.Time, ageText(s.o.Now().Sub(b.Time)), number(bytesText(b.Bytes))})
	}
	empty := "No backups yet."
	if last.Folder == "" {
		empty = "The store is a database. Its own tools make copies of it, such as pg_dump."
	} else {
		v.Notes = append(v.Notes, pill{Text: "Folder: " + last.Folder})
		v.Actions = []action{{Label: "Make a backup now", Path: "/backups"},
			{Label: "Download a copy", Path: "/api/v1/backup", IsDownload: true}}
	}
	v.addTable(empty, rows, "File", "Made", "Age", "Size")
	return nil
}

// ageText returns an age for people, to the minute.
func ageText(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "less than a minute"
	case d < time.Hour:
		return countText(uint64(d/time.Minute), "minute", "minutes")
	case d < 48*time.Hour:
		return countText(uint64(d/time.Hour), "hour", "hours")
	}
	return countText(uint64(d/(24*time.Hour)), "day", "days")
}

// bytesText returns a number of bytes for people.
func bytesText(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// Backups keeps copies of the store.
type Backups interface {
	// List returns the copies, newest first.
	List() []store.BackupStatus
	// Status returns the state of the newest one; its Folder is empty if none are made.
	Status() store.BackupStatus
	Make(ctx context.Context) error
}
