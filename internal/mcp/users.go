package mcp

import (
	"context"
	"fmt"
	"sync"
	"time"

	"ravenbot/internal/tool"
)

const (
	// maxUsers is how many users one server may have a connection for at a time.
	maxUsers = 200
	// idleTime is how long the connection of a user lasts after the last call.
	idleTime = 15 * time.Minute
)

// users are the connections of a server whose users each sign in for themselves.
// Its own connection, with the sign-in of the operator, tells which tools there
// are; calls go over the one of who calls.
type users struct {
	mu   sync.Mutex
	of   map[string]*member
	gone bool // the server has ended: no more are made
}

type member struct {
	*server
	idle *time.Timer
}

// mine gives the server as it is to be called on behalf of ctx, or the reason for
// which it cannot be.
func (s *server) mine(ctx context.Context) (*server, string) {
	if !s.c.PerUser {
		return s, ""
	}
	caller := tool.CallerFrom(ctx)
	if caller.User.ID == "" {
		return nil, fmt.Sprintf("The MCP server %q is used in the name of a person, and nobody is known to ask. Nothing was run.", s.c.Name)
	}
	at := caller.Conversation
	m, problem := s.member(at.Platform + ":" + at.Workspace + "/" + caller.User.ID)
	if problem != "" {
		return nil, problem
	}
	m.await(ctx, func() bool { return m.conn != nil || m.state != Uninitialized && m.state != Connecting })
	return m.server, ""
}

// member gives the connection of a user, which begins now if there is none.
func (s *server) member(user string) (*member, string) {
	s.users.mu.Lock()
	defer s.users.mu.Unlock()
	if m := s.users.of[user]; m != nil {
		m.idle.Reset(idleTime)
		return m, ""
	}
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	if s.h.ctx == nil || s.users.gone || len(s.users.of) >= maxUsers {
		return nil, fmt.Sprintf("The MCP server %q is not available: it has ended, or too many people use it at a time. Nothing was run.", s.c.Name)
	}
	c := s.c
	c.User, c.PerUser = user, false
	m := &member{server: newServer(s.h, c, s.source)}
	m.retired.Store(true) // nothing is kept of it: its tools are those of s
	m.restored, m.logs = false, s.logs
	if s.users.of == nil {
		s.users.of = map[string]*member{}
	}
	s.users.of[user] = m
	m.idle = time.AfterFunc(idleTime, func() { s.leave(user, m) })
	s.h.start(m.server)
	return m, ""
}

// leave ends the connection of a user who has not used it for a while.
func (s *server) leave(user string, m *member) {
	m.mu.Lock()
	busy := m.conn != nil && m.conn.busy()
	m.mu.Unlock()
	s.users.mu.Lock()
	defer s.users.mu.Unlock()
	if busy {
		m.idle.Reset(idleTime)
		return
	}
	if s.users.of[user] == m {
		delete(s.users.of, user)
	}
	m.quit()
}

// dismiss ends the connections of all users, and lets no more be made.
func (s *server) dismiss() {
	s.users.mu.Lock()
	defer s.users.mu.Unlock()
	s.users.gone = true
	for _, m := range s.users.of {
		m.idle.Stop()
		m.quit()
	}
	clear(s.users.of)
}

// everyone wants the connections of users as want does.
func (s *server) everyone(wanted bool, reason error) {
	s.users.mu.Lock()
	defer s.users.mu.Unlock()
	for _, m := range s.users.of {
		m.want(wanted, reason)
	}
}
