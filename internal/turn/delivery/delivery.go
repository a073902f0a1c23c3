// Package delivery brings messages to the agent and posts to the platforms. It promises:
//   - A message is on disk before its platform gets the acknowledgement.
//   - A message that is delivered several times is handled once.
//   - The messages of one conversation are answered in order, and conversations in parallel. Waiting messages are
//     answered together.
//   - Edits, deletions and stops reach the affected work.
//   - A post is stored before it is sent, and its outcome afterwards.
//   - Run resumes the work that a crash interrupted, and Take the work of other processes.
//   - An undelivered post is reported in its place.
//
// The agent decides the contents of an answer, and the adapter its form.
//
// Accept stores a message, and route puts it into the queue of its conversation (queue.go). If the conversation is
// idle, the context of a question is read while the question is being stored (unstored.go). One goroutine works on a
// queue while it has jobs: questions to answer and posts to send, in one order. A question waits for a slot
// (slots.go), takes in the messages that arrived since (question.go), shows progress (live.go), and ends with one
// transaction that holds its turn and its post (answer.go). Posts are retried until they succeed, are refused
// permanently or are too old (send.go). Their outcomes are stored in batches. A start and a takeover both read the
// open work from the store (resume.go). Service.mu guards all queues and questions and is never held during slow
// operations.
package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/workers"
	"ravenbot/internal/store"
	"ravenbot/internal/testing/failpoint"
)

// Inbox keeps messages until they have an outcome.
type Inbox interface {
	// ConversationOf returns the conversation of a message that waits or was answered, or
	// false.
	ConversationOf(ctx context.Context, subject string) (chat.Address, bool, error)
	// TurnsQuoting returns the locations of the turns that quoted a message.
	TurnsQuoting(ctx context.Context, subject string) ([]store.TurnRef, error)
	// Accept stores a message. It returns false if the message was accepted before.
	Accept(ctx context.Context, r store.Received) (bool, error)
	// Unanswered returns the messages without an outcome, oldest first.
	Unanswered(ctx context.Context) ([]store.Received, error)
	// SaveAnswer stores the turn, which may be nil, and the posts that answer messages, named by
	// their keys, in one transaction. Without posts the messages are done.
	SaveAnswer(
		ctx context.Context,
		to chat.Address,
		messages []string,
		turn *conversation.Turn,
		posts []store.Post,
	) error
}

// Outbox keeps posts until they have an outcome, and deletes old ones.
type Outbox interface {
	// PostRef returns where a post of the last days is, or false.
	PostRef(ctx context.Context, key string) (chat.Ref, bool, error)
	// SaveStream stores where an answer has begun to be shown, until its post has an outcome.
	// Stream returns it.
	SaveStream(ctx context.Context, key string, ref chat.Ref) error
	Stream(ctx context.Context, key string) (chat.Ref, bool, error)
	// Unnotified returns the posts that were given up and whose places were not told; MarkNotified
	// records that they were.
	Unnotified(ctx context.Context) ([]store.Post, error)
	MarkNotified(ctx context.Context, keys []string) error
	// SavePosts stores posts and sets their Seq, to 0 for those whose key was stored before.
	SavePosts(ctx context.Context, posts []store.Post) error
	// PendingPosts returns the posts without an outcome, oldest first; SaveOutcomes stores
	// outcomes, and marks the messages as done that these posts answer.
	PendingPosts(ctx context.Context) ([]store.Post, error)
	SaveOutcomes(ctx context.Context, outcomes []store.Outcome, patience time.Duration) error
}

// Reactions keeps the feedback that reactions to posts are.
type Reactions interface {
	// ShownTurn returns the data of a message of the bot, by the message's id and channel, or false.
	ShownTurn(ctx context.Context, in chat.Address, id string) (store.ShownTurn, bool, error)
	// SaveReaction applies a reaction to the feedback of its user. A repeat changes nothing.
	SaveReaction(ctx context.Context, r store.Reaction) error
}

// Store is the inbox and the outbox, which one transaction may change together, and the
// feedback on posts.
type Store interface {
	Inbox
	Outbox
	Reactions
	// Owned returns why nothing may be sent: another process has taken over the store. nil: all may.
	Owned() error
	// IsShared reports whether that can happen.
	IsShared() bool
}

// Answerer makes answers.
type Answerer interface {
	// Answer answers one or several messages. It may call show, from one goroutine at a time, with the progress of the
	// work. The turn is nil if there is nothing to store, and the draft is nil if there is nothing to post. If a
	// message is revised during the work, both are ignored and Answer is called again. If ctx ends, both are ignored,
	// unless its cause is chat.ErrStopped: the draft then reports the stop.
	Answer(ctx context.Context, q chat.Asked, show func(chat.Progress)) (*conversation.Turn, *chat.Draft)
	// Purge removes the data of a deleted message.
	Purge(ctx context.Context, subject string) error
}

// Replicas are the processes that share a store. The process that has claimed the channel of a message answers it.
type Replicas interface {
	// Accept stores a message as Inbox.Accept does. isMine is false if another process answers it, or this one after
	// messages that it has yet to take.
	Accept(ctx context.Context, r store.Received) (isNew, isMine bool, err error)
	// Has reports whether this process is known to have claimed a channel.
	Has(channel chat.Address) bool
	// IsHeard reports whether a message of a conversation was accepted lately, by any process.
	IsHeard(ctx context.Context, conversation chat.Address) bool
	// FreePost makes a post wait for a process that takes it.
	FreePost(ctx context.Context, p store.Post) error
}

// Options are what a Service needs.
type Options struct {
	Store    Store
	Replicas Replicas // nil: this process has the store alone
	Answerer Answerer
	// Platform returns the present platform of a name, or nil.
	Platform func(name string) chat.Platform
	// Admit reports whether a message is for the bot. Other messages are dropped before they are stored. active is
	// true if the message's conversation has queued or running work. The author of a refused message gets the reason,
	// if there is one.
	Admit func(ctx context.Context, m chat.Message, active bool) (ok bool, reason string)
	// Urgent reports whether a message must not wait behind the work under way, such as the decision that this work
	// waits for. If it is nil, no message is urgent.
	Urgent func(m chat.Message) bool
	Log    *slog.Logger
	// Now is the clock for stored times and for limits. Waits use the real clock.
	Now func() time.Time
	// MaxTurns limits the concurrent answers (0 means 256), and MaxBacklog the unanswered messages (0 means 10,000).
	// Limits divides them among users and channels.
	MaxTurns, MaxBacklog int
	Limits               Limits
	// Grace is how long Run lets answers finish when its context ends.
	Grace time.Duration
}

// Service accepts messages, answers them in the queues of their conversations, and sends
// posts. It is safe for concurrent use.
type Service struct {
	o      Options
	slots  *workerSlots
	ready  chan struct{} // closed when Run has queued what an earlier process left
	ending chan struct{} // closed when Run's context has ended

	// mu guards the fields up to closed, the queues in it and their questions. It is never held during calls of the
	// store or a platform.
	mu          sync.Mutex
	queues      map[chat.Address]*queue
	questions   map[string]*question // waiting or being answered, by the subjects of their messages
	urgent      []*question          // urgent questions that wait until recovery is over
	limiter     limiter
	undelivered []store.Post         // given up, and their places are not told yet
	queued      int                  // jobs in all queues
	recovering  bool                 // the queued jobs belong to another process
	resumed     map[string]time.Time // when posts and messages that another process left were resumed, by key
	closed      bool
	workCtx     context.Context // ends when answers under way have to stop
	wg          workers.Group

	// taking is locked while messages and posts are taken, and read-locked while a message is stored and queued, so that
	// messages are queued in the order in which they are stored.
	taking   sync.RWMutex
	outcomes chan outcomeEvent
	counts   counts
}

// New returns a Service that begins to work when Run is called. Accept, Send and Interject wait for
// that. Store, Answerer, Platform, Admit, Log and Now must be set.
func New(o Options) *Service {
	if o.MaxTurns == 0 {
		o.MaxTurns = 256
	}
	if o.MaxBacklog == 0 {
		o.MaxBacklog = 10_000
	}
	c := newLimiter(o.Limits, o.MaxTurns, o.MaxBacklog)
	return &Service{
		o:         o,
		limiter:   c,
		slots:     newWorkerSlots(o.MaxTurns, c.MaxTurnsPerChannel),
		ready:     make(chan struct{}),
		ending:    make(chan struct{}),
		queues:    map[chat.Address]*queue{},
		questions: map[string]*question{},
		resumed:   map[string]time.Time{},
		outcomes:  make(chan outcomeEvent, o.MaxTurns),
	}
}

// Run resumes the posts and messages that an earlier process left, and works until ctx
// ends. Then it waits for the work under way, at most for Options.Grace, and for the outcomes of the last posts to be
// stored, at most for storeLastFor. It may be called once. The error is that of reading what was
// left; the service accepts nothing then.
func (s *Service) Run(ctx context.Context) error {
	// Work outlives ctx by the grace period, so its context is a separate one.
	turns, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	s.workCtx = turns
	recorded := make(chan struct{})
	// The outcomes of the last posts are stored after all work has ended, so this goroutine ends last. The channel is
	// never closed: what goes on when the bot ends, such as a request over HTTP, may still post.
	recording, endRecording := context.WithCancel(context.WithoutCancel(ctx))
	go func() { s.storeOutcomes(recording); close(recorded) }()
	defer func() {
		last, cancel := context.WithTimeout(recording, storeLastFor)
		s.flushOutcomes(last)
		cancel()
		endRecording()
		<-recorded
	}()
	if err := s.resumeWork(ctx); err != nil {
		return fmt.Errorf("take up what was left: %w", err)
	}
	close(s.ready)
	s.runPeriodic(ctx)
	s.stopAccepting()
	idle := make(chan struct{})
	go func() { s.wg.Wait(); close(idle) }()
	select {
	case <-idle:
	case <-time.After(s.o.Grace):
		stop()
		<-idle
	}
	return nil
}

// runPeriodic retries notices of undelivered posts, until ctx ends.
func (s *Service) runPeriodic(ctx context.Context) {
	// Places that nobody writes in have no other moment at which a notice could be tried.
	tell := time.Tick(notifyEvery)
	for ctx.Err() == nil {
		select {
		case <-tell:
			s.wg.Go(func() { s.notifyUndelivered(s.workCtx, func(store.Post) bool { return true }) })
		case <-ctx.Done():
		}
	}
}

// stopAccepting has jobs that come from now on left to the next start, and ends the waits between
// attempts to post.
func (s *Service) stopAccepting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	close(s.ending)
}

// hasRoom reports whether the limits allow a message now. Repeats are always let through:
// they are recognized later and cost nothing.
func (s *Service) hasRoom(m chat.Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.questions[m.Subject()] != nil {
		return true // a repeat
	}
	return s.limiter.allow(m, len(s.questions), s.o.Now())
}

// Accept stores a message and queues it. A reaction is stored as feedback. A nil error means that the message is on
// disk, is a repeat, or is not for the bot, and the platform can get the acknowledgement. Accept returns a
// *chat.BusyError if too many messages wait, in total or of the message's user or channel, and otherwise the error of
// the store or of ctx. After an error the platform should deliver the message again.
func (s *Service) Accept(ctx context.Context, m chat.Message) error {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	// A reaction gets no answer, so the limits below do not apply.
	if m.Reaction != nil {
		return s.saveReaction(ctx, m)
	}
	if m.Change != "" {
		if ok, err := s.resolveChange(ctx, &m); err != nil || !ok {
			return err
		}
	}
	if m.Change == "" {
		if ok, reason := s.o.Admit(ctx, m, s.isActive(ctx, m)); !ok {
			if reason != "" {
				s.postRefusal(ctx, m, reason)
			}
			return nil
		}
	}
	// A busy bot accepts changes and stops, because they reduce the work. hasRoom comes after Admit, because it takes
	// a token of the author, and messages for others must not cost tokens.
	if m.Change == "" && !m.Stops() && !s.hasRoom(m) {
		s.counts.busy.Add(1)
		return &chat.BusyError{Keep: func(ctx context.Context) (func(context.Context) error, error) {
			return s.keepRefused(ctx, m)
		}}
	}
	failpoint.Here(failpoint.Received)
	s.taking.RLock()
	defer s.taking.RUnlock()
	unstored := s.beginUnstored(m)
	// Store the message before any work and before the acknowledgement, so that it always has an outcome.
	isNew, isMine, err := s.store(ctx, m)
	if isNew && err == nil {
		failpoint.Here(failpoint.Stored)
		s.counts.accepted.Add(1)
	} else if err == nil {
		s.counts.repeats.Add(1)
	}
	isMine = isMine && isNew && err == nil
	switch {
	case unstored != nil && isMine:
		close(unstored.stored)
	case unstored != nil:
		s.withdraw(unstored)
	case isMine:
		s.route(m)
	}
	return err
}

// store stores a message; isMine reports whether this process answers it.
func (s *Service) store(ctx context.Context, m chat.Message) (isNew, isMine bool, err error) {
	r := store.Received{Message: m, At: s.o.Now()}
	if s.o.Replicas != nil {
		return s.o.Replicas.Accept(ctx, r)
	}
	isNew, err = s.o.Store.Accept(ctx, r)
	return isNew, true, err
}

// isActive reports whether the bot is working in the conversation of a message, in any process.
func (s *Service) isActive(ctx context.Context, m chat.Message) bool {
	return s.Working(m.Conversation) || s.o.Replicas != nil && m.Reach == chat.Followed &&
		!s.o.Replicas.Has(m.Conversation) && s.o.Replicas.IsHeard(ctx, m.Conversation)
}

// keepRefused stores a message that was refused and does not queue it, so that the next start answers it. It returns the
// function that marks the message as done, or nil if the message was stored before.
func (s *Service) keepRefused(ctx context.Context, m chat.Message) (done func(context.Context) error, err error) {
	isNew, err := s.o.Store.Accept(ctx, store.Received{Message: m, At: s.o.Now()})
	if err != nil || !isNew {
		return nil, err
	}
	s.o.Log.Debug("message refused, too many wait", "message", m.Key())
	return func(ctx context.Context) error {
		return s.o.Store.SaveAnswer(ctx, m.Conversation, []string{m.Key()}, nil, nil)
	}, nil
}

// maxQuestionAge is how old a message may be that becomes a question by an edit: nobody expects an
// answer to an older one.
const maxQuestionAge = 15 * time.Minute

// resolveChange prepares an edit or deletion for Accept. It returns false if the change concerns nothing. It sets the
// conversation of the changed message, and turns an edit that asks something into a question.
func (s *Service) resolveChange(ctx context.Context, m *chat.Message) (bool, error) {
	at, known, err := s.o.Store.ConversationOf(ctx, m.Subject())
	switch {
	case err != nil:
		return false, err
	case known:
		// A change belongs to the conversation of the original message. The platform may omit the thread.
		m.Conversation = at
		return true, nil
	case m.Kind() == chat.EventEdit && m.Reach == chat.Addressed && s.o.Now().Sub(m.Time) < maxQuestionAge:
		// People forget the mention and edit it in, which makes the message a question. It keeps its Revision, so that
		// an older edit that arrives later changes nothing. An answered message without a turn is no question either:
		// the store knows its key.
		m.Change = ""
		return true, nil
	case m.Kind() == chat.EventDelete:
		// The changed message asked nothing, but it may be quoted in a question.
		quoting, err := s.o.Store.TurnsQuoting(ctx, m.Subject())
		if err != nil || len(quoting) == 0 {
			return false, err
		}
		m.Conversation = quoting[0].Conversation
		return true, nil
	}
	return false, nil
}

// postRefusal tells the author of a message why it was refused. A failure is only logged:
// the message was not accepted, so no answer was promised.
func (s *Service) postRefusal(ctx context.Context, m chat.Message, reason string) {
	d := chat.Draft{Key: m.Key() + "/refused", Reply: m.Reply, Ephemeral: true, Failed: true, Text: reason}
	if err := s.Interject(ctx, m.Conversation, d, ""); err != nil {
		s.o.Log.Error("failed to post a refusal", "message", m.Key(), "error", err)
	}
}

// Interject stores a post and sends it at once, past the queue of its conversation. With replaces
// it replaces the post with that key. A post whose key was stored before is skipped, unless it
// takes the place of another one. It returns when the post is stored, without waiting for its
// outcome.
func (s *Service) Interject(ctx context.Context, to chat.Address, d chat.Draft, replaces string) error {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	posts := []store.Post{{Key: d.Key, To: to, Draft: d, Replaces: replaces, At: s.o.Now()}}
	p := &posts[0] // SavePosts sets its Seq
	if replaces != "" {
		p.Draft.Replaces = s.lookUpRef(replaces)
	}
	if err := s.o.Store.SavePosts(ctx, posts); err != nil {
		return err
	}
	// A repeat in the place of a post changes nothing there, or brings back what an older edit has covered: polls rely on
	// that. Without a place it would be a second post.
	if p.Seq == 0 && len(p.Draft.Replaces.IDs) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed { // else the next start sends it: it is stored
		s.wg.Go(func() { s.send(*p, nil) })
	}
	return nil
}

// Send stores a post and queues it. A post whose key was stored before is skipped. It returns when
// the post is stored; from then on the post has an outcome, whatever happens to the process.
func (s *Service) Send(ctx context.Context, to chat.Address, d chat.Draft) error {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	posts := []store.Post{{Key: d.Key, To: to, Draft: d, At: s.o.Now()}}
	if err := s.o.Store.SavePosts(ctx, posts); err != nil {
		return err
	}
	s.Deliver(posts)
	return nil
}

// Ready returns a channel that is closed when Run has queued what an earlier process left.
// A post that is stored before that is queued by Run, and must not be passed to Deliver.
func (s *Service) Ready() <-chan struct{} { return s.ready }

// Deliver queues posts that were stored after Ready. It skips posts without a Seq, which were stored before. The
// returned function waits for the outcomes of the posts. If ctx ends, it returns the known outcomes.
func (s *Service) Deliver(posts []store.Post) func(ctx context.Context) []store.Outcome {
	results := make(chan store.Outcome, len(posts)) // senders never block, even if nobody waits
	queued := 0
	for _, p := range posts {
		if p.Seq != 0 {
			queued++
			s.enqueue(p.To, job{post: &p, result: results})
		}
	}
	return func(ctx context.Context) []store.Outcome {
		var all []store.Outcome
		for len(all) < queued {
			select {
			case o := <-results:
				all = append(all, o)
			case <-ctx.Done():
				return all
			}
		}
		return all
	}
}

// Working reports whether anything is queued or under way in a conversation.
func (s *Service) Working(a chat.Address) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queues[a] != nil
}

// Load is how much work there is.
type Load struct {
	Conversations int `json:"conversations"` // with work queued or under way
	Waiting       int `json:"waiting"`       // messages and posts queued
}

// Load returns the present load.
func (s *Service) Load() Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Load{Conversations: len(s.queues), Waiting: s.queued}
}

// errStopped is returned for work that is cut off because the service ends.
var errStopped = errors.New("stopped")
