// Package digest turns feeds into posts: it collects what is new, puts the same
// story together, chooses, has a short summary written, and hands the posts to
// the outbox. It promises that every link it posts comes from a feed item, that a
// run for one due instant posts once however often it is started, and that a
// preview comes out of the same code as a run. When runs are due is schedule's
// business, how posts look the adapters'.
package digest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/feed"
	"ravenbot/internal/store"
)

// ErrUnknown is returned for a digest that is not configured.
var ErrUnknown = errors.New("no such digest")

// Spec is one digest of the configuration.
type Spec struct {
	Name     string
	Title    string // what readers see; empty: Name
	Quiet    bool   // a run without anything to post leaves no trace
	Schedule string // as it is written
	Timezone string
	Next     func(after time.Time) (time.Time, bool)
	Feeds    []string
	Post     []chat.Address
	MaxItems int
	SayEmpty bool     // a run with nothing new says so
	Filters  []string // words an item must have one of; with a leading -, must not have
	Writer   Writer   // writes the summary; nil: it is made of the items' own sentences
}

// Writer has a language model write. It returns the text and the name of the
// model, and an error where no model could.
type Writer func(ctx context.Context, system, prompt string) (text, model string, err error)

// Feeds reads a feed.
type Feeds interface {
	Fetch(ctx context.Context, url string) (feed.Result, error)
}

// Store remembers what was seen and run.
type Store interface {
	Seen(ctx context.Context, digest string, ids []string) (map[string]bool, bool, error)
	FinishRun(ctx context.Context, r store.Run, saw []string, posts []store.Post) (bool, error)
	AmendRun(ctx context.Context, r store.Run, forget []string) error
	LastRuns(ctx context.Context, digest string, n int) ([]store.Run, error)
	SaveSubscription(ctx context.Context, s store.Subscription) error
	DeleteSubscription(ctx context.Context, to chat.Address, url string) error
	Subscriptions(ctx context.Context) ([]store.Subscription, error)
}

// Options are what a Service needs.
type Options struct {
	Specs []Spec
	Feeds Feeds
	Store Store
	// Deliver queues posts that have been recorded; what it returns waits for what
	// becomes of them while ctx lasts.
	Deliver func([]store.Post) func(ctx context.Context) []store.Posted
	Log     *slog.Logger
	Now     func() time.Time
}

// Service runs digests. It is safe for concurrent use.
type Service struct {
	o     Options
	specs map[string]Spec
	busy  map[string]*sync.Mutex // one run of a digest at a time
	polls sync.Mutex             // one look at the subscriptions at a time
}

// New returns a service over the digests of o.
func New(o Options) *Service {
	s := &Service{o: o, specs: map[string]Spec{}, busy: map[string]*sync.Mutex{}}
	for _, d := range o.Specs {
		s.specs[d.Name], s.busy[d.Name] = d, &sync.Mutex{}
	}
	return s
}

// Info describes a digest.
type Info struct {
	Name     string     `json:"name"`
	Schedule string     `json:"schedule"`
	Timezone string     `json:"timezone"`
	Next     *time.Time `json:"next,omitempty"`
	Feeds    []string   `json:"feeds"`
	Post     []string   `json:"post"`
	Last     *store.Run `json:"last,omitempty"`
}

// List describes all digests, by name.
func (s *Service) List(ctx context.Context) ([]Info, error) {
	list := []Info{}
	for _, d := range s.specs {
		i := Info{Name: d.Name, Schedule: d.Schedule, Timezone: d.Timezone, Feeds: d.Feeds}
		for _, a := range d.Post {
			i.Post = append(i.Post, a.String())
		}
		if next, ok := d.Next(s.o.Now()); ok {
			i.Next = &next
		}
		runs, err := s.o.Store.LastRuns(ctx, d.Name, 1)
		if err != nil {
			return nil, err
		}
		if len(runs) > 0 {
			i.Last = &runs[0]
		}
		list = append(list, i)
	}
	slices.SortFunc(list, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Preview is what a run would post now, and why.
type Preview struct {
	Digest string     `json:"digest"`
	Draft  chat.Draft `json:"draft"` // without text where nothing would be posted
	Items  []Verdict  `json:"items"` // every item of every feed
	Faults []string   `json:"faults,omitempty"`
}

// Preview makes a digest without posting or remembering anything.
func (s *Service) Preview(ctx context.Context, name string) (Preview, error) {
	d, ok := s.specs[name]
	if !ok {
		return Preview{}, fmt.Errorf("preview digest %q: %w", name, ErrUnknown)
	}
	e, err := s.make(ctx, d)
	if err != nil {
		return Preview{}, fmt.Errorf("preview digest %s: %w", name, err)
	}
	return Preview{Digest: name, Draft: e.draft, Items: e.verdicts, Faults: e.faults}, nil
}

// Run makes and posts a digest for a due instant, and waits a while for what
// becomes of its posts. A second run for the same instant posts nothing.
func (s *Service) Run(ctx context.Context, name string, due time.Time, manual bool) (store.Run, error) {
	return s.run(ctx, name, due, manual, s.follow)
}

// follower looks after the posts of a run.
type follower func(context.Context, store.Run, *edition, int, func(context.Context) []store.Posted) (store.Run, error)

// leave does not: in a conversation that the digest is posted to, the posts wait
// for the very message that asked for it.
func leave(_ context.Context, run store.Run, _ *edition, _ int, _ func(context.Context) []store.Posted) (store.Run, error) {
	return run, nil
}

func (s *Service) run(ctx context.Context, name string, due time.Time, manual bool, follow follower) (store.Run, error) {
	d, ok := s.specs[name]
	if !ok {
		return store.Run{}, fmt.Errorf("run digest %q: %w", name, ErrUnknown)
	}
	s.busy[name].Lock()
	defer s.busy[name].Unlock()
	return s.carryOut(ctx, d, due, manual, follow)
}

func (s *Service) carryOut(ctx context.Context, d Spec, due time.Time, manual bool, follow follower) (store.Run, error) {
	name := d.Name
	run := store.Run{Digest: name, Due: due.UTC(), Began: s.o.Now().UTC(), Manual: manual}
	e, err := s.make(ctx, d)
	if ctx.Err() != nil {
		return run, ctx.Err() // cut off, not failed: the next start catches up
	}
	if d.Quiet && (err != nil || len(e.draft.Cards) == 0) {
		return run, err
	}
	run.Ended = s.o.Now().UTC()
	run.Note = strings.Join(e.faults, "; ")
	if err != nil {
		run.Note = err.Error()
		e.draft, e.saw = chat.Draft{Failed: true, Text: "The digest **" + name + "** could not be made: none of its feeds could be read. " +
			"It is tried again at its next time; the bot's log has the reasons."}, nil
	} else {
		run.OK, run.Posted = true, len(e.draft.Cards)
	}
	posts := s.posts(d, run, e.draft)
	isNew, storeErr := s.o.Store.FinishRun(ctx, run, e.saw, posts)
	if storeErr != nil {
		return run, fmt.Errorf("run digest %s: %w", name, storeErr)
	}
	if isNew && len(posts) > 0 {
		outcomes := s.o.Deliver(posts)
		if err == nil {
			run, err = follow(ctx, run, e, len(posts), outcomes)
		}
	}
	s.o.Log.Info("digest run", "digest", name, "due", run.Due, "posted", run.Posted, "ok", run.OK, "new", isNew, "note", run.Note)
	if err != nil {
		return run, fmt.Errorf("run digest %s: %w", name, err)
	}
	return run, nil
}

// followFor is how long a run waits to hear what became of its posts. What takes
// longer is still on its way.
const followFor = 20 * time.Second

// follow amends a run by what became of its posts. Where no place took it the run
// has failed, and its items are new again for the next one.
func (s *Service) follow(ctx context.Context, run store.Run, e *edition, posts int, outcomes func(context.Context) []store.Posted) (store.Run, error) {
	waiting, cancel := context.WithTimeout(ctx, followFor)
	defer cancel()
	var refused []string
	for _, o := range outcomes(waiting) {
		if o.Error != "" {
			refused = append(refused, "not posted to "+o.Key[strings.LastIndex(o.Key, "Z/")+2:]+": "+o.Error)
		}
	}
	if len(refused) == 0 {
		return run, nil
	}
	slices.Sort(refused)
	run.Note = strings.TrimPrefix(run.Note+"; "+strings.Join(refused, "; "), "; ")
	var forget []string
	if len(refused) == posts {
		run.OK, run.Posted = false, 0
		forget = e.fresh
	}
	err := s.o.Store.AmendRun(context.WithoutCancel(ctx), run, forget)
	if err == nil && !run.OK {
		err = errors.New(run.Note)
	}
	return run, err
}

func (s *Service) posts(d Spec, run store.Run, draft chat.Draft) []store.Post {
	if draft.Text == "" {
		return nil
	}
	var posts []store.Post
	for _, to := range d.Post {
		draft.Key = fmt.Sprintf("digest/%s/%s/%s", d.Name, run.Due.Format(time.RFC3339Nano), to)
		posts = append(posts, store.Post{Key: draft.Key, To: to, Draft: draft, At: run.Ended})
	}
	return posts
}
