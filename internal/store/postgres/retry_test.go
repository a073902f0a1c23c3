package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// unsent is the error of a statement that was not sent.
type unsent struct{ error }

func (unsent) SafeToRetry() bool { return true }

// What is not an answer of the server is tried again, and so is an answer that everybody gets for a while.
func TestIsOfConnection(t *testing.T) {
	unknown := errors.New("unknown")
	for _, c := range []struct {
		err  error
		want bool
	}{
		{unknown, false},
		{context.Canceled, false},
		{context.DeadlineExceeded, true},
		{io.EOF, true},
		{io.ErrUnexpectedEOF, true},
		{net.ErrClosed, true},
		{&net.OpError{Op: "dial", Err: unknown}, true},
		{&net.OpError{Op: "dial", Err: &tls.CertificateVerificationError{Err: unknown}}, false},
		{unsent{unknown}, true},
		{&pgconn.PgError{Code: "42P01"}, false},
		{&pgconn.PgError{Code: "57P01"}, true},
		{&pgconn.PgError{Code: "57P02"}, true},
		{&pgconn.PgError{Code: "57P03"}, true},
		{&pgconn.PgError{Code: "57P05"}, true},
		{&pgconn.PgError{Code: "53300"}, true},
	} {
		if got := isOfConnection(fmt.Errorf("read: %w", c.err)); got != c.want {
			t.Errorf("%v (%T): %v, want %v", c.err, c.err, got, c.want)
		}
	}
}
