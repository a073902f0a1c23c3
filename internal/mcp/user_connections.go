package mcp

import (
	"context"
	"fmt"
	"sync"
	"time"

	"ravenbot/internal/core/tool"
)

const (
	// maxUsers is how many users may be connected to one server at a time.
	maxUsers = 200
	// userIdleTimeout is how long the connection of a user lasts after the last call.
	userIdleTimeout = 15 * time.Minute
)

// userConnections are the connections of a server whose users each sign in for themselves. Its own
// connection, with the sign-in of the operator, tells which tools there are; calls go over the one
// of who calls. The zero value is ready for use.
type userConnections struct {
	mu     sync.Mutex
	byUser map[string]*userServer // by platform:workspace/user
	closed bool                   // the server has ended: no more are made
}

type userServer struct {
	*server
	idle *time.Timer
	used time.Time // when a caller was given it last; userConnections.mu guards it
}

// forCaller returns the server that serves the caller of ctx: s itself, or the connection
// of the user. Otherwise it returns what to tell the model.
func (s *server) forCaller(ctx context.Context) (*server, string) {
	if !s.c.PerUser {
		return s, ""
	}
	caller := tool.CallerFrom(ctx)
	if caller.User.ID == "" {
		return nil, fmt.Sprintf("The MCP server %q makes calls for one user at a time, "+
			"and it is not known for whom this one is. Nothing was run.", s.c.Name)
	}
	at := caller.Conversation
	// A user id alone may be that of somebody else on another platform or in another workspace, whose calls must not be
	// made with this user's sign-in.
	m, problem := s.userServer(at.Platform + ":" + at.Workspace + "/" + caller.User.ID)
	if problem != "" {
		return nil, problem
	}
	m.awaitState(ctx, func() bool { return m.conn != nil || m.state != Uninitialized && m.state != Connecting })
	return m.server, ""
}

// userServer returns the connection of a user, and makes it if there is none, or returns what to tell the model.
func (s *server) userServer(user string) (*userServer, string) {
	// The order of locks is users.mu before Host.mu before server.mu.
	s.users.mu.Lock()
	defer s.users.mu.Unlock()
	if m := s.users.byUser[user]; m != nil {
		m.used = time.Now()
		m.idle.Reset(userIdleTimeout)
		return m, ""
	}
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	if s.h.ctx == nil || s.users.closed || len(s.users.byUser) >= maxUsers {
		return nil, fmt.Sprintf("The MCP server %q is not available: it has ended, "+
			"or too many people use it at a time. Nothing was run.", s.c.Name)
	}
	c := s.c
	c.User, c.PerUser = user, false
	m := &userServer{server: newServer(s.h, c, s.source), used: time.Now()}
	m.retired.Store(true) // nothing of it is saved: its tools are those of s
	m.logs = s.logs
	if s.users.byUser == nil {
		s.users.byUser = map[string]*userServer{}
	}
	s.users.byUser[user] = m
	m.idle = time.AfterFunc(userIdleTimeout, func() { s.closeIdleUser(user, m) })
	s.h.startServer(m.server)
	return m, ""
}

// closeIdleUser ends the connection of a user, unless a call is running or about to run.
func (s *server) closeIdleUser(user string, m *userServer) {
	m.mu.Lock()
	busy := m.conn != nil && m.conn.hasCalls()
	m.mu.Unlock() // before users.mu, which comes first in the order of locks
	s.users.mu.Lock()
	defer s.users.mu.Unlock()
	// Reset does not take back a timer that has fired: a call may have been given the connection since, and not have
	// begun on it yet.
	if busy || time.Since(m.used) < userIdleTimeout {
		m.idle.Reset(userIdleTimeout)
		return
	}
	if s.users.byUser[user] == m {
		delete(s.users.byUser, user)
	}
	m.quit()
}

// closeUsers ends the connections of all users; no more are made from now on.
func (s *server) closeUsers() {
	s.users.mu.Lock()
	defer s.users.mu.Unlock()
	s.users.closed = true
	for _, m := range s.users.byUser {
		m.idle.Stop()
		m.quit()
	}
	clear(s.users.byUser)
}

// setUsersWanted calls setWanted for the connections of all users.
func (s *server) setUsersWanted(wanted bool, reason error) {
	s.users.mu.Lock()
	defer s.users.mu.Unlock()
	for _, m := range s.users.byUser {
		m.setWanted(wanted, reason)
	}
}
