// Package postgres keeps collections of records (package kv) in a PostgreSQL database, which several processes may use
// at once. It promises:
//   - A write is one transaction. A nil error means that it is committed. If the connection is lost during a commit,
//     the store finds out the outcome before it returns.
//   - Scopes of transactions keep concurrent writers apart, even in other processes.
//   - Every statement has a deadline, here and in the server.
//   - The bot survives a restart of the database.
//   - No error and no log line has the password.
//
// It uses plain SQL in its own schema, without extensions, functions and triggers. A connection keeps no state, so
// that a pooler can reassign it after each transaction. It is the only importer of pgx.
//
// A collection is a table (collections.go), which its declaration creates. The files in migrations create and change
// the other tables (schema.go). Every method passes read or write. Both run their operation through retry (retry.go),
// which repeats it while the database is away or transactions block one another, so the operation can run more than
// once and must set its results each time. write (write.go) sends statements in batches (batch.go). The first batch
// holds the beginning of the transaction, the guard and the locks of its scopes. The last batch holds its changes
// (kv.go), its commit and a row that resolves an unknown outcome. Errors of the server become a *store.SystemError for
// the operator (errors.go), and Health reports them (health.go). If several replicas share the database, membership.go
// refuses the writes of a replica that has lost its membership.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"ravenbot/internal/store/kv"
)

// Options configure a DB. The zero value of a field stands for what is named beside it.
type Options struct {
	Now      func() time.Time // time.Now
	Log      *slog.Logger     // slog.Default
	MaxConns int32            // connections at most: pool_max_conns of the URL, else 16
	Timeout  time.Duration    // of an operation, repeats included: 15 seconds
	Specs    []*kv.Spec       // collections, whose tables are created if they are missing: none

	application string            // the name by which the server lists the connections: daemonName
	lookup      pgconn.LookupFunc // of the addresses of a host: the system's name servers
}

const (
	// connectTimeout bounds one attempt to connect, where the URL has no connect_timeout.
	defaultMaxConns = 16
	defaultTimeout  = 15 * time.Second
	connectTimeout  = 10 * time.Second
	// goneAfter is for how long a machine may acknowledge nothing that was sent to it.
	goneAfter = 5 * time.Second
)

// DB is an open store. Its methods may be called concurrently.
type DB struct {
	pool    *pgxpool.Pool
	name    string           // of the database, for people: its address without the password
	secret  string           // the password
	machine func() time.Time // the clock of this machine, see Now
	clock   clock
	log     *slog.Logger
	timeout time.Duration
	health  health
	commits atomic.Uint64
	process int64      // names this process among those that write to the database
	slots   chan int64 // of the table writers that are free
	specs   []*kv.Spec
	servers *servers    // that the address names
	lookups *lookups    // of their names
	members *Membership // nil: this process may always write
	// guard queues statements that fail where this process may write no more. It is called with every
	// write transaction, before anything else; nil: it may always write.
	guard func(*batch)
}

// Open connects to the database and brings its tables to the format of this version. It returns a
// *store.SystemError where the database cannot be used, a *store.NewerError where a later version has
// written it, and a *store.DamagedError where an interrupted migration has left it incomplete.
func Open(ctx context.Context, address string, o Options) (*DB, error) {
	db, err := connect(ctx, address, o)
	if err != nil {
		return nil, err
	}
	err = db.migrate(ctx)
	if err == nil {
		err = db.createCollections(ctx)
	}
	if err == nil {
		err = db.checkState(ctx)
	}
	if err != nil {
		db.pool.Close()
		return nil, fmt.Errorf("open store: %w", err)
	}
	db.health.noteChecked(db.Now())
	return db, nil
}

// OpenAlone is Open, and Reserve, for a process that needs the database for itself. Where it is refused the format of
// the tables stays: daemons of the version before could not use those of this one.
func OpenAlone(ctx context.Context, address string, o Options) (*DB, error) {
	if err := checkOlderUnused(ctx, address, o); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	db, err := Open(ctx, address, o)
	if err != nil {
		return nil, err
	}
	if err := db.Reserve(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// checkOlderUnused returns a *store.InUseError where the tables have an older format, and a daemon is connected to
// them.
func checkOlderUnused(ctx context.Context, address string, o Options) error {
	o.application = migratorName // to be no daemon itself
	db, err := connect(ctx, address, o)
	if err != nil {
		return err
	}
	defer db.pool.Close()
	isOlder, err := db.isOlder(ctx)
	if err != nil || !isOlder {
		return err
	}
	return db.checkUnused(ctx)
}

// connect returns a DB whose tables are not looked at yet.
func connect(ctx context.Context, address string, o Options) (*DB, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log, o.Timeout = cmp.Or(o.Log, slog.Default()), cmp.Or(o.Timeout, defaultTimeout)
	config, err := parseURL(address, o)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	named := watchLookups(&config.ConnConfig.Config, o.lookup)
	watched := watchServers(&config.ConnConfig.Config)
	watched.look(ctx)
	config.BeforeConnect = watched.choose
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", DisplayName(address), err)
	}
	return &DB{
		pool:    pool,
		name:    DisplayName(address),
		secret:  config.ConnConfig.Password,
		machine: o.Now,
		log:     o.Log,
		timeout: o.Timeout,
		specs:   o.Specs,
		process: randomID(),
		slots:   make(chan int64, config.MaxConns),
		servers: watched,
		lookups: named,
	}, nil
}

// parseURL returns the configuration of the pool. Its errors have no part of the URL but its host.
func parseURL(address string, o Options) (*pgxpool.Config, error) {
	if !strings.HasPrefix(address, "postgres://") && !strings.HasPrefix(address, "postgresql://") {
		return nil, fmt.Errorf("a database is named postgres://USER:PASSWORD@HOST/DATABASE")
	}
	config, err := pgxpool.ParseConfig(address)
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, fmt.Errorf("a file that the address of the database %s names cannot be read: %w", DisplayName(address),
			file)
	}
	// pgx has no name for this error (v5.12.0, 2026-11).
	if err != nil && strings.Contains(err.Error(), "unable to add CA to cert pool") {
		return nil, fmt.Errorf("the file that the address of the database %s names as sslrootcert has no certificate: "+
			"put that of the authority there, in PEM", DisplayName(address))
	}
	if err != nil {
		// The cause may quote what it could not read, and with it the password.
		return nil, fmt.Errorf("the address of the database %s cannot be read: want postgres://USER:PASSWORD@HOST/DATABASE; "+
			"in a password, characters such as / @ : # are written as %%2F %%40 %%3A %%23", DisplayName(address))
	}
	if o.MaxConns > 0 {
		config.MaxConns = o.MaxConns
	} else if !strings.Contains(address, "pool_max_conns") {
		config.MaxConns = defaultMaxConns
	}
	c := config.ConnConfig
	c.RuntimeParams["application_name"] = cmp.Or(o.application, daemonName)
	// A role or a database may have another one as its default, in which pgx reads no times. Poolers take this setting.
	c.RuntimeParams["datestyle"] = "ISO"
	// Every statement is parsed for itself and in the same round trip: a pooler in transaction mode lends
	// the next transaction another connection, which would not know a prepared statement, and a described
	// statement that is cached breaks when a newer version has changed a table.
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, connectTimeout)
	// A machine that vanished is noticed after half a minute, and where something is sent to it after goneAfter.
	dialer := net.Dialer{Control: endUnacknowledged(goneAfter), KeepAliveConfig: net.KeepAliveConfig{
		Enable:   true,
		Idle:     15 * time.Second,
		Interval: 5 * time.Second,
		Count:    3,
	}}
	c.DialFunc = dialer.DialContext
	// A statement whose deadline has passed is cancelled in the server, too.
	c.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: time.Second}
	}
	config.MaxConnLifetime, config.MaxConnLifetimeJitter = 30*time.Minute, 5*time.Minute
	config.MaxConnIdleTime = 5 * time.Minute
	config.PingTimeout = connectTimeout
	return config, nil
}

// DisplayName returns the address of a database without its password and options. Anything else comes back as it
// is.
func DisplayName(address string) string {
	if !strings.HasPrefix(address, "postgres://") && !strings.HasPrefix(address, "postgresql://") {
		return address
	}
	u, err := url.Parse(address)
	if err != nil {
		return "postgres://…"
	}
	name := "postgres://"
	if u.User.Username() != "" {
		name += u.User.Username() + "@"
	}
	return name + u.Host + u.Path
}

// Size returns the bytes of all tables with their indexes. The server reuses what is free in them by
// itself, so nothing is reported as free.
func (db *DB) Size() (bytes, free int64, err error) {
	err = db.read(context.Background(), func(ctx context.Context) error {
		return db.pool.QueryRow(ctx, `select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
			from pg_class c join pg_namespace n on n.oid = c.relnamespace
			where n.nspname = 'ravenbot' and c.relkind = 'r'`).Scan(&bytes)
	})
	if err != nil {
		return 0, 0, fmt.Errorf("measure store: %w", err)
	}
	return bytes, 0, nil
}

// Commits returns the number of write transactions of this process since the store was opened.
func (db *DB) Commits() uint64 { return db.commits.Load() }

// LocalAddr returns the address that this machine has towards the database, as other replicas may reach it.
func (db *DB) LocalAddr(ctx context.Context) (addr net.Addr, err error) {
	err = db.read(ctx, func(ctx context.Context) error {
		return db.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
			addr = c.Conn().PgConn().Conn().LocalAddr()
			return nil
		})
	})
	return addr, err
}

// ID returns a name of this database that no other one has, a restored copy of it included: by the identifier that a
// server gets when it is made (a standby has that of its primary). It is "" where the server does not tell a bot.
func (db *DB) ID(ctx context.Context) (id string, err error) {
	const query = `select s.system_identifier || '/' || d.oid from pg_control_system() s, pg_database d
		where d.datname = current_database()`
	err = db.read(ctx, func(ctx context.Context) error { return db.pool.QueryRow(ctx, query).Scan(&id) })
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && !isPassing(refused.Code) {
		db.log.Debug("database does not tell its identifier", "error", refused)
		return "", nil
	}
	return id, err
}

// Close ends the membership, where there is one, and closes all connections. It waits for operations under way. The
// error is one of ending the membership; the connections are closed in any case.
func (db *DB) Close() error {
	var err error
	if db.members != nil {
		err = db.members.close()
	}
	db.pool.Close()
	return err
}
