package replica

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
)

const (
	// lookEvery is how often a replica looks for what others have left, which bounds how long an orderly hand-over
	// takes.
	lookEvery = 500 * time.Millisecond
	// idleAfter is how long nothing may have come from a channel before its replica gives it back, so that the
	// channels are shared out anew when replicas come and go.
	idleAfter = 10 * time.Minute
	// handOnFor bounds how long something waits for the owner of its channel: longer than the others wait for a
	// replica that was killed. Slack sends it again after that.
	handOnFor = 20 * time.Second
	// handOnPause is how often it is looked meanwhile who the owner is: often enough for what came to different replicas
	// for one channel to keep the order in which people said it.
	handOnPause = 100 * time.Millisecond
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
	others map[string]store.Replica // the owners of other keys, as far as they were asked for
	leader store.Replica            // as it was found last; zero: the database did not answer
	living int                      // replicas, as they were counted last
	// ended are closed when a replica that answers HTTP requests for this one is no replica any more.
	ended map[int64]chan struct{}
	take  Taker
	// acquired is told of channels that belong to this replica from now on.
	acquired func(channel chat.Address)
	held     map[string]func(*http.Request) bool // by path, for Held
	// platform returns the platforms that are switched on in this process, for Platforms.
	platform func(name string) chat.Platform
	work     Work // while Run runs
	// configuration compares that of this process with those of the others; nil: nothing does.
	configuration *configuration
}

// Taker takes a request about a channel that another replica has handed on, and returns its answer.
type Taker func(ctx context.Context, channel chat.Address, request []byte) ([]byte, error)

// newNode returns the node of a replica that has joined and owns nothing yet.
func newNode(o Options, members store.Membership, self store.Replica) *Node {
	return &Node{
		o:       o,
		members: members,
		self:    self,
		leads:   make(chan struct{}),

		transport: newTransport(newReach(o.Log, o.Now)),

		own:    map[string]time.Time{},
		others: map[string]store.Replica{},
		ended:  map[int64]chan struct{}{},
		held:   map[string]func(*http.Request) bool{},
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
func (n *Node) WhenLeading(run func(context.Context) error) func(context.Context) error {
	if n == nil {
		return run
	}
	return func(ctx context.Context) error {
		select {
		case <-n.leads:
			return run(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// OnRequest sets what takes the requests that other replicas hand on. Until then they are refused.
func (n *Node) OnRequest(take Taker) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.take = take
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
	if at, err := chat.ParseAddress(key); err == nil && n.acquired != nil {
		n.acquired(at)
	}
}

// Work is what a replica does with what others have left.
type Work interface {
	// Ready returns a channel that is closed when Resume may be called.
	Ready() <-chan struct{}
	// Resume takes up the work that another process has left.
	Resume(posts []store.Post, messages []store.Received)
	// WorkingIn reports whether anything is queued or under way in a channel or its threads. Such a channel is not given
	// back.
	WorkingIn(channel chat.Address) bool
}

// Run takes over what others leave, until ctx ends. Before it has their work resumed, and before this replica leads, it
// has the parts reload what others have changed.
func (n *Node) Run(ctx context.Context, work Work, parts ...Shared) {
	if n == nil {
		return
	}
	select {
	case <-work.Ready():
	case <-ctx.Done():
		return
	}
	n.mu.Lock()
	n.work = work
	n.mu.Unlock()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for ctx.Err() == nil {
		err := n.look(ctx, work, parts)
		n.note(ctx, err)
		if err == nil { // else the database does not answer, which was said already
			err = n.releaseIdle(ctx, work)
			if err != nil && ctx.Err() == nil {
				n.o.Log.Warn("idle channels not given back", "error", err)
			}
		}
		select {
		case <-n.members.Left():
		case <-look.C:
		case <-ctx.Done():
		}
	}
}

// look takes over what others have left, and notes who the leader is. Without work the start of the bot reads what was
// left.
func (n *Node) look(ctx context.Context, work Work, parts []Shared) error {
	if err := n.inherit(ctx, work, parts); err != nil {
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
	// Who inherits the keys of a replica that has ended is asked of the database when something comes for them.
	for key, owner := range n.others {
		if !ids[owner.ID] {
			delete(n.others, key)
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

// inherit takes over what others have left. Nobody is told meanwhile that a channel belongs to this replica: what
// comes there must not be taken before what was left.
func (n *Node) inherit(ctx context.Context, work Work, parts []Shared) error {
	n.asking.Lock()
	defer n.asking.Unlock()
	left, err := n.members.Inherit(ctx)
	if err != nil {
		return err
	}
	for _, r := range left.From {
		n.o.Log.Info("taken over what a replica left",
			"replica", r.Name, "messages", len(left.Messages), "posts", len(left.Posts))
	}
	if work != nil && len(left.Messages)+len(left.Posts) > 0 {
		n.reload(ctx, parts)
		work.Resume(left.Posts, left.Messages)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, key := range left.Keys {
		n.noteOwn(key)
	}
	return nil
}

// reload has the parts reload at once. What failed is repeated by Watch.
func (n *Node) reload(ctx context.Context, parts []Shared) {
	ctx, cancel := context.WithTimeout(ctx, maxWatch)
	defer cancel()
	if err := Reload(ctx, parts...); err != nil {
		n.o.Log.Warn("what other replicas have changed not read, tried again", "error", err)
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
		n.o.Log.Warn("database does not answer replica", "error", err)
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
		n.others[key] = owner
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
	owner, ok := n.others[key]
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

// forget has the owner of a key be asked for again.
func (n *Node) forget(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.others, key)
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
		if err == nil && n.o.Now().Sub(used) > idleAfter && !work.WorkingIn(at) {
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

// HandOn has the replica that a channel belongs to take a request, and returns its answer. mine is true where the
// channel belongs to this one: then nothing was done. While the owner does not answer it waits until another replica
// has taken over, or handOnFor has passed.
func (n *Node) HandOn(ctx context.Context, channel chat.Address, request []byte) (answer []byte, mine bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, handOnFor)
	defer cancel()
	for {
		owner, err := n.owner(ctx, store.ClaimKey(channel))
		switch {
		case err == nil && owner.ID == n.self.ID:
			return nil, true, nil
		case err == nil:
			answer, err = n.sendToOwner(ctx, owner, envelope{Channel: store.ClaimKey(channel), Request: request})
			if err == nil {
				return answer, false, nil
			}
			// The owner is the right one and could not take it: to look for another one would change nothing.
			if isRefused(err) {
				return nil, false, err
			}
			n.forget(store.ClaimKey(channel))
			err = fmt.Errorf("hand on to replica %s: %w", owner.Name, err)
		}
		select {
		case <-time.After(handOnPause):
		case <-ctx.Done():
			return nil, false, err
		}
	}
}

// sendToOwner has the owner of a channel take a request. It gives up when the channel belongs to another replica: one
// that is paused accepts connections, and answers nothing.
func (n *Node) sendToOwner(ctx context.Context, owner store.Replica, e envelope) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Most requests are answered before the first look, and ask the database nothing.
	watch := time.AfterFunc(handOnPause, func() {
		for ctx.Err() == nil {
			if now, err := n.members.Claim(ctx, e.Channel); err == nil && now.ID != owner.ID {
				cancel()
			}
			select {
			case <-time.After(handOnPause):
			case <-ctx.Done():
			}
		}
	})
	defer watch.Stop()
	return n.send(ctx, owner, e)
}

// refusedError is the answer of a replica that could not take a request that it was the right one for.
type refusedError struct{ what string }

func (e *refusedError) Error() string {
	return "the replica that the channel belongs to refused it: " + e.what
}

// isRefused reports whether another replica answered and refused, as opposed to one that was not
// reached.
func isRefused(err error) bool {
	_, ok := errors.AsType[*refusedError](err)
	return ok
}

// takeFrom takes a request that another replica has handed on. errNotOwner: its channel belongs to a third one.
func (n *Node) takeFrom(ctx context.Context, e envelope) ([]byte, error) {
	owner, err := n.owner(ctx, e.Channel)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	take := n.take
	n.mu.Unlock()
	if owner.ID != n.self.ID || take == nil {
		// The sender asks again, and what this replica knows of the owner may be outdated.
		n.forget(e.Channel)
		return nil, errNotOwner
	}
	channel, err := chat.ParseAddress(e.Channel)
	if err != nil {
		return nil, err
	}
	answer, err := take(ctx, channel, e.Request)
	if errors.Is(err, chat.ErrSwitchedOff) {
		// The sender has the platform, and asks for the channel until it is its own.
		n.giveBack(ctx, channel)
		return nil, errNotOwner
	}
	if err != nil {
		n.o.Log.Warn("request of another replica not taken", "channel", e.Channel, "error", err)
		return nil, &refusedError{"see its log"}
	}
	return answer, nil
}

// errNotOwner is returned for a request whose channel belongs to another replica, or that cannot be taken yet.
var errNotOwner = errors.New("the channel belongs to another replica")
