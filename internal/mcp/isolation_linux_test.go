package mcp

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	landlock "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// isolatedFolder returns a working folder with a secret file, a folder of secrets, and a file that is none.
func isolatedFolder(t *testing.T) (folder string, protected []string) {
	t.Helper()
	folder = t.TempDir()
	for name, text := range map[string]string{"secret": "hush", "data/key": "hush", "notes/open": "for all"} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// One of these leads there by a symbolic link, one does not exist.
	if err := os.Symlink("secret", filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	return folder, []string{filepath.Join(folder, "link"), filepath.Join(folder, "data"), filepath.Join(folder, "none")}
}

// spyScript tries what an isolated process must not do, and writes what it got into the folder notes.
const spyScript = `
{ cat secret; cat link; cat data/key; head -c 20 /proc/$PPID/environ; cat /proc/$PPID/root$PWD/secret; } > notes/read 2>/dev/null
kill -0 $PPID 2>/dev/null && echo signalled >> notes/read
echo more >> notes/open
echo changed 2>/dev/null > secret
`

func checkSpy(t *testing.T, folder string) {
	t.Helper()
	abi, _ := landlock.LandlockGetABIVersion()
	read, err := os.ReadFile(filepath.Join(folder, "notes/read"))
	got := string(read)
	if abi < scopeABI {
		got = strings.ReplaceAll(got, "signalled\n", "")
	}
	if err != nil || got != "" {
		t.Errorf("the process got %q, %v", got, err)
	}
	if open, _ := os.ReadFile(filepath.Join(folder, "notes/open")); string(open) != "for allmore\n" {
		t.Errorf("the file that is none of the bot's holds %q", open)
	}
	if secret, _ := os.ReadFile(filepath.Join(folder, "secret")); string(secret) != "hush" {
		t.Errorf("the secret is %q now", secret)
	}
}

func needsLandlock(t *testing.T) {
	t.Helper()
	if abi, err := landlock.LandlockGetABIVersion(); err != nil || abi < 1 {
		t.Skip("this kernel has no Landlock")
	}
}

// A server can make new files in its working folder, and open neither the bot's files in it nor its processes. The
// bot itself is as it was.
func TestStdio_Isolated_CannotOpenProtectedFiles(t *testing.T) {
	needsLandlock(t)
	folder, protected := isolatedFolder(t)
	s, err := newStdio(
		Config{Name: "spy", Command: "sh", Args: []string{"-c", spyScript + "echo new > made"}, Dir: folder},
		&logBuffer{now: time.Now},
		func(int) func() { return func() {} },
		func() []string { return protected },
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-s.exited
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	checkSpy(t, folder)
	if os.Getuid() == 0 {
		if made, err := os.ReadFile(filepath.Join(folder, "made")); err != nil || string(made) != "new\n" {
			t.Errorf("the new file is %q, %v", made, err)
		}
	}
	if len(s.isolation) != 4 || !strings.Contains(s.isolation[0], "2 hidden") ||
		!strings.Contains(s.isolation[2], "4096") {
		t.Errorf("what is enforced: %q", s.isolation)
	}
	if secret, err := os.ReadFile(filepath.Join(folder, "data/key")); err != nil || string(secret) != "hush" {
		t.Errorf("the bot itself reads %q, %v", secret, err)
	}
}

// Without the right to mount, Landlock hides the same files.
func TestRestrictThread_HidesProtectedFiles(t *testing.T) {
	needsLandlock(t)
	folder, protected := isolatedFolder(t)
	abi, err := landlock.LandlockGetABIVersion()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	runOnOwnThread(func() {
		allow, listable := splitAround("/", hiddenPaths(protected, nil))
		if err := restrictThread(abi, allow, listable, false); err != nil {
			ended <- err
			return
		}
		spy := exec.Command("sh", "-c", spyScript)
		spy.Dir = folder
		dropCapabilities()
		_ = spy.Run() // the script's last line fails
		ended <- nil
	})
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	checkSpy(t, folder)
}

func TestHiddenPaths_LeavesOutWhatIsAllowed(t *testing.T) {
	folder, protected := isolatedFolder(t)
	folder, err := filepath.EvalSymlinks(folder)
	if err != nil {
		t.Fatal(err)
	}
	at := func(names ...string) []string {
		var list []string
		for _, name := range names {
			list = append(list, filepath.Join(folder, name))
		}
		return list
	}
	if err := os.WriteFile(filepath.Join(folder, "data/other"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ allowed, want []string }{
		{nil, at("secret", "data")},
		{at("secret"), at("data")},
		{at("data/key"), at("secret", "data/other")},
		{at("."), nil},
	} {
		if got := hiddenPaths(protected, c.allowed); !slices.Equal(got, c.want) {
			t.Errorf("with %v allowed these are hidden: %v, want %v", c.allowed, got, c.want)
		}
	}
}

// start runs a shell script as a server and returns its transport.
func startScript(t *testing.T, c Config, script string) (*stdioTransport, error) {
	t.Helper()
	c.Name, c.Command, c.Args = "script", "sh", []string{"-c", script}
	s, err := newStdio(c, &logBuffer{now: time.Now}, func(int) func() { return func() {} }, func() []string { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, nil
}

// A server that takes the memory or the processes of the machine is ended with all that it has started.
func TestStdio_UsesTooMuch_IsEnded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		maxMemory    int64
		script, want string
	}{
		"memory":    {64 << 20, "(head -c 200000000 /dev/zero; sleep 600) | tail -c 200000000", "where maxMemoryMB allows 64"},
		"processes": {0, "for i in $(seq 600); do sleep 600 & done; wait", "where 512 are allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := startScript(t, Config{MaxMemory: c.maxMemory}, c.script)
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-s.exited:
			case <-time.After(time.Minute):
				t.Fatal("it was not ended")
			}
			if err := s.lossReason(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("ended because %v, want %q", err, c.want)
			}
			for deadline := time.Now().Add(time.Minute); countUsage()[s.cmd.Process.Pid].processes > 0; <-time.After(20 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("processes of it are left")
				}
			}
		})
	}
}

// A server without a network reaches nothing, or is not started where that cannot be enforced.
func TestStdio_NoNetwork_ReachesNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	for _, without := range []bool{false, true} {
		out := filepath.Join(t.TempDir(), "out")
		script := "exec bash -c 'exec 3<>/dev/tcp/127.0.0.1/" + port + "' 2>/dev/null && echo reached > " + out
		s, err := startScript(t, Config{NoNetwork: without}, "("+script+") || echo refused > "+out+"; true")
		if err != nil {
			t.Fatal(err)
		}
		<-s.exited
		want := map[bool]string{false: "", true: "refused\n"}[without]
		if got, _ := os.ReadFile(out); without && string(got) != want || !without &&
			strings.Contains(string(got), "refused") {
			t.Errorf("without a network %t: %q", without, got)
		}
		if told := strings.Contains(strings.Join(s.isolation, "; "), "has no network"); told != (without &&
			os.Getuid() == 0) {
			t.Errorf("without a network %t, it is said: %q", without, s.isolation)
		}
	}
}
