package roster_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/feature/settings"
	"ravenbot/internal/mcp"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/recall/document"
	"ravenbot/internal/recall/knowledge"
	"ravenbot/internal/store/records"
	"ravenbot/internal/store/storage"
	"ravenbot/internal/turn/roster"
)

// disk is a store that a crash may cut off from the bot right after an item was deleted.
type disk struct {
	*records.Store
	crash bool
}

var errCrash = errors.New("the process has ended")

func (d *disk) DeleteItem(ctx context.Context, kind, name string) error {
	if err := d.Store.DeleteItem(ctx, kind, name); err != nil || !d.crash {
		return err
	}
	panic(errCrash)
}

// tasks knows one task, of an agent that is not there.
type tasks struct{}

func (tasks) Task(at chat.Address) (roster.Task, bool) {
	return roster.Task{Agent: "expert", Channel: lobby}, at.Platform == chat.TaskPlatform
}

var lobby = chat.Address{Platform: "web", Channel: "lobby"}

// A rule of channels that names no agent says nothing about who answers: a later rule does, or an agent's own channels.
func TestRoute_ChannelRuleWithoutAgent_SaysNothingAboutTheAgent(t *testing.T) {
	r := start(t, open(t), t.TempDir())
	conf, err := config.Parse([]byte(`{
		"agents": {"default": {}, "own": {"channels": ["web:/own", "web:/ruled"]}, "ruled": {}},
		"channels": [{"match": "web:/*", "respondTo": "all"}, {"match": "web:/ruled", "agent": "ruled"}]
	}`), "config.json", config.Options{Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Apply(conf, nil); err != nil {
		t.Fatal(err)
	}
	for room, want := range map[string]string{"own": "own", "ruled": "ruled", "other": "default"} {
		if got := r.Route(chat.Message{Conversation: chat.Address{Platform: "web", Channel: room}}).Agent; got != want {
			t.Errorf("in %s answers %s, want %s", room, got, want)
		}
	}
}

// Of several agents that could answer, the one for a role of the asker does, and it answers nobody else there.
func TestRoute_AgentForARole(t *testing.T) {
	r := start(t, open(t), t.TempDir())
	conf, err := config.Parse([]byte(`{
		"agents": {"default": {}, "mods": {"channels": ["slack:T/*"], "roles": ["Mods", "R2"]}, "one": {"channels": ["slack:T/C"]},
			"two": {"roles": ["VIP"]}},
		"channels": [{"match": "slack:T/C", "agent": "two"}, {"match": "slack:T/*", "agent": "one"}]
	}`), "config.json", config.Options{Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Apply(conf, nil); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ channel, role, want string }{
		{"C", "", "one"}, {"C", "Mods", "mods"}, {"C", "R2", "mods"}, {"C", "VIP", "two"}, {"D", "VIP", "one"},
		{"D", "Mods", "mods"}, {"D", "other", "one"},
	} {
		m := chat.Message{Conversation: chat.Address{Platform: "slack", Workspace: "T", Channel: tt.channel}}
		m.Author.Roles = []string{tt.role}
		if got := r.Route(m).Agent; got != tt.want {
			t.Errorf("somebody with the role %q in %s is answered by %s, want %s", tt.role, tt.channel, got, tt.want)
		}
	}
}

// start returns the agents of a store and a folder, as at the start of the bot.
func start(t *testing.T, d *disk, folder string) *roster.Roster {
	t.Helper()
	return startWith(t, d, folder, slog.New(slog.DiscardHandler))
}

// startWith is start with a log.
func startWith(t *testing.T, d *disk, folder string, log *slog.Logger) *roster.Roster {
	t.Helper()
	conf, err := config.Parse([]byte(`{}`), "config.json", config.Options{Env: func(string) (string, bool) {
		return "", false
	}})
	if err != nil {
		t.Fatal(err)
	}
	host, err := mcp.NewHost(mcp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	set := settings.New(d, func() []string { return nil }, nil, log)
	if err := set.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := roster.New(roster.Options{
		Store:        d,
		Servers:      host,
		Settings:     set,
		RoomPlatform: "web",
		CheckRoom:    func(string) error { return nil },
		Tasks:        tasks{},
		Log:          log,
		Knowledge: knowledge.New(knowledge.Options{
			Folder:    folder,
			Documents: document.NewReader(func(context.Context, []byte) ([]string, error) { return nil, nil }),
			Log:       log,
		}),
	})
	if err := r.Apply(conf, nil); err != nil {
		t.Fatal(err)
	}
	return r
}

func open(t *testing.T) *disk {
	t.Helper()
	db, err := storage.OpenFile(filepath.Join(t.TempDir(), "raven.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return &disk{Store: db}
}

// Whatever is left of an agent that was being removed when the bot ended, another one of its name does not know its
// files.
func TestRemove_CrashInTheMiddle_NextAgentInheritsNoFiles(t *testing.T) {
	d, folder := open(t), t.TempDir()
	r := start(t, d, folder)
	entry := json.RawMessage(`{"systemPrompt": "Be kind."}`)
	if _, err := r.Add(t.Context(), "helper", entry); err != nil {
		t.Fatal(err)
	}
	if _, err := (roster.Files{Roster: r}).Put(t.Context(), "helper", "salaries.md", []byte("# Salaries")); err != nil {
		t.Fatal(err)
	}
	d.crash = true
	func() {
		defer func() {
			if ended := recover(); ended != errCrash {
				t.Fatalf("the removal ended with %v", ended)
			}
		}()
		_ = r.Remove(t.Context(), "helper")
	}()
	d.crash = false
	r = start(t, d, folder)
	if _, err := r.Add(t.Context(), "helper", entry); err != nil {
		t.Fatal(err)
	}
	list, err := roster.Files{Roster: r}.List("helper")
	if err != nil || len(list) != 0 {
		t.Errorf("the new agent knows %+v (%v), want nothing", list, err)
	}
}

// One record that cannot be read is left out; all others count.
func TestApply_BadRecordOfARoom_IsLeftOut(t *testing.T) {
	d := open(t)
	for room, raw := range map[string]string{"lobby": `"default"`, "broken": `{"name": 7}`} {
		if err := d.SaveItem(t.Context(), "agent of web room", room, json.RawMessage(raw), true); err != nil {
			t.Fatal(err)
		}
	}
	r := start(t, d, t.TempDir())
	if rooms := r.Rooms(); len(rooms) != 1 || rooms["lobby"] != "default" {
		t.Errorf("rooms %v, want the lobby alone", rooms)
	}
}

// What was chosen where it is configured, as in another replica, is replaced by the default where it is not. The operator is
// told of each once.
func TestRoute_ChosenModelOrAgentIsMissing_DefaultIsUsedAndLogged(t *testing.T) {
	d := open(t)
	if _, err := d.SwapSetting(t.Context(), "channel/"+lobby.String(), nil, []byte(`{"model":"strong"}`)); err != nil {
		t.Fatal(err)
	}
	own := json.RawMessage(`{"model":"large"}`)
	if err := d.SaveItem(t.Context(), "agent", "own", own, false); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	r := startWith(t, d, t.TempDir(), slog.New(slog.NewTextHandler(&log, nil)))
	for range 3 {
		for _, at := range []chat.Address{lobby, {Platform: chat.TaskPlatform, Channel: "1"}} {
			if p := r.Route(chat.Message{Conversation: at}); len(p.Models) == 0 || p.Models[0] != "default" {
				t.Errorf("in %s the models are %q, want the default one first", at, p.Models)
			}
		}
	}
	for _, want := range []string{"model=strong", "agent=expert used=default", "agent=own model=large"} {
		if n := strings.Count(log.String(), want); n != 1 {
			t.Errorf("the log has %q %d times, want once:\n%s", want, n, log.String())
		}
	}
}
