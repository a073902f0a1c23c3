package cli

import (
	"context"
	"errors"
	"fmt"
	"net"

	"ravenbot/internal/app"
	"ravenbot/internal/ops/replica"
	"ravenbot/internal/store/storage"
)

// errTakenOver ends a replica of which another one has taken over what it owned.
var errTakenOver = errors.New("another replica has taken over")

// runReplica runs the daemon as one of those that share a database, until ctx ends. It takes the port before it joins,
// so that others can reach it from its first moment as a member. Where another replica has taken over what this one
// owned, because it was paused or cut off, the process begins anew.
func (c *invocation) runReplica(ctx context.Context, o app.Options) error {
	l, err := net.Listen("tcp", o.Config.HTTP.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s (is another ravenbot running? http.listen in config.json names the address): %w",
			o.Config.HTTP.Listen, err)
	}
	listener := l.(*net.TCPListener) // "tcp" makes no other
	var shared *storage.Shared
	node, err := replica.Join(ctx, replica.Options{
		Open: func(ctx context.Context) (replica.Opened, error) {
			var err error
			if shared, err = storage.OpenShared(ctx, o.Config, o.Log, o.Now); err != nil {
				return replica.Opened{}, err
			}
			box := func(ctx context.Context) (replica.Box, error) { return storage.OpenBox(ctx, o.Config, shared) }
			address := replica.AdvertisedAddress(l.Addr(), shared.Address)
			return replica.Opened{Members: shared.Membership, Address: address, Box: box}, nil
		},
		Listener: listener,
		Log:      o.Log,
		Now:      o.Now,
	})
	if err != nil {
		if shared != nil {
			err = errors.Join(err, shared.Close())
		}
		err = errors.Join(err, l.Close())
		// Whoever stops the bot while it waits for the database has not met a failure.
		if ctx.Err() != nil {
			o.Log.Info("stopped")
			return nil
		}
		return err
	}
	acting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-shared.Membership.Lost():
			stop(errTakenOver)
			// Nothing that is still under way may have an effect: it ends with this process.
			restartProcess(o.Log)
		case <-acting.Done():
		}
	}()
	o.Storage, o.Listener, o.Replica, o.Now = &shared.Storage, listener, node, shared.Now
	return c.runApp(acting, o)
}
