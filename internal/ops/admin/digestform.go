package admin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/news/digest"
)

// digestStyles are the styles of digests, the usual one first.
var digestStyles = []string{"brief", "bullets", "topics", "titles", "deep", "weekly"}

// digestForm returns the form that creates a digest, or changes the one of a plan.
func digestForm(p *digest.Plan) *listForm {
	f := &listForm{Title: "Create a digest", Path: "/digests", Submit: "Create digest",
		Actions: []action{{Label: "Preview", Path: "/digests-try"}},
		Fields:  []field{{Name: "name", Label: "Name", Required: true, Placeholder: "morning"}}}
	items := ""
	if p == nil {
		p = &digest.Plan{}
	} else {
		path := "/digests/" + url.PathEscape(p.Name)
		f.Title, f.Path, f.Submit, f.Actions[0].Path = "", path, "Save", path+"/try"
		f.Fields = []field{{Name: "version", Type: "hidden", Value: planVersion(p)}}
		if p.MaxItems > 0 {
			items = strconv.Itoa(p.MaxItems)
		}
	}
	feeds := make([]string, len(p.Feeds))
	for i, one := range p.Feeds {
		feeds[i] = one.URL
	}
	f.Fields = append(f.Fields,
		field{Name: "schedule", Label: "Schedule, in words", Value: p.Schedule, Required: true,
			Placeholder: "every weekday at 8:30"},
		field{Name: "timezone", Label: "Time zone", Value: p.Timezone, Placeholder: "UTC, or such as Europe/Oslo"},
		field{Name: "feeds", Label: "Feeds, one per line", Value: strings.Join(feeds, "\n"), Rows: 4,
			Placeholder: "https://go.dev/blog/feed.atom"},
		field{Name: "post", Label: "Posted to, one place per line", Value: strings.Join(p.Post, "\n"), Rows: 2,
			Required: true, Placeholder: "web:/general, discord:SERVER/CHANNEL or slack:TEAM/CHANNEL"},
		field{Name: "style", Label: "Style", Value: cmp.Or(p.Style, digestStyles[0]), Options: digestStyles},
		field{Name: "items", Label: "Items at most", Value: items, Type: "number", Placeholder: "10"},
		field{Name: "prompt", Label: "Interests of the readers, in your own words", Value: p.Prompt, Rows: 3})
	return f
}

// planVersion returns what a form says of the plan that it was made from.
func planVersion(p *digest.Plan) string { return p.At.UTC().Format(time.RFC3339Nano) }

// errStale is the error for a form whose plan was changed after the page was loaded.
var errStale = errors.New("the digest was changed after this page was loaded; load it again and repeat your changes")

// applyDigestForm returns a function that changes a plan to what the form of a digest says. What the form does not show
// stays as it is.
func applyDigestForm(r *http.Request) func(*digest.Plan) error {
	return func(p *digest.Plan) error {
		p.Schedule = strings.TrimSpace(r.PostFormValue("schedule"))
		p.Timezone = strings.TrimSpace(r.PostFormValue("timezone"))
		p.Post = strings.Fields(r.PostFormValue("post"))
		p.Prompt = strings.TrimSpace(r.PostFormValue("prompt"))
		if p.Style = r.PostFormValue("style"); !slices.Contains(digestStyles, p.Style) {
			return fmt.Errorf("there is no style %.40q", p.Style)
		}
		var err error
		if p.MaxItems, err = parseNumber(strings.TrimSpace(r.PostFormValue("items")), 0); err != nil {
			return fmt.Errorf("%.40q is not a number of items", r.PostFormValue("items"))
		}
		var feeds []digest.Feed
		for _, address := range strings.Fields(r.PostFormValue("feeds")) {
			one := digest.Feed{URL: address}
			if i := slices.IndexFunc(p.Feeds, func(f digest.Feed) bool { return f.URL == address }); i >= 0 {
				one = p.Feeds[i] // with its weight and the like
			}
			feeds = append(feeds, one)
		}
		p.Feeds = feeds
		return nil
	}
}

// addDigestOnPage creates a digest from the form of the page.
func (s *Server) addDigestOnPage(w http.ResponseWriter, r *http.Request) {
	var p digest.Plan
	err := applyDigestForm(r)(&p)
	var raw json.RawMessage
	if err != nil {
		err = formError{err}
	} else {
		entry := map[string]any{"schedule": p.Schedule, "feeds": p.Feeds, "post": p.Post, "style": p.Style,
			"prompt": p.Prompt}
		if p.Timezone != "" {
			entry["timezone"] = p.Timezone
		}
		if p.MaxItems > 0 {
			entry["maxItems"] = p.MaxItems
		}
		raw, err = json.Marshal(entry)
	}
	if err == nil {
		_, err = s.o.Digests.Add(r.Context(), strings.TrimSpace(r.PostFormValue("name")), raw)
	}
	s.refresh(w, r, err)
}

// editDigestPage shows the form of a digest that is not of config.json.
func (s *Server) editDigestPage(w http.ResponseWriter, r *http.Request) {
	i, err := s.o.Digests.Get(r.Context(), r.PathValue("name"))
	if errors.Is(err, digest.ErrUnknown) {
		s.page(w, http.StatusNotFound, "note-page", "This digest does not exist.")
		return
	}
	if err != nil || i.Plan == nil {
		s.page(w, http.StatusNotFound, "note-page",
			"Only digests that were created here, in the chat or over the API can be edited.")
		return
	}
	s.page(w, http.StatusOK, "digest-edit", listView{listPage: listPage{Title: i.Name}, Form: digestForm(i.Plan)})
}

// changeDigestOnForm saves the form of a digest, unless the digest was changed meanwhile, and goes back to the list.
func (s *Server) changeDigestOnForm(w http.ResponseWriter, r *http.Request) {
	apply := applyDigestForm(r)
	_, err := s.o.Digests.Change(r.Context(), r.PathValue("name"), func(p *digest.Plan) error {
		if r.PostFormValue("version") != planVersion(p) {
			return errStale
		}
		return apply(p)
	})
	if err == nil {
		w.Header().Set("HX-Redirect", "/digests")
	}
	s.showResult(w, r, err, "Saved.")
}

// tryDigest previews a digest as its form says; without a name in the path, a new one.
func (s *Server) tryDigest(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if name == "" {
		name = cmp.Or(strings.TrimSpace(r.PostFormValue("name")), "preview")
	} else if _, err := s.o.Digests.Get(r.Context(), name); err != nil {
		s.showResult(w, r, err, "")
		return
	}
	p, err := s.o.Digests.Try(r.Context(), name, applyDigestForm(r))
	s.showPreview(w, r, p, err)
}
