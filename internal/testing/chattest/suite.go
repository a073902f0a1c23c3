package chattest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
)

// World is one platform with a simulated service behind it: a channel, and one person in it.
// What a platform has no means for is nil, and the cases that need it are skipped.
type World struct {
	Platform chat.Platform // not running yet
	Channel  chat.Address  // a place that several people read
	Private  chat.Address  // a place that the person and the bot alone read; zero: there is none

	// Say says a text to the bot, with files, and returns the message's name for Edit and
	// Delete. Where a platform asks accept on the spot it returns the error.
	Say    func(at chat.Address, text string, files ...chat.File) (string, error)
	Edit   func(at chat.Address, message, text string)
	Delete func(at chat.Address, message string)
	// Overhear says a text that is not for the bot in the place, as another person. nil: whatever is
	// said there is for the bot.
	Overhear func(at chat.Address, text string) (message string)
	// Reply says a text to the bot as a reply to a message of another person. nil: there are no such
	// replies.
	Reply func(at chat.Address, to, text string)
	// Name is what the person is called.
	Name string
	// Hides is set where the service does not show to the bot what is not for it.
	Hides bool
	// Press presses the button with a value below a post.
	Press func(at chat.Address, post, value string)
	// Use has the person use the command of MessageCommands on a message.
	Use func(at chat.Address, message string)
	// Shown returns what the bot's posts in a place say now, oldest first, with those that
	// only the person sees.
	Shown func(at chat.Address) []string
	// Concurrent is set where the service does not wait for one message to be acknowledged
	// before it brings the next, and may bring them in any order.
	Concurrent bool
	// Repeats is set where everything that is said is delivered more than once.
	Repeats bool
	// IsAcknowledged reports whether the platform was told that a message was taken.
	IsAcknowledged func(message string) bool
	// LoseAnswer lets the next post be taken by the service and its answer be lost.
	LoseAnswer func()
	// Delay has the service carry out the next edit of a post after a while, also if the caller gives up meanwhile. It
	// returns functions that wait until the edit has come, and until it is carried out. nil: an edit is done at once.
	Delay func() (come, done func())
	// Cut ends the connection and lets none be made until end is called.
	Cut func() (end func())
	// MaxText is how many characters a test may post so that nothing becomes a file.
	MaxText int
}

// within bounds everything that is waited for.
const within = 30 * time.Second

// Run checks what chat.Platform and its optional abilities promise. Open makes a new world for
// each case; it registers with t whatever has to be cleaned up.
func Run(t *testing.T, open func(t *testing.T) *World) {
	for name, check := range map[string]func(*testing.T, *stage){
		"Run_HandsOverInOrder":                  handsOverInOrder,
		"Run_AcknowledgesAfterAccept":           acknowledgesAfterAccept,
		"Run_RefusedMessage_PersonIsTold":       tellsWhoWasRefused,
		"Run_RepeatedDelivery_KeepsTheID":       repeatedDeliveryKeepsID,
		"Run_EditAndDeletion_NameTheirSubject":  changesNameTheirSubject,
		"Run_Direct_IsTrueInPrivateAlone":       marksDirect,
		"Run_Press_CarriesValueAndPost":         pressCarriesValueAndPost,
		"Run_MessageCommand_CarriesItsTarget":   messageCommandCarriesItsTarget,
		"Fetch_KeepsToTheLimit":                 fetchKeepsToLimit,
		"Post_ReturnsRef":                       postReturnsRef,
		"Post_SameKeyAfterUnknownOutcome_Once":  repeatAfterUnknownOutcome,
		"Post_PermissionGone_SendsNothing":      sendsNothingWithoutPermission,
		"Post_Replaces_EditsInPlace":            replacesInPlace,
		"Post_EditSuperseded_WholeAnswerStays":  wholeAnswerStays,
		"Post_LongText_LosesNothing":            splitsLongText,
		"Post_WrongPlace_IsPermanent":           wrongPlaceIsPermanent,
		"Thread_GoesBelowThePost":               threadGoesBelow,
		"Context_NamesAuthorAndPlace":           contextNamesAuthor,
		"Context_RecentInOrder":                 contextRecentInOrder,
		"Context_QuotesTheReply":                contextQuotesReply,
		"Context_EndsWithItsContext":            contextEnds,
		"Health_IsTrueBeforeDuringAndAfterward": healthIsTrue,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, newStage(t, open(t)))
		})
	}
}

// stage runs a platform and keeps what it hands over.
type stage struct {
	*World
	stop func()

	mu      sync.Mutex
	got     []chat.Message
	answer  func(chat.Message) error // of accept; nil: all is taken
	changed chan struct{}            // closed and replaced with each message
}

// newStage returns a stage on which no platform runs yet.
func newStage(t *testing.T, w *World) *stage {
	return &stage{World: w, changed: make(chan struct{}), stop: func() {}}
}

// start runs the platform until the test ends or stop is called, and waits for its connection.
func (s *stage) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Platform.Run(ctx, s.accept) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("Run ended with %v", err)
			}
		case <-time.After(within):
			t.Error("Run does not end with its context")
		}
	})
	t.Cleanup(s.stop)
	await(t, "the connection", func() bool { return s.health().Connected })
}

// health returns what the platform says of itself.
func (s *stage) health() chat.Health { return s.Platform.(chat.Reporter).Health() }

// accept takes a message of the platform as the bot does, unless answerWith has it refused.
func (s *stage) accept(_ context.Context, m chat.Message) error {
	s.mu.Lock()
	answer := s.answer
	s.mu.Unlock()
	if answer != nil {
		if err := answer(m); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, m)
	close(s.changed)
	s.changed = make(chan struct{})
	return nil
}

// answerWith has later messages answered by a function, whose error the platform is told.
func (s *stage) answerWith(answer func(chat.Message) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// next waits for the first message that fits.
func (s *stage) next(t *testing.T, what string, fits func(chat.Message) bool) chat.Message {
	t.Helper()
	deadline := time.After(within)
	for {
		s.mu.Lock()
		i, changed := slices.IndexFunc(s.got, fits), s.changed
		var m chat.Message
		if i >= 0 {
			m = s.got[i]
		}
		got := s.got
		s.mu.Unlock()
		if i >= 0 {
			return m
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%s did not come; handed over: %+v", what, got)
		}
	}
}

// say has a person say something, and returns the id of the message.
func (s *stage) say(t *testing.T, at chat.Address, text string, files ...chat.File) string {
	t.Helper()
	id, err := s.Say(at, text, files...)
	if err != nil {
		t.Fatalf("say %q: %v", text, err)
	}
	return id
}

// post posts a draft in the channel, and fails the test where the platform refuses it.
func (s *stage) post(t *testing.T, d chat.Draft) chat.Ref {
	t.Helper()
	ref, err := s.Platform.Post(t.Context(), s.Channel, d)
	if err != nil {
		t.Fatalf("post %q: %v", d.Key, err)
	}
	return ref
}

// await polls: what is waited for happens in a simulated service, which tells nobody.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(within); !is(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// hasText returns a match for messages that say exactly this.
func hasText(text string) func(chat.Message) bool {
	return func(m chat.Message) bool { return m.Text == text && m.Kind() == chat.EventMessage }
}

// "Run connects and stays connected until ctx ends, handing every message in order to accept."
func handsOverInOrder(t *testing.T, s *stage) {
	s.start(t)
	const many = 30
	for n := range many {
		id := s.say(t, s.Channel, fmt.Sprintf("message %02d", n))
		if s.Concurrent {
			await(t, "the acknowledgement", func() bool { return s.IsAcknowledged(id) })
		}
	}
	s.next(t, "the last message", hasText(fmt.Sprintf("message %02d", many-1)))
	s.mu.Lock()
	defer s.mu.Unlock()
	var texts []string
	for _, m := range s.got {
		if !slices.Contains(texts, m.Text) {
			texts = append(texts, m.Text)
		}
		if m.ID == "" || m.Author.ID == "" || m.Time.IsZero() || m.Reach != chat.Addressed ||
			m.Conversation.Base() != s.Channel {
			t.Errorf("message %+v", m)
		}
	}
	if len(texts) != many || !slices.IsSorted(texts) {
		t.Errorf("handed over %q", texts)
	}
}

// "A nil return of accept means that the message is safe on disk, and only then may the
// platform be told so."
func acknowledgesAfterAccept(t *testing.T, s *stage) {
	if s.IsAcknowledged == nil {
		t.Skip("messages are not acknowledged")
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(entered) })
	s.answerWith(func(chat.Message) error { once(); <-leave; return nil })
	s.start(t)
	id := s.say(t, s.Channel, "keep this")
	<-entered
	if s.IsAcknowledged(id) {
		t.Error("the message was acknowledged before it was stored")
	}
	close(leave)
	await(t, "the acknowledgement", func() bool { return s.IsAcknowledged(id) })
}

// "ErrBusy is returned by accept when the bot cannot take more work now": whoever wrote is
// told, at once or by a note. "A platform that tells authors later keeps the message before it acknowledges it."
func tellsWhoWasRefused(t *testing.T, s *stage) {
	leave := make(chan struct{})
	var kept, told atomic.Int32
	refusal := &chat.BusyError{Keep: func(context.Context) (func(context.Context) error, error) {
		if kept.Add(1) > 1 {
			return nil, nil // the message was delivered twice
		}
		<-leave
		return func(context.Context) error { told.Add(1); return nil }, nil
	}}
	s.answerWith(func(chat.Message) error { return refusal })
	s.start(t)
	id, err := s.Say(s.Channel, "too much")
	if err != nil {
		if !errors.Is(err, chat.ErrBusy) || kept.Load() > 0 {
			t.Errorf("refused with %v, kept %d times", err, kept.Load())
		}
		return
	}
	await(t, "the message is kept", func() bool { return kept.Load() > 0 })
	if s.IsAcknowledged != nil && s.IsAcknowledged(id) {
		t.Error("a refused message was acknowledged before it was kept")
	}
	if told.Load() > 0 {
		t.Error("a refused message is done before its author was told")
	}
	close(leave)
	await(t, "a note that the bot is busy", func() bool {
		return slices.ContainsFunc(s.Shown(s.Channel), func(text string) bool { return strings.Contains(text, "try again") })
	})
	await(t, "the message is done", func() bool { return told.Load() == 1 })
}

// "Two deliveries with one ID, and one Revision, are one message."
func repeatedDeliveryKeepsID(t *testing.T, s *stage) {
	if !s.Repeats {
		t.Skip("nothing is delivered twice")
	}
	s.start(t)
	s.say(t, s.Channel, "said once")
	var keys []string
	await(t, "both deliveries", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		keys = nil
		for _, m := range s.got {
			keys = append(keys, m.Key())
		}
		return len(keys) >= 2
	})
	if len(slices.Compact(keys)) != 1 {
		t.Errorf("the deliveries of one message have the keys %q", keys)
	}
}

// "Change and Revision are set where the message with this ID was edited or deleted; Revision
// tells one edit from the next."
func changesNameTheirSubject(t *testing.T, s *stage) {
	if s.Edit == nil || s.Delete == nil {
		t.Skip("messages do not change")
	}
	s.start(t)
	id := s.say(t, s.Channel, "frist")
	said := s.next(t, "the message", hasText("frist"))
	s.Edit(s.Channel, id, "first")
	edited := s.next(t, "the edit", func(m chat.Message) bool { return m.Kind() == chat.EventEdit && m.Text == "first" })
	s.Edit(s.Channel, id, "the first")
	again := s.next(t, "the second edit", func(m chat.Message) bool {
		return m.Kind() == chat.EventEdit && m.Text == "the first"
	})
	s.Delete(s.Channel, id)
	deleted := s.next(t, "the deletion", func(m chat.Message) bool { return m.Kind() == chat.EventDelete })
	for _, m := range []chat.Message{edited, again, deleted} {
		if m.Subject() != said.Subject() || m.Conversation.Base() != said.Conversation.Base() {
			t.Errorf("a change of %s names %s in %s", said.Subject(), m.Subject(), m.Conversation)
		}
	}
	if edited.Revision == "" || edited.Revision >= again.Revision {
		t.Errorf("revisions %q and %q", edited.Revision, again.Revision)
	}
}

// "Direct is true in a conversation that only the author and the bot can read."
func marksDirect(t *testing.T, s *stage) {
	s.start(t)
	s.say(t, s.Channel, "in public")
	if s.next(t, "the public message", hasText("in public")).Direct {
		t.Error("a message in a channel is direct")
	}
	if s.Private.IsZero() {
		return
	}
	s.say(t, s.Private, "in private")
	if m := s.next(t, "the private message", hasText("in private")); !m.Direct || m.Reach != chat.Addressed {
		t.Errorf("a private message is %+v", m)
	}
}

// EventPress: "Text is the button's Value, Reply.MessageID the post with the button".
func pressCarriesValueAndPost(t *testing.T, s *stage) {
	if s.Press == nil {
		t.Skip("there are no buttons")
	}
	s.start(t)
	ref := s.post(t, chat.Draft{Key: "k", Text: "which?", Buttons: []chat.Button{
		{Label: "This", Value: "take this", Style: chat.Primary},
		{Label: "That", Value: "take that"},
	}})
	post := ref.IDs[len(ref.IDs)-1]
	s.Press(s.Channel, post, "take that")
	m := s.next(t, "the press", func(m chat.Message) bool { return m.Kind() == chat.EventPress })
	if m.Text != "take that" || m.Reply.MessageID != post || m.Author.ID == "" || m.Conversation.Base() != s.Channel {
		t.Errorf("the press became %+v", m)
	}
}

// MessageCommand: "The Message that it sends has its Name as Command, and what it was done with as Target".
func messageCommandCarriesItsTarget(t *testing.T, s *stage) {
	if s.Use == nil {
		t.Skip("messages have no menus")
	}
	s.start(t)
	id := s.Overhear(s.Channel, "the kettle is on")
	s.Use(s.Channel, id)
	m := s.next(t, "the command", func(m chat.Message) bool { return m.Command == MessageCommands()[0].Name })
	if m.Kind() != chat.EventCommand || m.Text != "" || m.Author.ID == "" || m.Conversation.Base() != s.Channel ||
		m.Target == nil {
		t.Fatalf("the command became %+v", m)
	}
	if !strings.Contains(m.Target.ID, id) || !strings.Contains(m.Target.Text, "kettle") || m.Target.At.IsZero() ||
		m.Target.ByID == "" || m.Target.ByID == m.Author.ID {
		t.Errorf("it was used on %+v", *m.Target)
	}
	linker, ok := s.Platform.(chat.Linker)
	if !ok || linker.Link(m.Conversation, m.Target.ID) == "" {
		t.Errorf("nothing leads to message %s", m.Target.ID)
	}
}

// Fetcher reads the files of messages: "at most limit bytes, more is an error".
func fetchKeepsToLimit(t *testing.T, s *stage) {
	fetcher, can := s.Platform.(chat.Fetcher)
	if !can {
		t.Skip("messages have no files")
	}
	s.start(t)
	body := []byte("some notes")
	s.say(t, s.Channel, "see this", chat.File{Name: "notes.txt", Type: "text/plain", Data: body})
	m := s.next(t, "the message", func(m chat.Message) bool { return len(m.Files) > 0 })
	f := m.Files[0]
	if data, err := fetcher.Fetch(t.Context(), f, int64(len(body))); err != nil || !bytes.Equal(data, body) {
		t.Errorf("fetched %q, %v", data, err)
	}
	for _, size := range []int64{f.Size, 0} { // known beforehand or not
		f.Size = size
		if data, err := fetcher.Fetch(t.Context(), f, int64(len(body)-1)); err == nil {
			t.Errorf("fetched %d bytes, %d are allowed", len(data), len(body)-1)
		}
	}
}

// "A Ref is returned only with the platform's id in hand."
func postReturnsRef(t *testing.T, s *stage) {
	s.start(t)
	ref := s.post(t, chat.Draft{Key: "k", Text: "hello there"})
	if len(ref.IDs) != 1 || ref.IDs[0] == "" || ref.Repeated {
		t.Errorf("ref %+v", ref)
	}
	if got := s.Shown(s.Channel); len(got) != 1 || !strings.Contains(got[0], "hello there") {
		t.Errorf("shown %q", got)
	}
}

// "Again: an earlier attempt may have been posted; the adapter looks for Key on the platform,
// where it can, before it sends."
func repeatAfterUnknownOutcome(t *testing.T, s *stage) {
	s.start(t)
	since := time.Now()
	d := chat.Draft{Key: "k", Text: "hello there", Since: since}
	if s.LoseAnswer != nil {
		s.LoseAnswer()
		var failed *chat.PostError
		if _, err := s.Platform.Post(t.Context(), s.Channel, d); !errors.As(err, &failed) || !failed.Maybe ||
			failed.Permanent {
			t.Fatalf("a post whose answer was lost gave %v, want a *PostError with Maybe", err)
		}
	} else {
		s.post(t, d)
	}
	d.Again = true
	ref := s.post(t, d)
	if got := s.Shown(s.Channel); len(got) != 1 || len(ref.IDs) != 1 || ref.Repeated {
		t.Errorf("shown %q, ref %+v", got, ref)
	}
}

// "Platforms ask right before they send the request." Permission ends at each of the moments at which the platform asks
// for it, one after the other.
func sendsNothingWithoutPermission(t *testing.T, s *stage) {
	if s.LoseAnswer == nil {
		t.Skip("posts go into the store, which refuses them itself")
	}
	s.start(t)
	for allowed := 0; ; allowed++ {
		var asked atomic.Int32 // by several goroutines
		ctx := chat.WithPermission(t.Context(), func() error {
			if int(asked.Add(1)) > allowed {
				return errors.New("another process has taken over")
			}
			return nil
		})
		_, err := s.Platform.Post(ctx, s.Channel, chat.Draft{Key: fmt.Sprint("k", allowed), Text: "hello there"})
		if err == nil {
			if got := s.Shown(s.Channel); len(got) != 1 || allowed == 0 {
				t.Errorf("shown %q with permission for all of %d requests", got, allowed)
			}
			return
		}
		var failed *chat.PostError
		if !errors.As(err, &failed) || failed.Maybe || failed.Permanent {
			t.Errorf("a post whose permission was gone gave %v, want a *PostError with which it is tried again", err)
		}
		if got := s.Shown(s.Channel); len(got) != 0 {
			t.Fatalf("shown %q, though permission was gone", got)
		}
	}
}

// "Replaces are the posts that this one takes the place of."
func replacesInPlace(t *testing.T, s *stage) {
	s.start(t)
	before := s.post(t, chat.Draft{Key: "k", Text: "before"})
	s.post(t, chat.Draft{Key: "between", Text: "between"})
	after := s.post(t, chat.Draft{Key: "k2", Text: "after", Replaces: before})
	got := s.Shown(s.Channel)
	if !slices.Equal(before.IDs, after.IDs) || len(got) != 2 || !strings.Contains(got[0], "after") ||
		strings.Contains(got[0], "before") {
		t.Errorf("shown %q; the refs are %v and %v", got, before.IDs, after.IDs)
	}
}

// "A platform finishes a request that it has begun": an edit that is under way when the whole answer comes is carried out
// before that.
func wholeAnswerStays(t *testing.T, s *stage) {
	if s.Delay == nil {
		t.Skip("an edit is done at once")
	}
	s.start(t)
	d := chat.Draft{Key: "k", Text: "one", Partial: true}
	d.Replaces = s.post(t, d)
	come, done := s.Delay()
	ctx, cancel := context.WithCancelCause(t.Context())
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		edit := d
		edit.Text = "one two"
		_, _ = s.Platform.Post(ctx, s.Channel, edit)
	}()
	come()
	cancel(chat.ErrSuperseded)
	<-returned
	d.Text, d.Partial = "one two three", false
	s.post(t, d)
	done() // also where it was cut off
	if got := s.Shown(s.Channel); len(got) != 1 || got[0] != "one two three" {
		t.Errorf("shown %q", got)
	}
}

// "Limits are what a platform takes. Adapters split longer drafts themselves."
func splitsLongText(t *testing.T, s *stage) {
	s.start(t)
	var words []string
	for n := range s.MaxText / len("word 00000 ") {
		words = append(words, fmt.Sprintf("word%05d", n))
	}
	ref := s.post(t, chat.Draft{Key: "k", Text: strings.Join(words, " ")})
	got := s.Shown(s.Channel)
	if len(ref.IDs) != len(got) || s.MaxText > s.Platform.Limits().Text && len(got) < 2 {
		t.Errorf("%d posts are shown, the ref names %d", len(got), len(ref.IDs))
	}
	if shown := strings.Fields(strings.Join(got, " ")); !slices.Equal(shown, words) {
		t.Errorf("%d words are shown of %d, or in another order", len(shown), len(words))
	}
}

// "Permanent: sending the same again cannot succeed."
func wrongPlaceIsPermanent(t *testing.T, s *stage) {
	s.start(t)
	nowhere := s.Channel
	nowhere.Channel = "404"
	if s.Channel.Workspace == "" {
		nowhere.Thread = "1" // a room of the page comes into being when it is written to
	}
	var failed *chat.PostError
	if _, err := s.Platform.Post(t.Context(), nowhere, chat.Draft{Key: "k", Text: "x"}); !errors.As(err, &failed) ||
		!failed.Permanent {
		t.Errorf("a post to a place that does not exist gave %v, want a permanent *PostError", err)
	}
}

// Thread returns "where what belongs to a post goes: to the thread below it".
func threadGoesBelow(t *testing.T, s *stage) {
	threader, can := s.Platform.(chat.Threader)
	if !can {
		t.Skip("posts have no threads")
	}
	s.start(t)
	if !threader.CanThread(s.Channel) {
		t.Fatal("a channel can have no threads")
	}
	ref := s.post(t, chat.Draft{Key: "k", Text: "headlines"})
	for range 2 { // it is opened if it is not there
		at, err := threader.Thread(t.Context(), s.Channel, ref, "More")
		if err != nil || at.Thread == "" || at.Base() != s.Channel || threader.CanThread(at) {
			t.Errorf("the thread is at %v: %v", at, err)
		}
	}
}

// Health is "evidence of a live connection".
func healthIsTrue(t *testing.T, s *stage) {
	if h := s.health(); h.Connected || h.Detail == "" {
		t.Errorf("before Run: %+v", h)
	}
	s.start(t)
	if h := s.health(); h.Since.IsZero() {
		t.Errorf("connected: %+v", h)
	}
	if s.Cut != nil {
		end := s.Cut()
		await(t, "the loss of the connection", func() bool { h := s.health(); return !h.Connected && h.Detail != "" })
		end()
		await(t, "a new connection", func() bool { return s.health().Connected })
		s.say(t, s.Channel, "still there?")
		s.next(t, "a message on the new connection", hasText("still there?"))
	}
	s.stop()
	if h := s.health(); h.Connected {
		t.Errorf("after Run: %+v", h)
	}
}
