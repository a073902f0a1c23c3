package slack

import (
	"errors"
	"testing"
)

// What helps stands behind the address.
func TestRedact_KeepsTheCause(t *testing.T) {
	err := errors.New(`ask for a connection: Post "https://hooks.slack.com/T1/secret": dial tcp: connection refused`)
	want := "ask for a connection: Post (address hidden): dial tcp: connection refused"
	if got := redact(err).Error(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
