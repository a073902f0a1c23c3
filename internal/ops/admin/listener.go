package admin

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// listener accepts connections up to a limit. When it is reached, the connection that has waited longest for a whole
// request makes room: clients that send nothing cannot keep out those that do.
type listener struct {
	net.Listener
	max int
	log *slog.Logger

	mu      sync.Mutex
	open    map[*connection]bool
	waiting *list.List // of the connections without a whole request, the oldest first
	warned  time.Time  // when a problem was last logged
}

func newListener(l net.Listener, most int, log *slog.Logger) *listener {
	return &listener{Listener: l, max: most, log: log, open: map[*connection]bool{}, waiting: list.New()}
}

// connection is an accepted connection.
type connection struct {
	net.Conn
	listener *listener
	place    *list.Element // among those that wait; nil: a request is being answered
}

// CloseWrite lets net/http end an answer so that the client still reads it when it has sent more than was read.
func (c *connection) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Accept returns the next connection.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			// net/http tries again after a moment and would log this where nobody looks.
			if !errors.Is(err, net.ErrClosed) {
				l.warn("connection not accepted", "error", err)
			}
			return nil, err
		}
		c := &connection{Conn: conn, listener: l}
		crowded := l.add(c)
		if crowded == nil {
			return c, nil
		}
		l.warn("too many connections, one was closed", "limit", l.max)
		_ = crowded.Close() // its client cannot be told more than that
		if crowded != c {
			return c, nil
		}
	}
}

// add adds a connection and returns the one to close where there are too many. It is c where all others are busy.
func (l *listener) add(c *connection) *connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	var crowded *connection
	if len(l.open) >= l.max {
		oldest := l.waiting.Front()
		if oldest == nil {
			return c
		}
		crowded = oldest.Value.(*connection)
		l.remove(crowded)
	}
	l.open[c] = true
	c.place = l.waiting.PushBack(c)
	return crowded
}

// remove forgets a connection; the lock is held.
func (l *listener) remove(c *connection) {
	delete(l.open, c)
	if c.place != nil {
		l.waiting.Remove(c.place)
		c.place = nil
	}
}

// note follows the states of a connection.
func (l *listener) note(conn net.Conn, state http.ConnState) {
	c, ok := conn.(*connection)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case state == http.StateClosed || state == http.StateHijacked:
		l.remove(c)
	case state == http.StateIdle && l.open[c] && c.place == nil:
		c.place = l.waiting.PushBack(c)
	}
}

// warn logs a problem, at most once a minute: under attack there are thousands.
func (l *listener) warn(problem string, attrs ...any) {
	l.mu.Lock()
	now := time.Now()
	due := now.Sub(l.warned) >= time.Minute
	if due {
		l.warned = now
	}
	l.mu.Unlock()
	if due {
		l.log.Warn(problem, attrs...)
	}
}

// connectionKey is the context's key of a request's connection.
type connectionKey struct{}

func withConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// keepConnection marks the connection of a request as one that has sent a whole request, so that it is not closed in
// favour of others while the request is answered.
func keepConnection(r *http.Request) {
	c, ok := r.Context().Value(connectionKey{}).(*connection)
	if !ok {
		return // in the process itself, or a test
	}
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	if c.place != nil {
		c.listener.waiting.Remove(c.place)
		c.place = nil
	}
}
