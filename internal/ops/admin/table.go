package admin

import (
	"fmt"
	"net/http"
	"time"
)

// listPage is a page of tables, with a filter, buttons in rows and a form. The tables reload after a change.
type listPage struct {
	Path, Title, Lead string
	// load fills in what the page shows for a request.
	load func(r *http.Request, v *listView) error
}

// listView is what a listPage shows.
type listView struct {
	listPage
	Address string  // of the page with its filter
	Filter  *filter // may be nil
	Notes   []pill  // above the tables
	Actions []action
	Form    *listForm // may be nil
	Tables  []table
	Older   string // address of the page of older rows; "" on the last page
}

// table is a table of a page. A cell is a string, or a value of one of the types below. A column without a name has the
// buttons of the rows.
type table struct {
	Title   string
	Columns []string
	Rows    [][]any
	Empty   string // text without rows
}

type (
	// number is a cell that is aligned to the right.
	number string
	// codes are names and addresses.
	codes []string
	// pill is a word in color, by its class: ok, failed or neither.
	pill struct{ Class, Text string }
	// folded is a long text that is opened by its first words.
	folded struct{ Summary, Text string }
)

// action is a button that sends a request.
type action struct {
	Label, Of  string // the verb, and the name of the object for screen readers
	Path       string
	Confirm    string // question before the request is sent; may be empty
	IsDanger   bool
	IsDownload bool // the browser stores the answer as a file
}

// listForm is a form of a page, which htmx sends.
type listForm struct {
	Title, Path, Submit string
	Fields              []field
	Actions             []action // further buttons, which send the form to other addresses
}

// field is a field of a form: a line, several lines (Rows), or a choice (Options).
type field struct {
	Name, Label, Value, Placeholder string
	Type                            string // of a line: "": text
	Rows                            int
	Options                         []string // the first is chosen if the form is sent as it is; "": as configured
	Required                        bool
}

// ID returns the id of the field on the page.
func (f field) ID() string { return "field-" + f.Name }

// maxRows is how many rows of a table a page shows.
const maxRows = 200

// addTable adds a table with the first rows, and a note if there are more.
func (v *listView) addTable(empty string, rows [][]any, columns ...string) *table {
	if n := len(rows); n > maxRows {
		rows = rows[:maxRows]
		v.Notes = append(v.Notes, pill{Text: fmt.Sprintf("The first %d of %d are shown. Filter to see others.", maxRows, n)})
	}
	v.Tables = append(v.Tables, table{Columns: columns, Rows: rows, Empty: empty})
	return &v.Tables[len(v.Tables)-1]
}

// addFilter gives the page a filter for states.
func (v *listView) addFilter(r *http.Request, states ...string) *filter {
	f := newFilter(r, v.Path, states...)
	v.Filter = &f
	return v.Filter
}

// serveList returns the handler of a page.
func (s *Server) serveList(p listPage) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := listView{listPage: p, Address: r.URL.RequestURI()}
		if err := p.load(r, &v); err != nil {
			s.showListError(w, r, "page "+p.Title, err)
			return
		}
		name := "list-page"
		// htmx needs only the tables.
		if r.Header.Get("HX-Request") != "" {
			name = "tables"
		}
		s.page(w, http.StatusOK, name, v)
	}
}

// cellKind returns which part of the template "cell" shows a value.
func cellKind(v any) string {
	switch v := v.(type) {
	case time.Time:
		if v.IsZero() {
			return ""
		}
		return "time"
	case number:
		return "number"
	case codes:
		return "codes"
	case pill:
		return "pill"
	case folded:
		return "folded"
	case []action:
		return "actions"
	}
	return "text"
}
