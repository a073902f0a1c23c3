// Package poll asks a channel a question with two to ten answers as buttons, shows the running counts, and closes.
// Everybody has one vote, and only counts are shown. A poll survives a restart with every confirmed vote, even if
// several processes that share the store count votes, and closes at its time. The adapter decides how a post looks.
package poll

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/core/text"
	"ravenbot/internal/store"
)

// itemKind is the kind of the store's items that hold polls.
const itemKind = "poll"

// Limits of polls.
const (
	minOptions       = 2
	maxOptions       = 10
	maxOptionChars   = 80
	maxLabelChars    = 40 // of a button
	maxQuestionChars = 300
	defaultDuration  = 24 * time.Hour
	minDuration      = time.Minute
	maxDuration      = 30 * 24 * time.Hour
	maxOpenHere      = 20  // open polls of one channel
	maxOpenOfUser    = 5   // open polls of one person in a channel, so that others have a place there
	maxOpen          = 500 // open polls of the bot
	keepClosed       = 7 * 24 * time.Hour
	maxVoters        = 10_000 // of one poll: its record must stay small enough to be written at each vote
	// editPause is how often a post is edited at most: Slack lets an app update about fifty messages a minute
	// (chat.update, tier 3, read 2026-11-22), Discord five in five seconds in one channel.
	editPause = 1500 * time.Millisecond
	// checkEvery is the interval of checks for expired polls.
	checkEvery = 10 * time.Second
	// maxTries limits the retries of a vote after conflicts with other processes.
	maxTries = 50
	// deleteTimeout bounds deleting a poll that could not be posted.
	deleteTimeout = 5 * time.Second
)

// Poster posts polls, as delivery.Service does.
type Poster interface {
	// Interject posts at once; with replaces it takes the place of the post of that key.
	Interject(ctx context.Context, to chat.Address, d chat.Draft, replaces string) error
}

// pollStore keeps polls and knows where posts are, as store.Store does.
type pollStore interface {
	store.Items
	// PostRef returns where a post of the last days is, or false.
	PostRef(ctx context.Context, key string) (chat.Ref, bool, error)
}

// Options are what a Service needs.
type Options struct {
	Store   pollStore
	Poster  Poster
	CanPost func(to chat.Address) bool
	// CheckPost returns a *chat.SetupError if nothing can be posted to a conversation.
	CheckPost func(ctx context.Context, to chat.Address, tags []string) error
	Log       *slog.Logger
	Now       func() time.Time
}

// Service runs polls. It is safe for concurrent use.
type Service struct {
	o Options

	mu     sync.Mutex
	polls  map[string]*poll
	edits  map[string]bool // polls whose posts need an edit
	signal chan struct{}   // has room for one: edits has grown
}

// poll is one poll. Its JSON form is stored.
type poll struct {
	ID       string         `json:"id"`
	Question string         `json:"question"`
	Options  []string       `json:"options"`
	By       chat.User      `json:"by"`
	To       chat.Address   `json:"to"`
	Began    time.Time      `json:"began"`
	Closes   time.Time      `json:"closes"`
	Closed   *time.Time     `json:"closed,omitempty"`
	ClosedBy string         `json:"closedBy,omitempty"` // name of who closed it early
	Votes    map[string]int `json:"votes,omitempty"`    // user → option
	Revision int            `json:"revision,omitempty"` // counts votes and the close
	// Post is where the poll stands, as the first press of one of its buttons tells: the outbox forgets posts after
	// some days, and a poll may be open longer.
	Post chat.Ref `json:"post,omitzero"`

	raw    json.RawMessage // as it is stored
	edited bool            // this process has edited its post
}

// key names the post of a poll, which its edits replace.
func (p *poll) key() string { return "poll/" + p.ID }

// New returns a Service without polls; Load reads those of before.
func New(o Options) *Service {
	return &Service{o: o, polls: map[string]*poll{}, edits: map[string]bool{}, signal: make(chan struct{}, 1)}
}

// Load reads the polls that an earlier process left.
func (s *Service) Load(ctx context.Context) error {
	return s.load(ctx, func(was, p *poll) {
		// What came last before a crash may be stored and not shown. To show the same again changes nothing.
		if was == nil && p.Revision > 0 {
			s.edits[p.ID] = true
		}
	})
}

// SharedKinds returns the kind whose changes Reload takes up.
func (*Service) SharedKinds() []string { return []string{itemKind} }

// Reload takes up the polls and votes of other processes, which edit the posts themselves.
func (s *Service) Reload(ctx context.Context) error {
	return s.load(ctx, func(was, p *poll) {
		// An edit of this process may have come after the last one of the process that has closed the poll.
		if was != nil && was.edited && p.Closed != nil {
			s.requestEdit(p.ID)
		}
	})
}

// load reads the stored polls, and calls fn, with s.mu held, for each that is newer than the known one, which may be
// nil.
func (s *Service) load(ctx context.Context, fn func(was, p *poll)) error {
	items, err := s.o.Store.Items(ctx, itemKind)
	if err != nil {
		return fmt.Errorf("read the polls: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, raw := range items {
		was := s.polls[id]
		// A change of one poll has all of them read again, and each may hold maxVoters votes to decode.
		if was != nil && bytes.Equal(was.raw, raw) {
			continue
		}
		p, err := decodePoll(raw)
		if err != nil {
			s.o.Log.Error("failed to read a poll; skipping it", "poll", id, "error", err)
			continue
		}
		// A poll that was stored here during the read is newer.
		if was == nil || p.Revision > was.Revision {
			fn(was, p)
			p.edited = was != nil && was.edited
			s.polls[id] = p
		}
	}
	for id, p := range s.polls {
		if _, ok := items[id]; !ok && p.Closed != nil { // a new poll was started
			delete(s.polls, id)
		}
	}
	return nil
}

// decodePoll returns a stored poll, which remembers how it was stored: a change replaces only that.
func decodePoll(raw json.RawMessage) (*poll, error) {
	p := &poll{raw: raw}
	return p, json.Unmarshal(raw, p)
}

// Run edits the posts of polls and closes those whose time is over, until ctx ends.
func (s *Service) Run(ctx context.Context) {
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	// The time of a poll may have ended while no process ran.
	s.closeOverdue(ctx)
	for {
		s.editPosts(ctx)
		// Pause after each round, whatever has arrived: many votes cause one edit.
		select {
		case <-time.After(editPause):
		case <-ctx.Done():
			return
		}
		select {
		case <-s.signal:
		case <-check.C:
			s.closeOverdue(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// closeOverdue closes expired polls, and deletes polls that were closed long ago.
func (s *Service) closeOverdue(ctx context.Context) {
	now := s.o.Now()
	s.mu.Lock()
	var overdue, old []string
	for id, p := range s.polls {
		switch {
		// Who cannot edit its post leaves a poll to another process.
		case p.Closed == nil && !now.Before(p.Closes) && s.o.CanPost(p.To):
			overdue = append(overdue, id)
		case p.Closed != nil && now.Sub(*p.Closed) > keepClosed:
			old = append(old, id)
		}
	}
	s.mu.Unlock()
	for _, id := range overdue {
		if err := s.closePoll(ctx, id, "", ""); err != nil {
			s.o.Log.Error("failed to close a poll; retrying", "poll", id, "error", err)
		}
	}
	for _, id := range old {
		// Every process that shares the store deletes old polls: another one may have been first.
		if err := s.o.Store.DeleteItem(ctx, itemKind, id); err != nil && !errors.Is(err, store.ErrNotFound) {
			s.o.Log.Error("failed to delete a closed poll; retrying", "poll", id, "error", err)
			continue
		}
		s.mu.Lock()
		delete(s.polls, id)
		s.mu.Unlock()
	}
}

// requestEdit has the post of a poll edited soon. s.mu is held.
func (s *Service) requestEdit(id string) {
	s.edits[id] = true
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// editPosts edits every post that needs it.
func (s *Service) editPosts(ctx context.Context) {
	s.mu.Lock()
	due := slices.Sorted(maps.Keys(s.edits))
	// Clear it before the edits, so that a concurrent vote causes another edit.
	clear(s.edits)
	s.mu.Unlock()
	for _, id := range due {
		if err := s.editPost(ctx, id); err != nil && ctx.Err() == nil {
			s.o.Log.Error("failed to edit the post of a poll; retrying", "poll", id, "error", err)
			s.mu.Lock()
			s.requestEdit(id)
			s.mu.Unlock()
		}
	}
}

// editPost shows a poll as it is now in the place of its post.
func (s *Service) editPost(ctx context.Context, id string) error {
	s.mu.Lock()
	p := s.polls[id]
	if p == nil {
		s.mu.Unlock()
		return nil
	}
	p.edited = true
	d := p.draft()
	// The revision is part of the key, because the outbox knows each key once.
	d.Key, d.Replaces = fmt.Sprintf("%s/%d", p.key(), p.Revision), p.Post
	to, replaces := p.To, ""
	if len(p.Post.IDs) == 0 {
		replaces = p.key() // nobody has pressed a button yet
	}
	s.mu.Unlock()
	if replaces != "" {
		// A poll that could not be posted, or whose post is no longer known, would be posted closed and without a vote.
		if _, known, err := s.o.Store.PostRef(ctx, replaces); err != nil || !known {
			return err
		}
	}
	return s.o.Poster.Interject(ctx, to, d, replaces)
}

// errChanged is the error where another process has changed the poll, which is known as it is now.
var errChanged = errors.New("the poll was changed by somebody else")

// saveLocked stores a poll and puts it in the place of the one in memory; with an error no vote has changed. s.mu is
// held, so that an older state never replaces a newer one.
func (s *Service) saveLocked(ctx context.Context, p *poll) error {
	raw, err := json.Marshal(p)
	if err != nil {
		return err
	}
	var was json.RawMessage
	if known := s.polls[p.ID]; known != nil {
		was = known.raw
	}
	// A plain save would overwrite the votes that another process has stored since this one read the poll.
	swapped, err := s.o.Store.SwapItem(ctx, itemKind, p.ID, was, raw, nil)
	if err == nil && !swapped {
		// Read before errChanged is returned, so that the next try changes the poll as the other process left it.
		err = cmp.Or(s.readLocked(ctx, p.ID), errChanged)
	}
	if err != nil {
		return fmt.Errorf("store poll %s: %w", p.ID, err)
	}
	p.raw = raw
	s.polls[p.ID] = p
	return nil
}

// readLocked reads a poll again; s.mu is held.
func (s *Service) readLocked(ctx context.Context, id string) error {
	raw, err := s.o.Store.Item(ctx, itemKind, id)
	if errors.Is(err, store.ErrNotFound) {
		delete(s.polls, id)
		return nil
	}
	if err != nil {
		return err
	}
	p, err := decodePoll(raw)
	if err == nil {
		p.edited = s.polls[id] != nil && s.polls[id].edited
		s.polls[id] = p
	}
	return err
}

// findLocked returns a poll, which another process may have just started, or nil. s.mu must be held.
func (s *Service) findLocked(ctx context.Context, id string) (*poll, error) {
	if s.polls[id] == nil {
		if err := s.readLocked(ctx, id); err != nil {
			return nil, fmt.Errorf("read poll %s: %w", id, err)
		}
	}
	return s.polls[id], nil
}

// retry repeats change until no other process has changed the poll.
func retry(change func() error) error {
	var err error
	for range maxTries {
		if err = change(); !errors.Is(err, errChanged) {
			return err
		}
	}
	return err
}

// start stores a poll and posts it.
func (s *Service) start(ctx context.Context, m chat.Message, q request) error {
	now := s.o.Now().UTC()
	p := &poll{
		ID:       text.RandomID(6),
		Question: q.question,
		Options:  q.options,
		By:       m.Author,
		To:       m.Conversation,
		Began:    now,
		Closes:   now.Add(q.duration),
	}
	s.mu.Lock()
	here, own, all := 0, 0, 0
	for _, other := range s.polls {
		if other.Closed != nil {
			continue
		}
		all++
		if other.To.Base() == p.To.Base() {
			here++
			if other.By.ID == p.By.ID {
				own++
			}
		}
	}
	if own >= maxOpenOfUser {
		s.mu.Unlock()
		return inputError(fmt.Sprintf("You have %d open polls in this channel already. Close one first.", own))
	}
	if here >= maxOpenHere || all >= maxOpen {
		s.mu.Unlock()
		return inputError(fmt.Sprintf("There are too many open polls already: a channel may have %d, and all channels "+
			"together %d. Close one first.", maxOpenHere, maxOpen))
	}
	// Stored before it is posted, so that every button that people see belongs to a poll that is known. s.mu is held
	// since the count: two polls that begin at once must not both take the last place.
	err := s.saveLocked(ctx, p)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	d := p.draft()
	// editPost finds the post by this key until the press of a button gives its reference.
	d.Key = p.key()
	err = s.o.Poster.Interject(ctx, p.To, d, "")
	if err == nil {
		return nil
	}
	// Nobody sees the poll, so notify its author. ctx may already have ended.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	if gone := s.o.Store.DeleteItem(limited, itemKind, p.ID); gone != nil {
		s.o.Log.Error("failed to delete a poll without a post; it closes at its time", "poll", p.ID, "error", gone)
		return err
	}
	s.mu.Lock()
	delete(s.polls, p.ID)
	s.mu.Unlock()
	return err
}

// vote counts a vote, moves it, or withdraws it if it is repeated. It returns the answer to the voter.
func (s *Service) vote(ctx context.Context, m chat.Message, id string, option int) (words string, err error) {
	err = retry(func() error {
		words, err = s.tryVote(ctx, m, id, option)
		return err
	})
	return words, err
}

// tryVote stores a vote, its change or its withdrawal, and returns the answer to the voter. An inputError says why a
// vote does not count. Any other error is the store's, and nothing has changed then.
func (s *Service) tryVote(ctx context.Context, m chat.Message, id string, option int) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.findLocked(ctx, id)
	switch {
	case err != nil:
		return "", err
	case p == nil:
		return "", inputError("This poll is no longer known.")
	// Run closes a poll up to checkEvery after its time, and votes in between must not count.
	case p.Closed != nil || !s.o.Now().Before(p.Closes):
		return "", inputError("This poll is closed.")
	case option < 0 || option >= len(p.Options):
		return "", inputError("This poll has no such answer.")
	}
	// A copy is changed, because a vote that cannot be stored must not count.
	next := *p
	next.Revision++
	next.Votes = maps.Clone(p.Votes)
	if next.Votes == nil {
		next.Votes = map[string]int{}
	}
	if post := m.Reply.MessageID; post != "" {
		next.Post = chat.Ref{IDs: []string{post}}
	}
	words := "Your vote: **" + text.EscapeMarkdown(p.Options[option]) + "**. Press it again to take it back."
	before, voted := p.Votes[m.Author.ID]
	switch {
	case voted && before == option:
		delete(next.Votes, m.Author.ID)
		words = "Your vote is taken back."
	case !voted && len(p.Votes) >= maxVoters:
		return "", inputError("This poll has as many votes as it can hold.")
	default:
		next.Votes[m.Author.ID] = option
	}
	// The vote is on disk before it is confirmed.
	if err := s.saveLocked(ctx, &next); err != nil {
		return "", err
	}
	s.requestEdit(id)
	return words, nil
}

// mayClose reports whether the author of a message may close a poll early: who started it, or an administrator.
func (p *poll) mayClose(m chat.Message) bool {
	return m.Author.Admin || m.Author.ID == p.By.ID && m.Conversation.Platform == p.To.Platform
}

// closeByPress closes a poll early.
func (s *Service) closeByPress(ctx context.Context, m chat.Message, id string) (string, error) {
	s.mu.Lock()
	p, err := s.findLocked(ctx, id)
	switch {
	case err != nil:
		s.mu.Unlock()
		return "", err
	case p == nil:
		s.mu.Unlock()
		return "", inputError("This poll is no longer known.")
	case p.Closed != nil:
		s.mu.Unlock()
		return "", inputError("This poll is closed already.")
	case !p.mayClose(m):
		s.mu.Unlock()
		return "", inputError("Only the person who started the poll, or an administrator, can close it.")
	}
	// closePoll locks again. A poll that somebody else closes in between stays closed by them.
	s.mu.Unlock()
	name := m.Author.Name
	if name == "" {
		name = "somebody"
	}
	if err := s.closePoll(ctx, id, name, m.Reply.MessageID); err != nil {
		return "", err
	}
	return "The poll is closed.", nil
}

// closePoll closes a poll and updates its post. by is the person who closed it early, and post the platform's id of
// its post if known.
func (s *Service) closePoll(ctx context.Context, id, by, post string) error {
	return retry(func() error { return s.tryClose(ctx, id, by, post) })
}

// tryClose stores that a poll is closed. A closed or unknown poll is no error. by is empty if its time is over. post
// is the message that shows the poll, if known.
func (s *Service) tryClose(ctx context.Context, id, by, post string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.polls[id]
	if p == nil || p.Closed != nil {
		return nil
	}
	next, now := *p, s.o.Now().UTC()
	next.Closed, next.ClosedBy = &now, by
	if post != "" {
		next.Post = chat.Ref{IDs: []string{post}}
	}
	next.Revision++
	if err := s.saveLocked(ctx, &next); err != nil {
		return err
	}
	s.requestEdit(id)
	return nil
}

// barCells is how many cells the longest bar has.
const barCells = 10

// draft returns the post of a poll as it is now.
func (p *poll) draft() chat.Draft {
	counts := make([]int, len(p.Options))
	for _, option := range p.Votes {
		if option < len(counts) {
			counts[option]++
		}
	}
	total := len(p.Votes)
	lines := []string{"**Poll: " + text.EscapeMarkdown(p.Question) + "**", ""}
	for n, option := range p.Options {
		percent, bar := 0, ""
		if total > 0 {
			percent = (100*counts[n] + total/2) / total
			// Rounded up, so that an answer with a single vote has a bar, too.
			bar = strings.Repeat("▇", (barCells*counts[n]+total-1)/total)
		}
		if bar != "" {
			bar += " "
		}
		lines = append(lines, fmt.Sprintf("%d. %s: %s%d (%d %%)", n+1, text.EscapeMarkdown(option), bar, counts[n], percent))
	}
	by := origin.User(p.To.Platform, p.By.ID)
	d := chat.Draft{Text: strings.Join(lines, "\n"), Footer: p.footer(total), Origin: &by}
	if p.Closed != nil {
		return d
	}
	for n, option := range p.Options {
		d.Buttons = append(d.Buttons, chat.Button{Label: text.Shorten(option, maxLabelChars),
			Value: fmt.Sprintf("%s %s %d", wordVote, p.ID, n)})
	}
	d.Buttons = append(d.Buttons, chat.Button{Label: "Close", Value: wordClose + " " + p.ID, Style: chat.Danger})
	return d
}

// footer returns the line below a poll: how many votes it has, whose it is, and until when it is
// open.
func (p *poll) footer(total int) string {
	votes := fmt.Sprintf("%d votes", total)
	if total == 1 {
		votes = "1 vote"
	}
	by := ""
	if p.By.Name != "" {
		by = " · asked by " + p.By.Name
	}
	switch {
	case p.ClosedBy != "":
		return votes + by + " · closed by " + p.ClosedBy
	case p.Closed != nil:
		return votes + by + " · closed"
	}
	return votes + by + " · closes " + p.Closes.UTC().Format("2 Jan 15:04") + " UTC"
}
