package admin

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// filter is which of the things of a list a page shows.
type filter struct {
	Path   string // of the page
	Q      string // words that something has to have
	State  string // one of States; "": any
	States []string
	Fields []filterField // for single properties
}

// filterField is a filter for a property; it is empty, or something that the property contains, or a date.
type filterField struct{ Name, Label, Value, Type string }

// newFilter returns the filter of a request.
func newFilter(r *http.Request, path string, states ...string) filter {
	f := filter{Path: path, Q: strings.TrimSpace(r.FormValue("q")), States: states}
	if state := r.FormValue("state"); slices.Contains(states, state) {
		f.State = state
	}
	return f
}

// add adds a field for a property, and returns what it must contain.
func (f *filter) add(r *http.Request, name, label string) string {
	value := strings.ToLower(strings.TrimSpace(r.FormValue(name)))
	f.Fields = append(f.Fields, filterField{name, label, value, "text"})
	return value
}

// addDate adds a field for a day, and returns it as 2006-01-02, or "".
func (f *filter) addDate(r *http.Request, name, label string) string {
	value := f.add(r, name, label)
	f.Fields[len(f.Fields)-1].Type = "date"
	return value
}

// isState reports whether the filter is for another state, or something is in this one.
func (f filter) isState(state string, is bool) bool { return f.State != state || is }

// has reports whether texts have all words of the filter, in any case.
func (f filter) has(texts ...string) bool {
	all := strings.ToLower(strings.Join(texts, "\n"))
	lacks := func(word string) bool { return !strings.Contains(all, word) }
	return !slices.ContainsFunc(strings.Fields(strings.ToLower(f.Q)), lacks)
}

// Address returns the address of the page with the filter.
func (f filter) Address() string {
	q := url.Values{"q": {f.Q}, "state": {f.State}}
	for _, field := range f.Fields {
		q.Set(field.Name, field.Value)
	}
	return f.Path + "?" + q.Encode()
}

// IsSet reports whether the filter leaves anything out.
func (f filter) IsSet() bool {
	isSet := func(field filterField) bool { return field.Value != "" }
	return f.Q != "" || f.State != "" || slices.ContainsFunc(f.Fields, isSet)
}

// sortFailing moves what fails to the front.
func sortFailing[T any](list []T, fails func(T) bool) {
	rank := func(one T) int {
		if fails(one) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b T) int { return rank(a) - rank(b) })
}
