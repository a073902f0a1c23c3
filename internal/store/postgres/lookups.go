package postgres

import (
	"context"
	"net"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
)

// lookups are the names of hosts that are looked up now. pgx goes on with a lookup in the background when the deadline
// of a statement has passed, since the connection can be used later (v5.12.0, 2026-11): where the name servers do not
// answer that takes 40 s in a cluster, and the statement's error would not name them.
type lookups struct {
	mu   sync.Mutex
	open map[string]int
}

// watchLookups has every lookup for c noted. It is made by lookUp, or by the system's name servers where that is nil.
func watchLookups(c *pgconn.Config, lookUp pgconn.LookupFunc) *lookups {
	l := &lookups{open: map[string]int{}}
	if lookUp == nil {
		lookUp = net.DefaultResolver.LookupHost
	}
	c.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
		l.add(host, 1)
		defer l.add(host, -1)
		return lookUp(ctx, host)
	}
	return l
}

func (l *lookups) add(host string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[host] += n; l.open[host] == 0 {
		delete(l.open, host)
	}
}

// unanswered returns a *net.DNSError where a name is being looked up, else nil.
func (l *lookups) unanswered() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for host := range l.open {
		return &net.DNSError{Err: "the name servers have not answered", Name: host, IsTimeout: true}
	}
	return nil
}
