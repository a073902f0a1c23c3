package postgres

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"ravenbot/internal/store"
)

// serverErrors are what the server's error codes mean for whoever operates the bot; a code of two
// characters is a class. The first that fits counts.
var serverErrors = []struct{ code, what, remedy string }{
	{"28", "the database refuses the user or the password", "correct them in the address that store names"},
	{"3D000", "there is no such database", "create it (createdb), or name another one in the address that store names"},
	{"42501", "the user lacks rights in the database",
		"make the user the owner of the database, or of a schema named ravenbot in it"},
	{readOnly, "the server takes no changes: it is a standby, or read-only",
		"name the primary server in the address that store names; " +
			"with several hosts in it, target_session_attrs=read-write finds it"},
	{"53100", "the disk of the database is full",
		"free some space there: a bot that runs goes on by itself, a command has to be run again"},
	{"53200", "the server is out of memory", "give it more, or lower work_mem and max_connections"},
	{"53300", "the server has no connection left",
		"raise its max_connections, or lower pool_max_conns in the address that store names"},
	{"57P03", "the server is starting", "the bot tries again by itself"},
	{idleEnded, "the server ended an idle connection",
		"the bot tries again by itself; idle_session_timeout = 0 for the bot's user keeps the server from it"},
	{"57P", "the server is shutting down", "the bot tries again by itself"},
	{cancelled, "a statement took too long",
		"look at the load of the server, and for transactions that hold locks (pg_stat_activity)"},
	{"54000", "a name or text is larger than PostgreSQL takes", "use a shorter one"},
	{"3F000", "the schema ravenbot is missing", "restart the bot, which makes it, or restore a backup of the database"},
	{"42P01", "a table of the store is missing", "restore a backup of the database"},
	{"58", "the server has trouble with its disk", "look at the server's log"},
	{"XX", "the server found damage in its files", "look at the server's log, and restore a backup of the database"},
}

// cancelled is the code of a statement that was cancelled, by its time or by who asked for it.
const cancelled = "57014"

// idleEnded is the code of a connection that was idle for longer than idle_session_timeout.
const idleEnded = "57P05"

// explain returns a *store.SystemError for an error of the database or of the way to it. Errors of the store
// come back unchanged. No error that it returns has the password.
func (db *DB) explain(err error) error {
	var explained *store.SystemError
	var refused *pgconn.PgError
	var unknown *unknownError
	var replaced *replacedError
	var unfit *unfitError
	var lookup *net.DNSError
	switch {
	case err == nil || errors.As(err, &explained):
		return err
	case errors.As(err, &unknown):
		return db.systemError("the connection was lost while a change was committed, and it could not be found out "+
			"whether it was", "repeat anything that is missing", err)
	case errors.As(err, &refused):
		for _, e := range serverErrors {
			if strings.HasPrefix(refused.Code, e.code) {
				explained = db.systemError(e.what, e.remedy, err)
				// Resources that are used up, interventions of an operator such as a lock on a table, and a server that
				// takes no changes for a while concern nothing that the bot has done, or could do about it.
				explained.Passing = e.code == readOnly || strings.HasPrefix(e.code, "53") || strings.HasPrefix(e.code, "57")
				return explained
			}
		}
		return db.systemError("the server refused a statement", "look at the server's log", err)
	case errors.Is(err, context.Canceled):
		return err
	case isExpired(err):
		explained = db.systemError("the certificate of the database has expired, or is not valid yet by the clock of this "+
			"machine", "renew it, or set the clock of this machine; the bot tries again by itself", err)
		explained.Passing = true
		return explained
	case isUntrusted(err):
		return db.systemError("the certificate of the database is not the expected one", "write the host in the address of "+
			"the store as the certificate names it, and name the certificate of its authority: "+
			"sslmode=verify-full&sslrootcert=FILE", err)
	case errors.As(err, &replaced):
		explained = db.systemError("another server has replaced the answering one: its standby was promoted",
			"stop it, or make it a standby of the other one (pg_rewind); if it is the right one, because a backup of it was "+
				"restored, restart the bot", err)
		explained.Passing = true
		return explained
	case errors.As(err, &unfit):
		explained = db.systemError("no server that can be reached is of the kind that target_session_attrs asks for",
			"see that one of those in the address of the store takes changes; the bot tries again by itself", err)
		explained.Passing = true
		return explained
	case errors.As(err, &lookup):
		explained = db.systemError("the name of the database's host is not found", "correct the host in the address that "+
			"store names, and see that the name servers answer, where the network allows only some traffic to port 53, too; "+
			"the bot tries again by itself", err)
		explained.Passing = true
		return explained
	// pgx has no name for this error (v5.12.0, 2026-11).
	case strings.Contains(err.Error(), "server refused TLS connection"):
		return db.systemError("the database takes no encrypted connections", "switch them on in the server (ssl = on), or, "+
			"where the way to it is safe, write sslmode=disable in the address of the store", err)
	case isLost(err) || isOfConnection(err):
		explained = db.systemError("the database does not answer",
			"see that it runs and can be reached from here; the bot tries again by itself", err)
		explained.Passing = true
		return explained
	}
	return err
}

// isUntrusted reports whether a connection failed since the server's certificate is not trusted, or is for another
// host.
func isUntrusted(err error) bool {
	var untrusted *tls.CertificateVerificationError
	return errors.As(err, &untrusted)
}

// isExpired reports whether a connection failed since the server's certificate is not valid at this time. A machine whose
// clock a time server has not set yet finds that, too.
func isExpired(err error) bool {
	var invalid x509.CertificateInvalidError
	return errors.As(err, &invalid) && invalid.Reason == x509.Expired
}

// systemError returns an error in words for the operator, whose text has no password.
func (db *DB) systemError(what, remedy string, err error) *store.SystemError {
	return &store.SystemError{Path: db.name, What: what, Remedy: remedy, Err: db.withoutPassword(err), Code: err}
}

// withoutPassword returns an error whose text does not have the password.
func (db *DB) withoutPassword(err error) error {
	if db.secret == "" || !strings.Contains(err.Error(), db.secret) {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), db.secret, "***"))
}

// readOnly is the code of the server's error where it takes no changes.
const readOnly = "25006"

// isForAll reports whether an error keeps every transaction from being written, and not this one alone: such an error
// makes the store unhealthy.
func isForAll(err error) bool {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code[:min(len(e.Code), 2)] {
	case "53", "58", "XX": // resources, the system, damage
		return true
	}
	return isCode(err, readOnly, "42501", "3F000", "42P01")
}

// checkServer returns a *store.SystemError where the server cannot hold the store. It looks at its clock, too.
func (db *DB) checkServer(ctx context.Context) error {
	var isOld, isReadOnly bool
	var version, encoding string
	err := db.read(ctx, func(ctx context.Context) error {
		var clock time.Time
		asked := readInstant()
		// 13 has all that is used here.
		err := db.pool.QueryRow(ctx, `select current_setting('server_version_num')::int < 130000,
			current_setting('server_version'), current_setting('server_encoding'),
			current_setting('transaction_read_only')::bool, clock_timestamp()`).
			Scan(&isOld, &version, &encoding, &isReadOnly, &clock)
		if err == nil {
			db.clock.note(asked, clock, readInstant())
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case isOld:
		return db.systemError("the server is too old", "use PostgreSQL 13 or newer; 15 is the oldest that was tried",
			fmt.Errorf("its version is %s", version))
	case encoding != "UTF8":
		return db.systemError("the database does not hold every text",
			"create it with the encoding UTF8 (createdb --encoding=UTF8 --template=template0)",
			fmt.Errorf("its encoding is %s", encoding))
	case isReadOnly:
		return db.explain(&pgconn.PgError{Severity: "ERROR", Code: readOnly, Message: "transactions are read-only"})
	}
	return nil
}
