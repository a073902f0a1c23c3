package tool_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"ravenbot/internal/core/tool"
)

type source []tool.Spec

func (s source) Tools() []tool.Tool {
	var list []tool.Tool
	for _, spec := range s {
		list = append(list, tool.Func{Described: spec})
	}
	return list
}

var safe = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,62}$`)

func TestEveryToolIsFoundUnderASafeNameOfItsOwn(t *testing.T) {
	long := strings.Repeat("very_long_name_", 10)
	specs := source{{Server: "a_b", Name: "c"}, {Server: "a", Name: "b_c"}, {Server: "a", Name: "b.c"},
		{Server: "a", Name: "b c"},
		{Server: "9lives", Name: "x"}, {Server: "-", Name: "x"}, {Server: "ünï", Name: "cødé"}, {Server: "s", Name: long + "1"},
		{Server: "s", Name: long + "2"}, {Server: "s", Name: ""}, {Server: "requestFirst Aid", Name: "PDF&URLTool"}}
	for n := range 50 {
		specs = append(specs, tool.Spec{Server: fmt.Sprint("one_", n), Name: "same"},
			tool.Spec{Server: "one", Name: fmt.Sprint(n, "_same")})
	}
	r := tool.NewRegistry(specs)
	names := map[string]tool.Spec{}
	for _, n := range r.List() {
		if !safe.MatchString(n.Name) {
			t.Errorf("%q is no safe name", n.Name)
		}
		names[n.Name] = n.Tool.Spec()
	}
	if len(names) != len(specs) {
		t.Errorf("%d names for %d tools", len(names), len(specs))
	}
	for name, spec := range names {
		got, ok := r.Find(name)
		if !ok || got.Spec().Server != spec.Server || got.Spec().Name != spec.Name {
			t.Errorf("%s leads to %+v, want %+v", name, got, spec)
		}
	}
}

func TestANameStaysWhenOthersComeAndGo(t *testing.T) {
	var now source
	r := tool.NewRegistry(&changing{&now})
	now = source{{Server: "a_b", Name: "c"}}
	first := r.List()[0].Name
	now = source{{Server: "a", Name: "b_c"}}
	second := r.List()[0].Name
	now = source{{Server: "a", Name: "b_c"}, {Server: "a_b", Name: "c"}}
	for _, n := range r.List() {
		want := first
		if n.Tool.Spec().Server == "a" {
			want = second
		}
		if n.Name != want {
			t.Errorf("%s of %s is now called %s, it was %s", n.Tool.Spec().Name, n.Tool.Spec().Server, n.Name, want)
		}
	}
	if first == second {
		t.Errorf("both are called %s", first)
	}
}

type changing struct{ now *source }

func (c *changing) Tools() []tool.Tool { return c.now.Tools() }
