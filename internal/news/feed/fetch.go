package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ravenbot/internal/ops/egress"
)

const (
	accept = "application/atom+xml, application/rss+xml, application/feed+json, application/rdf+xml;q=0.9, " +
		"application/xml;q=0.8, text/xml;q=0.8, application/json;q=0.5, text/html;q=0.3, */*;q=0.1"
	defaultRetryAfter = 5 * time.Minute // where a server asks to wait and does not say how long
	maxRetryAfter     = 24 * time.Hour  // a longer Retry-After counts as this
	maxBriefWait      = 5 * time.Second // a Retry-After that is waited for
	// bundledScheme marks feeds that come with the program.
	bundledScheme = "bundled:"
)

// StateStore keeps what is known about a feed between fetches, by the address that the feed is
// asked for. Its methods may be called concurrently.
type StateStore interface {
	// LoadFeed returns false when nothing is known about the feed.
	LoadFeed(ctx context.Context, url string) (State, bool, error)
	// SaveFeeds stores all of the states or, with an error, none.
	SaveFeeds(ctx context.Context, states ...State) error
}

// Options configures a Fetcher.
type Options struct {
	// Bundled holds NAME.xml for each address bundled:NAME. nil: no feed is bundled.
	Bundled fs.FS
	// Now returns the current time. nil: time.Now.
	Now func() time.Time
	// HostPause is the mean time that Poll waits between two requests to a host.
	HostPause time.Duration
}

// Fetcher fetches feeds. It is safe for concurrent use; feeds of one host are fetched one after the
// other. A state is read and changed by whoever holds the lock of the feed's host, and stored by
// whoever asked for the feed, after the lock was released.
type Fetcher struct {
	client *egress.Client
	store  StateStore
	opts   Options
	hosts  hostLocks // one request to a host at a time
	// prolonged is until when feeds are fresh by "not modified" answers, by address.
	prolonged sync.Map

	mu      sync.Mutex
	unsaved map[string]*State // by address: what reads have shown that is not stored yet

	read, failed atomic.Int64 // what Counts returns

	saving sync.Mutex // held while states are written; it is taken before mu
}

// NewFetcher returns a Fetcher. Without a store (nil) every fetch is the first one and returns the whole document;
// with a store, the texts of items are cut to what the store keeps.
func NewFetcher(client *egress.Client, store StateStore, opts Options) *Fetcher {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Fetcher{
		client:  client,
		store:   store,
		opts:    opts,
		hosts:   hostLocks{byName: map[string]*host{}},
		unsaved: map[string]*State{},
	}
}

// Counts returns how many requests for feeds have brought one, or that it has not changed, and how many have failed.
func (f *Fetcher) Counts() (read, failed int64) { return f.read.Load(), f.failed.Load() }

// Result is the outcome of a fetch.
type Result struct {
	Document
	// NotModified says that the server had nothing newer; the document is then the stored one.
	NotModified bool
	// FinalURL is where the document came from, after redirects.
	FinalURL string
	// MovedTo is the feed's new permanent address, where it differs from the address that was asked for. Later
	// fetches use it by themselves.
	MovedTo string
}

// ErrQueued is wrapped by the error of a fetch that ended while it waited for others: for requests to the same host, or
// for the memory of a large document. It says nothing about the feed.
var ErrQueued = errors.New("the feed was not read while others were")

// WaitError says that the server wants no requests until a given time.
type WaitError struct {
	URL   string
	Until time.Time
	// Cause is the address for which the host of the feed asked to wait; it is empty if that is the feed's own.
	Cause string
}

func (e *WaitError) Error() string {
	text := fmt.Sprintf("fetch %s: the server asks to wait until %s", egress.RedactURL(e.URL), formatUTC(e.Until))
	if e.Cause != "" {
		text += ", as it asked for " + egress.RedactURL(e.Cause)
	}
	return text
}

// formatUTC returns a time for logs.
func formatUTC(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// StatusError says that the server answered with a status that is neither success nor a request to wait.
type StatusError struct {
	URL    string
	Status int
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("fetch %s: the server answered %d %s", egress.RedactURL(e.URL), e.Status, http.StatusText(e.Status))
}

// FailingError says that Poll made no request because the feed has failed before.
type FailingError struct {
	URL      string
	Since    time.Time // the first failure
	Times    int       // failures in a row
	TryAgain time.Time
	Last     string // what the last failure was
}

func (e *FailingError) Error() string {
	return fmt.Sprintf("fetch %s: it has failed %d times since %s, next attempt after %s; last failure: %s",
		egress.RedactURL(e.URL), e.Times, formatUTC(e.Since), formatUTC(e.TryAgain), e.Last)
}

// PageError says that the address is that of a web page, and which feeds the page names. It wraps ErrNotFeed.
type PageError struct {
	URL   string
	Links []Link
	cause error
}

func (e *PageError) Error() string {
	if len(e.Links) == 0 {
		return fmt.Sprintf("fetch %s: %v, and it names no feed", egress.RedactURL(e.URL), e.cause)
	}
	return fmt.Sprintf("fetch %s: %v; it names these feeds: %s", egress.RedactURL(e.URL), e.cause, e.names())
}

// names returns the addresses of the feeds without their secrets.
func (e *PageError) names() string {
	var names []string
	for _, l := range e.Links {
		names = append(names, egress.RedactURL(l.URL))
	}
	return strings.Join(names, ", ")
}

// Unwrap returns the error of Parse.
func (e *PageError) Unwrap() error { return e.cause }

// Fetch fetches a feed for somebody who is waiting for it. address is an http or https address, the address of a page
// that names a single feed, or bundled:NAME. Fetch asks the server for what changed since the last success, and makes
// no request only while the server has asked for that (Retry-After). The time limit of a request begins with it, not
// while it waits for others to the same host. Fetch never retries; the errors *WaitError,
// *StatusError, *PageError and those of package egress say what to do next.
func (f *Fetcher) Fetch(ctx context.Context, address string) (Result, error) {
	address = webAddress(address)
	res, err := f.fetchInTurn(ctx, address, false)
	if saveErr := f.saveStates(ctx, address); saveErr != nil {
		err = errors.Join(err, saveErr)
	}
	return res, err
}

// FetchAll fetches feeds as Fetch does, and stores what that shows about them in one transaction. It calls turn for
// all of them in parallel, which calls read once when the feed may be read. Results and errors have the order of the
// addresses. An error of the store is part of every feed's error.
func (f *Fetcher) FetchAll(ctx context.Context, addresses []string, turn func(read func())) ([]Result, []error) {
	return f.fetchAll(ctx, addresses, turn, false)
}

// PollAll is FetchAll for regular polling while nobody waits. It makes no request while the last document is fresh
// (ttl, Cache-Control, Expires, skipHours, skipDays) and returns that document. It waits longer the more often a feed
// has failed, and then returns a *FailingError. It spaces its requests to a host.
func (f *Fetcher) PollAll(ctx context.Context, addresses []string, turn func(read func())) ([]Result, []error) {
	return f.fetchAll(ctx, addresses, turn, true)
}

// fetchAll reads feeds, with polite as PollAll does.
func (f *Fetcher) fetchAll(ctx context.Context, addresses []string, turn func(read func()), polite bool) ([]Result, []error) {
	results, errs := make([]Result, len(addresses)), make([]error, len(addresses))
	trimmed := make([]string, len(addresses))
	var wg sync.WaitGroup
	for n, address := range addresses {
		trimmed[n] = webAddress(address)
		wg.Go(func() {
			// Each goroutine has elements of its own, so no lock is needed.
			turn(func() { results[n], errs[n] = f.fetchInTurn(ctx, trimmed[n], polite) })
		})
	}
	wg.Wait()
	// What was read before ctx ended is worth keeping: else the servers are asked for all of it again.
	if err := f.saveStates(context.WithoutCancel(ctx), trimmed...); err != nil {
		for n := range errs {
			errs[n] = errors.Join(errs[n], err)
		}
	}
	return results, errs
}

// fetchInTurn fetches a feed while it holds the lock of the feed's host, and leaves in unsaved what that shows about
// it. polite is set for PollAll.
func (f *Fetcher) fetchInTurn(ctx context.Context, address string, polite bool) (Result, error) {
	if name, ok := strings.CutPrefix(address, bundledScheme); ok {
		return f.readBundled(name)
	}
	// The lock also covers the state: two fetches of one feed would overwrite each other's.
	lock, err := f.hosts.acquire(ctx, hostOf(address))
	if err != nil {
		return Result{}, fmt.Errorf("fetch %s: %w: %w", egress.RedactURL(address), ErrQueued, err)
	}
	defer lock.release()
	state, err := f.loadState(ctx, address)
	if err != nil {
		return Result{}, err
	}
	if f.opts.Now().Before(state.NextAllowed) {
		return Result{}, &WaitError{URL: address, Until: state.NextAllowed}
	}
	if polite {
		if res, spared, err := f.answerFromState(&state); spared {
			return res, err
		}
		if err := lock.waitForGap(ctx, f.opts.HostPause, f.opts.Now()); err != nil {
			// The pause is a wait for others to the same host, too: that it was cut off says nothing about the feed.
			if ctx.Err() != nil {
				err = fmt.Errorf("%w: %w", ErrQueued, err)
			}
			if wait, ok := errors.AsType[*WaitError](err); ok {
				wait.URL = address
				return Result{}, wait
			}
			return Result{}, fmt.Errorf("fetch %s: %w", egress.RedactURL(address), err)
		}
	}
	res, err := f.fetch(ctx, &state)
	if err != nil && state.MovedTo != "" && isGone(err) {
		state.resetAddress() // the move was not permanent after all: ask the old address again
		res, err = f.fetch(ctx, &state)
	}
	if errors.Is(err, egress.ErrBusy) {
		return Result{}, fmt.Errorf("%w: %w", ErrQueued, err)
	}
	// The server speaks for all of its feeds: waitForGap spares the others a request, too.
	if wait, ok := errors.AsType[*WaitError](err); ok {
		lock.blockedUntil, lock.blockedBy = wait.Until, wait.URL
	}
	return f.recordOutcome(ctx, &state, res, err)
}

// answerFromState answers a poll without a request, where none is due. It returns false where a request is due.
func (f *Fetcher) answerFromState(s *State) (Result, bool, error) {
	now := f.opts.Now()
	if s.Failures > 0 && now.Before(s.TryAgain) {
		return Result{}, true, &FailingError{s.URL, s.FailingSince, s.Failures, s.TryAgain, s.LastFailure}
	}
	// A "not modified" answer prolongs freshness in memory only, so the newer of the two times counts.
	until := s.FreshUntil
	if later, ok := f.prolonged.Load(s.URL); ok {
		until = later.(time.Time)
	}
	// After a failure the stored document may be outdated, so freshness does not count then.
	if s.FetchedAt.IsZero() || s.Failures > 0 || !now.Before(until) && !s.Pace.skips(now) {
		return Result{}, false, nil
	}
	s.Document.setSource()
	return Result{Document: s.Document, NotModified: true, FinalURL: s.fetchAddress(), MovedTo: s.MovedTo}, true, nil
}

// fetched is an answer on its way to a Result.
type fetched struct {
	Result
	changed bool // the state has to be saved
}

// recordOutcome notes what an attempt showed. An attempt that ctx cut off shows nothing about the feed.
func (f *Fetcher) recordOutcome(ctx context.Context, s *State, got fetched, err error) (Result, error) {
	if err == nil {
		f.read.Add(1)
		if s.clearFailures() || got.changed {
			f.noteUnsaved(s)
		}
		return got.Result, nil
	}
	if ctx.Err() != nil {
		return Result{}, err
	}
	f.failed.Add(1)
	status, _ := errors.AsType[*StatusError](err)
	// LastFailure is shown to people, so it is the explained text, without the internals of the error.
	s.addFailure(f.opts.Now(), status != nil && status.Status == http.StatusGone, Explain(s.URL, err))
	f.noteUnsaved(s)
	return Result{}, err
}

// isGone reports whether an error says that there is no feed at an address.
func isGone(err error) bool {
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.Status == http.StatusNotFound || status.Status == http.StatusGone
	}
	return errors.Is(err, ErrNotFeed)
}

// readBundled returns a feed that comes with the program.
func (f *Fetcher) readBundled(name string) (Result, error) {
	if f.opts.Bundled == nil {
		return Result{}, fmt.Errorf("fetch %s%s: this program has no bundled feeds", bundledScheme, name)
	}
	data, err := fs.ReadFile(f.opts.Bundled, name+".xml")
	if err != nil {
		return Result{}, fmt.Errorf("fetch %s%s: no bundled feed of that name: %w", bundledScheme, name, err)
	}
	doc, err := Parse(data, Hint{})
	if err != nil {
		return Result{}, fmt.Errorf("fetch %s%s: %w", bundledScheme, name, err)
	}
	return Result{Document: doc, FinalURL: bundledScheme + name}, nil
}

// loadState returns what is known of a feed, stored or about to be, or a new state where there is none of this version.
func (f *Fetcher) loadState(ctx context.Context, address string) (State, error) {
	fresh := State{Version: stateVersion, URL: address}
	if f.store == nil {
		return fresh, nil
	}
	f.mu.Lock()
	unsaved := f.unsaved[address]
	f.mu.Unlock()
	if unsaved != nil {
		state := *unsaved
		// Its items are read by others: by whoever stores them, and in the results of whoever fetched them.
		state.Document.Items = slices.Clone(state.Document.Items)
		return state, nil
	}
	state, found, err := f.store.LoadFeed(ctx, address)
	if err != nil {
		return fresh, fmt.Errorf("fetch %s: load its state: %w", egress.RedactURL(address), err)
	}
	if !found || state.Version != stateVersion {
		return fresh, nil
	}
	state.URL = address
	return state, nil
}

// noteUnsaved keeps a state, which is not changed any more, until saveStates. Whoever reads the feed meanwhile finds it
// there, and does not ask the server for the same document again.
func (f *Fetcher) noteUnsaved(s *State) {
	if f.store == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unsaved[s.URL] = s
}

// saveStates stores the unsaved states of some feeds. Where that fails they are forgotten: the next requests make up
// for what they held.
func (f *Fetcher) saveStates(ctx context.Context, addresses ...string) error {
	// One after the other, so that an older state of a feed is not written over a newer one.
	f.saving.Lock()
	defer f.saving.Unlock()
	unsaved := map[string]*State{}
	var states []State
	f.mu.Lock()
	for _, address := range addresses {
		// An address may be named twice, and SaveFeeds takes states of different addresses only.
		if s := f.unsaved[address]; s != nil && unsaved[address] == nil {
			unsaved[address] = s
			states = append(states, *s)
		}
	}
	f.mu.Unlock()
	if len(states) == 0 {
		return nil
	}
	// Without the lock, because others read feeds meanwhile. The states are unsaved until they are stored: a read that
	// begins now must not find the older ones in the store.
	err := f.store.SaveFeeds(ctx, states...)
	f.mu.Lock()
	defer f.mu.Unlock()
	for address, s := range unsaved {
		// Another read of the feed may have ended while the store was written: whoever made it saves that one.
		if f.unsaved[address] == s {
			delete(f.unsaved, address)
		}
	}
	if err != nil {
		return fmt.Errorf("save the records of %d feeds: %w", len(states), err)
	}
	return nil
}

// fetch makes one request, and a second one where the address is a page that names a single feed. It changes state by
// what the answer shows, also with an error; whoever calls it records the failure.
func (f *Fetcher) fetch(ctx context.Context, state *State) (fetched, error) {
	address := state.fetchAddress()
	res, doc, err := f.request(ctx, state, address)
	// Only an unambiguous page is followed; with several feeds a person has to choose.
	if page, ok := errors.AsType[*PageError](err); ok && len(page.Links) == 1 {
		address = page.Links[0].URL
		if res, doc, err = f.request(ctx, state, address); err == nil {
			state.MovedOnce = cmp.Or(res.PermanentURL, address) // the page itself is never the feed
			res.PermanentURL = state.MovedOnce
		}
	}
	if err != nil {
		return fetched{}, err
	}
	got := fetched{Result: Result{Document: doc, FinalURL: res.URL}, changed: state.noteMove(res.PermanentURL)}
	if got.MovedTo = state.MovedTo; res.PermanentURL != "" && res.PermanentURL != state.URL {
		got.MovedTo = res.PermanentURL
	}
	// Validators and freshness belong to the document, so they are kept only from an answer that brought one.
	now := f.opts.Now()
	if res.Status == http.StatusNotModified {
		got.NotModified = true
		// in memory alone: not worth a write to the store
		f.prolonged.Store(state.URL, now.Add(addJitter(freshFor(res.Header, state.Pace.TTL, now))))
		return got, nil
	}
	got.changed = true
	// What a "not modified" answer said of the former document does not hold for this one.
	f.prolonged.Delete(state.URL)
	state.ETag, state.LastModified = res.Header.Get("ETag"), res.Header.Get("Last-Modified")
	state.FetchedAt, state.NextAllowed, state.IDsRepeat = now, time.Time{}, doc.IDsRepeat
	state.Pace, state.FreshUntil = doc.Pace, now.Add(addJitter(freshFor(res.Header, doc.Pace.TTL, now)))
	if state.Document = doc.excerpt(); f.store != nil {
		got.Document = state.Document
	}
	return got, nil
}

// request makes one conditional request and parses the answer. For "not modified" it returns the stored document. The
// response comes back without its body.
func (f *Fetcher) request(ctx context.Context, state *State, address string) (*egress.Response, Document, error) {
	o := egress.GetOptions{Accept: accept, MaxBytes: maxBytes, Header: state.conditionalHeader(address)}
	res, err := f.client.Get(ctx, address, o)
	if err == nil && f.waitBriefly(ctx, res) {
		res.Close()
		res, err = f.client.Get(ctx, address, o)
	}
	if err != nil {
		return nil, Document{}, err
	}
	defer res.Close()
	switch {
	case res.Status == http.StatusNotModified && state.FetchedAt.IsZero():
		return nil, Document{}, &StatusError{address, res.Status} // no condition was sent, so there is no document
	case res.Status == http.StatusNotModified:
		doc := state.Document
		doc.setSource()
		return res, doc, nil
	case res.Status == http.StatusTooManyRequests || res.Status == http.StatusServiceUnavailable:
		return nil, Document{}, f.noteRetryAfter(state, address, res)
	case res.Status < 200 || res.Status > 299:
		return nil, Document{}, &StatusError{address, res.Status}
	}
	// The base of relative links is the address after redirects.
	hint := newHint(res.URL, res.Header)
	hint.IDsRepeat = state.IDsRepeat
	doc, err := Parse(res.Body, hint)
	if errors.Is(err, ErrNotFeed) {
		return nil, Document{}, &PageError{address, discoverLinks(res.Body, res.URL), err}
	}
	if err != nil {
		return nil, Document{}, fmt.Errorf("fetch %s: %w: %w", egress.RedactURL(address), errMalformed, err)
	}
	return res, doc, nil
}

// waitBriefly waits if the server asks for a few seconds, and reports whether the request should be made again.
func (f *Fetcher) waitBriefly(ctx context.Context, res *egress.Response) bool {
	pause, said := retryAfter(res.Header.Get("Retry-After"), f.opts.Now())
	isBusy := res.Status == http.StatusTooManyRequests || res.Status == http.StatusServiceUnavailable
	if !isBusy || !said || pause > maxBriefWait {
		return false
	}
	return sleep(ctx, pause) == nil
}

// sleep waits, or returns the error of ctx when it ends first.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// noteRetryAfter records until when the server wants no requests, and returns a *WaitError. A 503 without a time is a
// *StatusError like other failures.
func (f *Fetcher) noteRetryAfter(state *State, address string, res *egress.Response) error {
	pause, said := retryAfter(res.Header.Get("Retry-After"), f.opts.Now())
	if !said && res.Status == http.StatusServiceUnavailable {
		return &StatusError{address, res.Status}
	}
	// Saved with the state, so that a restart does not forget the server's request.
	state.NextAllowed = f.opts.Now().Add(pause)
	return &WaitError{URL: address, Until: state.NextAllowed}
}

// retryAfter reads a Retry-After header: seconds or a date (RFC 9110, 10.2.3). said is false where
// it holds neither; the pause is then defaultRetryAfter.
func retryAfter(header string, now time.Time) (pause time.Duration, said bool) {
	header = strings.TrimSpace(header)
	// With 32 bits the number of nanoseconds cannot overflow.
	if seconds, err := strconv.ParseUint(header, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter), true
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter), true
	}
	return defaultRetryAfter, false
}

// webAddress returns an address without white space, and without the scheme feed, which stands for http or before another
// one.
func webAddress(address string) string {
	address = strings.TrimSpace(address)
	rest, isFeed := strings.CutPrefix(address, "feed:")
	switch {
	case isFeed && isWebURL(rest):
		return rest
	case isFeed && strings.HasPrefix(rest, "//"):
		return "http:" + rest
	}
	return address
}

// hostOf returns the host and port of an address, in lower case, or "".
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}
