// Package delivery brings messages to the agent and posts to the platforms. It
// promises that a message is safe on disk before its platform is told so, that
// the same message is taken once however often it comes, that one conversation's
// messages are answered in order while conversations go on in parallel, that what
// waits meanwhile is answered together, that an edit, a deletion and a stop reach
// the work they are about, and that every post is recorded before it is sent and
// again when the platform has named it; what a crash cut off is taken up again by
// Run, and what could not be posted is told where it was to be. What an answer says
// is the agent's business, how it looks the adapter's.
package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/failpoint"
	"ravenbot/internal/store"
)

// Inbox keeps messages until they have an outcome.
type Inbox interface {
	// ConversationOf gives the conversation of a message that waits or was answered.
	ConversationOf(ctx context.Context, subject string) (chat.Address, bool, error)
	Accept(ctx context.Context, r store.Received) (bool, error)
	Unanswered(ctx context.Context) ([]store.Received, error)
	SaveAnswer(ctx context.Context, to chat.Address, messages []string, turn *conversation.Turn, posts []store.Post) error
}

// Outbox keeps posts until they have an outcome, and forgets old ones.
type Outbox interface {
	// PostRef says where a post of not long ago is.
	PostRef(ctx context.Context, key string) (chat.Ref, bool, error)
	// SaveStream keeps where an answer has begun to be shown, until its post is made;
	// Stream gives it back.
	SaveStream(ctx context.Context, key string, ref chat.Ref) error
	Stream(ctx context.Context, key string) (chat.Ref, bool, error)
	Undelivered(ctx context.Context) ([]store.Post, error)
	MarkNotified(ctx context.Context, keys []string) error
	SavePosts(ctx context.Context, posts []store.Post) error
	PendingPosts(ctx context.Context) ([]store.Post, error)
	SaveOutcomes(ctx context.Context, outcomes []store.Outcome) error
	Prune(ctx context.Context) error
}

// Reactions keeps what people think of posts.
type Reactions interface {
	// ShownTurn gives the turn that a message of the bot shows, by its id and the channel
	// that it is in; false: none is known of.
	ShownTurn(ctx context.Context, in chat.Address, id string) (store.ShownTurn, bool, error)
	SaveReaction(ctx context.Context, r store.Reaction) error
}

// Store is both boxes, of which one transaction may touch both, and the words on what
// was posted.
type Store interface {
	Inbox
	Outbox
	Reactions
}

// Answerer makes answers.
type Answerer interface {
	// Answer answers a message, or several at once. show may be called, from one
	// goroutine at a time, with views of the work under way. The turn is nil where
	// nothing is to be remembered, the draft where nothing is to be said. Both are
	// ignored when what was asked is revised, and Answer is called again; and when ctx
	// ends, unless with chat.ErrStopped as its cause: then the answer says so.
	Answer(ctx context.Context, q chat.Asked, show func(chat.Progress)) (*conversation.Turn, *chat.Draft)
	// Purge removes what is remembered of a message that was deleted.
	Purge(ctx context.Context, subject string) error
}

// Options are what a Service needs.
type Options struct {
	Store    Store
	Answerer Answerer
	// Platform gives the platform of a name, as it is now; nil: there is none.
	Platform func(name string) chat.Platform
	// Admit reports whether a message is for the bot; other messages are dropped before
	// they are stored. active says that something is queued or under way in the message's
	// conversation. A reason is told to the author of a message that is refused.
	Admit func(ctx context.Context, m chat.Message, active bool) (ok bool, reason string)
	// Urgent reports that a message is about work under way, such as a decision that it
	// waits for, and must not wait behind it; nil: none is.
	Urgent func(m chat.Message) bool
	Log    *slog.Logger
	Now    func() time.Time
	// MaxTurns bounds the answers worked on at a time, Backlog the messages that are
	// not answered yet; 0 is 256 and 10,000. Crowd says how they are shared.
	MaxTurns, MaxBacklog int
	Limits               Limits
	// Grace is how long Run lets answers finish when it is told to end.
	Grace time.Duration
}

// Among gives platforms that stay as they are.
func Among(all map[string]chat.Platform) func(string) chat.Platform {
	return func(name string) chat.Platform { return all[name] }
}

// Service is the inbox, the lanes and the outbox at work.
type Service struct {
	o      Options
	slots  *workerSlots
	ready  chan struct{} // closed when Run has taken up what was left
	ending chan struct{} // closed when Run is told to end

	mu          sync.Mutex
	queues      map[chat.Address]*queue
	questions   map[string]*question // the questions that wait or are being answered, by their messages
	urgent      []*question          // to be answered when the lanes begin
	limiter     limiter
	undelivered []store.Post // given up, and not known yet where they were to be
	queued      int
	recovering  bool // lanes do not begin to work yet
	closed      bool
	working     context.Context // ends when answers under way are to stop
	wg          sync.WaitGroup

	outcomes chan outcomeEvent
	counts   counts
}

// New returns a Service that begins to work with Run.
func New(o Options) *Service {
	if o.MaxTurns == 0 {
		o.MaxTurns = 256
	}
	if o.MaxBacklog == 0 {
		o.MaxBacklog = 10_000
	}
	c := newLimiter(o.Limits, o.MaxTurns, o.MaxBacklog)
	return &Service{o: o, limiter: c, slots: newWorkerSlots(o.MaxTurns, c.MaxTurnsPerChannel), ready: make(chan struct{}), ending: make(chan struct{}),
		queues: map[chat.Address]*queue{}, questions: map[string]*question{}, outcomes: make(chan outcomeEvent, o.MaxTurns)}
}

// Run takes up the posts and messages that an earlier process left, then works
// until ctx ends and what is under way has finished or Grace is over.
func (s *Service) Run(ctx context.Context) error {
	turns, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	s.working = turns
	recorded := make(chan struct{})
	go func() { s.storeOutcomes(context.WithoutCancel(ctx)); close(recorded) }()
	defer func() { close(s.outcomes); <-recorded }()
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

// runPeriodic does what is due from time to time, until ctx ends.
func (s *Service) runPeriodic(ctx context.Context) {
	prune, tell := time.NewTicker(time.Hour), time.NewTicker(notifyEvery)
	defer prune.Stop()
	defer tell.Stop()
	for ctx.Err() == nil {
		select {
		case <-prune.C:
			if err := s.o.Store.Prune(ctx); err != nil {
				s.o.Log.Error("old records not pruned", "error", err)
			}
		case <-tell.C:
			s.wg.Go(func() { s.notifyUndelivered(s.working, func(store.Post) bool { return true }) })
		case <-ctx.Done():
		}
	}
}

func (s *Service) stopAccepting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	close(s.ending)
}

// resumeWork queues what has no outcome: first posts, then the messages that have
// no post yet. Lanes begin when all is queued, so that messages which were answered
// together are answered together again.
func (s *Service) resumeWork(ctx context.Context) error {
	posts, err := s.o.Store.PendingPosts(ctx)
	if err != nil {
		return err
	}
	messages, err := s.o.Store.Unanswered(ctx)
	if err != nil {
		return err
	}
	if s.undelivered, err = s.loadUndelivered(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	s.recovering = true
	s.mu.Unlock()
	answered := map[string]bool{}
	for _, p := range posts {
		for _, key := range p.Messages() {
			answered[key] = true
		}
		p.Draft.Again = true
		s.enqueue(p.To, job{post: &p})
	}
	for _, r := range messages {
		if !answered[r.Message.Key()] {
			s.route(r.Message)
		}
	}
	s.startQueues()
	if len(posts)+len(messages) > 0 {
		s.o.Log.Info("work left by the last run taken up", "posts", len(posts), "messages", len(messages))
	}
	return nil
}

// hasRoom tells whether a message can be taken now.
func (s *Service) hasRoom(m chat.Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.questions[m.Subject()] != nil {
		return true // it came again
	}
	return s.limiter.allow(m, len(s.questions), s.o.Now())
}

// Accept stores a message and queues it; of a reaction it stores the word. A nil error means that it is safe on
// disk, was so before, or is none of the bot's business. chat.ErrBusy means that
// too much is waiting, of all or of its user or channel.
func (s *Service) Accept(ctx context.Context, m chat.Message) error {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	if m.Reaction != nil {
		return s.saveReaction(ctx, m)
	}
	if m.Change != "" {
		at, known, err := s.o.Store.ConversationOf(ctx, m.Subject())
		if err != nil || !known {
			return err
		}
		m.Conversation = at
	} else if ok, reason := s.o.Admit(ctx, m, s.Working(m.Conversation)); !ok {
		if reason != "" {
			s.postRefusal(ctx, m, reason)
		}
		return nil
	}
	if m.Change == "" && !m.Stops() && !s.hasRoom(m) {
		s.counts.busy.Add(1)
		return chat.ErrBusy
	}
	failpoint.Here(failpoint.Received)
	isNew, err := s.o.Store.Accept(ctx, store.Received{Message: m, At: s.o.Now()})
	if err != nil {
		return err
	}
	if !isNew {
		s.counts.repeats.Add(1)
		return nil
	}
	failpoint.Here(failpoint.Stored)
	s.counts.accepted.Add(1)
	s.route(m)
	return nil
}

// postRefusal tells the author of a message why it is not carried out. A failure is logged and
// nothing more: the message was not accepted, so that nothing is owed.
func (s *Service) postRefusal(ctx context.Context, m chat.Message, reason string) {
	d := chat.Draft{Key: m.Key() + "/refused", Reply: m.Reply, Ephemeral: true, Failed: true, Text: reason}
	if err := s.Interject(ctx, m.Conversation, d, ""); err != nil {
		s.o.Log.Error("refusal not posted", "message", m.Key(), "error", err)
	}
}

// Interject records a post and sends it at once, past what waits in its
// conversation. With replaces it takes the place of the post that has this key.
func (s *Service) Interject(ctx context.Context, to chat.Address, d chat.Draft, replaces string) error {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	p := store.Post{Key: d.Key, To: to, Draft: d, Replaces: replaces, At: s.o.Now()}
	if replaces != "" {
		p.Draft.Replaces = s.lookUpRef(replaces)
	}
	if err := s.o.Store.SavePosts(ctx, []store.Post{p}); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed { // else the store has it for the next start
		s.wg.Go(func() { s.send(p, nil) })
	}
	return nil
}

// Send records a post and queues it. A post with a key that was sent before is
// left out.
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

// Ready is closed when Run has taken up what was left. A post that is recorded
// before is taken up by Run, and must not be given to Deliver too.
func (s *Service) Ready() <-chan struct{} { return s.ready }

// Deliver queues posts that have been recorded since Ready; those without a Seq
// were known before and are left out. The function that it returns waits for what becomes of
// them, and gives the outcomes there are when ctx ends.
func (s *Service) Deliver(posts []store.Post) func(ctx context.Context) []store.Outcome {
	results := make(chan store.Outcome, len(posts))
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

// Load says how much is under way.
type Load struct {
	Conversations int `json:"conversations"` // with work queued or under way
	Waiting       int `json:"waiting"`       // messages and posts queued
}

// Load gives the present load.
func (s *Service) Load() Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Load{Conversations: len(s.queues), Waiting: s.queued}
}

// errStopped ends a lane's work when the service is told to end.
var errStopped = errors.New("stopped")
