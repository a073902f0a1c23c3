package replica

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
)

// Limits of a post that another replica sends.
const (
	// postingTimeout bounds how long that replica may take, until it begins its last request to the platform.
	postingTimeout = 40 * time.Second
	// postedTimeout bounds how long its answer is waited for. It is longer: once it is over, the post may be sent by
	// somebody else, and that replica must have stopped trying by then.
	postedTimeout = 50 * time.Second
	// waitForPlatform is how old a post may be that no replica can send. Posts of a channel wait for one another: without a
	// bound those of a platform that was switched off everywhere would gather.
	waitForPlatform = 6 * time.Hour
)

// postRequest asks a replica to send a post.
type postRequest struct {
	From  int64        `json:"from"` // the replica that asks
	To    chat.Address `json:"to"`
	Draft chat.Draft   `json:"draft"`
	// What a stored draft does not keep.
	Partial bool      `json:"partial,omitempty"`
	Again   bool      `json:"again,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// posted is the answer to it.
type posted struct {
	Ref       chat.Ref      `json:"ref,omitzero"`
	Error     string        `json:"error,omitempty"`
	Permanent bool          `json:"permanent,omitempty"`
	Maybe     bool          `json:"maybe,omitempty"`
	After     time.Duration `json:"after,omitempty"`
}

// Platforms returns a function that returns the platforms by name: those that get returns, which are switched on in this
// process, and for the others one whose posts are sent by a replica where it is switched on. The configurations of
// replicas differ while a change of them is under way, or by mistake, and what one of them has to post must not be lost.
func (n *Node) Platforms(get func(name string) chat.Platform) func(name string) chat.Platform {
	if n == nil {
		return get
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.platform = get
	return func(name string) chat.Platform {
		if p := get(name); p != nil {
			return p
		}
		return elsewhere{n, name}
	}
}

// platformHere returns a platform of this process; nil: it is switched off, or none were made yet.
func (n *Node) platformHere(name string) chat.Platform {
	n.mu.Lock()
	get := n.platform
	n.mu.Unlock()
	if get == nil {
		return nil
	}
	return get(name)
}

// elsewhere is a platform that is switched off in this process, and may be on in another replica.
type elsewhere struct {
	n    *Node
	name string
}

// Name returns the name of the platform.
func (e elsewhere) Name() string { return e.name }

// Run returns at once: there is nothing to connect.
func (e elsewhere) Run(context.Context, func(context.Context, chat.Message) error) error { return nil }

// Limits returns no limits: the replica that posts keeps to them.
func (e elsewhere) Limits() chat.Limits { return chat.Limits{} }

// Post has another replica send a draft. Where none can, the error is one that passes: a replica that can may come back.
func (e elsewhere) Post(ctx context.Context, to chat.Address, d chat.Draft) (chat.Ref, error) {
	by, ok := e.n.findHolder(ctx, envelope{PlatformName: e.name})
	if !ok {
		isOver := !d.Since.IsZero() && e.n.o.Now().Sub(d.Since) > waitForPlatform
		return chat.Ref{}, &chat.PostError{Permanent: isOver, Err: fmt.Errorf(
			"%s is not switched on in this replica, and no other one that answers has it: compare their config.json", e.name)}
	}
	if err := chat.MayAct(ctx); err != nil {
		return chat.Ref{}, &chat.PostError{Err: err}
	}
	answer, err := e.n.sendWithin(ctx, postedTimeout, by, envelope{Post: &postRequest{From: e.n.self.ID, To: to, Draft: d,
		Partial: d.Partial, Again: d.Again, Since: d.Since}})
	if isRefused(err) {
		return chat.Ref{}, &chat.PostError{Err: fmt.Errorf("post by replica %s: %w", by.Name, err)}
	}
	if err != nil { // it may have posted
		return chat.Ref{}, fmt.Errorf("post by replica %s: %w", by.Name, err)
	}
	var p posted
	if err := json.Unmarshal(answer, &p); err != nil {
		return chat.Ref{}, fmt.Errorf("post by replica %s: %w", by.Name, err)
	}
	if p.Error != "" {
		return p.Ref, &chat.PostError{Permanent: p.Permanent, Maybe: p.Maybe, After: p.After, Err: errors.New(p.Error)}
	}
	e.n.o.Log.Info("posted by another replica", "platform", e.name, "post", d.Key, "to", to.String(), "replica", by.Name)
	return p.Ref, nil
}

// servePost sends a post for another replica. It returns an error where nothing was sent.
func (n *Node) servePost(ctx context.Context, r postRequest) ([]byte, error) {
	platform := n.platformHere(r.To.Platform)
	if platform == nil {
		return nil, &refusedError{r.To.Platform + " is not switched on there"}
	}
	until := time.Now().Add(postingTimeout)
	// A replica whose time is over is answered by nobody, and whoever inherits from it sends the post. A process that
	// was paused must not send it late.
	mayPost := func() error {
		if time.Now().After(until) {
			return errors.New("the replica that asked waits no longer")
		}
		return n.isMember(ctx, r.From)
	}
	d := r.Draft
	d.Partial, d.Again, d.Since = r.Partial, r.Again, r.Since
	ref, err := platform.Post(chat.WithPermission(ctx, mayPost), r.To, d)
	p := posted{Ref: ref}
	if err != nil {
		p.Error = err.Error()
		if refused, ok := errors.AsType[*chat.PostError](err); ok {
			p.Permanent, p.Maybe, p.After = refused.Permanent, refused.Maybe, refused.After
		} else {
			p.Maybe = true // nothing is known about this error
		}
	}
	return json.Marshal(p)
}

// isMember returns an error for a replica whose time is over.
func (n *Node) isMember(ctx context.Context, id int64) error {
	living, err := n.members.Replicas(ctx)
	if err != nil {
		return err
	}
	for _, r := range living {
		if r.ID == id {
			return nil
		}
	}
	return fmt.Errorf("replica %d has ended", id)
}

// giveBack gives a channel back whose platform is switched off in this process: it was inherited with what waited there.
// While that is worked on the channel stays, so that its messages are answered in order.
func (n *Node) giveBack(ctx context.Context, channel chat.Address) {
	n.asking.Lock()
	defer n.asking.Unlock()
	n.mu.Lock()
	work := n.work
	_, isOwn := n.own[store.ClaimKey(channel)]
	if work == nil || !isOwn || work.WorkingIn(channel) {
		n.mu.Unlock()
		return
	}
	delete(n.own, store.ClaimKey(channel))
	n.mu.Unlock()
	n.o.Log.Info("channel given back, its platform is not switched on in this replica", "channel", channel.String())
	if err := n.members.Release(ctx, store.ClaimKey(channel)); err != nil {
		n.unreleased = append(n.unreleased, store.ClaimKey(channel))
		n.o.Log.Warn("channel not given back, tried again", "channel", channel.String(), "error", err)
	}
}
