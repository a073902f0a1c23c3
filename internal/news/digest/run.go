package digest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/ops/measure"
	"ravenbot/internal/store"
)

// Preview is what a run would post now, with the verdict on every item.
type Preview struct {
	Digest string     `json:"digest"`
	Draft  chat.Draft `json:"draft"` // without text where nothing would be posted
	Items  []Verdict  `json:"items"` // every item of every feed
	Faults []string   `json:"faults,omitempty"`
}

// Preview makes a digest without posting or storing anything. A task is not carried out, since its
// tools could have effects. It may ask a model, whose use counts. It returns ErrUnknown, an
// *UnreadError, or the error of ctx or the store.
func (s *Service) Preview(ctx context.Context, name string) (Preview, error) {
	d, ok := s.find(name)
	if !ok {
		return Preview{}, fmt.Errorf("preview digest %q: %w", name, ErrUnknown)
	}
	return s.preview(ctx, d)
}

// Try previews a digest with a change, or a new digest, and stores nothing. It returns a BadPlan, also for an error of
// change, or ErrConfigured.
func (s *Service) Try(ctx context.Context, name string, change func(*Plan) error) (Preview, error) {
	d, ok := s.find(name)
	if ok && d.Source == FromConfig {
		return Preview{}, ErrConfigured
	}
	p := d.Plan
	p.Name, p.Source, p.Feeds = name, cmp.Or(p.Source, FromAPI), slices.Clone(p.Feeds)
	err := change(&p)
	if err == nil {
		err = checkLimits(p)
	}
	if err == nil {
		d, err = compile(p)
	}
	if err != nil {
		return Preview{}, BadPlan{err}
	}
	return s.preview(ctx, d)
}

// preview shows what a run of a digest would post now.
func (s *Service) preview(ctx context.Context, d spec) (Preview, error) {
	name := d.Name
	if d.isTask() {
		return Preview{Digest: name, Items: []Verdict{}, Draft: chat.Draft{Text: "**" + escape(name) +
			"** has no feeds. At each run an agent gets this prompt and may use its tools.\n\n> " +
			strings.ReplaceAll(d.Prompt, "\n", "\n> ")}}, nil
	}
	d.asked = true
	release, err := s.limiter.acquire(ctx, d)
	if err != nil {
		return Preview{}, fmt.Errorf("preview digest %s: wait for others: %w", name, err)
	}
	defer release()
	e, err := s.buildEdition(ctx, d)
	if err != nil {
		return Preview{}, fmt.Errorf("preview digest %s: %w", name, err)
	}
	return Preview{Digest: name, Draft: e.draft, Items: e.verdicts, Faults: e.faults}, nil
}

// LastVerdicts returns the verdicts of the last run of a digest, or false where none are
// stored. It returns ErrUnknown where there is no such digest.
func (s *Service) LastVerdicts(ctx context.Context, name string) (RunVerdicts, bool, error) {
	if _, ok := s.find(name); !ok {
		return RunVerdicts{}, false, fmt.Errorf("explain digest %q: %w", name, ErrUnknown)
	}
	return loadItem[RunVerdicts](ctx, s, verdictKind, name, "the verdicts of digest")
}

// Run makes and posts a digest for a due time, and waits up to outcomeTimeout for the outcomes of
// its posts. A second run for the same due time posts nothing. With manual it
// also runs a digest that is paused, and does not wait behind scheduled runs. It returns ErrUnknown
// where there is no such digest; a run that has failed is stored and returned with its error.
func (s *Service) Run(ctx context.Context, name string, due time.Time, manual bool) (store.Run, error) {
	return s.lockAndRun(ctx, name, due, manual, true)
}

// lockAndRun runs a digest as it is once no other run of it is under way. A scheduled run of one that was paused meanwhile
// does nothing.
func (s *Service) lockAndRun(ctx context.Context, name string, due time.Time, manual, await bool) (store.Run, error) {
	defer s.lockRun(name)()
	d, ok := s.find(name)
	if !ok {
		return store.Run{}, fmt.Errorf("run digest %q: %w", name, ErrUnknown)
	}
	// The digest may have been paused while this run waited for the lock.
	if !manual && d.Paused {
		return store.Run{Digest: name, Due: due.UTC()}, nil
	}
	return s.runLocked(ctx, d, due, manual, await)
}

// runLocked waits for a slot, makes a digest, stores the run with its posts, and queues them. The caller holds the
// digest's lock. await says whether to wait for the outcomes of the posts. Polls do not, nor do runs that somebody asks
// for in chat: their posts wait behind the very message that asked, so waiting for them here would be a deadlock.
func (s *Service) runLocked(ctx context.Context, d spec, due time.Time, manual, await bool) (store.Run, error) {
	d.asked = manual
	release, err := s.limiter.acquire(ctx, d)
	if err != nil {
		return store.Run{Digest: d.Name, Due: due.UTC(), Manual: manual}, err
	}
	made, err := s.makeRun(ctx, d, due, manual)
	// Given back before the outcomes are awaited: a platform that is slow holds up no other digest. What the feeds hold
	// is not kept for that long either.
	release()
	run := made.run
	if made.stored {
		if len(made.recorded) > 0 {
			outcomes := s.o.Delivery.Deliver(made.recorded)
			if await && err == nil && len(made.places) > 0 {
				run, err = s.awaitOutcomes(ctx, run, made, outcomes)
			}
		}
		s.o.Log.Info("digest run", "digest", d.Name, "due", run.Due, "posted", run.Posted, "ok", run.OK,
			"new", made.recorded != nil, "note", run.Note)
	}
	if err != nil {
		return run, fmt.Errorf("run digest %s: %w", d.Name, err)
	}
	return run, nil
}

// madeRun is a run that was made.
type madeRun struct {
	run      store.Run
	stored   bool                    // otherwise nothing is left to do
	newIDs   []string                // of the items that count as seen since this run
	places   map[string]chat.Address // of the digest's own posts, by key
	recorded []store.Post            // nil: a run for that due time was stored before
}

// makeRun makes a digest and stores the run with its posts. It takes at most RunTimeout.
func (s *Service) makeRun(ctx context.Context, d spec, due time.Time, manual bool) (madeRun, error) {
	ctx, cancel := context.WithTimeout(ctx, RunTimeout)
	defer cancel()
	// What a second run for a due time would choose is what the first left over: it must not pass for posted. A task has
	// no entries, and its turn may have to be closed yet.
	past, err := s.o.Store.LastRuns(ctx, d.Name, lookBack)
	if err != nil {
		return madeRun{}, err
	}
	if n := slices.IndexFunc(past, func(r store.Run) bool { return r.Due.Equal(due) }); n >= 0 && !d.isTask() {
		return madeRun{run: past[n], stored: true}, nil
	}
	run := store.Run{Digest: d.Name, Due: due.UTC(), Began: s.o.Now().UTC(), Manual: manual}
	e, settled, err := s.produce(ctx, d, due)
	switch ended := ctx.Err(); {
	// A run that took too long has failed, which is stored and posted without the deadline.
	case errors.Is(ended, context.DeadlineExceeded):
		err = errors.Join(errTimeout, err)
		// Not without any: delivery may never get ready where the bot is stopped just now.
		var end context.CancelFunc
		ctx, end = context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer end()
	case ended != nil:
		return madeRun{run: run}, ended // cut off, not failed: the next start catches up
	}
	run.Ended = s.o.Now().UTC()
	run.Note = strings.Join(slices.Concat(e.notes, e.faults), "; ")
	made, storeErr := s.storeRun(ctx, d, run, e, err)
	// A task's turn is closed once its run is stored: after a crash before that, the next start continues the turn
	// instead of calling its tools again.
	if storeErr == nil && settled != nil {
		storeErr = settled(context.WithoutCancel(ctx))
	}
	return made, errors.Join(err, storeErr)
}

// storeRun stores a run that was made, or failed with an error, with its posts.
func (s *Service) storeRun(ctx context.Context, d spec, run store.Run, e *edition, failed error) (madeRun, error) {
	failures, notices, err := s.updateFailures(ctx, d, e, run.Ended)
	if err != nil {
		return madeRun{run: run}, err
	}
	if failed != nil {
		// The items of a failed run stay new for the next one.
		run.Note, e.seenIDs = failed.Error(), nil
		if e.draft = (chat.Draft{}); !d.quiet {
			e.draft, notices = failureDraft(d, failed), nil // the draft names the failed feeds, too
		}
	} else {
		run.OK, run.Posted = true, len(e.chosen)+e.report.Entries
	}
	// Polls come every few minutes: one without anything to post leaves no run behind.
	if d.quiet && len(notices) == 0 && (failed != nil || len(e.newIDs) == 0 && !e.markOnly) {
		return madeRun{run: run}, s.saveFailures(ctx, d, failures)
	}
	posts, err := s.mailPosts(ctx, d, run, e.draft)
	if err != nil {
		return madeRun{run: run}, err
	}
	posts = append(s.buildPosts(d, run, e), posts...)
	var recorded []store.Post
	err = s.limiter.do(ctx, d, func() (err error) {
		recorded, err = s.recordRun(ctx, d, run, e, slices.Concat(posts, notices), failures)
		return err
	})
	// Once the run is stored its posts are sent, whatever could not be stored beside it.
	made := madeRun{run: run, stored: err == nil || recorded != nil, newIDs: e.newIDs, recorded: recorded,
		places: map[string]chat.Address{}}
	for _, p := range posts {
		made.places[p.Key] = p.To
	}
	return made, err
}

// produce makes what is posted, from feeds or by an agent. The function that it returns, if
// any, has to be called once the run is stored.
func (s *Service) produce(ctx context.Context, d spec, due time.Time) (*edition, func(context.Context) error, error) {
	if !d.isTask() {
		e, err := s.buildEdition(ctx, d)
		return e, nil, err
	}
	e := &edition{}
	if s.o.Task == nil {
		return e, nil, errors.New("there is no agent here")
	}
	t := Task{Key: runKey(d.Name, due), Plan: d.Plan, To: d.post[0], Prompt: d.Prompt}
	if language := s.languageOf(d); language != "" {
		t.Prompt += "\n\nAnswer in this language: " + language + "."
	}
	draft, settled, err := s.o.Task(ctx, t)
	if err == nil && draft.Failed {
		err = errors.New(draft.Text)
	}
	if err == nil {
		draft.Text = "**" + escape(d.title) + "**\n\n" + draft.Text
		e.draft = draft
	}
	return e, settled, err
}

// errTimeout is the reason of a run that RunTimeout has ended.
var errTimeout = errors.New("it took too long")

// storeTimeout bounds storing a run that took too long.
const storeTimeout = time.Minute

// failureDraft returns the post that says that a run failed.
func failureDraft(d spec, err error) chat.Draft {
	return chat.Draft{Failed: true, Text: "I could not make the digest **" + escape(d.title) + "**: " +
		failureReason(d, err) + ". I will try again at its next time."}
}

// failureReason returns why a digest could not be made, as Markdown. It holds no text of an error but that for readers:
// others may name secrets.
func failureReason(d spec, err error) string {
	var unread *UnreadError
	switch {
	case errors.Is(err, errTimeout):
		return errTimeout.Error()
	case errors.As(err, &unread):
		return escape(unread.Error())
	case d.isTask():
		return "the agent found no answer, and the bot's log has the reason"
	}
	return "that failed, and the bot's log has the reason"
}

// recordRun stores a run with its posts, and returns the posts; nil where a run for that due time was stored before.
func (s *Service) recordRun(ctx context.Context, d spec, run store.Run, e *edition, posts []store.Post,
	failures map[string]feedFailure) ([]store.Post, error) {
	items, err := newRunItems(d, run, e)
	if err != nil {
		return nil, err
	}
	// In one transaction: a run without its entries would let the next one post the same stories, and items that wait
	// and are lost would count as seen.
	isNew, err := s.finishRun(ctx, run, e.seenIDs, posts, items...)
	if err != nil || !isNew {
		return nil, err
	}
	if d.Source != fromSubscription {
		s.countRun(run)
	}
	// The run is stored, so what follows is finished also when ctx ends.
	keep := context.WithoutCancel(ctx)
	if posts == nil {
		posts = []store.Post{} // nil would mean that the run was stored before
	}
	return posts, atOnce(
		func() error { return s.saveFailures(keep, d, failures) },
		func() error { return s.deleteEvents(keep, d.Name, e) },
		func() error { return s.deleteOldRuns(keep, d.Name) },
	)
}

// countRun adds a stored run to those of its digest.
func (s *Service) countRun(run store.Run) {
	one := measure.Total{Count: 1, Results: uint64(run.Posted)}
	one.Seconds = max(run.Ended.Sub(run.Began).Seconds(), 0) // a clock may have been set back
	if !run.OK {
		one.Failed = 1
	}
	s.runCount.Add(run.Digest, one)
}

// newRunItems returns what is stored with a run: the verdicts and, of one that succeeded, what it posts and what waits.
func newRunItems(d spec, run store.Run, e *edition) ([]store.Item, error) {
	verdicts, err := newItem(verdictKind, d.Name, newRunVerdicts(run.Due, e.verdicts))
	if err != nil || !run.OK {
		return []store.Item{verdicts}, err
	}
	items := []store.Item{verdicts}
	// Without entries it was a task, or nothing was new.
	if past := newPastRun(d, run.Due, e); len(past.Entries) > 0 {
		one, err := newItem(pastRunKind+d.Name, past.Due.Format(time.RFC3339Nano), past)
		if err != nil {
			return nil, err
		}
		items = append(items, one)
	}
	waiting := newWaitingItems(e, run.Ended)
	if d.quiet || d.Style == Weekly || len(waiting.Items) == 0 && !e.waited {
		return items, nil
	}
	one, err := newItem(waitingKind, d.Name, waiting)
	return append(items, one), err
}

// newItem returns a value as a stored item.
func newItem(kind, name string, v any) (store.Item, error) {
	data, err := json.Marshal(v)
	return store.Item{Kind: kind, Name: name, Data: data}, err
}

// atOnce makes changes of the store at the same time, so that most share a transaction, and returns
// their errors joined when all have ended.
func atOnce(changes ...func() error) error {
	errs := make([]error, len(changes))
	var wg sync.WaitGroup
	for n, change := range changes {
		wg.Go(func() { errs[n] = change() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// outcomeTimeout is how long a run waits for the outcomes of its posts. A post without one by then is still being sent.
const outcomeTimeout = 20 * time.Second

// awaitOutcomes amends a run by the outcomes of its posts. Where no post was delivered the
// run has failed, and its items are new again for the next one.
func (s *Service) awaitOutcomes(ctx context.Context, run store.Run, made madeRun,
	outcomes func(context.Context) []store.Outcome) (store.Run, error) {
	waiting, cancel := context.WithTimeout(ctx, outcomeTimeout)
	defer cancel()
	var refused []string
	for _, o := range outcomes(waiting) {
		if to, ours := made.places[o.Key]; ours && o.Error != "" {
			refused = append(refused, "not posted to "+to.String()+": "+o.Error)
		}
	}
	if len(refused) == 0 {
		return run, nil
	}
	slices.Sort(refused)
	run.Note = strings.TrimPrefix(run.Note+"; "+strings.Join(refused, "; "), "; ")
	var forget []string
	// One place that got the digest is enough: making its items new would post them twice there.
	if len(refused) == len(made.places) {
		run.OK, run.Posted = false, 0
		forget = made.newIDs
	}
	// Also when ctx ends: otherwise the items of a digest that nobody got would stay marked as seen.
	err := s.o.Store.AmendRun(context.WithoutCancel(ctx), run, forget)
	if err == nil && !run.OK {
		err = errors.New(run.Note)
	}
	return run, err
}

// runKey names a run. Its posts and its task have keys made of it, so that repeating a run is harmless.
func runKey(name string, due time.Time) string {
	return fmt.Sprintf("digest/%s/%s", name, due.UTC().Format(time.RFC3339Nano))
}

// postKey names the post of a run to one place.
func postKey(name string, due time.Time, to chat.Address) string {
	return runKey(name, due) + "/" + to.String()
}

// buildPosts returns the posts of a run, in an order in which a thread's head comes before what is
// below it; none where there is nothing to say. Their keys follow from the due time and the place,
// so that a repeated run makes the same posts.
func (s *Service) buildPosts(d spec, run store.Run, e *edition) []store.Post {
	if e.draft.Text == "" {
		return nil
	}
	var press []chat.Button
	turn := ""
	if run.OK && run.Posted > 0 {
		turn = turnID(d.Name, run.Due)
		if !d.quiet {
			press = []chat.Button{{Label: "👍", Value: chat.PressGood + turn}, {Label: "👎", Value: chat.PressBad + turn}}
		}
	}
	title := d.postTitle(run.Due)
	from := origin.Foreign("the digest " + d.Name)
	var posts []store.Post
	// Each place has posts of its own, so that one that fails does not hold up the others.
	for _, to := range d.post {
		draft, key := e.draft, postKey(d.Name, run.Due, to)
		folded := e.rest.Text != "" || len(e.rest.Cards) > 0
		if folded = folded && s.o.Platforms.CanThread(to); folded {
			draft = e.head
		}
		draft.Key, draft.Buttons, draft.Title, draft.Tags = key, press, title, d.Tags
		draft.Origin, draft.News = &from, !d.isTask()
		if to.Platform == d.On {
			draft.Owner = d.By.ID
		}
		// Nobody is notified of a post that only says that the run failed or found nothing.
		if run.OK && run.Posted > 0 {
			draft.Notify = d.Ping
		}
		posts = append(posts, store.Post{Key: key, To: to, Draft: draft, Turn: turn, At: run.Ended})
		if folded {
			rest := e.rest
			rest.Key, rest.Origin, rest.News, rest.Owner = key+restKey, &from, !d.isTask(), draft.Owner
			posts = append(posts, store.Post{Key: rest.Key, To: to, Draft: rest, Turn: turn, At: run.Ended, Below: key, Title: title})
		}
	}
	return posts
}

// postTitle returns what the posts of a run are called where posts have a title.
func (d spec) postTitle(due time.Time) string {
	return d.title + ", " + due.In(d.zone).Format("2 January")
}

// restKey ends the key of the post in the thread below another.
const restKey = "/rest"

// finishRun stores a run with its posts once delivery is ready: a post that is stored before
// would be sent twice, by delivery's recovery and by this run.
func (s *Service) finishRun(ctx context.Context, r store.Run, saw []string, posts []store.Post,
	items ...store.Item) (bool, error) {
	select {
	case <-s.o.Delivery.Ready():
		isNew, err := s.o.Store.FinishRun(ctx, r, saw, posts, items...)
		if isNew {
			s.ended.Add(r.OK, r.Ended.Sub(r.Began))
		}
		return isNew, err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
