package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Processes notify one another at once that something was changed, that a record belongs to nobody, or that a member has
// left. PostgreSQL delivers a notice with the commit. The receiver then looks as it does at intervals anyway: notices
// are lost when a connection breaks, and none arrives through a pooler that lends connections for one transaction.

const (
	noticeChannel = "ravenbot"
	workNotice    = "work" // any other notice is the number of the process that has changed something
	// notifyChange, notifyWork and leave send the notices. $1 of the last is the id of the member.
	notifyChange = `select pg_notify('` + noticeChannel + `', $1::bigint::text)`
	notifyWork   = `select pg_notify('` + noticeChannel + `', '` + workNotice + `')`
	leave        = `with ended as (` + endMember + ` returning id) ` + notifyWork + ` from ended`
)

const (
	// maxSilence is how long a connection may bring no notice before it is asked whether it still works.
	maxSilence = 30 * time.Second
	// relisten is the pause before the next connection.
	relisten = 2 * time.Second
)

// signal tells one receiver that there is something to look at. Several signals that it has not received are one.
type signal chan struct{}

// send does not wait.
func (s signal) send() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// listen sends the signals of this process for the notices of others, until ctx ends. It has a connection of its own,
// and connects again where that fails.
func (m *Membership) listen(ctx context.Context) {
	for ctx.Err() == nil {
		// An error is not reported: renewals fail with it, and the looks at intervals go on.
		m.listenOnce(ctx)
		select {
		case <-time.After(relisten):
		case <-ctx.Done():
		}
	}
}

// listenOnce listens until the connection fails.
func (m *Membership) listenOnce(ctx context.Context) {
	conn, err := m.connectToListen(ctx)
	if err != nil {
		return
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewEvery)
		defer cancel()
		_ = conn.Close(closing) // nothing was written
	}()
	// What came before the connection listened.
	m.changed.send()
	m.waiting.send()
	for {
		waiting, cancel := context.WithTimeout(ctx, maxSilence)
		notice, err := conn.WaitForNotification(waiting)
		isSilent := waiting.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil && notice.Payload == workNotice:
			m.waiting.send()
		case err == nil:
			if notice.Payload != fmt.Sprint(m.db.process) {
				m.changed.send()
			}
		case isSilent:
			if err := m.ping(ctx, conn); err != nil {
				return
			}
		default:
			return
		}
	}
}

// connectToListen returns a connection that receives the notices from now on.
func (m *Membership) connectToListen(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, maxSilence)
	defer cancel()
	config := m.pool.Config().ConnConfig
	if err := m.db.servers.choose(ctx, config); err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "listen "+noticeChannel); err != nil {
		_ = conn.Close(ctx) // it is of no use
		return nil, err
	}
	return conn, nil
}

// ping returns an error where the server does not answer on a connection, or was replaced by another one.
func (m *Membership) ping(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, renewEvery)
	defer cancel()
	if err := conn.Ping(ctx); err != nil {
		return err
	}
	return m.db.servers.check(ctx, conn.PgConn())
}

// Waiting returns a channel that brings a value soon after there is something to take. It may bring one without a
// reason, and may miss one.
func (m *Membership) Waiting() <-chan struct{} { return m.waiting }

// Changed returns what brings a value soon after another process has changed something that Changes counts. It may
// bring one without a reason, and may miss one. It never brings any where this process is no member.
func (db *DB) Changed() <-chan struct{} {
	if db.members == nil {
		return nil
	}
	return db.members.changed
}
