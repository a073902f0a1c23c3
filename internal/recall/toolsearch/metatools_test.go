package toolsearch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/tool"
)

// house is a world of tools: those there are, and those that this turn may use.
type house struct {
	finder *Finder
	all    []tool.Named
	barred string // the server that may not be used
	ran    []string
}

func newHouse() *house {
	h := &house{}
	h.add("calendar", "create", "Put an event into the calendar. It may repeat.",
		`{"type":"object","properties":{"title":{"type":"string"},"day":{"type":"string"}},"required":["title","day"]}`)
	h.add("calendar", "list", "", "")
	h.add("vault", "open", "Open the vault", "")
	for i := range 70 {
		h.add("lamps", fmt.Sprintf("switch_%02d", i), fmt.Sprintf("Switch lamp %d on or off\nin any room", i), "")
	}
	h.finder = NewFinder(New(), func(server string) string {
		return map[string]string{"lamps": "The lights. All of them."}[server]
	})
	h.finder.Sync(h.all)
	return h
}

func (h *house) add(server, name, does, schema string) {
	f := tool.Func{Described: tool.Spec{Server: server, Name: name, Description: does, Schema: json.RawMessage(schema)}}
	f.Do = func(_ context.Context, args json.RawMessage) (tool.Result, error) {
		h.ran = append(h.ran, name+string(args))
		return tool.Text("done"), nil
	}
	h.all = append(h.all, tool.Named{Name: tool.SafeName(server, name), Tool: f})
}

func (h *house) usable() []tool.Named {
	return slices.DeleteFunc(slices.Clone(h.all), func(n tool.Named) bool { return n.Tool.Spec().Server == h.barred })
}

// call calls a tool as a turn does: what is in an execute_tool call takes its place.
func (h *house) call(t *testing.T, name, args string) tool.Result {
	t.Helper()
	name, raw, err := h.finder.Unwrap(name, json.RawMessage(args))
	if err != nil {
		return tool.Failure(err.Error())
	}
	for _, n := range append(h.finder.Tools(h.usable), h.usable()...) {
		if n.Name == name {
			res, err := n.Tool.Call(t.Context(), raw)
			if err != nil {
				t.Fatalf("%s %s: %v", name, args, err)
			}
			return res
		}
	}
	return tool.Failure("there is no tool " + name)
}

func TestFromAQuestionToACall(t *testing.T) {
	h := newHouse()
	found := h.call(t, discover, `{"query":"make a calendar event"}`).Text
	if !strings.HasPrefix(found, "- calendar_create: Put an event into the calendar. [needs title, day]\n") {
		t.Fatalf("found:\n%s", found)
	}
	schema := h.call(t, schema, `{"name":"calendar_create"}`).Text
	if !strings.Contains(schema, "It may repeat.") || !strings.Contains(schema, `"required":["title","day"]`) {
		t.Fatalf("schema:\n%s", schema)
	}
	done := h.call(t, execute, `{"name":"calendar_create","arguments":{"title":"lunch","day":"monday"}}`)
	if diff := cmp.Diff(tool.Text("done"), done); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{`create{"title":"lunch","day":"monday"}`}, h.ran); diff != "" {
		t.Errorf("what ran (-want +got):\n%s", diff)
	}
}

func TestWhatMayNotBeUsedIsNeverShown(t *testing.T) {
	h := newHouse()
	h.barred = "vault"
	for name, args := range map[string]string{
		discover: `{"query":"open the vault","limit":20}`, schema: `{"names":["vault_open"]}`,
		domains: `{}`, browse: `{"domain":"vault"}`,
	} {
		if got := h.call(t, name, args).Text; strings.Contains(got, "Open the vault") || strings.Contains(got, "- vault") {
			t.Errorf("%s shows:\n%s", name, got)
		}
	}
}

func TestDomainsAreListedAndBrowsed(t *testing.T) {
	h := newHouse()
	want := "- calendar (2 tools)\n- lamps (70 tools): The lights.\n- vault (1 tools)"
	if diff := cmp.Diff(want, h.call(t, domains, `{}`).Text); diff != "" {
		t.Errorf("domains (-want +got):\n%s", diff)
	}
	var seen []string
	for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
		args, err := json.Marshal(map[string]string{"domain": "lamps", "cursor": cursor})
		if err != nil || pages > 3 {
			t.Fatalf("page %d: %v", pages, err)
		}
		text := h.call(t, browse, string(args)).Text
		for _, line := range strings.Split(text, "\n") {
			if name, use, ok := strings.Cut(strings.TrimPrefix(line, "- "), ": "); ok {
				seen = append(seen, name)
				if strings.Contains(use, "room") {
					t.Errorf("%s has more than one line: %q", name, use)
				}
			}
		}
		_, cursor, _ = strings.Cut(text, "the cursor for them is ")
	}
	if len(seen) != 70 || !slices.IsSorted(seen) || len(slices.Compact(seen)) != 70 {
		t.Errorf("pages hold %d tools: %q", len(seen), seen)
	}
	if got := h.call(t, browse, `{"domain":"lamps","cursor":"zzz"}`); got.IsError ||
		got.Text != "There are no more tools in this domain." {
		t.Errorf("behind the last page: %+v", got)
	}
}

func TestALimitIsKept(t *testing.T) {
	h := newHouse()
	for limit, want := range map[int]int{-1: 1, 1: 1, 3: 3, 99: maxHits} {
		text := h.call(t, discover, fmt.Sprintf(`{"query":"switch a lamp","limit":%d}`, limit)).Text
		if n := strings.Count(text, "- lamps_"); n != want {
			t.Errorf("limit %d shows %d tools, want %d", limit, n, want)
		}
	}
}

func TestWrongCallsAreExplained(t *testing.T) {
	h := newHouse()
	for _, c := range []struct{ name, args, want string }{
		{discover, `{}`, "discover_tools wants"},
		{discover, `{"query":" "}`, "discover_tools wants"},
		{schema, `{}`, "get_tool_schema wants"},
		{schema, `{"name":"calendar_creat"}`, "Did you mean calendar_create"},
		{schema, `{"name":"xylophone"}`, "discover_tools finds those there are"},
		{schema, `{"names":["1","2","3","4","5","6","7","8","9","10","11"]}`, "10 tools at once at most; 11 were asked for"},
		{browse, `{"domain":"cellar"}`, `There is no domain "cellar"`},
		{browse, `[]`, "browse_tool_domain wants"},
		{execute, `{}`, "execute_tool wants"},
		{execute, `{"name":"execute_tool"}`, "cannot run itself"},
		{execute, `{"name":"vault_open","arguments":[1]}`, "no JSON object"},
		{execute, `{"name":"vault_shut"}`, "there is no tool vault_shut"},
	} {
		if got := h.call(t, c.name, c.args); !got.IsError || !strings.Contains(got.Text, c.want) {
			t.Errorf("%s %s: %+v, want a failure that says %q", c.name, c.args, got, c.want)
		}
	}
	some := h.call(t, schema, `{"names":["vault_open","vault_shut"]}`)
	if some.IsError || !strings.Contains(some.Text, "## vault_open") ||
		!strings.Contains(some.Text, `no tool "vault_shut"`) {
		t.Errorf("one of two: %+v", some)
	}
	if got := h.call(t, discover, `{"query":"xylophone"}`); got.IsError || !strings.HasPrefix(got.Text, "No tool fits") {
		t.Errorf("nothing found: %+v", got)
	}
}

// TestExecuteRunsNothingByItself calls it as if it were a tool like others.
func TestExecuteRunsNothingByItself(t *testing.T) {
	h := newHouse()
	for _, n := range h.finder.Tools(h.usable) {
		if n.Name != execute {
			continue
		}
		res, err := n.Tool.Call(t.Context(), json.RawMessage(`{"name":"vault_open"}`))
		if err != nil || !res.IsError || len(h.ran) != 0 {
			t.Errorf("%+v, %v; ran %q", res, err, h.ran)
		}
	}
}

func TestUnwrap(t *testing.T) {
	for args, want := range map[string]string{
		`{"name":"a","arguments":{"x":1}}`:         `a {"x":1}`,
		`{"name":"a"}`:                             `a {}`,
		`{"name":"a","arguments":null}`:            `a {}`,
		`{"name":"a","arguments":""}`:              `a {}`,
		`{"name":"a","arguments":" {\"x\": 1}\n"}`: `a {"x": 1}`,
	} {
		name, inner, err := newHouse().finder.Unwrap(execute, json.RawMessage(args))
		if got := name + " " + string(inner); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", args, got, err, want)
		}
	}
}

func TestOtherCallsAreWhatTheyAre(t *testing.T) {
	name, args, err := newHouse().finder.Unwrap("vault_open", json.RawMessage(`{"name":"x"}`))
	if name != "vault_open" || string(args) != `{"name":"x"}` || err != nil {
		t.Errorf("%s %s, %v", name, args, err)
	}
}

func FuzzUnwrap(f *testing.F) {
	f.Add([]byte(`{"name":"a","arguments":"{}"}`))
	f.Fuzz(func(t *testing.T, args []byte) {
		name, inner, err := unwrap(args)
		var object map[string]any
		if err == nil && (name == "" || name == execute || json.Unmarshal(inner, &object) != nil) {
			t.Errorf("%q gives %q and %q", args, name, inner)
		}
	})
}

// TestTheFiveAreSmall keeps what a model reads of the meta-tools small, whatever
// there is behind them, and the names that the prompt says.
func TestTheFiveAreSmall(t *testing.T) {
	h := newHouse()
	size := len(h.finder.Prompt())
	var got []string
	for _, n := range h.finder.Tools(h.usable) {
		spec := n.Tool.Spec()
		var schema map[string]any
		if err := json.Unmarshal(spec.Schema, &schema); err != nil || schema["type"] != "object" {
			t.Errorf("schema of %s: %v", n.Name, err)
		}
		if !strings.Contains(h.finder.Prompt(), n.Name) {
			t.Errorf("the prompt does not name %s", n.Name)
		}
		if spec.Hints.Repeatable() == (n.Name == execute) {
			t.Errorf("%s may be repeated: %v", n.Name, spec.Hints.Repeatable())
		}
		got = append(got, n.Name)
		size += len(n.Name) + len(spec.Description) + len(spec.Schema)
	}
	want := []string{"browse_tool_domain", "discover_tools", "execute_tool", "get_tool_schema", "list_tool_domains"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if size > 4000 {
		t.Errorf("they take %d bytes", size)
	}
	t.Logf("they take %d bytes", size)
}
