// Package replica lets several daemons share one store. One of them acts: it is connected to the
// platforms, answers and posts. The others stand by, hand on the HTTP requests that reach them, and
// take over where the one that acts ends, fails or is cut off from the database. Who acts is decided by
// their memberships in the database and its clock. Checking it before each write and each post is up to the store
// and to delivery.
package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"ravenbot/internal/store"
)

// Options are what StandBy needs.
type Options struct {
	// Open opens the store, and returns this process's membership and where other replicas reach the listener: host:port. It is called
	// again after a *store.SystemError that passes, and not after it has succeeded.
	Open     func(context.Context) (store.Membership, string, error)
	Listener *net.TCPListener // StandBy leaves it open
	Log      *slog.Logger
}

// lookEvery is how often a replica on standby tries to become the leader, which bounds how long an orderly
// hand-over takes.
const lookEvery = 500 * time.Millisecond

// StandBy opens the store and returns when this replica is the leader. Until then it answers HTTP. It returns the
// error of ctx where that ends first, and that of Open where the store cannot be used.
func StandBy(ctx context.Context, o Options) error {
	s := &standby{o: o}
	held, err := s.look(ctx)
	if held || err != nil {
		return err
	}
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(reusable{o.Listener}) }()
	defer func() {
		_ = server.Close() // the requests under way go to a replica that no longer acts
		<-ended
		// Close has ended Accept by a deadline, so that the listener can be used again.
		_ = o.Listener.SetDeadline(time.Time{})
	}()
	for !held {
		select {
		case err := <-ended:
			ended <- err
			return fmt.Errorf("serve http on standby: %w", err)
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
		if held, err = s.look(ctx); err != nil {
			return err
		}
	}
	return nil
}

// standby answers HTTP while another replica acts.
type standby struct {
	o       Options
	members store.Membership // nil: the store is not open yet
	me      store.Replica    // zero: this process is no member yet
	address string
	isAway  bool // the operator knows that the database does not answer

	holder atomic.Pointer[store.Replica] // nil while the database does not answer
}

// open opens the store where that has not been done. It returns false where the database does not answer now.
func (s *standby) open(ctx context.Context) (bool, error) {
	if s.members != nil {
		return true, nil
	}
	members, address, err := s.o.Open(ctx)
	if trouble, ok := errors.AsType[*store.SystemError](err); ok && trouble.Passing {
		if !s.isAway {
			s.o.Log.Warn("database does not answer, waiting for it", "error", err)
		}
		s.isAway = true
		return false, nil
	}
	s.members, s.address = members, address
	return err == nil, err
}

// look tries to become the leader, and notes who is. A database that does not answer is tried again; an error is one
// of ctx, or says why the store cannot be used.
func (s *standby) look(ctx context.Context) (bool, error) {
	if ok, err := s.open(ctx); !ok || err != nil {
		return false, err
	}
	holder, err := s.claim(ctx)
	held := err == nil && holder.ID == s.me.ID
	if ctx.Err() != nil {
		if held {
			err = errors.Join(err, s.members.Leave(context.WithoutCancel(ctx)))
		}
		return false, errors.Join(ctx.Err(), err)
	}
	before := s.holder.Load()
	switch {
	case held:
		s.o.Log.Info("replica acts", "replica", s.me.ID)
	case err != nil:
		if before != nil {
			s.o.Log.Warn("database does not answer, standing by", "error", err)
		}
		s.holder.Store(nil)
	default:
		if before == nil || *before != holder {
			s.o.Log.Info("replica stands by", "active", holder.Name, "address", holder.Address)
		}
		s.holder.Store(&holder)
	}
	return held, nil
}

// claim joins the replicas where that has not been done, and returns who is the leader: this one where nobody was. What
// others have left is read by the start of this one.
func (s *standby) claim(ctx context.Context) (leader store.Replica, err error) {
	if s.me.ID == 0 {
		if s.me, err = s.members.Join(ctx, s.address); err != nil {
			return leader, err
		}
	}
	if _, err = s.members.Inherit(ctx); err != nil {
		return leader, err
	}
	return s.members.Claim(ctx, store.LeaderKey)
}

// reusable is a listener that can be used again after a server has closed it.
type reusable struct{ *net.TCPListener }

// Close ends Accept.
func (l reusable) Close() error { return l.SetDeadline(time.Unix(1, 0)) }

// AdvertisedAddress returns where other replicas reach a listener: its own address, with the IP address
// that this machine has towards the database in place of "all addresses".
func AdvertisedAddress(l net.Addr, towardsDatabase net.Addr) string {
	host, port, err := net.SplitHostPort(l.String())
	if err != nil || !net.ParseIP(host).IsUnspecified() {
		return l.String()
	}
	if tcp, ok := towardsDatabase.(*net.TCPAddr); ok {
		return net.JoinHostPort(tcp.IP.String(), port)
	}
	// The database is reached through a socket in the file system: it is on this machine.
	return net.JoinHostPort("127.0.0.1", port)
}
