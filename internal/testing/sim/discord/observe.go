package simdiscord

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"ravenbot/internal/testing/sim"
)

// GatewayFaults are switched on and off as a whole with SetFaults.
type GatewayFaults struct {
	NoHello       bool // new connections are greeted with silence
	NoAcks        bool // heartbeats stay unanswered
	RefuseResumes bool // every RESUME is answered "invalid session"
	Repeat        int  // every event is delivered so often; 0: once
}

// Identify is one IDENTIFY received, accepted or not.
type Identify struct {
	At      time.Time
	Intents int
	Shard   []int
}

// Resume is one RESUME received. Replayed counts the missed events sent.
type Resume struct {
	At          time.Time
	Session     string
	Seq         int
	OK          bool
	Replayed    int
	ByResumeURL bool // it came to the address READY gave for it
}

// SetFaults replaces the gateway's faults.
func (s *Server) SetFaults(f GatewayFaults) {
	s.state.Lock()
	defer s.state.Release()
	s.faults = f
}

// WantShards ends every session and takes no more that divide the servers among
// fewer, as Discord does of a bot in thousands of servers.
func (s *Server) WantShards(n int) {
	s.state.Lock()
	s.minShards = n
	s.state.Release()
	s.Drop(0, 4011)
}

// Drop ends up to n gateway connections, all if n is 0, and returns how many.
// Code 0 cuts the connection without a close frame.
func (s *Server) Drop(n, code int) int {
	s.state.Lock()
	links := s.liveLinks()
	if n > 0 {
		links = links[:min(n, len(links))]
	}
	// 4004 and above 4009 end what the session could have carried on.
	for _, l := range links {
		if fatal := code == 4004 || code >= 4010 || code == 4007 || code == 4009; fatal && l.session != nil {
			delete(s.sessions, l.session.id)
		}
	}
	s.state.Release()
	for _, l := range links {
		if code == 0 {
			l.sock.Cut()
		} else {
			l.sock.CloseWith(code, "dropped")
		}
	}
	return len(links)
}

// Outage ends every session for good and turns connections away until end is
// called. No session, present or future, learns from the gateway what happens
// meanwhile.
func (s *Server) Outage() (end func()) {
	s.state.Lock()
	s.away = true
	clear(s.sessions)
	links := s.liveLinks()
	s.state.Release()
	for _, l := range links {
		l.sock.Cut()
	}
	return func() {
		s.state.Lock()
		defer s.state.Release()
		s.away = false
	}
}

// RateLimit answers matching REST requests with 429 as Discord does, so many
// times or, if times is 0, until switched off. scope is user, shared or global.
func (s *Server) RateLimit(match func(sim.Request) bool, times int, after time.Duration, scope string) (off func()) {
	seconds := strconv.FormatFloat(after.Seconds(), 'f', 3, 64)
	f := sim.Fault{Match: match, Times: times, Status: http.StatusTooManyRequests,
		Header: map[string]string{
			"Retry-After":       strconv.Itoa(int(math.Ceil(after.Seconds()))),
			"X-RateLimit-Scope": scope,
			"Content-Type":      "application/json",
		},
		Body: fmt.Sprintf(
			`{"message":"You are being rate limited.","retry_after":%s,"global":%t}`,
			seconds,
			scope == "global",
		)}
	if scope == "global" {
		f.Header["X-RateLimit-Global"] = "true"
	} else {
		f.Header["X-RateLimit-Remaining"], f.Header["X-RateLimit-Reset-After"] = "0", seconds
	}
	return s.Fail(f)
}

// AskReconnect sends every connection opcode 7.
func (s *Server) AskReconnect() {
	s.state.Lock()
	defer s.state.Release()
	for _, l := range s.links {
		l.sock.Send(encode(opReconnect, nil))
	}
}

// InvalidateSessions sends every connection opcode 9. A session that is not
// resumable is forgotten, so that the same socket may identify again.
func (s *Server) InvalidateSessions(resumable bool) {
	s.state.Lock()
	defer s.state.Release()
	for _, l := range s.links {
		if l.session != nil {
			if !resumable {
				delete(s.sessions, l.session.id)
			}
			l.session.link = nil
			l.session = nil
		}
		l.sock.Send(encode(opInvalidSession, resumable))
	}
}

// Posts returns what the bot posted in a channel, deleted posts included,
// oldest first.
func (s *Server) Posts(channel string) []Post {
	s.state.Lock()
	defer s.state.Unlock()
	return s.ownPosts(channel)
}

// ownPosts returns the bot's posts of a channel in their order, with those that were deleted. The lock is held.
func (s *Server) ownPosts(channel string) []Post {
	var own []Post
	for _, p := range s.order[channel] {
		if p.Author.ID == s.bot.ID {
			own = append(own, *p)
		}
	}
	return own
}

// WaitPost returns the bot's first post in a channel, as it stands after any
// edits, for which match is true.
func (s *Server) WaitPost(ctx context.Context, channel string, match func(Post) bool) (Post, error) {
	var found Post
	err := s.state.Wait(ctx, func() bool {
		posts := s.ownPosts(channel)
		i := slices.IndexFunc(posts, match)
		if i >= 0 {
			found = posts[i]
		}
		return i >= 0
	})
	if err != nil {
		return Post{}, fmt.Errorf("wait for post in channel %s: %w", channel, err)
	}
	return found, nil
}

// WaitAnyPost is WaitPost for all channels, threads and direct messages.
func (s *Server) WaitAnyPost(ctx context.Context, match func(Post) bool) (Post, error) {
	var found Post
	err := s.state.Wait(ctx, func() bool {
		for _, c := range s.channels {
			posts := s.ownPosts(c.ID)
			if i := slices.IndexFunc(posts, match); i >= 0 {
				found = posts[i]
				return true
			}
		}
		return false
	})
	if err != nil {
		return Post{}, fmt.Errorf("wait for post: %w", err)
	}
	return found, nil
}

// WaitSessions returns when at least n gateway sessions are identified and
// connected.
func (s *Server) WaitSessions(ctx context.Context, n int) error {
	err := s.state.Wait(ctx, func() bool { return s.connected() >= n })
	if err != nil {
		return fmt.Errorf("wait for %d gateway sessions: %w", n, err)
	}
	return nil
}

// connected returns how many connections have a session. The lock is held.
func (s *Server) connected() int {
	n := 0
	for _, l := range s.links {
		if l.session != nil {
			n++
		}
	}
	return n
}

// WaitIdentifies returns all IDENTIFYs once there are at least n.
func (s *Server) WaitIdentifies(ctx context.Context, n int) ([]Identify, error) {
	err := s.state.Wait(ctx, func() bool { return len(s.identifies) >= n })
	return s.Identifies(), err
}

// WaitResumes returns all RESUMEs once there are at least n.
func (s *Server) WaitResumes(ctx context.Context, n int) ([]Resume, error) {
	err := s.state.Wait(ctx, func() bool { return len(s.resumes) >= n })
	return s.Resumes(), err
}

// WaitHeartbeats returns when at least n heartbeats have come in all.
func (s *Server) WaitHeartbeats(ctx context.Context, n int) error {
	return s.state.Wait(ctx, func() bool { return s.heartbeats >= n })
}

// Connections counts the open gateway sockets, identified or not.
func (s *Server) Connections() int {
	s.state.Lock()
	defer s.state.Unlock()
	return len(s.links)
}

// Identifies returns every IDENTIFY so far.
func (s *Server) Identifies() []Identify {
	s.state.Lock()
	defer s.state.Unlock()
	return slices.Clone(s.identifies)
}

// Resumes returns every RESUME so far.
func (s *Server) Resumes() []Resume {
	s.state.Lock()
	defer s.state.Unlock()
	return slices.Clone(s.resumes)
}

// Typing counts the typing signals in a channel.
func (s *Server) Typing(channel string) int {
	s.state.Lock()
	defer s.state.Unlock()
	return s.typing[channel]
}

// Reactions maps each emoji on a message to the ids of who put it there.
func (s *Server) Reactions(message string) map[string][]string {
	s.state.Lock()
	defer s.state.Unlock()
	seen := map[string][]string{}
	for emoji, users := range maps.All(s.emoji[message]) {
		seen[emoji] = slices.Clone(users)
	}
	return seen
}

// Violations returns the requests that broke Discord's OpenAPI document.
func (s *Server) Violations() []Violation {
	s.state.Lock()
	defer s.state.Unlock()
	return slices.Clone(s.violations)
}

// report records what the OpenAPI document does not allow.
func (s *Server) report(found []Violation) {
	s.state.Lock()
	defer s.state.Release()
	s.violations = append(s.violations, found...)
}
