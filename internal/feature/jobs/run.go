package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/core/text"
	"ravenbot/internal/store"
)

const (
	// lateAfter is how long after its due time a post says that it is late.
	lateAfter = 2 * time.Minute
	// taskTimeout bounds the work of an agent for one due time.
	taskTimeout = 10 * time.Minute
	// retryAfter is the first pause after the store has failed, maxRetryAfter the longest one.
	retryAfter    = time.Second
	maxRetryAfter = time.Minute
)

// run carries out a job for a due time. An interrupted job is due again at the next start.
func (s *Service) run(ctx context.Context, id string, due time.Time) {
	begun := s.o.Now()
	j, ok := s.find(id)
	if !ok || j.isDone(due) {
		return
	}
	// A repeating job may have been changed, moved or removed in the quiet hours that held it.
	if !j.IsOnce() && due.Before(j.Since) {
		return
	}
	if j.Watch != nil {
		// A look that the end of ctx cut off has not failed: it must not count as a failure of the place.
		if d, seen := s.look(ctx, j.Job); ctx.Err() == nil {
			s.finish(ctx, id, due, d, seen, nil)
		}
		return
	}
	d, settled, err := s.makeDraft(ctx, j.Job, due)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		s.o.Log.Error("job failed", "job", id, "due", due, "error", err)
		what := text.EscapeMarkdown(text.Shorten(j.what(), maxShownChars))
		d = chat.Draft{
			Failed: true,
			Text:   "I could not do the job `" + id + "` (" + what + "): " + failureReason(err),
		}
	}
	if s.isLate(j, begun, due) {
		d.Text += "\n\n*Late: this was due on " + j.formatDue(due) + ".*"
	}
	s.finish(ctx, id, due, d, nil, settled)
}

// unansweredError is an agent's answer that explains a failure to people.
type unansweredError struct{ text string }

func (e unansweredError) Error() string { return e.text }

// failureReason returns why a job was not done, for people: errors of the bot stay in its log.
func failureReason(err error) string {
	var unanswered unansweredError
	if errors.As(err, &unanswered) {
		return unanswered.text
	}
	return "something went wrong inside the bot, whose log has the reason."
}

// makeDraft returns a job's post. A task waits for one of maxTasks slots, and fails if its answer is an error. settled
// is nil if nothing follows the post.
func (s *Service) makeDraft(
	ctx context.Context,
	j Job,
	due time.Time,
) (d chat.Draft, settled func(context.Context) error, err error) {
	if j.Prompt == "" {
		return j.reminder(), nil, nil
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return d, nil, ctx.Err()
	}
	// The time limit begins with the slot, so that tasks that waited for others have all of it.
	limited, cancel := context.WithTimeout(ctx, taskTimeout)
	defer cancel()
	d, settled, err = s.o.Task(limited, j, due)
	if err == nil && d.Failed {
		err = unansweredError{d.Text}
	}
	return d, settled, err
}

// reminder returns the post of a job that has a text.
func (j Job) reminder() chat.Draft {
	if j.Source != FromChat {
		return chat.Draft{Text: j.Text, Origin: &origin.Origin{}}
	}
	from := j.Origin.With(origin.User(j.On, j.By.ID))
	words := "⏰ " + text.EscapeMarkdown(j.Text)
	if j.Link != "" {
		words += "\n" + link("The message", j.Link)
	}
	return chat.Draft{Text: words, Notify: []string{"user:" + j.By.ID}, Origin: &from}
}

// finish stores that a due time was carried out together with its posts, and queues them. It tries until the store
// takes it or ctx ends.
func (s *Service) finish(
	ctx context.Context,
	id string,
	due time.Time,
	d chat.Draft,
	seen *sight,
	settled func(context.Context) error,
) {
	// A post that is stored before would be sent twice, by delivery's recovery and by Deliver.
	select {
	case <-s.o.Delivery.Ready():
	case <-ctx.Done():
		return
	}
	for pause := retryAfter; ; pause = min(2*pause, maxRetryAfter) {
		err := s.finishOnce(ctx, id, due, d, seen)
		if err == nil && settled != nil {
			// A crash before this line has the turn continued, which was stored step by step and calls nothing again.
			err = settled(context.WithoutCancel(ctx))
		}
		if err == nil {
			s.o.Log.Info("job done", "job", id, "due", due)
			return
		}
		s.o.Log.Error("failed to store a job; retrying", "job", id, "due", due, "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// finishOnce makes one attempt of finish. A job that was removed or rescheduled during the work posts nothing.
func (s *Service) finishOnce(ctx context.Context, id string, due time.Time, d chat.Draft, seen *sight) error {
	defer s.lock(id)()
	j, ok := s.find(id)
	// This also holds for a retry of finish after the posts were stored and only settled has failed: nothing is posted
	// again.
	if !ok || j.isDone(due) || j.IsOnce() && !j.At.Equal(due) {
		return nil
	}
	posts := j.buildPosts(due, d, s.o.Now())
	var next *Job
	switch done := j.withDone(due); {
	// A job that has reached its end, such as "until friday", is removed like a one-time job.
	case !j.IsOnce() && !j.plan.HasEnded(due):
		if next = &done; seen != nil {
			next.Seen = seen
		}
	// The delivery of a webhook must be known for as long as it may come again, and at any time before that.
	case j.Hook != "":
		if err := s.saveDelivery(ctx, id, nil); err != nil {
			return err
		}
	}
	err := s.replace(ctx, j, next, posts)
	if errors.Is(err, errChanged) {
		// Another process has changed it just now: what the job is by then decides whether this due time still counts.
		return errors.Join(err, s.Load(ctx))
	}
	if err != nil {
		return err
	}
	s.o.Delivery.Deliver(posts)
	return nil
}

// buildPosts returns the posts of a job for a due time, one a place.
func (j Job) buildPosts(due time.Time, d chat.Draft, now time.Time) []store.Post {
	var posts []store.Post
	// A look that found nothing new is done without a post.
	if d.Text == "" && j.Watch != nil {
		return nil
	}
	for _, to := range j.places() {
		if d.Owner = ""; to.Platform == j.On {
			d.Owner = j.By.ID
		}
		d.Key = fmt.Sprintf("job/%s/%s/%s", j.ID, due.UTC().Format(time.RFC3339Nano), to)
		posts = append(posts, store.Post{Key: d.Key, To: to, Draft: d, At: now})
	}
	return posts
}

// formatDue returns a due time for readers, in the job's zone.
func (j stored) formatDue(due time.Time) string {
	return due.In(j.plan.Zone()).Format("Mon 2 Jan 2006 15:04 MST")
}

// hold returns how long a job that is due waits for the end of quiet hours.
func (s *Service) hold(id string) time.Duration {
	j, ok := s.find(id)
	// Quiet hours are for what repeats: a time that somebody named stands (docs/jobs.md).
	if !ok || j.IsOnce() {
		return 0
	}
	now := s.o.Now()
	return s.quietHours().end(now.In(j.plan.Zone())).Sub(now)
}

// isLate reports whether a run is so late that its post mentions it. Quiet hours do not count, because their author
// expects the delay.
func (s *Service) isLate(j stored, begun, due time.Time) bool {
	if !j.IsOnce() {
		due = s.quietHours().end(due.In(j.plan.Zone()))
	}
	return begun.Sub(due) > lateAfter
}

// quietHours returns the quiet hours of the configuration in effect.
func (s *Service) quietHours() QuietHours {
	quiet, err := ParseQuietHours(s.o.Config().Jobs.QuietHours)
	if err != nil {
		s.o.Log.Error("failed to read quiet hours; there are none", "error", err) // checked when it was read
	}
	return quiet
}
