package mcp

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ravenbot/internal/ops/config"
)

// protectedHome returns a configuration whose store is in a folder with odd names, and sets a home folder.
func protectedHome(t *testing.T) (c *config.Config, folder, home string) {
	t.Helper()
	folder, home = filepath.Join(t.TempDir(), "odd [1]*"), t.TempDir()
	t.Setenv("HOME", home)
	c = &config.Config{Dir: folder, Path: filepath.Join(folder, "config.json"),
		Store: config.Mask(filepath.Join(folder, "bot.db"))}
	for _, name := range []string{"config.json", "config.json.bak", "bot.db", "bot.db.key", "bot.db-tmp", "notes"} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c, folder, home
}

// The bot's own files are protected with files next to them, such as copies that an editor left, whatever characters
// are in their paths; and so are credentials in the home folder.
func TestProtection_NamesTheFilesOfTheBot(t *testing.T) {
	c, folder, home := protectedHome(t)
	got := Protection(c)()
	for _, name := range []string{"config.json", "config.json.bak", "bot.db", "bot.db.key", "bot.db-tmp"} {
		if !slices.Contains(got, filepath.Join(folder, name)) {
			t.Errorf("%s is not protected", name)
		}
	}
	if slices.Contains(got, filepath.Join(folder, "notes")) {
		t.Error("a foreign file is protected")
	}
	for _, name := range []string{".ssh", ".aws", ".config/gcloud", ".docker/config.json"} {
		if !slices.Contains(got, filepath.Join(home, name)) {
			t.Errorf("%s of the home folder is not protected", name)
		}
	}
	c.MCP.Isolation = "off"
	if Protection(c) != nil {
		t.Error("files are protected although the isolation is off")
	}
}

// An operator reads what holds on this machine before any server runs.
func TestTryIsolation_SaysWhatIsEnforced(t *testing.T) {
	c, _, _ := protectedHome(t)
	c.MCP.Isolation = "off"
	if got := TryIsolation(c); !slices.Equal(got, []string{isolationOff}) {
		t.Errorf("switched off: %q", got)
	}
	c.MCP.Isolation = "auto"
	got := TryIsolation(c)
	if len(got) == 0 || strings.Contains(strings.Join(got, "\n"), "network") {
		t.Errorf("switched on: %q", got)
	}
	// The bot itself can do all that it could before.
	if _, err := os.ReadFile(c.Path); err != nil {
		t.Error(err)
	}
}

// Only processes have notes about isolation.
func TestIsolationNotes(t *testing.T) {
	protected := func() []string { return nil }
	for _, tt := range []struct {
		what string
		o    Options
		c    Config
		info serverInfo
		want []string
	}{
		{"not isolated", Options{}, Config{Name: "a", Command: "x"}, serverInfo{}, []string{isolationOff}},
		{"elsewhere", Options{}, Config{Name: "a", URL: "https://x.example"}, serverInfo{}, nil},
		{"not started", Options{Protected: protected}, Config{Name: "a", Command: "x"}, serverInfo{}, nil},
		{"started", Options{Protected: protected}, Config{Name: "a", Command: "x"},
			serverInfo{isolation: []string{"has no network"}}, []string{"has no network"}},
	} {
		tt.o.Servers = []Config{tt.c}
		s := must(must(NewHost(tt.o)).server("a"))
		s.info = tt.info
		if got := s.status().Isolation; !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
	}
}

func TestIsWithin(t *testing.T) {
	for _, tt := range []struct {
		path, folder string
		want         bool
	}{
		{"/a/b", "/a", true}, {"/a", "/a", true}, {"/ab", "/a", false}, {"/a", "/a/b", false}, {"/a", "/", true},
		{"/a/b", "/a/", true},
	} {
		if got := isWithin(tt.path, tt.folder); got != tt.want {
			t.Errorf("isWithin(%q, %q) = %v", tt.path, tt.folder, got)
		}
	}
}

// Without isolation nothing takes the network away: a server that must have none is not started.
func TestNewStdio_NoNetworkWithoutIsolation_IsRefused(t *testing.T) {
	c := Config{Name: "a", Command: os.Args[0], NoNetwork: true}
	if _, err := newStdio(c, &logBuffer{}, nil, nil, nil); err == nil ||
		!strings.Contains(err.Error(), "mcp.isolation auto") {
		t.Errorf("error %v", err)
	}
	if _, err := newStdio(c, &logBuffer{}, nil, func() []string { return nil }, nil); err != nil {
		t.Errorf("with isolation: %v", err)
	}
}

func TestGuard_NamesWhatTheBotAndOthersRun(t *testing.T) {
	folder, home := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	c := &config.Config{Dir: folder}
	t.Setenv("TMPDIR", filepath.Join(home, "tmp")) // or the whole test is in the folder for temporary files
	for _, name := range []string{"hooks/guard.py", "guard.py", "skills/one/SKILL.md", "docs/handbook.md", "other/server.js", "shared.py",
		"mine/server.py", "others/data.db", "files/a"} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(folder, name) }
	c.Tools.Hooks = []config.Hook{{Command: config.Args{config.Mask("sh"), config.Mask("hooks/guard.py")}},
		{Command: config.Args{config.Mask("sh"), config.Mask("guard.py")}}}
	believed := func() []string { return []string{at("docs/handbook.md"), at("skills/*")} }
	got := Guard(func() *config.Config { return c }, believed)(
		Config{Command: "sh", Args: []string{"mine/server.py", "files", "shared.py"}, Dir: folder},
		[]Config{{Command: "sh", Args: []string{"server.js", "--db", at("others/data.db")}, Dir: at("other")},
			{Command: at("mine/server.py"), Args: []string{"shared.py"}, Dir: folder}},
	)
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(realPaths([]string{own}), at("hooks/guard.py"), at("hooks"), at("guard.py"), at("skills"),
		at("docs/handbook.md"), at("other/server.js"), at("other"), at("others/data.db")) {
		if !slices.Contains(got, path) {
			t.Errorf("%s is not guarded", path)
		}
	}
	for _, path := range []string{folder, home, at("mine"), at("mine/server.py"), at("shared.py"), at("others"), at("files"), at("docs")} {
		if slices.Contains(got, path) {
			t.Errorf("%s is guarded", path)
		}
	}
}

// The packages of a server are in a folder of its own, and what its entry says wins.
func TestMakeCache_IsOneForEachServer(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	folder, env := makeCache(Config{Name: "a/b", Env: map[string]string{"UV_CACHE_DIR": "/x"}})
	if want := filepath.Join(home, ".cache/ravenbot/servers/a%2Fb"); folder != want || len(env) != 2 ||
		!slices.Contains(env, "npm_config_cache="+want+"/npm") {
		t.Errorf("folder %s, variables %q", folder, env)
	}
}
