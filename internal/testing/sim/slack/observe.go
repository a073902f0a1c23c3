package simslack

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Faults of delivery, switched on and off as a whole with SetFaults.
type Faults struct {
	Repeat       int  // every envelope is delivered so often, each under its own envelope id; 0: once
	IgnoreAcks   bool // acknowledgements are not heard
	NoPings      bool // connections get no PING
	LinkDisabled bool // apps.connections.open is refused
}

// SetFaults replaces the faults of delivery.
func (s *Server) SetFaults(f Faults) {
	s.state.Lock()
	defer s.state.Release()
	s.faults = f
}

// Drop cuts up to n Socket Mode connections, all if n is 0, and returns how many.
func (s *Server) Drop(n int) int {
	s.state.Lock()
	links := slices.Clone(s.links)
	if n > 0 {
		links = links[:min(n, len(links))]
	}
	for _, l := range links {
		l.retiring = true // it ends a moment later
	}
	s.state.Unlock()
	for _, l := range links {
		l.sock.Cut()
	}
	return len(links)
}

// Outage cuts every connection, lets none be opened and tells the app nothing of
// what happens, as after the last attempt to deliver, until end is called.
func (s *Server) Outage() (end func()) {
	s.state.Lock()
	s.silent = true
	s.state.Release()
	s.Drop(0)
	return func() {
		s.state.Lock()
		defer s.state.Release()
		s.silent = false
	}
}

// Disconnect tells up to n connections, all if n is 0, to go: reason is
// warning, refresh_requested or link_disabled. They get nothing new, and are
// cut after Options.RefreshGrace; link_disabled cuts at once.
func (s *Server) Disconnect(n int, reason string) int {
	s.state.Lock()
	defer s.state.Release()
	count := 0
	for _, l := range s.links {
		if l.retiring || n > 0 && count == n {
			continue
		}
		count++
		l.sock.Send(
			mustJSON(
				map[string]any{"type": "disconnect", "reason": reason, "debug_info": map[string]any{"host": "applink-sim"}},
			),
		)
		switch reason {
		case "warning": // the connection goes on; a refresh follows
		case "link_disabled":
			l.retiring = true
			l.sock.CloseWith(1000, reason)
		default:
			l.retiring = true
			time.AfterFunc(s.opts.RefreshGrace, func() { l.sock.CloseWith(1000, reason) })
		}
	}
	return count
}

// Connections counts open Socket Mode connections; Opened all there ever were.
func (s *Server) Connections() int {
	s.state.Lock()
	defer s.state.Unlock()
	return len(s.links)
}

// Opened counts the Socket Mode connections so far.
func (s *Server) Opened() int {
	s.state.Lock()
	defer s.state.Unlock()
	return s.opened
}

// WaitConnections returns when at least n connections are open and not told to go.
func (s *Server) WaitConnections(ctx context.Context, n int) error {
	err := s.state.Wait(ctx, func() bool {
		ready := 0
		for _, l := range s.links {
			if !l.retiring {
				ready++
			}
		}
		return ready >= n
	})
	if err != nil {
		return fmt.Errorf("wait for %d connections: %w", n, err)
	}
	return nil
}

// Posts returns what the bot posted in a channel, threads and deleted posts
// included, oldest first. Ephemeral posts are apart.
func (s *Server) Posts(channel string) []Post {
	s.state.Lock()
	defer s.state.Unlock()
	return s.ownPosts(channel)
}

// ownPosts returns the bot's messages of a channel in their order, with those that were deleted. The lock is held.
func (s *Server) ownPosts(channel string) []Post {
	var own []Post
	for _, p := range s.posts[channel] {
		if p.User == BotUserID {
			own = append(own, *p)
		}
	}
	return own
}

// WaitPost returns the bot's first post in a channel, as it stands after any
// edits, for which match is true. A stream is offered while it runs.
func (s *Server) WaitPost(ctx context.Context, channel string, match func(Post) bool) (Post, error) {
	p, err := waitFor(ctx, s, match, func() []Post { return s.ownPosts(channel) })
	if err != nil {
		return p, fmt.Errorf("wait for post in channel %s: %w", channel, err)
	}
	return p, nil
}

// WaitAnyPost is WaitPost for all channels, and for posts that only one person sees.
func (s *Server) WaitAnyPost(ctx context.Context, match func(Post) bool) (Post, error) {
	p, err := waitFor(ctx, s, match, func() []Post {
		var all []Post
		for _, c := range s.channels {
			all = append(all, s.ownPosts(c.ID)...)
		}
		return append(all, s.ephemeral...)
	})
	if err != nil {
		return p, fmt.Errorf("wait for post: %w", err)
	}
	return p, nil
}

// waitFor waits for an element of a list, read under the lock, that matches.
func waitFor[T any](ctx context.Context, s *Server, match func(T) bool, list func() []T) (T, error) {
	var found T
	err := s.state.Wait(ctx, func() bool {
		all := list()
		i := slices.IndexFunc(all, match)
		if i >= 0 {
			found = all[i]
		}
		return i >= 0
	})
	return found, err
}

// Ephemerals returns all ephemeral posts, oldest first.
func (s *Server) Ephemerals() []Post {
	s.state.Lock()
	defer s.state.Unlock()
	return slices.Clone(s.ephemeral)
}

// WaitEphemeral returns the first ephemeral post for which match is true.
func (s *Server) WaitEphemeral(ctx context.Context, match func(Post) bool) (Post, error) {
	return waitFor(ctx, s, match, func() []Post { return s.ephemeral })
}

// Answers returns what came by a call's response URL, or as the payload of its
// acknowledgement.
func (s *Server) Answers(call Call) []Answer {
	s.state.Lock()
	defer s.state.Unlock()
	return s.answers(call)
}

// answers returns what was sent to the response_url of a call. The lock is held.
func (s *Server) answers(call Call) []Answer {
	if resp := s.responses[call.token]; resp != nil {
		return slices.Clone(resp.answers)
	}
	return nil
}

// WaitAnswer returns the first answer to a call for which match is true.
func (s *Server) WaitAnswer(ctx context.Context, call Call, match func(Answer) bool) (Answer, error) {
	a, err := waitFor(ctx, s, match, func() []Answer { return s.answers(call) })
	if err != nil {
		return a, fmt.Errorf("wait for answer: %w", err)
	}
	return a, nil
}

// Deliveries returns every attempt to deliver anything, oldest first.
func (s *Server) Deliveries() []Delivery {
	s.state.Lock()
	defer s.state.Unlock()
	return s.attempts()
}

// attempts returns all attempts to deliver something to the app, the oldest first. The lock is held.
func (s *Server) attempts() []Delivery {
	var all []Delivery
	for _, d := range s.deliveries {
		all = append(all, *d)
	}
	return all
}

// WaitDelivery returns the first attempt for which match is true.
func (s *Server) WaitDelivery(ctx context.Context, match func(Delivery) bool) (Delivery, error) {
	d, err := waitFor(ctx, s, match, s.attempts)
	if err != nil {
		return d, fmt.Errorf("wait for delivery: %w", err)
	}
	return d, nil
}

// WaitAck returns the attempt by which an event, or a call, was acknowledged.
func (s *Server) WaitAck(ctx context.Context, eventID string) (Delivery, error) {
	return s.WaitDelivery(ctx, func(d Delivery) bool { return d.EventID == eventID && d.Acked })
}

// Views returns the modals and home tabs the bot opened.
func (s *Server) Views() []View {
	s.state.Lock()
	defer s.state.Unlock()
	return slices.Clone(s.views)
}

// WaitView returns the first view for which match is true.
func (s *Server) WaitView(ctx context.Context, match func(View) bool) (View, error) {
	return waitFor(ctx, s, match, func() []View { return s.views })
}

// Assistant returns what the bot set on a thread of the agent view.
func (s *Server) Assistant(channel, threadTS string) AssistantThread {
	s.state.Lock()
	defer s.state.Unlock()
	t := s.threads[channel+" "+threadTS]
	if t == nil {
		return AssistantThread{}
	}
	copied := *t
	copied.Status = slices.Clone(t.Status)
	return copied
}

// Reactions maps each reaction on a message to the ids of who put it there.
func (s *Server) Reactions(channel, ts string) map[string][]string {
	s.state.Lock()
	defer s.state.Unlock()
	seen := map[string][]string{}
	if p := s.message(channel, ts); p != nil {
		for name, users := range p.reactions {
			seen[name] = slices.Clone(users)
		}
	}
	return seen
}
