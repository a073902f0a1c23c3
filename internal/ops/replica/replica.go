// Package replica makes several daemons on one store act as one bot. Each daemon stores and acknowledges the messages
// that it receives. The replica that has claimed the channel of a message answers it. The replica that first receives
// or takes work for a channel claims it, and releases it when the channel is idle. One replica is the leader: it does
// the work that must happen once, and serves the pages and the API. The others forward HTTP requests to it. When a
// replica ends, fails or loses the database, its claims end and others take its work. The database and its clock
// decide claims. The store and delivery check them before each write and each post.
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

// Options are what Join needs.
type Options struct {
	// Open opens the store. It is called again after a *store.SystemError that passes, and not after it has succeeded.
	Open     func(context.Context) (Opened, error)
	Listener *net.TCPListener // Join leaves it open
	Log      *slog.Logger
	Now      func() time.Time
}

// Opened is what Options.Open returns.
type Opened struct {
	Members store.Membership
	Address string // where other replicas reach the listener: host:port
	// Box returns what encrypts what replicas send to one another. It is called when this process is a member.
	Box func(context.Context) (Box, error)
}

// Join opens the store and makes this process one of its replicas. Meanwhile it answers HTTP that it is not ready: to
// bring the tables to a newer format may take minutes, and a supervisor kills a process that shows no life. While
// the database does not answer, or a command has it for itself, it waits. It returns the error of ctx where that ends
// first, and that of Open where the store cannot be used.
func Join(ctx context.Context, o Options) (*Node, error) {
	j := &joining{o: o}
	err := j.open(ctx)
	if err != nil {
		return nil, err
	}
	n := newNode(o, j.opened.Members, j.self)
	if n.box, err = j.opened.Box(ctx); err == nil {
		// What others have left is read as at any start, and so is who leads.
		err = n.look(ctx, nil, nil)
	}
	if err != nil {
		// Else the other replicas wait until the time of this membership is over.
		return nil, errors.Join(err, j.opened.Members.Leave(context.WithoutCancel(ctx)))
	}
	return n, nil
}

// joining is a process on its way to be a replica.
type joining struct {
	o      Options
	opened Opened // zero: the store is not open yet
	self   store.Replica
	why    atomic.Pointer[string] // what HTTP is told that is waited for; nil: nothing has failed
}

// try opens the store, where that has not been done, and joins its replicas.
func (j *joining) try(ctx context.Context) (err error) {
	if j.opened.Members == nil {
		if j.opened, err = j.o.Open(ctx); err != nil {
			return err
		}
	}
	if j.self, err = j.opened.Members.Join(ctx, j.opened.Address); err != nil {
		return fmt.Errorf("join the replicas of the store: %w", err)
	}
	return nil
}

// isPassing reports whether an error of the store passes by itself.
func isPassing(err error) bool {
	trouble, ok := errors.AsType[*store.SystemError](err)
	_, isInUse := errors.AsType[*store.InUseError](err)
	return ok && trouble.Passing || isInUse
}

// open tries until there is another error than one that passes, or none, and answers HTTP meanwhile.
func (j *joining) open(ctx context.Context) error {
	server := &http.Server{
		Handler:           http.HandlerFunc(j.serveWaiting),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		ErrorLog:          slog.NewLogLogger(j.o.Log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(reusable{j.o.Listener}) }()
	defer func() {
		_ = server.Close()
		<-ended
		// Close has ended Accept by a deadline, so that the listener can be used again.
		_ = j.o.Listener.SetDeadline(time.Time{})
	}()
	for told := false; ; told = true {
		err := j.try(ctx)
		if !isPassing(err) {
			return err
		}
		if !told {
			j.o.Log.Warn("database is not available; waiting", "error", err)
		}
		j.why.Store(new(reasonFor(err)))
		select {
		case err := <-ended:
			// For the deferred function, which waits for it.
			ended <- err
			return fmt.Errorf("serve http while the database is opened: %w", err)
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// reasonFor returns what /readyz says of an error that is waited for. Anybody may ask there, so that it names no address.
func reasonFor(err error) string {
	if trouble, ok := errors.AsType[*store.SystemError](err); ok {
		return "the store cannot be used: " + trouble.What
	}
	return waitingFor
}

const waitingFor = "the database is being opened, which takes minutes where its tables get a newer format; " +
	"or it does not answer or takes no changes, or a command of ravenbot has it for itself"

// serveWaiting answers while the database is not open.
func (j *joining) serveWaiting(w http.ResponseWriter, r *http.Request) {
	reason := waitingFor
	if why := j.why.Load(); why != nil {
		reason = *why
	}
	switch r.URL.Path {
	case "/healthz":
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	case "/readyz":
		writeJSON(w, http.StatusServiceUnavailable,
			map[string]string{"status": "not ready", "store": reason})
	default:
		unavailable(w, waitingFor)
	}
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
