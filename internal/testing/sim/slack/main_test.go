package simslack_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain sees to it that a closed server leaves no goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
