// Package digest turns feeds and channel messages (channels.go) into posts. A run collects new items (collect.go,
// filter.go), merges items about the same story (duplicates.go, series.go), rates each by its form (kind.go, worth.go)
// and by a model's judgment (headlines.go, editor.go, judge.go), chooses the best (choose.go), writes the text
// (write.go, citations.go, compose.go), and stores the run with its posts (run.go, history.go). For a digest without
// feeds, an agent carries out a task at each due time. The package promises:
//   - Every link of a post comes from a feed item.
//   - A run for one due time posts once, however often it is started.
//   - Every item of a run has a verdict.
//   - A preview runs the same code as a run.
//
// Package schedule computes the due times, and adapters format the posts.
//
// A digest has three forms: its source, which is a config.Digest or a digest created in chat (created.go); the Plan
// with all defaults; and the spec of a run. An edition is the state of one run: items with their verdicts, stories,
// and the text. Only finishRun stores any of it. Each setting that people change (pausing, sharing, unsubscribing) is
// a separate item of the store, which is reloaded when another replica changes it.
package digest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/news/feed"
	"ravenbot/internal/news/schedule"
	"ravenbot/internal/ops/measure"
	"ravenbot/internal/store"
)

// The errors of requests about a digest.
var (
	ErrUnknown    = errors.New("no such digest")
	ErrExists     = errors.New("there is a digest of that name")
	ErrConfigured = errors.New("the digest belongs to config.json and is changed there")
)

// BadPlan is the error of a plan that cannot be carried out. Its text is for the author of the plan.
type BadPlan struct{ Err error }

func (e BadPlan) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong with the plan.
func (e BadPlan) Unwrap() error { return e.Err }

// BadInput marks the error as the sender's to correct.
func (BadPlan) BadInput() bool { return true }

// Writer has a language model write, with a schema JSON of it. It returns the text and the name of the model, and an
// error where no model answered.
type Writer func(ctx context.Context, system, prompt string, schema json.RawMessage) (text, model string, err error)

// Feeds reads feeds, for somebody who waits (Fetch, FetchAll) or at intervals (PollAll), and finds the feeds of a page,
// as feed.Fetcher does.
type Feeds interface {
	// Fetch reads one feed. FetchAll and PollAll read several, and call turn around each read; their results and errors
	// are in the order of the addresses. PollAll asks no server while a feed counts as fresh.
	Fetch(ctx context.Context, url string) (feed.Result, error)
	FetchAll(ctx context.Context, urls []string, turn func(read func())) ([]feed.Result, []error)
	PollAll(ctx context.Context, urls []string, turn func(read func())) ([]feed.Result, []error)
	// Find returns the feeds that a page names. The error wraps feed.ErrNoFeed where there is none.
	Find(ctx context.Context, url string) ([]feed.Link, error)
}

// Runs keeps runs and the items that they saw, as in store.Store.
type Runs interface {
	// SeenItems returns which of some items a digest has seen, and whether it has ever seen any.
	SeenItems(ctx context.Context, digest string, ids []string) (map[string]bool, bool, error)
	// FinishRun stores a run with all that belongs to it in one transaction, and sets the Seq of its posts. It returns
	// false and stores nothing where a run for that due time is stored already.
	FinishRun(ctx context.Context, r store.Run, saw []string, posts []store.Post, items ...store.Item) (bool, error)
	// AmendRun replaces a run, and makes items unseen again.
	AmendRun(ctx context.Context, r store.Run, forget []string) error
	// LastRuns returns the newest n runs of a digest, newest first.
	LastRuns(ctx context.Context, digest string, n int) ([]store.Run, error)
}

// Store is all that a Service keeps.
type Store interface {
	Runs
	store.Items
	SaveSubscription(ctx context.Context, s store.Subscription) error
	DeleteSubscription(ctx context.Context, to chat.Address, url string) error
	Subscriptions(ctx context.Context) ([]store.Subscription, error)
	LoadFeed(ctx context.Context, url string) (store.Feed, bool, error)
	// Feedback returns the feedback on posts.
	Feedback(ctx context.Context) ([]store.Feedback, error)
}

// Task is a prompt for an agent at a due time.
type Task struct {
	Key    string // names the run: a task that was cut off continues under it
	Plan   Plan
	To     chat.Address // the first place that it is posted to
	Prompt string
}

// Delivery posts what digests write, as delivery.Service does.
type Delivery interface {
	// Ready returns a channel that is closed when the posts that an earlier process left are
	// queued. A post that is stored before would be sent twice if it were passed to Deliver.
	Ready() <-chan struct{}
	// Deliver queues stored posts. The function that it returns waits for their outcomes, until ctx ends.
	Deliver(posts []store.Post) func(ctx context.Context) []store.Outcome
	// Interject posts at once; with replaces it replaces the post of that key.
	Interject(ctx context.Context, to chat.Address, d chat.Draft, replaces string) error
}

// Platforms tells what can be posted where.
type Platforms interface {
	// CanPost reports whether anything can be posted to a conversation.
	CanPost(to chat.Address) bool
	// CanThread reports whether a post to a conversation can have a thread below it.
	CanThread(to chat.Address) bool
	// CheckPost returns a *chat.SetupError if a post with tags cannot be made in a place, and another error if that
	// could not be found out.
	CheckPost(ctx context.Context, to chat.Address, tags []string) error
	// ReadersCanRead reports whether everybody who can read one place can read another, too.
	ReadersCanRead(ctx context.Context, readers, source chat.Address) (bool, error)
}

// Pages reads web pages.
type Pages interface {
	// Article returns the main text of a page.
	Article(ctx context.Context, url string) (string, error)
}

// Settings are what people and operators have set elsewhere.
type Settings interface {
	// Language returns the one set for a channel, or an empty string.
	Language(to chat.Address) string
	// MaxDigestsPerUser returns how many digests one person may have made in chat; 0: any number.
	MaxDigestsPerUser() int
}

// Options are what a Service needs. All may be called concurrently.
type Options struct {
	Feeds     Feeds
	Store     Store
	Delivery  Delivery
	Platforms Platforms
	Pages     Pages // nil: pages are not read
	Channels  Channels
	// Writer returns what judges and writes a digest; nil: it has no language model.
	Writer func(Plan) Writer
	// Task has an agent with its tools carry out a prompt. settled is called when its outcome is stored.
	Task     func(ctx context.Context, t Task) (draft chat.Draft, settled func(context.Context) error, err error)
	Settings Settings // nil: nothing is set
	// PublicURL is the address under which others reach the bot, without a slash at its end.
	PublicURL string
	// MailURL is the same for mails and posts, which have no link to unsubscribe, or to all items, where it is empty: their
	// readers are elsewhere, so that an address of this machine would lead nowhere.
	MailURL string
	// PollInterval is how often subscriptions and digests that post items as they come are looked at.
	PollInterval time.Duration
	Log          *slog.Logger
	Now          func() time.Time
}

// Service runs digests. It is safe for concurrent use.
type Service struct {
	o        Options
	loop     *schedule.Loop
	onChange func()     // is called when digests, or when they are due, have changed
	pollLock sync.Mutex // held by Poll: polls do not overlap
	limiter  limiter
	runLocks sync.Map            // of *sync.Mutex, by digest: one run at a time
	ended    measure.Table[bool] // runs, by whether the digest could be made
	runCount measure.Totals      // of digests, by name
	reads    measure.Totals      // of feeds, by the address that is shown

	// reloading is held for reading while something is changed in the store and below, and for writing by Load: what it
	// has read is no older than what is here. It is taken before mu, and by nobody twice.
	reloading sync.RWMutex

	// mu guards the fields below. It is held for moments: neither the store nor a platform is called with it.
	mu         sync.Mutex
	configured map[string]spec
	created    map[string]spec
	pauses     map[string]pause
	events     map[string]int // about how many wait, by digest
}

// Ended returns the runs since the process began, by whether the digest could be made.
func (s *Service) Ended() map[bool]measure.Sum { return s.ended.Sums() }

// RunTotals returns the runs of each digest since the process began, without subscriptions, with the items that they
// posted.
func (s *Service) RunTotals() map[string]measure.Total { return s.runCount.All() }

// FeedTotals returns how often each feed of a digest or subscription was wanted since the process began, and how often
// it could not be had, by the address as FeedInfo.Name has it. A feed that its server need not be asked for counts as
// well. What people have the bot read besides is not counted.
func (s *Service) FeedTotals() map[string]measure.Total { return s.reads.All() }

// New returns a Service without digests. Configure sets those of the configuration, Load
// reads those that were made in chat or through the API.
func New(o Options) *Service {
	s := &Service{
		o:          o,
		limiter:    newLimiter(),
		configured: map[string]spec{},
		created:    map[string]spec{},
		pauses:     map[string]pause{},
		events:     map[string]int{},
	}
	s.loop = &schedule.Loop{LastDue: s.lastDue, Do: s.runDue, Now: o.Now, Log: o.Log}
	s.onChange = func() { s.loop.Set(s.jobs()) }
	return s
}

// runSchedule runs digests when they are due, until ctx ends.
func (s *Service) runSchedule(ctx context.Context) { s.loop.Run(ctx) }

// runDue runs a digest that is due.
func (s *Service) runDue(ctx context.Context, name string, due time.Time) {
	if _, err := s.Run(ctx, name, due, false); err != nil && ctx.Err() == nil {
		s.o.Log.Error("digest failed", "digest", name, "due", due, "error", err)
	}
}

// Configure replaces the digests of the configuration, all or, with an error, none. The error names the digest whose
// plan is wrong. A run that is under way goes on with the plan that it began with.
func (s *Service) Configure(plans []Plan) error {
	specs := map[string]spec{}
	for _, p := range plans {
		p.Source = FromConfig
		d, err := compile(p)
		if err != nil {
			return fmt.Errorf("digests.%s: %w", p.Name, err)
		}
		specs[p.Name] = d
	}
	s.mu.Lock()
	s.configured = specs
	s.mu.Unlock()
	s.onChange()
	return nil
}

// find returns a digest in its present state, or false.
func (s *Service) find(name string) (spec, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.findLocked(name)
}

// findLocked is find for callers that hold s.mu.
func (s *Service) findLocked(name string) (spec, bool) {
	// The operator's digest wins where one of the same name was made before.
	d, ok := s.configured[name]
	if !ok {
		d, ok = s.created[name]
	}
	d.Paused = s.pauses[name].Paused && d.has(s.pauses[name].Source)
	return d, ok
}

// specs returns all digests, by name.
func (s *Service) specs() []spec { return s.named(s.names()) }

// names returns the names of all digests, sorted.
func (s *Service) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := slices.AppendSeq(make([]string, 0, len(s.configured)+len(s.created)), maps.Keys(s.configured))
	names = slices.AppendSeq(names, maps.Keys(s.created))
	slices.Sort(names)
	return slices.Compact(names)
}

// named returns the digests of some names, without those that are gone.
func (s *Service) named(names []string) []spec {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]spec, 0, len(names))
	for _, name := range names {
		if d, ok := s.findLocked(name); ok {
			list = append(list, d)
		}
	}
	return list
}

// lockRun waits until a digest is not running, and marks it as running until unlock. It does not end with a context: a
// run is bounded by RunTimeout, so that the wait is, too.
func (s *Service) lockRun(name string) (unlock func()) {
	lock, _ := s.runLocks.LoadOrStore(name, &sync.Mutex{})
	lock.(*sync.Mutex).Lock()
	return lock.(*sync.Mutex).Unlock
}

// jobs returns the digests that run on a schedule, paused ones included. Those that post items as
// they come are polled instead (Poll).
func (s *Service) jobs() []schedule.Job {
	var jobs []schedule.Job
	for _, d := range s.specs() {
		if !d.isInstant() {
			jobs = append(jobs, schedule.Job{Name: d.Name, Schedule: d.when, CatchUp: d.CatchUp != "skip", Paused: d.Paused})
		}
	}
	return jobs
}

// lastDue returns the time after which missed runs of a digest are caught up: its last run,
// or when it was made, changed or resumed. It returns false where there is no such time.
func (s *Service) lastDue(name string) (time.Time, bool) {
	s.mu.Lock()
	d, _ := s.findLocked(name)
	since := d.At
	if p := s.pauses[name]; d.has(p.Source) && p.Since.After(since) {
		since = p.Since
	}
	s.mu.Unlock()
	// The schedule asks without a context, and the store has deadlines of its own.
	runs, err := s.lastRuns(context.Background(), name, 1)
	if err != nil {
		s.o.Log.Error("failed to read the last run of a digest; skipping missed runs", "digest", name, "error", err)
	}
	if len(runs) > 0 && runs[0].Due.After(since) {
		since = runs[0].Due
	}
	return since, !since.IsZero()
}

// maxClockError is how far in the future a run may be that counts, where the clock is set back a little.
const maxClockError = 2 * time.Minute

// lastRuns returns the newest n runs of a digest, newest first, without those from the future: they were made while the
// clock was ahead, and would pass for the last run until then.
func (s *Service) lastRuns(ctx context.Context, name string, n int) ([]store.Run, error) {
	end := s.o.Now().Add(maxClockError)
	for ask := n; ; ask *= 2 {
		all, err := s.o.Store.LastRuns(ctx, name, ask)
		if err != nil {
			return nil, err
		}
		past := slices.DeleteFunc(slices.Clone(all), func(r store.Run) bool { return r.Due.After(end) })
		if len(past) >= n || len(all) < ask {
			return past[:min(n, len(past))], nil
		}
	}
}

// Info describes a digest.
type Info struct {
	Name     string     `json:"name"`
	Source   string     `json:"source"` // config, chat, api
	Schedule string     `json:"schedule"`
	When     string     `json:"when,omitempty"` // the schedule in words, where it is written otherwise
	Timezone string     `json:"timezone"`
	Next     *time.Time `json:"next,omitempty"` // in that zone
	Paused   bool       `json:"paused,omitempty"`
	Feeds    []string   `json:"feeds"`
	Channels []string   `json:"channels,omitempty"`
	Webhooks []string   `json:"webhooks,omitempty"`
	Post     []string   `json:"post"`
	Email    []string   `json:"email,omitempty"`
	Style    string     `json:"style,omitempty"`
	Prompt   string     `json:"prompt,omitempty"`
	By       string     `json:"by,omitempty"` // who made it
	Last     *store.Run `json:"last,omitempty"`
	OnNew    bool       `json:"onNew,omitempty"` // items are posted as they come
	// Plan is all that was asked for; of Get alone, and not of the configuration's, which may hold secrets.
	Plan *Plan `json:"plan,omitempty"`
	// Unsubscribed are those of Email that want no more mails.
	Unsubscribed []string `json:"unsubscribed,omitempty"`
}

// List describes all digests, by name.
func (s *Service) List(ctx context.Context) ([]Info, error) { return s.describe(ctx, s.specs()) }

// Page describes up to n digests behind a name, by name, and reports whether others follow. Only these are looked up:
// there may be thousands.
func (s *Service) Page(ctx context.Context, after string, n int) (list []Info, more bool, err error) {
	names := s.names()
	from, found := slices.BinarySearch(names, after)
	if found {
		from++
	}
	names = names[from:]
	list, err = s.describe(ctx, s.named(names[:min(n, len(names))]))
	return list, n < len(names), err
}

// describe describes digests.
func (s *Service) describe(ctx context.Context, all []spec) ([]Info, error) {
	list := []Info{}
	for _, d := range all {
		i, err := s.info(ctx, d)
		if err != nil {
			return nil, err
		}
		list = append(list, i)
	}
	return list, nil
}

// Get describes a digest. It returns ErrUnknown where there is none of that name.
func (s *Service) Get(ctx context.Context, name string) (Info, error) {
	d, ok := s.find(name)
	if !ok {
		return Info{}, fmt.Errorf("look at digest %q: %w", name, ErrUnknown)
	}
	i, err := s.info(ctx, d)
	if d.Source != FromConfig {
		i.Plan = &d.Plan
	}
	return i, err
}

// info describes a digest, with its last run and who wants no mails of it, which it reads from the store.
func (s *Service) info(ctx context.Context, d spec) (Info, error) {
	i := Info{
		Name:     d.Name,
		Source:   d.Source,
		Schedule: d.Schedule,
		Timezone: d.Timezone,
		Paused:   d.Paused,
		Feeds:    []string{},
		Channels: d.Channels,
		Webhooks: d.Hooks,
		Post:     d.Post,
		Email:    d.Email,
		Prompt:   d.Prompt,
		By:       cmp.Or(d.By.Name, d.By.ID),
		OnNew:    d.isInstant(),
	}
	if words := d.when.Describe(); !d.isInstant() && words != d.Schedule {
		i.When = words
	}
	if d.Style != Brief {
		i.Style = d.Style
	}
	for _, f := range d.Feeds {
		i.Feeds = append(i.Feeds, f.displayURL())
	}
	if next, ok := d.nextRun(s.o.Now()); ok {
		i.Next = &next
	}
	runs, err := s.lastRuns(ctx, d.Name, 1)
	if err != nil {
		return i, err
	}
	if len(runs) > 0 {
		i.Last = &runs[0]
	}
	i.Unsubscribed, err = s.stoppedMail(ctx, d)
	return i, err
}

// Plan returns the plan of a digest, or false.
func (s *Service) Plan(name string) (Plan, bool) {
	d, ok := s.find(name)
	return d.Plan, ok
}

// IsConfigured reports whether the digest of a name is one of the configuration.
func (s *Service) IsConfigured(name string) bool {
	d, ok := s.find(name)
	return ok && d.Source == FromConfig
}

// Names returns the names of the digests that are visible in a conversation.
func (s *Service) Names(at chat.Address) []string {
	var names []string
	for _, d := range s.specs() {
		if d.isVisible(chat.Message{Conversation: at}) {
			names = append(names, d.Name)
		}
	}
	return names
}

// FeedURLs returns the addresses of the feeds of all digests, each once, sorted. They may hold secrets.
func (s *Service) FeedURLs() []string {
	var all []string
	for _, d := range s.specs() {
		for _, f := range d.Feeds {
			all = append(all, f.URL)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
