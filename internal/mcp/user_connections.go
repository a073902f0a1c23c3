package mcp

import (
	"context"
	"fmt"
	"sync"
	"time"

	"ravenbot/internal/core/tool"
)

const (
	// maxUsers bounds the users that are connected to one server at a time.
	maxUsers = 200
	// userIdleTimeout is the time from a user's last call to the end of the connection.
	userIdleTimeout = 15 * time.Minute
)

// userConnections are the connections of a server to which each user signs in separately. The server's own connection,
// with the operator's sign-in, lists the tools. The zero value is ready for use.
type userConnections struct {
	mu     sync.Mutex
	byUser map[string]*userServer // by platform:workspace/user
	closed bool                   // the server has ended
}

type userServer struct {
	*server
	idle *time.Timer
	used time.Time // time of the last use; userConnections.mu guards it
}

// forCaller returns the server for the caller of ctx: s itself, or the user's connection. Otherwise it returns an
// explanation for the model.
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
	// The same user id may belong to another person on another platform or in another workspace.
	m, problem := s.userServer(at.Platform + ":" + at.Workspace + "/" + caller.User.ID)
	if problem != "" {
		return nil, problem
	}
	m.awaitState(ctx, func() bool { return m.conn != nil || m.state != Uninitialized && m.state != Connecting })
	return m.server, ""
}

// userServer returns or makes the connection of a user, or returns an explanation for the model.
func (s *server) userServer(user string) (*userServer, string) {
	// The order of locks is users.mu, Host.mu, server.mu.
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
	m.retired.Store(true) // nothing is saved: its tools are the tools of s
	m.logs = s.logs
	if s.users.byUser == nil {
		s.users.byUser = map[string]*userServer{}
	}
	s.users.byUser[user] = m
	m.idle = time.AfterFunc(userIdleTimeout, func() { s.closeIdleUser(user, m) })
	s.h.startServer(m.server)
	return m, ""
}

// closeIdleUser ends a user's connection, unless a call is running or about to run.
func (s *server) closeIdleUser(user string, m *userServer) {
	m.mu.Lock()
	busy := m.conn != nil && m.conn.hasCalls()
	m.mu.Unlock() // released before users.mu, which comes first in the order
	s.users.mu.Lock()
	defer s.users.mu.Unlock()
	// The timer may have fired before Reset: a call may have the connection already.
	if busy || time.Since(m.used) < userIdleTimeout {
		m.idle.Reset(userIdleTimeout)
		return
	}
	if s.users.byUser[user] == m {
		delete(s.users.byUser, user)
	}
	m.quit()
}

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

func (s *server) setUsersWanted(wanted bool, reason error) {
	s.users.mu.Lock()
	defer s.users.mu.Unlock()
	for _, m := range s.users.byUser {
		m.setWanted(wanted, reason)
	}
}
