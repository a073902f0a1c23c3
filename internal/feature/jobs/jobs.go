// Package jobs runs scheduled work for people and programs: reminders, which post a text, and tasks, which an agent
// carries out. Webhooks create jobs, too. The package promises:
//   - A job is stored before its author gets the confirmation. Each due time is handled once, across crashes and clock
//     jumps: one transaction stores the posts and the record of the run.
//   - A job that was due while the bot was away runs once when the bot is back, and says that it is late.
//   - A task can ask nobody. It can use only the tools that it names, or by default the tools that read and send
//     nothing out of the bot.
//   - Only the author of a job and administrators of its target place can see and remove it.
//
// Package schedule computes the due times, and adapters format the posts.
//
// The store keeps a job as one item under its id (job.go). schedule.Loop reports a due job. run.go carries it out and,
// in the transaction that stores the posts, replaces the item with the next occurrence or removes it. when.go parses
// the text that people type, hook.go and payload.go handle webhooks, and watch.go handles watched sources.
package jobs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/news/feed"
	"ravenbot/internal/news/schedule"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/store"
)

// ErrUnknown is the error of requests about a job that there is not.
var ErrUnknown = errors.New("no such job")

// jobKind is the kind of the stored items that hold jobs.
const jobKind = "job"

// Delivery posts what jobs say, as delivery.Service does.
type Delivery interface {
	// Ready returns a channel that is closed when the posts that an earlier process left are queued. A post that is
	// stored before would be sent twice if it were passed to Deliver.
	Ready() <-chan struct{}
	// Deliver queues stored posts.
	Deliver(posts []store.Post) func(ctx context.Context) []store.Outcome
}

// Task makes an agent carry out a job for a due time. settled is called when the outcome is stored. A repeated call
// resumes interrupted work.
type Task func(ctx context.Context, j Job, due time.Time) (d chat.Draft, settled func(context.Context) error, err error)

// Places describes conversations and their authors, as platform.Set does.
type Places interface {
	// CheckPost returns a *chat.SetupError if nothing can be posted to a conversation, and another error if that could not
	// be found out.
	CheckPost(ctx context.Context, to chat.Address, tags []string) error
	// Link returns the address of a message by its ID, or "".
	Link(at chat.Address, id string) string
	// Context returns the context of a message as far as it is known at the end of ctx, including the time zone of its
	// author.
	Context(ctx context.Context, m chat.Message, q chat.ContextQuery) chat.Context
}

// Digests collect what webhooks deliver, as digest.Service does.
type Digests interface {
	// AddEvent keeps an event for the next run of a digest. One that it knows changes nothing.
	AddEvent(ctx context.Context, digest, webhook string, event feed.Item) error
}

// Options are what a Service needs.
type Options struct {
	Digests  Digests
	Store    store.Items
	Delivery Delivery
	Places   Places
	Task     Task
	Calls    Calls
	Config   func() *config.Config // in effect now
	// Timezone returns the configured time zone of a user in a conversation, or "".
	Timezone func(at chat.Address, user string) string
	Log      *slog.Logger
	Now      func() time.Time
}

// Service keeps and runs jobs. It is safe for concurrent use.
type Service struct {
	o       Options
	loop    *schedule.Loop
	changed chan struct{} // has room for one; the jobs of the loop must be replaced
	slots   chan struct{} // one for each task under way
	// hooks counts deliveries; it has a lock of its own.
	hooks hookLimits
	// locks keep two changes of one job apart (see lock). They are taken before reloading.
	locks [64]sync.Mutex
	seed  maphash.Seed
	// reloading is read-locked while a job or a delivery is changed, in the store and here, and write-locked by Load,
	// so that Load never replaces newer data. It is locked before mu.
	reloading sync.RWMutex

	// mu guards jobs and deliveries. It is not held while the store is asked.
	mu         sync.Mutex
	jobs       map[string]stored
	deliveries map[string]time.Time // of webhooks, by job id: when they came
}

// stored is a job as it is in the store, and its schedule: to read that costs more than all else, and there may be
// many.
type stored struct {
	Job
	// raw is the item as the store has it, which a change names so that it replaces nothing else.
	raw  json.RawMessage
	plan schedule.Schedule
	// fault is why the schedule, which an earlier version understood, cannot be read. The job is never due then.
	fault error
}

// newStored returns a job that was stored. The error is one of its schedule.
func newStored(j Job, raw json.RawMessage) (stored, error) {
	plan, err := j.when()
	return stored{j, raw, plan, err}, err
}

// readStored returns the job in an item of the store. It fails if the item is not a job with the item's id, or has an
// unreadable schedule.
func readStored(id string, raw json.RawMessage) (stored, error) {
	var j Job
	if err := json.Unmarshal(raw, &j); err != nil {
		return stored{}, err
	}
	if j.ID != id {
		return stored{}, fmt.Errorf("its value has the id %.80q, and its name is %.80q", j.ID, id)
	}
	return newStored(j, raw)
}

// CheckStored returns an error if a job in the store would be unreadable, never be due or have no target place.
func (*Service) CheckStored(id string, raw json.RawMessage) error {
	j, err := readStored(id, raw)
	switch {
	case err != nil:
		return err
	case j.At.IsZero() == (j.Schedule == ""):
		return errors.New("it must have either at or schedule")
	case len(j.Post) == 0 || len(j.places()) != len(j.Post):
		return fmt.Errorf("post is %.200q, want addresses of channels", j.Post)
	}
	return nil
}

// maxTasks is how many tasks are carried out at a time. Others wait, so that a morning on which many are due leaves
// people's questions quick.
const maxTasks = 4

// New returns a Service without jobs; Load reads those of before. Nothing is carried out before Run.
func New(o Options) *Service {
	s := &Service{
		o:          o,
		changed:    make(chan struct{}, 1),
		slots:      make(chan struct{}, maxTasks),
		seed:       maphash.MakeSeed(),
		jobs:       map[string]stored{},
		deliveries: map[string]time.Time{},
	}
	s.loop = &schedule.Loop{LastDue: s.lastDue, Do: s.run, Hold: s.hold, Now: o.Now, Log: o.Log,
		IsSecond: true} // in addition to the loop of digests
	return s
}

// Load replaces the known jobs by the stored ones, which may come from earlier processes, other processes or an
// import. An item that is no job is logged and skipped. A job with an unreadable schedule is logged and kept, so that
// people can see and change it. If the store fails, nothing has changed.
func (s *Service) Load(ctx context.Context) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	items, err := s.o.Store.Items(ctx, jobKind)
	if err != nil {
		return fmt.Errorf("read the jobs: %w", err)
	}
	deliveries, err := s.loadDeliveries(ctx)
	if err != nil {
		return err
	}
	jobs := map[string]stored{}
	for id, raw := range items {
		// Most have not changed, and to read the schedules of thousands takes a while.
		if was, ok := s.find(id); ok && bytes.Equal(was.raw, raw) {
			jobs[id] = was
			continue
		}
		j, err := readStored(id, raw)
		switch {
		case err != nil && j.fault == nil:
			s.o.Log.Error("stored job is invalid; skipping it", "job", id, "error", err)
			continue
		case err != nil:
			s.o.Log.Error("failed to read the schedule of a stored job; the job does not run", "job", id, "error", err)
		}
		jobs[id] = j
	}
	s.mu.Lock()
	s.jobs, s.deliveries = jobs, deliveries
	s.mu.Unlock()
	s.notifyChange()
	return nil
}

// SharedKinds returns the kinds whose changes Reload takes up.
func (*Service) SharedKinds() []string { return []string{jobKind, deliveryKind} }

// Reload takes up what other processes have changed.
func (s *Service) Reload(ctx context.Context) error { return s.Load(ctx) }

// Run carries out due jobs until ctx ends, and returns when all work has ended. It is called once, after Load.
func (s *Service) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	s.loop.Set(s.loopJobs())
	wg.Go(func() { s.loop.Run(ctx) })
	prune := time.NewTicker(pruneInterval)
	defer prune.Stop()
	s.pruneDeliveries(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		// Many jobs that come at once make one new list.
		case <-s.changed:
			s.loop.Set(s.loopJobs())
		case <-prune.C:
			s.pruneDeliveries(ctx)
		}
	}
}

// notifyChange has Run pass the jobs to the loop again. It never waits.
func (s *Service) notifyChange() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// loopJobs returns all jobs as the loop wants them.
func (s *Service) loopJobs() []schedule.Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]schedule.Job, 0, len(s.jobs))
	for id, j := range s.jobs {
		list = append(list, schedule.Job{Name: id, Schedule: j.plan, CatchUp: true})
	}
	return list
}

// lastDue is Job.lastDue for the loop. It returns false for a job that was removed.
func (s *Service) lastDue(id string) (time.Time, bool) {
	j, ok := s.find(id)
	return j.lastDue(), ok
}

// find returns a job as it is stored, or false.
func (s *Service) find(id string) (stored, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, ok := s.jobs[id]
	return j, ok
}

// Add stores a job, which counts from now on, under a new id, and describes it. It returns a BadJob where it cannot be
// carried out, or there are too many; other errors are the store's.
func (s *Service) Add(ctx context.Context, j Job) (Info, error) {
	j.ID, j.Created = text.RandomID(idBytes), s.o.Now().UTC()
	j.Since = j.Created
	if err := s.checkNew(ctx, j); err != nil {
		return Info{}, err
	}
	// One that is due at once may be done before it could be looked up.
	kept, err := newStored(j, nil)
	if err != nil {
		return Info{}, BadJob{err}
	}
	if _, err := s.save(ctx, j); err != nil {
		return Info{}, err
	}
	s.o.Log.Info("job added", "job", j.ID, "source", j.Source, "by", j.By.ID, "at", j.At, "schedule", j.Schedule)
	return kept.describe(s.o.Now()), nil
}

// idBytes is the length of an id: short enough to be typed, and rare enough not to come twice.
const idBytes = 4

// save stores a new job and schedules it. It returns false if the id exists.
func (s *Service) save(ctx context.Context, j Job) (bool, error) {
	raw, err := json.Marshal(j)
	if err != nil {
		return false, err
	}
	kept, err := newStored(j, raw)
	if err != nil {
		return false, err
	}
	s.reloading.RLock()
	defer s.reloading.RUnlock()
	isNew, err := s.o.Store.SwapItem(ctx, jobKind, j.ID, nil, raw, nil)
	if err != nil || !isNew {
		return false, err
	}
	s.mu.Lock()
	s.jobs[j.ID] = kept
	s.mu.Unlock()
	s.notifyChange()
	return true, nil
}

// checkNew returns a BadJob where a new job cannot be carried out or there are too many.
func (s *Service) checkNew(ctx context.Context, j Job) error {
	if err := j.check(s.o.Now()); err != nil {
		return err
	}
	for _, to := range j.places() {
		// What cannot be found out now is found out when the job is due.
		var fault *chat.SetupError
		if err := s.o.Places.CheckPost(ctx, to, nil); errors.As(err, &fault) && j.Source == FromChat {
			return badJobf("I cannot post here: %w", fault)
		} else if errors.As(err, &fault) {
			return badJobf("nothing can be posted to %s: %w", to, fault)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	own := 0
	// User ids are unique only within a platform, so compare the platform, too.
	for _, other := range s.jobs {
		if j.Source == FromChat && other.Source == FromChat && other.By.ID == j.By.ID && other.On == j.On {
			own++
		}
	}
	if limit := s.o.Config().Jobs.MaxPerUser; own >= limit && j.Source == FromChat {
		return badJobf("you have %d reminders and jobs already, which is the most; `/raven jobs` lists them", own)
	}
	if len(s.jobs) >= maxJobs {
		return badJobf("there are %d jobs already, which is the most", len(s.jobs))
	}
	return nil
}

// List describes all jobs, the next one first. It never fails.
func (s *Service) List(context.Context) ([]Info, error) {
	return s.list(func(Job) bool { return true }), nil
}

// list describes the selected jobs by their next time. Jobs that are never due again come last.
func (s *Service) list(wanted func(Job) bool) []Info {
	now := s.o.Now()
	infos := []Info{}
	s.mu.Lock()
	for _, j := range s.jobs {
		if wanted(j.Job) {
			infos = append(infos, j.describe(now))
		}
	}
	s.mu.Unlock()
	slices.SortFunc(infos, func(a, b Info) int {
		switch {
		case a.Next == nil || b.Next == nil:
			return cmp.Or(cmp.Compare(btoi(a.Next == nil), btoi(b.Next == nil)), strings.Compare(a.ID, b.ID))
		default:
			return cmp.Or(a.Next.Compare(*b.Next), strings.Compare(a.ID, b.ID))
		}
	})
	return infos
}

// btoi returns 1 for true, so that truth values can be ordered.
func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Remove deletes a job. It returns ErrUnknown if there is none, or its last run has just ended.
func (s *Service) Remove(ctx context.Context, id string) error {
	return s.change(ctx, id, func(Job) (*Job, error) { return nil, nil })
}

// change replaces a job by the result of edit, or deletes it if that is nil. If another process has just changed the
// job, edit is called again with the new state.
func (s *Service) change(ctx context.Context, id string, edit func(Job) (*Job, error)) error {
	defer s.lock(id)()
	err := s.tryChange(ctx, id, edit)
	if errors.Is(err, errChanged) {
		if err = s.Load(ctx); err == nil {
			err = s.tryChange(ctx, id, edit)
		}
	}
	if err == nil {
		s.notifyChange()
	}
	return err
}

// tryChange makes one attempt of change. The caller holds the job's lock.
func (s *Service) tryChange(ctx context.Context, id string, edit func(Job) (*Job, error)) error {
	was, ok := s.find(id)
	if !ok {
		return ErrUnknown
	}
	now, err := edit(was.Job)
	if err != nil {
		return err
	}
	return s.replace(ctx, was, now, nil)
}

// lock waits until nobody else replaces the job, and keeps others out until unlock. Jobs share locks: there may be
// many.
func (s *Service) lock(id string) (unlock func()) {
	m := &s.locks[maphash.String(s.seed, id)%uint64(len(s.locks))]
	m.Lock()
	return m.Unlock
}

// errChanged is the error if another process has changed the stored job.
var errChanged = errors.New("the job was changed by somebody else")

// replace puts a job, or none, in the place of another, in the store and then in memory, and stores posts with it. The
// caller holds the job's lock.
func (s *Service) replace(ctx context.Context, was stored, now *Job, posts []store.Post) error {
	var raw json.RawMessage
	var kept stored
	if now != nil {
		var err error
		if raw, err = json.Marshal(now); err != nil {
			return err
		}
		if kept, err = newStored(*now, raw); err != nil {
			return err
		}
	}
	s.reloading.RLock()
	defer s.reloading.RUnlock()
	swapped, err := s.o.Store.SwapItem(ctx, jobKind, was.ID, was.raw, raw, posts)
	if err == nil && !swapped {
		err = errChanged
	}
	if err != nil {
		return fmt.Errorf("replace job %s: %w", was.ID, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now == nil {
		delete(s.jobs, was.ID)
	} else {
		s.jobs[was.ID] = kept
	}
	return nil
}
