package audit_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/ops/audit"
	"ravenbot/internal/store"
)

func TestDiff_NamesFieldsAndMasksSecrets(t *testing.T) {
	for _, c := range []struct {
		name, was, now string
		want           []audit.Change
	}{
		{"a new one", ``, `{"command":"npx","args":["-y","foo","--api-key","abc","--token=abc"],"eager":false,"cwd":""}`,
			[]audit.Change{{Field: "args", New: `["-y","foo","--api-key","***","--token=***"]`},
				{Field: "command", New: "npx"}, {Field: "eager", New: "false"}}},
		{"fields", `{"model":"a","tools":{"enabled":true},"id":"1"}`, `{"model":"b","tools":{"enabled":false,"maxSteps":3},"id":"2"}`,
			[]audit.Change{{"model", "a", "b"}, {"tools.enabled", "true", "false"}, {"tools.maxSteps", "", "3"}}},
		{"secrets", `{"env":{"A":"1"},"headers":{"X":"old"},"url":"https://u:pw@h/?key=a"}`,
			`{"env":{"A":"2"},"headers":{"X":"new"},"apiKey":"k","url":"https://u:pw@h/?key=b","list":[{"token":"x","n":1}]}`,
			[]audit.Change{{"apiKey", "", "***"}, {"env.A", "***", "***"}, {"headers.X", "***", "***"},
				{"list", "", `[{"n":"1","token":"***"}]`}, {"url", "https://***@h/?key=***", "https://***@h/?key=***"}}},
		{"a text", `"default"`, `"fast"`, []audit.Change{{"", "default", "fast"}}},
		{"gone", `{"model":"a"}`, ``, []audit.Change{{"model", "a", ""}}},
		{"the same", `{"a": 1.0,"b":[]}`, `{"a":1.0}`, nil},
		{"long", ``, `{"a":"` + strings.Repeat("x", 999) + `"}`, []audit.Change{{"a", "", strings.Repeat("x", 200) + "…"}}},
	} {
		if got := audit.Diff([]byte(c.was), []byte(c.now)); cmp.Diff(c.want, got) != "" {
			t.Errorf("%s: %s", c.name, cmp.Diff(c.want, got))
		}
	}
}

// engine is a store of which only items are used.
type engine struct {
	unused
	*memoryStore
}

type unused struct{ store.Store }

func TestChangeStore_RecordsWhatPeopleChange(t *testing.T) {
	s := newStore()
	l := load(t, s)
	changes := audit.ChangeStore{Store: engine{memoryStore: s}, Log: l,
		Mask: func(s string) string { return strings.ReplaceAll(s, "known-secret", "***") }}
	berit := chat.WithAuthor(t.Context(), chat.Message{Author: chat.User{ID: "U1", Name: "Berit\nx"},
		Conversation: chat.Address{Platform: "slack", Workspace: "T1", Channel: "C1"}})
	save := func(ctx context.Context, kind, name, item string) {
		t.Helper()
		if err := changes.SaveItem(ctx, kind, name, json.RawMessage(item), true); err != nil {
			t.Fatal(err)
		}
	}
	save(t.Context(), "agent", "ours", `{}`) // by nobody
	save(berit, "digest waiting", "x", `{}`) // no change of a person
	save(berit, "agent", "helper", `{"model":"a","systemPrompt":"known-secret here"}`)
	save(berit, "agent", "helper", `{"model":"b","systemPrompt":"known-secret here"}`)
	save(berit, "agent", "helper", `{"systemPrompt":"known-secret here","model":"b"}`) // the same
	save(berit, "job", "5a0e", `{"id":"5a0e","text":"call my doctor","schedule":"0 9 * * *"}`)
	if err := changes.DeleteItem(berit, "agent", "helper"); err != nil {
		t.Fatal(err)
	}
	save(audit.WithActor(t.Context(), audit.Operator, "127.0.0.1"), "grant", "a1", `{"tool":"fs_write","scope":"always"}`)
	want := []audit.Entry{
		{Action: "agent added", Target: "helper", Changes: []audit.Change{{"model", "", "a"}, {"systemPrompt", "", "*** here"}}},
		{Action: "agent changed", Target: "helper", Changes: []audit.Change{{"model", "a", "b"}}},
		{Action: "job added", Target: "5a0e", Changes: []audit.Change{{"schedule", "", "0 9 * * *"}, {"text", "", "(14 characters)"}}},
		{Action: "agent deleted", Target: "helper", Changes: []audit.Change{{"model", "b", ""}, {"systemPrompt", "*** here", ""}}},
	}
	for i := range want {
		want[i].Who, want[i].From = "slack:T1/U1 (Berit x)", "slack:T1/C1"
	}
	want = append(want, audit.Entry{Who: audit.Operator, From: "127.0.0.1", Action: "standing approval added", Target: "fs_write",
		Changes: []audit.Change{{"scope", "", "always"}, {"tool", "", "fs_write"}}})
	got := l.Entries("", 99)
	for i, e := range got {
		got[i] = audit.Entry{Who: e.Who, From: e.From, Action: e.Action, Target: e.Target, Changes: e.Changes}
	}
	for i, j := 0, len(got)-1; i < j; i, j = i+1, j-1 {
		got[i], got[j] = got[j], got[i]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestIdentity_IsOneForEachPerson(t *testing.T) {
	anna := chat.User{ID: "7", Name: "Anna"}
	for _, c := range []struct {
		platform, workspace string
		user                chat.User
		want                string
	}{
		{"slack", "T1", anna, "slack:T1/7 (Anna)"},
		{"discord", "100", chat.User{ID: "7", Name: "Anna", Global: true}, "discord:/7 (Anna)"},
		{"discord", "@me", chat.User{ID: "7", Handle: "anna", Global: true}, "discord:/7 (anna)"},
		{"web", "", chat.Operator(), audit.Operator},
		{"slack", "", chat.Operator(), audit.Operator},
		{"mcp", "admin", chat.User{ID: "admin/laptop", Name: "laptop"}, audit.Operator},
		{chat.TaskPlatform, "", anna, "unattended task"},
		{"slack", "T1", chat.User{}, "nobody"},
	} {
		if got := audit.Identity(chat.Address{Platform: c.platform, Workspace: c.workspace}, c.user); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// An entry of a version without changes verifies beside newer ones.
func TestVerify_EntriesWithoutChanges_AreIntact(t *testing.T) {
	s := newStore()
	const old = `{"id":"000000000001","time":"2026-11-20T10:00:00Z","who":"session","from":"127.0.0.1",` +
		`"action":"POST /servers","target":"","seq":1,"prev":""`
	e := audit.Entry{}
	if err := json.Unmarshal([]byte(old+"}"), &e); err != nil {
		t.Fatal(err)
	}
	// The hash that the release before computed of these very bytes.
	const hash = "ac7ee7501cbb45b72e4f082d68fb427cfdb7f827f226c1dce05eb3b93e1775a6"
	if got := audit.Hash(e); got != hash {
		t.Errorf("the hash is %s, want %s", got, hash)
	}
	if err := s.SaveItem(t.Context(), "audit", e.ID, json.RawMessage(old+`,"hash":"`+hash+`"}`), true); err != nil {
		t.Fatal(err)
	}
	l := load(t, s)
	record(t, l, 2)
	if report := verify(t, l, audit.Link{}); report.Problem != "" || report.Entries != 3 {
		t.Errorf("verified: %+v", report)
	}
}
