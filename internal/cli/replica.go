package cli

import (
	"context"
	"errors"
	"fmt"
	"net"

	"ravenbot/internal/app"
	"ravenbot/internal/replica"
	"ravenbot/internal/storage"
	"ravenbot/internal/store"
)

// errTakenOver ends a replica that acted until another one took over.
var errTakenOver = errors.New("another replica has taken over")

// runReplica runs the daemon on a database that it shares with others: it stands by until it is the leader, and
// then acts until ctx ends or another replica takes over. Then the process begins anew, on standby.
func (c *invocation) runReplica(ctx context.Context, o app.Options) error {
	l, err := net.Listen("tcp", o.Config.HTTP.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s (is another ravenbot running? http.listen in config.json names the address): %w",
			o.Config.HTTP.Listen, err)
	}
	listener := l.(*net.TCPListener) // "tcp" makes no other
	acting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var shared *storage.Shared
	err = replica.StandBy(ctx, replica.Options{
		Open: func(ctx context.Context) (store.Membership, string, error) {
			var err error
			if shared, err = storage.OpenShared(ctx, o.Config, o.Log, o.Now); err != nil {
				return nil, "", err
			}
			go func() {
				select {
				case <-shared.Membership.Lost():
					stop(errTakenOver)
					// Nothing that is still under way may have an effect: it ends with this process.
					restartProcess(o.Log)
				case <-acting.Done():
				}
			}()
			return shared.Membership, replica.AdvertisedAddress(l.Addr(), shared.Address), nil
		},
		Listener: listener,
		Log:      o.Log,
	})
	if err != nil {
		if shared != nil {
			err = errors.Join(err, shared.Close())
		}
		err = errors.Join(err, l.Close())
		if ctx.Err() != nil {
			o.Log.Info("stopped")
			return nil
		}
		return err
	}
	o.Storage, o.Listener = &shared.Storage, listener
	return c.runApp(acting, o)
}
