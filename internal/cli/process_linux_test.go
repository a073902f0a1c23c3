package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A tool server that reads the environment of the bot finds none of its keys there, whatever user runs both; the
// program still looks its variables up.
func TestRun_ToolServerReadsEnvironmentOfTheBot_FindsNoSecret(t *testing.T) {
	testEnvironmentIsClosed(t, nil)
}

// A program of root is let into everything.
func TestRun_AsOrdinaryUser_ToolServerFindsNoSecret(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the test above ran as an ordinary user")
	}
	const nobody = 65534
	testEnvironmentIsClosed(t, &syscall.Credential{Uid: nobody, Gid: nobody})
}

// testEnvironmentIsClosed runs a bot as some user; nil: the one of the test.
func testEnvironmentIsClosed(t *testing.T, user *syscall.Credential) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "seen")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	// The program's name first, so that the test knows that it was the bot's process.
	script := `{ tr '\0' ' ' </proc/$PPID/cmdline; tr '\0' '\n' </proc/$PPID/environ; echo "own: $OWN"; } >seen 2>&1; ` +
		`cat >/dev/null`
	text, err := json.Marshal(map[string]any{
		"http":   map[string]any{"listen": freeAddress(t)},
		"models": map[string]any{"default": map[string]any{"provider": "offline"}},
		"mcpServers": map[string]any{"reader": map[string]any{
			"command": "sh", "args": []string{"-c", script}, "env": map[string]any{"OWN": "${READER_TOKEN}"}, "eager": true,
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("ravenbot")
	if err != nil {
		t.Fatal(err)
	}
	if user != nil {
		program = copyFor(t, *user, program, dir)
	}
	cmd := exec.CommandContext(t.Context(), program, "run", "--config", "config.json")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "RAVENBOT_ADMIN_TOKEN=secret-of-the-admin",
		"READER_TOKEN=value-for-the-server"}
	var log bytes.Buffer // read when the process has ended
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	defer end()
	seen := make(chan string, 1)
	go func() {
		text, _ := os.ReadFile(fifo) // waits for the server to write
		seen <- string(text)
	}()
	select {
	case got := <-seen:
		if !strings.Contains(got, "config.json") || !strings.Contains(got, "own: value-for-the-server") {
			t.Errorf("the server did not see the bot's process and its own variable:\n%s", got)
		}
		if strings.Contains(got, "secret-of-the-admin") || strings.Contains(got, "READER_TOKEN") {
			t.Errorf("the server read the bot's environment:\n%s", got)
		}
	case <-time.After(30 * time.Second):
		end()
		t.Fatalf("the server did not run; the log:\n%s", log.String())
	}
	end()
	if strings.Contains(log.String(), "not closed") {
		t.Errorf("the bot could not close itself:\n%s", log.String())
	}
}

// copyFor copies a program into a folder of the test, and gives what is there to a user. It returns the copy's path.
func copyFor(t *testing.T, user syscall.Credential, program, dir string) string {
	t.Helper()
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "ravenbot")
	if err := os.WriteFile(path, content, 0o700); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	given := []string{filepath.Dir(dir), dir} // the first is closed to others too
	for _, e := range entries {
		given = append(given, filepath.Join(dir, e.Name()))
	}
	for _, name := range given {
		if err := os.Chown(name, int(user.Uid), int(user.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return path
}
