package replica

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"
)

// Times of noting replicas that cannot be reached.
const (
	// unreachedFor is how long a replica may not be reached before that is logged: longer than one that was killed counts
	// as living, which nobody has to look at.
	unreachedFor = 20 * time.Second
	// unreachedEvery is how often it is logged, and how long no failure ends a row of them: the address may belong to
	// another replica by then.
	unreachedEvery = time.Minute
)

// reach connects to other replicas, and logs which of them cannot be reached for longer than a takeover lasts. The
// database says that they live, so that a firewall or a network policy is in between; nothing else tells of it, since what
// is to be handed on is repeated by whoever sent it.
type reach struct {
	log *slog.Logger
	now func() time.Time

	mu     sync.Mutex
	failed map[string]*failures // by address
}

// failures are those to connect to one address since it was last reached.
type failures struct{ first, last, logged time.Time }

func newReach(log *slog.Logger, now func() time.Time) *reach {
	return &reach{log: log, now: now, failed: map[string]*failures{}}
}

// dial connects to a replica.
func (r *reach) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
	r.note(address, err)
	return conn, err
}

// note notes the result of an attempt to connect to a replica.
func (r *reach) note(address string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, f := r.now(), r.failed[address]
	if err == nil {
		if f != nil && !f.logged.IsZero() {
			r.log.Info("replica is reached again", "address", address)
		}
		delete(r.failed, address)
		return
	}
	for a, f := range r.failed {
		if now.Sub(f.last) > unreachedEvery {
			delete(r.failed, a)
		}
	}
	if f = r.failed[address]; f == nil {
		f = &failures{first: now}
		r.failed[address] = f
	}
	if f.last = now; now.Sub(f.first) < unreachedFor || now.Sub(f.logged) < unreachedEvery {
		return
	}
	f.logged = now
	r.log.Warn("another replica cannot be reached, though the database says that it lives", "address", address,
		"since", f.first, "error", err,
		"remedy", "let replicas reach one another at this address and port: look at firewalls, network policies and http.listen")
}
