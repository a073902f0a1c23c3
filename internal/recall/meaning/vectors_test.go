package meaning

import (
	"fmt"
	"log/slog"
	"math"
	"testing"
	"time"
)

func TestVector_ComparesDirections(t *testing.T) {
	for _, c := range []struct {
		a, b []float32
		want float64
	}{
		{[]float32{3, 4}, []float32{30, 40}, 1},
		{[]float32{1, 0}, []float32{0, 7}, 0},
		{[]float32{1, 1}, []float32{-2, -2}, -1},
		{[]float32{0.03, 0.04, 0.01}, []float32{0.01, -0.02, 0.09}, (3 - 8 + 9) / math.Sqrt(26*86)},
	} {
		if got := newVector(c.a).compare(newVector(c.b)); math.Abs(got-c.want) > minDifference {
			t.Errorf("%v and %v: %.4f, want %.4f", c.a, c.b, got, c.want)
		}
	}
	for _, values := range [][]float32{nil, {}, {0, 0}} {
		if v := newVector(values); v == nil || len(v) > 0 {
			t.Errorf("%v has the direction %v", values, v)
		}
	}
}

// Vectors in memory stay below a bound: the groups that were unused for longest are dropped, and loaded again when they
// are used.
func TestKeep_TooManyVectors_DropsUnusedGroups(t *testing.T) {
	x := New(nil, nil, slog.New(slog.DiscardHandler))
	for n := range 6 {
		name := fmt.Sprint("notes/", n)
		x.find(name, "model", "text")
		g := x.groups[name]
		g.used = time.Unix(int64(n), 0)
		x.keep([]item{{group: g, id: identify("model", "text"), vector: make(vector, maxBytes/4)}})
	}
	if x.bytes != maxBytes || len(x.groups) != 4 || x.groups["notes/1"] != nil {
		t.Errorf("%d bytes in %d groups are in memory", x.bytes, len(x.groups))
	}
	if v := x.find("notes/0", "model", "text"); v != nil || len(x.waiting) != 7 {
		t.Errorf("a dropped group is not loaded again: %d vectors wait", len(x.waiting))
	}
}
