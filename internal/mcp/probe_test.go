package mcp

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A server that nobody runs has no tools yet, and is as the configuration says.
func TestConfiguredStatus(t *testing.T) {
	want := []Status{
		{Name: "a", State: Uninitialized, Description: "notes", Source: FromConfig, Tools: []ToolInfo{}},
		{Name: "b", State: Disabled, Source: FromConfig, Tools: []ToolInfo{}},
	}
	got := ConfiguredStatus([]Config{{Name: "a", Description: "notes"}, {Name: "b", Disabled: true}})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if list := ConfiguredStatus(nil); list == nil || len(list) != 0 {
		t.Errorf("without servers: %#v, want an empty list", list)
	}
}

// Who probes a server gets its tools, and no process is left behind.
func TestProbe_ReturnsTheToolsAndEndsTheServer(t *testing.T) {
	const mark = "FAKE_MARK=probed"
	tools, err := Probe(t.Context(), fakeServer("a", "pages", mark), "test")
	if err != nil || len(tools) != 3 || tools[0].Name != "tool_" {
		t.Errorf("tools %+v, %v", tools, err)
	}
	if left := processes(t, mark); len(left) > 0 {
		t.Errorf("processes were left behind: %v", left)
	}
}

func TestProbe_SaysWhyThereAreNoTools(t *testing.T) {
	_, err := Probe(t.Context(), fakeServer("a", "crash"), "test")
	if err == nil || !strings.HasPrefix(err.Error(), "MCP server a: the process ended (exit status 3)") {
		t.Errorf("a server that does not start: %v", err)
	}
	if _, err := Probe(t.Context(), Config{Name: "a"}, "test"); err == nil ||
		!strings.Contains(err.Error(), "give either a command to start or a url to reach") {
		t.Errorf("an empty entry: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := Probe(ended, fakeServer("a", "hang"), "test"); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}
