package simmodel_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain sees to it that a closed server leaves no goroutine behind. A
// dependency of genai keeps one of its own.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}
