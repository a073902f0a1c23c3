package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"time"

	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
	"ravenbot/internal/store"
)

// Digests returns, runs, adds and changes digests. Errors are digest.ErrUnknown, ErrExists and ErrConfigured,
// and those with a method BadInput that returns true, which are for the sender to correct.
type Digests interface {
	List(ctx context.Context) ([]digest.Info, error)
	// Page returns up to n digests behind a name, and whether others follow.
	Page(ctx context.Context, after string, n int) (list []digest.Info, more bool, err error)
	Get(ctx context.Context, name string) (digest.Info, error)
	Preview(ctx context.Context, name string) (digest.Preview, error)
	Run(ctx context.Context, name string, due time.Time, manual bool) (store.Run, error)
	LastVerdicts(ctx context.Context, name string) (digest.RunVerdicts, bool, error)
	KnownFeeds(ctx context.Context) ([]digest.FeedInfo, error)
	// TryFeed reads a feed now and returns how many items it has.
	TryFeed(ctx context.Context, name string) (items int, err error)

	// Add and Replace take a digest as config.json has it.
	Add(ctx context.Context, name string, entry json.RawMessage) (digest.Info, error)
	Replace(ctx context.Context, name string, entry json.RawMessage) (digest.Info, error)
	AddFeeds(ctx context.Context, name string, addresses []string) (i digest.Info, added int, err error)
	// Change changes a digest that does not belong to config.json. Try previews such a digest with a change, or a new one,
	// and stores nothing.
	Change(ctx context.Context, name string, change func(*digest.Plan) error) (digest.Info, error)
	Try(ctx context.Context, name string, change func(*digest.Plan) error) (digest.Preview, error)
	Remove(ctx context.Context, name string) error
	Pause(ctx context.Context, name string, on bool) error

	// Mailing returns what the token in a mail stands for, or false.
	Mailing(ctx context.Context, token string) (digest.Mailing, bool, error)
	// StopMail has a mailbox get no more mails of a digest, ResumeMail has it get them again.
	StopMail(ctx context.Context, name, mailbox string) error
	ResumeMail(ctx context.Context, name, mailbox string) error
}

// listDigests serves GET /api/v1/digests.
func (s *Server) listDigests(w http.ResponseWriter, r *http.Request) {
	limit, after, ok := parseMarkedPage(w, r)
	if !ok {
		return
	}
	list, more, err := s.o.Digests.Page(r.Context(), after.key, limit)
	if err != nil {
		s.writeFailure(w, r, "the digests could not be listed", err)
		return
	}
	writeMarkedPage(w, list, after.n, more, func(i digest.Info) string { return i.Name })
}

// getDigest serves GET /api/v1/digests/{name}.
func (s *Server) getDigest(w http.ResponseWriter, r *http.Request) {
	i, err := s.o.Digests.Get(r.Context(), r.PathValue("name"))
	s.writeDigest(w, r, http.StatusOK, i, err)
}

// writeDigest writes v, or the error of a request about a digest.
func (s *Server) writeDigest(w http.ResponseWriter, r *http.Request, status int, v any, err error) {
	name := r.PathValue("name")
	var unread *digest.UnreadError
	switch {
	case err == nil:
		writeJSON(w, status, v)
	case errors.Is(err, digest.ErrUnknown):
		writeHints(w, http.StatusNotFound, "not_found", fmt.Sprintf("there is no digest %.100q", name),
			"GET /api/v1/digests lists them", "ravenbot digest list lists them")
	case errors.Is(err, digest.ErrExists):
		writeHints(w, http.StatusConflict, "exists", digest.ErrExists.Error(),
			"choose another name, or PUT to /api/v1/digests/{name} to change it", "choose another name")
	case errors.Is(err, digest.ErrConfigured):
		writeError(w, http.StatusConflict, "configured", digest.ErrConfigured.Error(),
			"change its entry in config.json; the bot reloads it")
	case isBadInput(err):
		writeHints(w, http.StatusBadRequest, "bad_request", err.Error(),
			`send an entry as digests in config.json has it, with its "name" beside`, "")
	// The feeds are at fault, not the bot: 502 says so.
	case errors.As(err, &unread):
		writeHints(w, http.StatusBadGateway, "feeds_failed", fmt.Sprintf("the digest %s could not be made: %v", name,
			unread),
			"GET /api/v1/feeds shows since when each of them fails", "the page Feeds shows since when each of them fails")
	default:
		s.writeFailure(w, r, "the digest "+name+" could not be made", err)
	}
}

// addDigest serves POST /api/v1/digests; 409 where the name is taken.
func (s *Server) addDigest(w http.ResponseWriter, r *http.Request) {
	name, raw, ok := readEntry(w, r)
	if !ok {
		return
	}
	i, err := s.o.Digests.Add(r.Context(), name, raw)
	if err == nil {
		w.Header().Set("Location", "/api/v1/digests/"+name)
	}
	s.writeDigest(w, r, http.StatusCreated, i, err)
}

// putDigest serves PUT /api/v1/digests/{name}, which replaces a digest that was made in chat, on the page or over the
// API; one of the configuration is refused.
func (s *Server) putDigest(w http.ResponseWriter, r *http.Request) {
	name, raw, ok := readEntry(w, r)
	if !ok {
		return
	}
	if at := r.PathValue("name"); name != "" && name != at {
		writeError(w, http.StatusBadRequest, "bad_request", fmt.Sprintf("the body is named %.80q, the path %.80q", name, at),
			"a digest keeps its name; create it again under the new one")
		return
	}
	i, err := s.o.Digests.Replace(r.Context(), r.PathValue("name"), raw)
	s.writeDigest(w, r, http.StatusOK, i, err)
}

// deleteDigest serves DELETE /api/v1/digests/{name}.
func (s *Server) deleteDigest(w http.ResponseWriter, r *http.Request) {
	if err := s.o.Digests.Remove(r.Context(), r.PathValue("name")); err != nil {
		s.writeDigest(w, r, 0, nil, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// addToDigest adds feeds to a digest.
func (s *Server) addToDigest(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Feeds []string `json:"feeds"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || len(in.Feeds) == 0 {
		writeHints(w, http.StatusBadRequest, "bad_json", "the body names no feeds",
			`send {"feeds":["https://go.dev/blog/feed.atom"]}`, "")
		return
	}
	i, added, err := s.o.Digests.AddFeeds(r.Context(), r.PathValue("name"), in.Feeds)
	s.writeDigest(w, r, http.StatusOK, struct {
		digest.Info
		Added int `json:"added"`
	}{i, added}, err)
}

// previewDigest serves POST /api/v1/digests/{name}/preview: what a run now would post. Nothing is posted, and nothing
// counts as shown.
func (s *Server) previewDigest(w http.ResponseWriter, r *http.Request) {
	p, err := s.o.Digests.Preview(r.Context(), r.PathValue("name"))
	s.writeDigest(w, r, http.StatusOK, p, err)
}

// runDigest serves POST /api/v1/digests/{name}/run. It answers when the posts are stored, which may be before they are
// on the platform.
func (s *Server) runDigest(w http.ResponseWriter, r *http.Request) {
	run, err := s.runNow(r)
	s.writeDigest(w, r, http.StatusOK, run, err)
}

// runNow runs the digest of a request as a manual run.
func (s *Server) runNow(r *http.Request) (store.Run, error) {
	run, err := s.o.Digests.Run(r.Context(), r.PathValue("name"), s.o.Now(), true)
	if err == nil {
		s.record(r, "digest run", r.PathValue("name"))
	}
	return run, err
}

// pauseDigest returns the handler of pause (on) or resume, which answer with the digest as it is then.
func (s *Server) pauseDigest(on bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		err := s.o.Digests.Pause(r.Context(), name, on)
		var i digest.Info
		if err == nil {
			i, err = s.o.Digests.Get(r.Context(), name)
		}
		s.writeDigest(w, r, http.StatusOK, i, err)
	}
}

// explainDigest writes what became of the items that the last run looked at.
func (s *Server) explainDigest(w http.ResponseWriter, r *http.Request) {
	last, known, err := s.o.Digests.LastVerdicts(r.Context(), r.PathValue("name"))
	if err == nil && !known {
		writeHints(w, http.StatusNotFound, "not_found", "no run of this digest is known yet",
			"POST /api/v1/digests/{name}/preview shows what a run would post now",
			"ravenbot digest preview NAME shows what a run would post now")
		return
	}
	s.writeDigest(w, r, http.StatusOK, last, err)
}

// listFeeds serves GET /api/v1/feeds: the feeds of all digests, and since when each of them fails.
func (s *Server) listFeeds(w http.ResponseWriter, r *http.Request) {
	list, err := s.o.Digests.KnownFeeds(r.Context())
	if err != nil {
		s.writeFailure(w, r, "the feeds could not be listed", err)
		return
	}
	writeList(w, r, list, func(i digest.FeedInfo) string { return i.Name })
}

// digestsView is the page of digests.
type digestsView struct {
	Digests   []digestView
	Filter    filter
	All       int  // digests, with those that the filter leaves out
	MaxCharts int  // there are more digests than the page has charts for, which is this number; 0: there are not
	Unread    bool // what was counted in the last days could not be read
	Form      *listForm
}

// digestView is a digest on the page.
type digestView struct {
	digest.Info
	Runs, Stories picture
}

// digestsPage shows the digests with their next runs, how the last ones went, and what can be done with each.
func (s *Server) digestsPage(w http.ResponseWriter, r *http.Request) {
	list, err := s.o.Digests.List(r.Context())
	if err != nil {
		s.showListError(w, r, "digests", err)
		return
	}
	days, isUnread := s.lastDays(r)
	v := digestsView{Unread: isUnread, MaxCharts: limitCharts(len(list)), All: len(list), Form: digestForm(nil)}
	v.Filter = newFilter(r, "/digests", "failing", "paused")
	fails := func(i digest.Info) bool { return i.Last != nil && !i.Last.OK }
	list = slices.DeleteFunc(slices.Clone(list), func(i digest.Info) bool {
		isShown := v.Filter.isState("failing", fails(i)) && v.Filter.isState("paused", i.Paused)
		return !isShown || !v.Filter.has(slices.Concat([]string{i.Name}, i.Feeds, i.Post)...)
	})
	sortFailing(list, fails)
	for n, i := range list {
		one := digestView{Info: i}
		if n < maxCharts {
			one.Runs, one.Stories = days.drawRuns(i.Name)
		}
		v.Digests = append(v.Digests, one)
	}
	s.page(w, http.StatusOK, "digests", v)
}

// feedsView is the page of feeds.
type feedsView struct {
	Filter    filter
	Feeds     []feedView
	All       int  // as in digestsView
	MaxCharts int  // as in digestsView
	Unread    bool // as in digestsView
}

// feedView is a feed on the page.
type feedView struct {
	digest.FeedInfo
	Reads picture
}

// feedsPage shows the feeds of all digests, and when each could be read.
func (s *Server) feedsPage(w http.ResponseWriter, r *http.Request) {
	list, err := s.o.Digests.KnownFeeds(r.Context())
	if err != nil {
		s.showListError(w, r, "feeds", err)
		return
	}
	days, isUnread := s.lastDays(r)
	v := feedsView{Unread: isUnread, MaxCharts: limitCharts(len(list)), All: len(list)}
	v.Filter = newFilter(r, "/feeds", "failing")
	fails := func(i digest.FeedInfo) bool { return i.FailingSince != nil }
	list = slices.DeleteFunc(slices.Clone(list), func(i digest.FeedInfo) bool {
		return !v.Filter.isState("failing", fails(i)) || !v.Filter.has(slices.Concat(i.UsedBy, []string{i.Name, i.Title})...)
	})
	sortFailing(list, fails)
	for n, i := range list {
		one := feedView{FeedInfo: i}
		if n < maxCharts {
			one.Reads = days.drawReads(i.Name)
		}
		v.Feeds = append(v.Feeds, one)
	}
	s.page(w, http.StatusOK, "feeds", v)
}

// tryFeed reads a feed from the button of the page.
func (s *Server) tryFeed(w http.ResponseWriter, r *http.Request) {
	name := r.PostFormValue("feed")
	n, err := s.o.Digests.TryFeed(r.Context(), name)
	switch {
	case errors.Is(err, digest.ErrUnknown):
		s.page(w, http.StatusNotFound, "problem", "This feed is no longer followed.")
	case err != nil:
		s.page(w, http.StatusOK, "problem", "Not read: "+feed.Explain(name, err)+".")
	default:
		s.page(w, http.StatusOK, "done", "It works: "+countText(uint64(n), "item", "items")+".")
	}
}

// showListError shows that a list could not be read. The cause is for the log.
func (s *Server) showListError(w http.ResponseWriter, r *http.Request, what string, err error) {
	s.o.Log.Error("failed to serve a page", "path", r.URL.Path, "error", err)
	s.page(w, http.StatusInternalServerError, "note-page",
		"The "+what+" could not be listed; the bot's log has the reason.")
}

// previewView is a preview with its rendered post.
type previewView struct {
	digest.Preview
	Post template.HTML
}

// previewPage shows what a run of a digest would post now.
func (s *Server) previewPage(w http.ResponseWriter, r *http.Request) {
	p, err := s.o.Digests.Preview(r.Context(), r.PathValue("name"))
	s.showPreview(w, r, p, err)
}

// showPreview shows a preview or its error.
func (s *Server) showPreview(w http.ResponseWriter, r *http.Request, p digest.Preview, err error) {
	if err != nil {
		s.showResult(w, r, err, "")
		return
	}
	v := previewView{Preview: p}
	if p.Draft.Text != "" || len(p.Draft.Cards) > 0 {
		v.Post = s.o.Render(p.Draft)
	}
	s.page(w, http.StatusOK, "preview", v)
}

// runDigestOnPage runs a digest from the page's button and says what it posted.
func (s *Server) runDigestOnPage(w http.ResponseWriter, r *http.Request) {
	run, err := s.runNow(r)
	if err != nil {
		s.showResult(w, r, err, "")
		return
	}
	s.page(w, http.StatusOK, "ran", run)
}

// explainPage shows why each entry of a digest's last run was posted or not.
func (s *Server) explainPage(w http.ResponseWriter, r *http.Request) {
	last, known, err := s.o.Digests.LastVerdicts(r.Context(), r.PathValue("name"))
	switch {
	case err != nil:
		s.showResult(w, r, err, "")
	case !known:
		s.page(w, http.StatusOK, "done", "It has not run yet. A preview shows what a run would post now.")
	default:
		s.page(w, http.StatusOK, "explained", last)
	}
}

// changeDigestOnPage pauses, resumes or removes a digest, and reloads the page.
func (s *Server) changeDigestOnPage(w http.ResponseWriter, r *http.Request) {
	name, verb := r.PathValue("name"), r.PathValue("verb")
	var err error
	switch verb {
	case "pause", "resume":
		err = s.o.Digests.Pause(r.Context(), name, verb == "pause")
	case "remove":
		err = s.o.Digests.Remove(r.Context(), name)
	default:
		http.NotFound(w, r)
		return
	}
	s.refresh(w, r, err)
}
