package metrics_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"ravenbot/internal/ops/metrics"
)

func TestSamplesAreReadWhenAskedFor(t *testing.T) {
	n := 0.0
	h := metrics.Handler(func() []metrics.Sample {
		n++
		return []metrics.Sample{
			{Name: "ravenbot_posts_total", Help: "Posts.", IsCounter: true, Value: n, Labels: []string{"outcome", "posted"}},
			{Name: "ravenbot_posts_total", Help: "Posts.", IsCounter: true, Value: 0, Labels: []string{"outcome", `gi"ven`}},
			{Name: "ravenbot_store_bytes", Help: "Size.", Value: 4096},
		}
	})
	for _, want := range []string{"1", "2"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		for _, line := range []string{`ravenbot_posts_total{outcome="posted"} ` + want,
			`ravenbot_posts_total{outcome="gi\"ven"} 0`,
			"# TYPE ravenbot_posts_total counter", "# TYPE ravenbot_store_bytes gauge", "ravenbot_store_bytes 4096",
			"go_goroutines "} {
			if !strings.Contains(w.Body.String(), line) {
				t.Errorf("status %d, %q is missing in\n%s", w.Code, line, w.Body)
			}
		}
	}
}
