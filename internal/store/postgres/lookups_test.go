package postgres

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"ravenbot/internal/store"
)

// Name servers that do not answer, as behind a network policy that leaves out port 53, are named before the deadline of
// the lookup itself, and so is a name that they do not know.
func TestOpen_NameIsNotFound_NamesIt(t *testing.T) {
	for name, lookUp := range map[string]func(context.Context, string) ([]string, error){
		"no answer": func(ctx context.Context, _ string) ([]string, error) {
			<-ctx.Done()
			return nil, &net.DNSError{Err: "canceled"}
		},
		"unknown": func(_ context.Context, host string) ([]string, error) {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, err := Open(t.Context(), "postgres://bot:s3cret@db.internal/raven", Options{lookup: lookUp})
				trouble, ok := errors.AsType[*store.SystemError](err)
				if !ok || !trouble.Passing || !strings.Contains(trouble.What, "the name of the database's host is not found") ||
					!strings.Contains(trouble.Error(), "lookup db.internal") || !strings.Contains(trouble.Remedy, "port 53") {
					t.Errorf("the error is %v", err)
				}
			})
		})
	}
}

// What kept the server from being reached is named, though the deadline has cut off the last attempt, which says nothing.
func TestRetry_LastAttemptIsCutOff_NamesWhyTheServerIsNotReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := connect(t.Context(), "postgres://bot@192.0.2.1/raven", Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.pool.Close()
		c := db.pool.Config().ConnConfig.Config
		c.DialFunc = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no route to host") }
		_, unreached := pgconn.ConnectConfig(t.Context(), &c)
		attempts := 0
		err = db.retry(t.Context(), time.Second, func(ctx context.Context) error {
			if attempts++; attempts == 1 {
				return &lostError{unreached}
			}
			<-ctx.Done()
			return &lostError{ctx.Err()}
		})
		if attempts != 2 || err == nil || !strings.Contains(err.Error(), "192.0.2.1:5432") ||
			!strings.Contains(err.Error(), "no route to host") {
			t.Errorf("the error after %d attempts is %v", attempts, err)
		}
	})
}
