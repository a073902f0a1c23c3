package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// servers are those that the address of a database names. Of several it has each connection go to the one that takes
// changes now (see choose), and it keeps connections away from one that another one has replaced: a primary that
// failed, that came back after its standby was promoted, and that takes changes beside it. PostgreSQL counts promotions
// by the number of the timeline (https://www.postgresql.org/docs/current/continuous-archiving.html#BACKUP-TIMELINES),
// which the replaced server does not know of.
type servers struct {
	each []*pgconn.Config // what connects to one of them; none where the address names a single one

	// choosing guards chosen and chosenAt: it has a value in it while they are used. Unlike a mutex it can be waited for
	// until a deadline.
	choosing chan struct{}
	chosen   *pgconn.Config // by the last choice; nil: none was made, or no server passed
	chosenAt time.Time

	mu      sync.Mutex
	newest  map[string]uint64 // that was seen, by what identifies a server and its standbys
	isLater bool              // a later one than before was seen since takeLater
}

// watchServers has every connection that is made with c checked, after what c itself asks of a server.
func watchServers(c *pgconn.Config) *servers {
	s := &servers{choosing: make(chan struct{}, 1), newest: map[string]uint64{}}
	asked := c.ValidateConnect
	c.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if asked != nil {
			if err := asked(ctx, conn); err != nil {
				return &unfitError{err}
			}
		}
		return s.check(ctx, conn)
	}
	s.each = serversOf(c)
	return s
}

// serversOf returns what connects to each of the servers that c names, and nil where that is one.
func serversOf(c *pgconn.Config) (list []*pgconn.Config) {
	first := &pgconn.FallbackConfig{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}
	for _, way := range append([]*pgconn.FallbackConfig{first}, c.Fallbacks...) {
		i := slices.IndexFunc(list, func(s *pgconn.Config) bool { return s.Host == way.Host && s.Port == way.Port })
		if i >= 0 { // with sslmode=prefer, the same without encryption
			list[i].Fallbacks = append(list[i].Fallbacks, way)
			continue
		}
		server := c.Copy()
		server.Host, server.Port, server.TLSConfig, server.Fallbacks = way.Host, way.Port, way.TLSConfig, nil
		list = append(list, server)
	}
	if len(list) == 1 {
		return nil
	}
	return list
}

// unfitError wraps the error of a connection to a server that is not of the kind which the address asks for by
// target_session_attrs: a standby where one is wanted that takes changes. It may be promoted in a moment.
type unfitError struct{ err error }

func (e *unfitError) Error() string { return e.err.Error() }
func (e *unfitError) Unwrap() error { return e.err }

// replacedError is the error of a connection to a server that another one has replaced.
type replacedError struct{ is, newest uint64 }

func (e *replacedError) Error() string {
	return fmt.Sprintf("the server is on timeline %d, and timeline %d was seen", e.is, e.newest)
}

// check returns a *replacedError where a later timeline than that of the server was seen. A server that does not tell
// its timeline, such as a standby, passes.
func (s *servers) check(ctx context.Context, conn *pgconn.PgConn) error {
	const query = `select system_identifier, pg_walfile_name(pg_current_wal_lsn()) from pg_control_system()
		where not pg_is_in_recovery()`
	results, err := conn.Exec(ctx, query).ReadAll()
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && !isPassing(refused.Code) {
		return nil // some services keep their users from these functions
	}
	if err != nil || len(results) == 0 || len(results[0].Rows) == 0 {
		return err
	}
	row := results[0].Rows[0]
	server, file := string(row[0]), string(row[1])
	const digits = 8 // hexadecimal, of the timeline at the beginning of the name
	is, err := strconv.ParseUint(file[:min(digits, len(file))], 16, 32)
	if err != nil {
		return nil // the name is of another form
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	newest, ok := s.newest[server]
	if is < newest {
		return &replacedError{is: is, newest: newest}
	}
	s.isLater = s.isLater || ok && is > newest
	s.newest[server] = is
	return nil
}

// Times of asking several servers.
const (
	// lookTimeout bounds the time for which look waits for a server that does not answer.
	lookTimeout = 2 * time.Second
	// othersWait is how long a choice waits for the other servers once one has answered. A server that is reached answers
	// within some round trips.
	othersWait = time.Second
	// chosenFor is how long a choice counts: when a server has failed, many connections are made at once.
	chosenFor = time.Second
)

// errSilent stands for the servers that did not answer within othersWait.
var errSilent = errors.New("another server did not answer")

// answer is what came of a connection to a server; err is nil where it takes what the address asks for.
type answer struct {
	server int // its place in the address
	err    error
}

// ask connects to every server at once and returns a channel that brings the answer of each, at the latest when ctx
// ends or the time to connect is over. Whoever does not wait for all ends ctx.
func (s *servers) ask(ctx context.Context) <-chan answer {
	answers := make(chan answer, len(s.each))
	for i, server := range s.each {
		go func() {
			conn, err := pgconn.ConnectConfig(ctx, server)
			if err == nil {
				_ = conn.Close(ctx) // it is of no use any more
			}
			answers <- answer{i, err}
		}()
	}
	return answers
}

// look notes the newest timeline of all servers that the address names, so that the first of them is not used where
// another one has replaced it. Servers that do not answer are left out.
func (s *servers) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	answers := s.ask(ctx)
	for range s.each {
		<-answers
	}
}

// choose has c connect to one of several servers, the first of the address that takes what the address asks for. All
// are asked at once: a machine that is gone answers nobody, and would hold up every connection for as long as
// connecting may take. The error is that of all servers, as of a connection.
func (s *servers) choose(ctx context.Context, c *pgx.ConnConfig) error {
	if len(s.each) == 0 {
		return nil
	}
	select {
	case s.choosing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.choosing }()
	if s.chosen == nil || time.Since(s.chosenAt) > chosenFor {
		var err error
		if s.chosen, err = s.firstToPass(ctx); err != nil {
			return err
		}
		s.chosenAt = time.Now()
	}
	c.Host, c.Port, c.TLSConfig, c.Fallbacks = s.chosen.Host, s.chosen.Port, s.chosen.TLSConfig, s.chosen.Fallbacks
	return nil
}

// firstToPass returns the first server of the address that takes what the address asks for, of those that answer within
// othersWait of one another.
func (s *servers) firstToPass(ctx context.Context) (*pgconn.Config, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := s.ask(ctx)
	var errs []error
	var over <-chan time.Time
	first := len(s.each)
waiting:
	for range s.each {
		select {
		case a := <-answers:
			if a.err == nil {
				first = min(first, a.server)
			} else {
				errs = append(errs, a.err)
			}
			if first == 0 {
				break waiting // nothing is before it
			}
			if over == nil {
				over = time.After(othersWait)
			}
		case <-over:
			errs = append(errs, errSilent)
			break waiting
		}
	}
	if first == len(s.each) {
		return nil, errors.Join(errs...)
	}
	return s.each[first], nil
}

// takeLater reports whether a later timeline than before was seen since the last call: connections from before may be
// to a server that was replaced.
func (s *servers) takeLater() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	isLater := s.isLater
	s.isLater = false
	return isLater
}
