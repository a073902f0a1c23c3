package replica

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

const (
	// lookEvery is how often a replica looks for work to take, of which no notice may have come.
	lookEvery = 500 * time.Millisecond
	// idleAfter is how long nothing may have come from a channel before its replica gives it back, so that the
	// channels are shared out anew when replicas come and go.
	idleAfter = 10 * time.Minute
	// heardFor is how long after a message of a conversation the bot may still be working on it.
	heardFor = 30 * time.Minute
	// waitForPlatform is how long a message or post waits for a replica in which its platform is switched on. After that
	// another replica takes it and gives it up, because posts of a channel wait for one another.
	waitForPlatform = 6 * time.Hour
)

// Node is this replica among those of a store. It is safe for concurrent use. A nil Node is that of a process that has
// its store alone: it leads from the start.
type Node struct {
	o       Options
	box     Box
	members store.Membership
	self    store.Replica
	leads   chan struct{} // closed when this replica is the leader

	transport *http.Transport // to other replicas

	// asking is held while the database is asked about a key of which this process knows nothing, or gets one back: so
	// a key is never given back that was asked for meanwhile. It is locked before mu.
	asking sync.Mutex
	// unreleased are keys that could not be given back. Whether the database has done so all the same is unknown, so that
	// they count as this replica's only when they were claimed again. Guarded by asking.
	unreleased []string

	mu     sync.Mutex
	own    map[string]time.Time     // keys of this replica, and when each was last used
	owners map[string]store.Replica // the owners of other keys, as far as they were asked for
	leader store.Replica            // as it was found last; zero: the database did not answer
	living int                      // replicas, as they were counted last
	// ended are closed when a replica that answers HTTP requests for this one is no replica any more.
	ended map[int64]chan struct{}
	// acquired is told of channels that belong to this replica from now on.
	acquired func(channel chat.Address)
	held     map[string]bool // paths that Held serves
	// platform returns the platforms that are switched on in this process; nil: none were made yet.
	platform func(name string) chat.Platform
	behind   chan struct{} // brings a value if a message of this replica waits behind others that it has to take
	// configuration compares that of this process with those of the others; nil: nothing does.
	configuration *configuration
}

// newNode returns the node of a replica that has joined and owns nothing yet.
func newNode(o Options, members store.Membership, self store.Replica) *Node {
	return &Node{
		o:       o,
		members: members,
		self:    self,
		leads:   make(chan struct{}),

		transport: newTransport(),

		own:    map[string]time.Time{},
		owners: map[string]store.Replica{},
		ended:  map[int64]chan struct{}{},
		held:   map[string]bool{},
		behind: make(chan struct{}, 1),
	}
}

// Leads returns a channel that is closed when this replica is the leader, which it then stays; nil where it has been
// from the start.
func (n *Node) Leads() <-chan struct{} {
	if n == nil {
		return nil
	}
	return n.leads
}

// Shards returns how the sessions of a bot are divided among the replicas; nil where this process is alone.
func (n *Node) Shards() store.Shards {
	if n == nil {
		return nil
	}
	return n.members
}

// IsLeader reports whether this replica is the leader.
func (n *Node) IsLeader() bool {
	if n == nil {
		return true
	}
	select {
	case <-n.leads:
		return true
	default:
		return false
	}
}

// Processes returns how many replicas there were lately, with this one.
func (n *Node) Processes() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.living
}

// WhenLeading returns a function that waits until this replica is the leader, and then calls run.
func (n *Node) WhenLeading(run func(context.Context)) func(context.Context) {
	if n == nil {
		return run
	}
	return func(ctx context.Context) {
		select {
		case <-n.leads:
			run(ctx)
		case <-ctx.Done():
		}
	}
}

// OnAcquire sets what is told of each channel that comes to belong to this replica, before anything of it is taken.
func (n *Node) OnAcquire(acquired func(channel chat.Address)) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.acquired = acquired
}

// noteOwn notes that a key belongs to this replica; n.mu is held.
func (n *Node) noteOwn(key string) {
	n.own[key] = n.o.Now()
	delete(n.owners, key)
	if at, err := chat.ParseAddress(key); err == nil && n.acquired != nil {
		n.acquired(at)
	}
}

// Work queues messages and posts that a replica has taken.
type Work interface {
	// Ready returns a channel that is closed when Take may be called.
	Ready() <-chan struct{}
	// Take queues the messages and posts that take returns. Until it returns, no message is stored and queued.
	Take(take func() (store.Taken, error)) error
	// WorkingIn reports whether anything is queued or under way in a channel or its threads. Such a channel is not given
	// back.
	WorkingIn(channel chat.Address) bool
}

// Run takes messages and posts of nobody until ctx ends. Before it resumes those of a replica that has ended, and before
// this replica leads, the parts reload what others have changed.
func (n *Node) Run(ctx context.Context, work Work, parts ...store.Shared) {
	if n == nil {
		return
	}
	select {
	case <-work.Ready():
	case <-ctx.Done():
		return
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for ctx.Err() == nil {
		err := n.look(ctx, work, parts)
		n.note(ctx, err)
		if err == nil { // else the database does not answer, which was said already
			err = n.releaseIdle(ctx, work)
			if err != nil && ctx.Err() == nil {
				n.o.Log.Warn("failed to release idle channels", "error", err)
			}
		}
		n.awaitLook(ctx, look.C, work, parts)
	}
}

// awaitLook takes messages and posts whenever there is a notice. It returns when the next look is due, or when a replica
// has ended.
func (n *Node) awaitLook(ctx context.Context, look <-chan time.Time, work Work, parts []store.Shared) {
	for {
		select {
		case <-n.members.Waiting():
		case <-n.behind:
		case <-look:
			return
		case <-ctx.Done():
			return
		}
		if hasEnded, err := n.take(ctx, work, parts); hasEnded || err != nil {
			return
		}
	}
}

// look takes messages and posts of nobody, and notes who the leader is. If work is nil, the bot is starting and reads them
// from the store itself.
func (n *Node) look(ctx context.Context, work Work, parts []store.Shared) error {
	if _, err := n.take(ctx, work, parts); err != nil {
		return err
	}
	leader, err := n.members.Claim(ctx, store.LeaderKey)
	if err != nil {
		return err
	}
	living, err := n.members.Replicas(ctx)
	if err != nil {
		return err
	}
	// Before leads is closed: what runs from then on must know what the former leader stored last.
	if leader.ID == n.self.ID && !n.IsLeader() {
		n.reload(ctx, parts)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.leader
	n.leader, n.living = leader, len(living)
	ids := map[int64]bool{}
	for _, r := range living {
		ids[r.ID] = true
	}
	// The database is asked for the owners of the keys of a replica that has ended when something comes for them.
	for key, owner := range n.owners {
		if !ids[owner.ID] {
			delete(n.owners, key)
		}
	}
	for id, ended := range n.ended {
		if !ids[id] {
			close(ended)
			delete(n.ended, id)
		}
	}
	switch {
	case leader.ID == before.ID || n.IsLeader():
	case leader.ID == n.self.ID:
		n.o.Log.Info("replica leads", "replica", n.self.ID)
		close(n.leads)
	default:
		n.o.Log.Info("replica follows", "leader", leader.Name, "address", leader.Address)
	}
	return nil
}

// take takes messages and posts of nobody, and reports whether a replica has ended. While it runs, Owns does not return for
// an unknown channel: new messages must not be answered before the older ones that it takes.
func (n *Node) take(ctx context.Context, work Work, parts []store.Shared) (hasEnded bool, err error) {
	isAny, err := n.members.HasFree(ctx)
	if err != nil || !isAny {
		return false, err
	}
	take := func() (store.Taken, error) {
		n.asking.Lock()
		defer n.asking.Unlock()
		taken, err := n.members.Take(ctx, n.mayTake)
		if err != nil {
			return taken, err
		}
		hasEnded = len(taken.From) > 0
		for _, r := range taken.From {
			n.o.Log.Info("replica has ended; its work was taken over", "replica", r.Name,
				"messages", len(taken.Messages), "posts", len(taken.Posts))
		}
		if work != nil && hasEnded && len(taken.Messages)+len(taken.Posts) > 0 {
			n.reload(ctx, parts)
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, key := range taken.Keys {
			n.noteOwn(key)
		}
		return taken, nil
	}
	if work == nil {
		_, err = take()
	} else {
		err = work.Take(take)
	}
	return hasEnded, err
}

// mayTake reports whether this replica takes a message or post for a place, stored at a time. The platform of the place
// must be switched on, unless the message or post has waited too long.
func (n *Node) mayTake(to chat.Address, since time.Time) bool {
	return n.hasPlatform(to.Platform) || n.o.Now().Sub(since) > waitForPlatform
}

// reload has the parts reload at once. What failed is repeated by Watch.
func (n *Node) reload(ctx context.Context, parts []store.Shared) {
	ctx, cancel := context.WithTimeout(ctx, maxWatch)
	defer cancel()
	if err := Reload(ctx, parts...); err != nil {
		n.o.Log.Warn("failed to reload changes of other replicas; retrying", "error", err)
	}
}

// note tells the operator once that the database does not answer, and forgets who the leader is.
func (n *Node) note(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.leader != (store.Replica{}) {
		n.o.Log.Warn("database does not answer", "error", err)
	}
	n.leader = store.Replica{}
}

// Owns reports whether a channel belongs to this replica. One that belongs to none does so from now on.
func (n *Node) Owns(ctx context.Context, channel chat.Address) (bool, error) {
	owner, err := n.owner(ctx, store.ClaimKey(channel))
	return err == nil && owner.ID == n.self.ID, err
}

// owner returns the owner of a key, and makes it this replica where it has none.
func (n *Node) owner(ctx context.Context, key string) (store.Replica, error) {
	if owner, ok := n.knownOwner(key); ok {
		return owner, nil
	}
	n.asking.Lock()
	defer n.asking.Unlock()
	// Many messages of a new channel may come at once: whoever waited finds what the first one was told.
	if owner, ok := n.knownOwner(key); ok {
		return owner, nil
	}
	owner, err := n.members.Claim(ctx, key)
	if err != nil {
		return owner, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if owner.ID == n.self.ID {
		n.noteOwn(key)
	} else {
		n.owners[key] = owner
	}
	return owner, nil
}

// knownOwner returns the owner of a key that was asked for before, and notes that the key is in use.
func (n *Node) knownOwner(key string) (store.Replica, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.own[key]; ok {
		n.own[key] = n.o.Now()
		return n.self, true
	}
	owner, ok := n.owners[key]
	return owner, ok
}

// endOf returns a channel that is closed when a replica has ended.
func (n *Node) endOf(id int64) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended[id] == nil {
		n.ended[id] = make(chan struct{})
	}
	return n.ended[id]
}

// releaseIdle gives back the channels from which nothing came for a while.
func (n *Node) releaseIdle(ctx context.Context, work Work) error {
	n.asking.Lock()
	defer n.asking.Unlock()
	var idle []string
	n.mu.Lock()
	// A key that was claimed again since then is in use, and must not be released.
	for _, key := range n.unreleased {
		if _, inUse := n.own[key]; !inUse {
			idle = append(idle, key)
		}
	}
	for key, used := range n.own {
		at, err := chat.ParseAddress(key)
		isIdle := err == nil && (n.o.Now().Sub(used) > idleAfter || !n.hasPlatformLocked(at.Platform))
		if isIdle && !work.WorkingIn(at) {
			idle = append(idle, key)
			// First here: whoever asks now waits until it was given back, and claims it anew.
			delete(n.own, key)
		}
	}
	n.mu.Unlock()
	n.unreleased = nil
	if len(idle) == 0 {
		return nil
	}
	err := n.members.Release(ctx, idle...)
	if err != nil {
		n.unreleased = idle
	}
	return err
}

// Accept stores a message; isMine reports whether this replica answers it. Otherwise the owner of its channel takes it.
func (n *Node) Accept(ctx context.Context, r store.Received) (isNew, isMine bool, err error) {
	isOwn, err := n.Owns(ctx, r.Message.Conversation)
	if err != nil {
		return false, false, fmt.Errorf("find out which replica answers a message: %w", err)
	}
	isNew, isMine, err = n.members.AcceptFor(ctx, r, isOwn)
	if isOwn && !isMine && err == nil {
		select {
		case n.behind <- struct{}{}:
		default:
		}
	}
	return isNew, isMine, err
}

// Has reports whether a channel is known to belong to this replica.
func (n *Node) Has(channel chat.Address) bool {
	owner, isKnown := n.knownOwner(store.ClaimKey(channel))
	return isKnown && owner.ID == n.self.ID
}

// IsHeard reports whether a message of a conversation was accepted lately.
func (n *Node) IsHeard(ctx context.Context, conversation chat.Address) bool {
	is, err := n.members.IsHeard(ctx, conversation, n.o.Now().Add(-heardFor))
	return err == nil && is
}

// FreePost makes a post wait for another replica.
func (n *Node) FreePost(ctx context.Context, p store.Post) error { return n.members.FreePost(ctx, p) }

// SetPlatforms sets the function that returns the platforms that are switched on in this process. Until then it takes work
// for all.
func (n *Node) SetPlatforms(get func(name string) chat.Platform) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.platform = get
}

// hasPlatform reports whether a platform is switched on in this process.
func (n *Node) hasPlatform(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hasPlatformLocked(name)
}

// hasPlatformLocked is hasPlatform for callers that hold n.mu.
func (n *Node) hasPlatformLocked(name string) bool {
	return n.platform == nil || n.platform(name) != nil
}
