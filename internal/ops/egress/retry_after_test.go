package egress_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/ops/egress"
)

func TestReadRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for said, want := range map[string]time.Duration{
			"30": 30 * time.Second, "1.5": 1500 * time.Millisecond,
			time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat):  90 * time.Second,
			time.Now().Add(-90 * time.Second).UTC().Format(http.TimeFormat): 0,
			"": 0, "-3": 0, "soon": 0, "NaN": 0, "1e300": 0,
		} {
			if got := egress.ReadRetryAfter(http.Header{"Retry-After": {said}}); got != want {
				t.Errorf("%q is %v, want %v", said, got, want)
			}
		}
	})
}
