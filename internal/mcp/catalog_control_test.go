package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"ravenbot/internal/store"
)

// catalogOver returns a Catalog over a host, to which nothing is added.
func catalogOver(h *Host) *Catalog {
	parse := func(string, json.RawMessage) (Config, error) { return Config{}, errors.ErrUnsupported }
	return NewCatalog(h, itemStore{}, parse, func(string) bool { return false }, slog.New(slog.DiscardHandler))
}

// Each verb changes the server and returns its new status.
func TestCatalog_Control_StartsStopsAndRestarts(t *testing.T) {
	h := running(t, Options{Servers: []Config{fakeServer("a", "plain"), {Name: "off", Disabled: true}}})
	c := catalogOver(h)
	settled(t, h, "a")
	if st, err := c.Control("a", "stop"); err != nil || st.Name != "a" || st.State != Stopped {
		t.Errorf("stop: %+v, %v", st, err)
	}
	if st, err := c.Control("a", "start"); err != nil || st.State != Connecting && st.State != Connected {
		t.Errorf("start: %+v, %v", st, err)
	}
	until(t, h, "a", Connected)
	before := connectionOf(h, "a")
	if st, err := c.Control("a", "restart"); err != nil || st.State != Connecting && st.State != Connected {
		t.Errorf("restart: %+v, %v", st, err)
	}
	reconnected(t, h, "a", before)

	var bad InputError
	if _, err := c.Control("a", "jump"); !errors.As(err, &bad) || !bad.BadInput() ||
		err.Error() != `unknown verb "jump"; known are start, stop and restart` {
		t.Errorf("another verb: %v", err)
	}
	for _, verb := range []string{"start", "stop", "restart"} {
		if _, err := c.Control("off", verb); !errors.Is(err, ErrDisabled) {
			t.Errorf("%s of a disabled server: %v, want ErrDisabled", verb, err)
		}
		if _, err := c.Control("none", verb); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s of no server: %v, want ErrNotFound", verb, err)
		}
	}
}

// The catalog shows the host's servers, and returns errors for others.
func TestCatalog_ShowsWhatIsKnownOfServers(t *testing.T) {
	entry, _ := shaped(t, "a", `{"name":"pay"}`)
	entry.Hold, entry.Exclude = true, []string{"tell"}
	h := running(t, Options{Servers: []Config{entry, {Name: "b", Disabled: true}}})
	c := catalogOver(h)
	settled(t, h, "a")
	if list := c.List(); len(list) != 2 || list[0].Name != "a" || list[1].State != Disabled {
		t.Errorf("list %+v", list)
	}
	if st, err := c.Get("a"); err != nil || st.State != Quarantined {
		t.Errorf("status %+v, %v", st, err)
	}
	tools, err := c.Tools("a")
	if err != nil || len(tools) != 2 || tools[0].State != ToolQuarantined || tools[1].State != ToolExcluded {
		t.Errorf("tools %+v, %v", tools, err)
	}
	logs, err := c.Logs("a")
	if err != nil || !slices.ContainsFunc(logs, func(l LogLine) bool {
		return l.Stream == "bot" && strings.HasPrefix(l.Text, "started ")
	}) {
		t.Errorf("log %v, %v", logs, err)
	}
	waiting := c.Pending("a")
	if len(waiting) != 1 || waiting[0].Tool != "pay" {
		t.Errorf("%+v waits for an approval", waiting)
	}
	if _, err := c.Approve(t.Context(), "a", Fingerprint(nil)); !errors.Is(err, ErrChanged) {
		t.Errorf("an approval of something else: %v, want ErrChanged", err)
	}
	if changes, err := c.Approve(t.Context(), "a", Fingerprint(waiting)); err != nil || len(changes) != 1 {
		t.Errorf("approved %+v, %v", changes, err)
	}
	if st, _ := c.Get("a"); st.State != Connected || len(st.Tools) != 1 {
		t.Errorf("after the approval: %+v", st)
	}
	_, noStatus := c.Get("none")
	_, noTools := c.Tools("none")
	_, noLogs := c.Logs("none")
	_, noApproval := c.Approve(t.Context(), "none", "")
	for what, err := range map[string]error{"status": noStatus, "tools": noTools, "log": noLogs,
		"approval": noApproval} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s of no server: %v, want ErrNotFound", what, err)
		}
	}
}

// The names of tools and of rules begin with the name of their server.
func TestCatalog_Add_ChecksTheName(t *testing.T) {
	for name, isAllowed := range map[string]bool{
		"":                      false,
		"a":                     true,
		"_a.b-C9":               true,
		"-a":                    false,
		".a":                    false,
		"a b":                   false,
		"ä":                     false,
		strings.Repeat("x", 64): true,
		strings.Repeat("x", 65): false,
		"a\n":                   false,
		"../a":                  false,
	} {
		c, host, items := newCatalog(t)
		st, err := c.Add(t.Context(), name, json.RawMessage(firstEntry))
		_, exists := host.Config(name)
		if isAllowed != (err == nil) || isAllowed != exists || isAllowed != (len(items) == 1) {
			t.Errorf("a server called %q: %v, added %v, kept %v", name, err, exists, items)
		}
		if isAllowed && (st.Name != name || st.Source != FromAPI || st.State != Uninitialized) {
			t.Errorf("the status of the new server %q is %+v", name, st)
		}
		if !isAllowed && !errors.As(err, new(InputError)) {
			t.Errorf("a server called %q: %v is no InputError", name, err)
		}
	}
}

// An entry that the host refuses would be refused at each start: it is not kept.
func TestCatalog_Add_RefusesAnInvalidEntry(t *testing.T) {
	for _, entry := range []string{`{"URL":7}`, `{"URL":"nowhere"}`, `{}`} {
		c, host, items := newCatalog(t)
		if _, err := c.Add(t.Context(), "tickets", json.RawMessage(entry)); err == nil {
			t.Errorf("%s was added", entry)
		}
		if _, exists := host.Config("tickets"); exists || len(items) != 0 {
			t.Errorf("%s: there is a server: %v, kept %v", entry, exists, items)
		}
	}
}

// Where two processes add a server of one name at once, the store decides which of them counts.
func TestCatalog_Add_NameTakenByAnotherProcess(t *testing.T) {
	c, host, items := newCatalog(t)
	items["tickets"] = json.RawMessage(secondEntry)
	if _, err := c.Add(t.Context(), "tickets", json.RawMessage(firstEntry)); !errors.Is(err, ErrExists) {
		t.Errorf("%v, want ErrExists", err)
	}
	if _, exists := host.Config("tickets"); exists || string(items["tickets"]) != secondEntry {
		t.Errorf("there is a server: %v, kept %s", exists, items["tickets"])
	}
}

// A server that another process has removed is removed here, too.
func TestCatalog_Remove_EntryIsGoneAlready(t *testing.T) {
	c, host, items := newCatalog(t)
	if _, err := c.Add(t.Context(), "tickets", json.RawMessage(firstEntry)); err != nil {
		t.Fatal(err)
	}
	delete(items, "tickets")
	if err := c.Remove(t.Context(), "tickets"); err != nil {
		t.Error(err)
	}
	if _, exists := host.Config("tickets"); exists {
		t.Error("the server is still there")
	}
	if err := c.Remove(t.Context(), "tickets"); !errors.Is(err, ErrNotFound) {
		t.Errorf("again: %v, want ErrNotFound", err)
	}
	if _, err := c.Replace(t.Context(), "tickets", json.RawMessage(firstEntry)); !errors.Is(err, ErrNotFound) ||
		len(items) != 0 {
		t.Errorf("a change of a missing server: %v, want ErrNotFound; kept %v", err, items)
	}
}

func TestCatalog_Replace_ReturnsTheStatusOfTheNewServer(t *testing.T) {
	c, _, _ := newCatalog(t)
	if _, err := c.Add(t.Context(), "tickets", json.RawMessage(firstEntry)); err != nil {
		t.Fatal(err)
	}
	st, err := c.Replace(t.Context(), "tickets", json.RawMessage(`{"URL":"https://x.example","Description":"new"}`))
	if err != nil || st.Name != "tickets" || st.Source != FromAPI || st.Description != "new" {
		t.Errorf("%+v, %v", st, err)
	}
}

// These kinds notify other replicas of entries and approvals.
func TestCatalog_SharedKinds(t *testing.T) {
	want := []string{"mcp server", store.BlobChanges + "pins"}
	if got := (*Catalog)(nil).SharedKinds(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// unreadableItems returns an error for each read.
type unreadableItems struct{ itemStore }

var errUnreadable = errors.New("the store cannot be read")

func (unreadableItems) Items(context.Context, string) (map[string]json.RawMessage, error) {
	return nil, errUnreadable
}

// Servers go on while the store cannot be read.
func TestCatalog_StoreThatCannotBeRead_ChangesNothing(t *testing.T) {
	items := itemStore{}
	c, host := catalogOn(t, unreadableItems{items})
	if _, err := c.Add(t.Context(), "tickets", json.RawMessage(firstEntry)); err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func(context.Context) error{"Restore": c.Restore, "Reload": c.Reload} {
		if err := do(t.Context()); !errors.Is(err, errUnreadable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, exists := host.Config("tickets"); !exists {
		t.Error("the server is gone")
	}
}

// A server with the name of a tool pack is restored with a warning.
func TestCatalog_Restore_TellsOfNamesOfPacks(t *testing.T) {
	var log strings.Builder
	h := must(NewHost(Options{Servers: []Config{{Name: "feeds", URL: "https://x.example"},
		{Name: "notes", URL: "https://x.example"}}}))
	c := NewCatalog(h, itemStore{}, nil, func(name string) bool { return name == "feeds" },
		slog.New(slog.NewTextHandler(&log, nil)))
	if err := c.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "server=feeds") || strings.Contains(log.String(), "server=notes") {
		t.Errorf("the log says %q", log.String())
	}
}
