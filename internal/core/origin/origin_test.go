package origin_test

import (
	"fmt"
	"slices"
	"testing"

	"ravenbot/internal/core/origin"
)

// However many sources and authors are joined, the result still shows that there was foreign text and that some
// authors are not named.
func TestWith_ManyAreBounded(t *testing.T) {
	var o origin.Origin
	for n := range 20 {
		o = o.With(origin.User("web", fmt.Sprint("U", n))).With(origin.Foreign(fmt.Sprint("page ", n)))
	}
	if len(o.Taint) != 8 || len(o.Authors) != 9 || o.Authors[8] != "/" || !o.IsForeign() {
		t.Errorf("%+v", o)
	}
	full := origin.Origin{Authors: o.Authors[:8]}
	if same := full.With(origin.User("web", "U1")); len(same.Authors) != 8 {
		t.Errorf("an author who is named adds %q", same.Authors)
	}
	if same := o.With(origin.User("web", "U1")); !slices.Equal(same.Authors, o.Authors) {
		t.Errorf("an author who is named adds %q", same.Authors)
	}
}

// Stored turns share the lists of an origin.
func TestWith_LeavesTheOriginAsItIs(t *testing.T) {
	a := origin.Foreign("a page")
	b, c := a.With(origin.Foreign("a file")), a.With(origin.Foreign("a feed"))
	if b.Taint[1] != "a file" || c.Taint[1] != "a feed" || len(a.Taint) != 1 {
		t.Errorf("%v, %v, %v", a, b, c)
	}
}
