package mcp

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	landlock "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"ravenbot/internal/core/text"
	"ravenbot/internal/ops/config"
)

// isolatedFolder returns a working folder with a secret file, a folder of secrets, and an ordinary file.
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

// spyScript tries what an isolated process must not do, and writes the results into the folder notes.
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
		t.Errorf("the foreign file contains %q", open)
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
	home := t.TempDir()
	t.Setenv("HOME", home)
	folder, protected := isolatedFolder(t)
	s, err := newStdio(
		Config{Name: "spy", Command: "sh", Args: []string{"-c", spyScript + "echo new > made"}, Dir: folder},
		&logBuffer{now: time.Now},
		nil,
		func() []string { return protected },
		nil,
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
	for _, name := range homeCaches {
		if info, err := os.Stat(filepath.Join(home, name)); err != nil || !info.IsDir() {
			t.Errorf("npx and uvx find no folder %s: %v", name, err)
		}
	}
	if os.Getuid() == 0 {
		if made, err := os.ReadFile(filepath.Join(folder, "made")); err != nil || string(made) != "new\n" {
			t.Errorf("the new file is %q, %v", made, err)
		}
	}
	if len(s.isolation) != 3 || !strings.Contains(s.isolation[0], "2 hidden") ||
		!strings.Contains(s.isolation[2], "4096") {
		t.Errorf("enforced: %q", s.isolation)
	}
	if secret, err := os.ReadFile(filepath.Join(folder, "data/key")); err != nil || string(secret) != "hush" {
		t.Errorf("the bot itself reads %q, %v", secret, err)
	}
}

// A server of root's cannot get the capabilities back that would end its isolation.
func TestStdio_Isolated_HasNoDangerousCapabilities(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root has capabilities that could be taken away")
	}
	folder := t.TempDir()
	s, err := startScript(t, Config{Dir: folder}, "grep CapBnd /proc/self/status > caps")
	if err != nil {
		t.Fatal(err)
	}
	<-s.exited
	line, err := os.ReadFile(filepath.Join(folder, "caps"))
	if err != nil {
		t.Fatal(err)
	}
	_, mask, _ := strings.Cut(string(line), ":")
	left, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
	if err != nil || left == 0 {
		t.Fatalf("%q: %v; the other capabilities should be left", line, err)
	}
	for _, number := range droppedCapabilities {
		if left&(1<<number) != 0 {
			t.Errorf("capability %d is left", number)
		}
	}
}

// A file that has gone since the list was made does not keep the others from being covered.
func TestCoverPaths_LeavesOutWhatIsGone(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may mount")
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	covered := make(chan bool)
	var seen []byte
	runOnOwnThread(func() {
		ok := coverPaths(guarded{hidden: []string{secret + " is gone", secret}})
		seen, _ = os.ReadFile(secret)
		covered <- ok
	})
	if ok := <-covered; !ok || len(seen) > 0 {
		t.Errorf("covered %v; the file is %q", ok, seen)
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
		if err := restrictThread(abi, allowAround(guarded{hidden: hiddenPaths(protected, nil)}), false); err != nil {
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
	// The bot starts servers for months: file descriptors of rules are closed again.
	for _, name := range entryNames("/proc/self/fd") {
		if to, _ := os.Readlink("/proc/self/fd/" + name); strings.Contains(to, "landlock") || strings.HasPrefix(to, folder) {
			t.Errorf("%s is still open", to)
		}
	}
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
	s, err := newStdio(c, &logBuffer{now: time.Now}, nil, func() []string { return nil }, nil)
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

// Rights that a kernel does not know make it refuse the whole ruleset, and one that is missing is not restricted.
func TestAccessOf_IsWhatTheVersionKnows(t *testing.T) {
	const first = 1<<13 - 1 // execute to make_sym (landlock(7))
	for abi, want := range map[int]uint64{
		1: first, 2: first | 1<<13, 3: first | 3<<13, 4: first | 3<<13, 5: first | 7<<13, 6: first | 7<<13,
	} {
		if got := accessOf(abi); got != want {
			t.Errorf("version %d: %b, want %b", abi, got, want)
		}
	}
}

// asNobody runs a function on a thread that has no rights of root.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	runOnOwnThread(func() {
		defer close(done)
		const nobody = 65534
		if os.Getuid() == 0 { // the call is about this thread alone, unlike syscall.Setresuid
			if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
				t.Error(errno)
				return
			}
		}
		f()
	})
	<-done
}

// Without the right to mount, the operator reads what Landlock cannot do.
func TestIsolateThread_WithoutRoot_SaysWhatIsMissing(t *testing.T) {
	needsLandlock(t)
	abi, err := landlock.LandlockGetABIVersion()
	if err != nil {
		t.Fatal(err)
	}
	_, protected := isolatedFolder(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	hidden := hiddenPaths(protected, nil)
	for _, withoutNetwork := range []bool{false, true} {
		var notes []string
		var err error
		asNobody(t, func() { notes, err = isolateThread(guarded{hidden: hidden}, withoutNetwork) })
		if withoutNetwork && abi < networkABI {
			if err == nil {
				t.Errorf("a network that cannot be removed is not an error; notes %q", notes)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(notes[0], "(2 hidden), or create files directly in a folder that contains one") ||
			!strings.HasPrefix(notes[1], "cannot inspect other processes") ||
			strings.HasSuffix(notes[1], " or signal them") != (abi >= scopeABI) {
			t.Errorf("notes %q", notes)
		}
		if withoutNetwork != (len(notes) == 3 && notes[2] == "can use UDP, but not TCP") {
			t.Errorf("without a network %t: %q", withoutNetwork, notes)
		}
	}
}

// The operator reads the same on every kernel: the enforced parts, and the requirements of the others.
func TestIsolationOutcome_Notes(t *testing.T) {
	const hidden = "cannot open the bot's own files and the credentials in the home folder (2 hidden)"
	const hiddenByLandlock = hidden + ", or create files directly in a folder that contains one: " +
		"set its own cwd, or allowPaths"
	const notHidden = "can open every file that the bot can: hiding files requires root, or a kernel with Landlock"
	const noLandlock = "can inspect and signal the processes of its user (no Landlock: function not implemented)"
	for _, tt := range []struct {
		what    string
		outcome isolationOutcome
		want    []string // nil: an error
	}{
		{"root and Landlock", isolationOutcome{covered: true, abi: 6},
			[]string{hidden, "cannot inspect other processes or signal them"}},
		{"root and an older Landlock", isolationOutcome{covered: true, abi: 5},
			[]string{hidden, "cannot inspect other processes"}},
		{"root alone", isolationOutcome{covered: true, landlock: syscall.ENOSYS, noNetwork: true},
			[]string{hidden, noLandlock, "has no network"}},
		{"Landlock alone", isolationOutcome{abi: 6, noTCP: true},
			[]string{hiddenByLandlock, "cannot inspect other processes or signal them",
				"can use UDP, but not TCP"}},
		{"Landlock that just knows TCP", isolationOutcome{abi: 4, noTCP: true},
			[]string{hiddenByLandlock, "cannot inspect other processes", "can use UDP, but not TCP"}},
		{"Landlock that knows no TCP", isolationOutcome{abi: 3, noTCP: true}, nil},
		{"neither", isolationOutcome{landlock: syscall.ENOSYS}, []string{notHidden, noLandlock}},
		{"neither, and it must have no network", isolationOutcome{abi: 6, landlock: syscall.ENOSYS, noTCP: true}, nil},
	} {
		tt.outcome.hidden = 2
		if got, err := tt.outcome.notes(); !slices.Equal(got, tt.want) || (err == nil) != (tt.want != nil) {
			t.Errorf("%s: %q, %v; want %q", tt.what, got, err, tt.want)
		}
	}
}

// Where Landlock hides files in the home folder, programs find their folders there.
func TestMakeHomeCaches(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	makeHomeCaches()
	for _, name := range homeCaches {
		if info, err := os.Stat(filepath.Join(home, name)); err != nil || info.Mode() != os.ModeDir|0o700 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// The allowed paths exclude each hidden path and symbolic links.
func TestSplitAround(t *testing.T) {
	folder, _ := isolatedFolder(t)
	at := func(name string) string { return filepath.Join(folder, name) }
	if err := os.Symlink("data/key", at("shortcut")); err != nil {
		t.Fatal(err)
	}
	allow, listable := splitAround(folder, []string{at("secret"), at("data/key")})
	slices.Sort(allow)
	slices.Sort(listable)
	if !slices.Equal(allow, []string{at("notes")}) || !slices.Equal(listable, []string{folder, at("data")}) {
		t.Errorf("allowed are %q, and %q can be listed", allow, listable)
	}
}

// A server that leaks files or fills the disk does not starve the machine, and its memory is not dumped.
func TestStdio_LimitsOfAProcess(t *testing.T) {
	s, err := startScript(t, Config{}, "read line")
	if err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(s.cmd.Process.Pid)
	limits, err := os.ReadFile("/proc/" + pid + "/limits")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(limits), "\n") {
		for name, want := range map[string]string{"Max core file size": "0", "Max open files": "4096",
			"Max file size": "17179869184"} {
			if fields := strings.Fields(strings.TrimPrefix(line, name)); strings.HasPrefix(line, name) &&
				(fields[0] != want || fields[1] != want) {
				t.Errorf("%s, want %s", line, want)
			}
		}
	}
	if score, err := os.ReadFile("/proc/" + pid + "/oom_score_adj"); err != nil || string(score) != "500\n" {
		t.Errorf("where memory runs out it has the score %q, %v", score, err)
	}
	notes := strings.Join(s.isolation, "; ")
	if !strings.Contains(notes, "at most 4096 open files, files of at most 16 GiB") ||
		!strings.Contains(notes, "more than 512 processes, its memory is not limited") {
		t.Errorf("it is said: %s", notes)
	}
	if note := limitProcess(1<<30, 0); note != "has no limits of its resources" {
		t.Errorf("of a process that there is not: %s", note)
	}
}

// Excessive use is described with numbers; use at a limit is allowed.
func TestGroupUsage_Excess(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		used groupUsage
		max  int64
		want string
	}{
		{groupUsage{}, 0, ""},
		{groupUsage{memory: 500 * mib, processes: 512}, 0, ""},
		{groupUsage{memory: 64 * mib, processes: 1}, 64 * mib, ""},
		{groupUsage{memory: 65 * mib, processes: 1}, 64 * mib,
			"its processes used 65 MiB of memory, where maxMemoryMB allows 64"},
		{groupUsage{processes: 513}, 0, "it had 513 processes, where 512 are allowed"},
	} {
		if got := tt.used.excess(tt.max); got != tt.want {
			t.Errorf("%+v of at most %d: %q, want %q", tt.used, tt.max, got, tt.want)
		}
	}
}

// All processes of a group count, with the memory that is theirs.
func TestCountUsage_CountsAGroup(t *testing.T) {
	s, err := startScript(t, Config{}, "sleep 600 & sleep 600 & read line")
	if err != nil {
		t.Fatal(err)
	}
	used := groupUsage{}
	for deadline := time.Now().Add(soon); used.processes != 3; <-time.After(10 * time.Millisecond) {
		if used = countUsage()[s.cmd.Process.Pid]; time.Now().After(deadline) {
			t.Fatalf("%+v, want 3 processes", used)
		}
	}
	if used.memory < 3*200<<10 || used.memory > 100<<20 {
		t.Errorf("three small processes use %d bytes", used.memory)
	}
	if own := usageOf(s.cmd.Process.Pid); own.processes > 3 {
		t.Errorf("%+v, want 3 processes at most", own)
	}
}

// A process that has ended uses nothing, though its parent does not ask how.
func TestCountUsage_LeavesOutWhatHasEnded(t *testing.T) {
	// The child ends only when its parent is a program that does not wait for children.
	s, err := startScript(t, Config{}, "(until grep -q sleep /proc/$$/comm; do :; done) & echo $!; exec sleep 600")
	if err != nil {
		t.Fatal(err)
	}
	hasEnded := func() bool {
		for _, l := range s.logs.lines(text.OneLine) {
			if l.Stream == "stdout" {
				stat, _ := os.ReadFile("/proc/" + l.Text + "/stat")
				return strings.Contains(string(stat), ") Z ")
			}
		}
		return false
	}
	for deadline := time.Now().Add(soon); !hasEnded(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the child has not ended")
		}
	}
	if used := countUsage()[s.cmd.Process.Pid]; used.processes != 1 {
		t.Errorf("%+v, want 1 process", used)
	}
}

// Operators see in the status what keeps a running server from the bot.
func TestStatus_Isolated_SaysWhatIsEnforced(t *testing.T) {
	h := running(t, Options{Servers: []Config{fakeServer("a", "plain")}, Protected: func() []string { return nil }})
	if got := strings.Join(settled(t, h, "a").Isolation, "; "); !strings.Contains(got, "processes") {
		t.Errorf("the status says %q", got)
	}
}

// attackScript tries to change what the bot and another server run: to append, replace, rename, remove, rename the
// folder above, and to add a file next to it.
const attackScript = `
for f in hook/guard.py skills/one/SKILL.md bin/ravenbot other/server.js caches/npm/pack.js; do
  echo evil >> $f; echo evil > $f.new; mv -f $f.new $f; mv $f $f.old; rm -f $f; rm -f $f.new
done
mkdir -p skills/two && echo evil > skills/two/SKILL.md
mv skills skills.old; mkdir skills; mv hook hook.old; mv ../ravens ../ravens.old
umount skills; mount -o remount,bind,rw skills
rm -rf bin other; cd /; mv "$HERE" "$HERE.old"; mkdir -p "$HERE"
true
`

// A server can change only its cache and working folder, not files that the bot or other servers run or believe.
func TestIsolateThread_ReadOnlyPaths_CannotBeChanged(t *testing.T) {
	needsLandlock(t)
	for _, as := range []string{"root", "nobody"} {
		t.Run(as, func(t *testing.T) {
			if as == "root" && os.Getuid() != 0 {
				t.Skip("only root may mount")
			}
			here, err := os.MkdirTemp("", "ravens") // t.TempDir is closed to others
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _, _ = os.RemoveAll(here), os.RemoveAll(here+".old") })
			names := []string{"hook/guard.py", "skills/one/SKILL.md", "bin/ravenbot", "other/server.js", "caches/npm/pack.js"}
			for _, name := range append(names, "caches/mine/x", "work/x") {
				path := filepath.Join(here, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte("good\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if out, err := exec.Command("chmod", "-R", "a+rwX", here).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			at := func(name string) string { return filepath.Join(here, name) }
			g := guarded{readOnly: []string{at("hook/guard.py"), at("skills"), at("bin/ravenbot"), at("other"), at("caches")},
				writable: []string{at("caches/mine")}}
			attack := func() {
				if _, err := isolateThread(g, false); err != nil {
					t.Error(err)
				}
				c := exec.Command("sh", "-c", attackScript)
				c.Dir, c.Env = here, append(os.Environ(), "HERE="+here)
				_ = c.Run()
				c = exec.Command("sh", "-c", "echo mine > caches/mine/x; echo mine > work/x; echo mine > caches/mine/new")
				c.Dir = here
				if out, err := c.CombinedOutput(); err != nil {
					t.Errorf("its own files cannot be written: %v: %s", err, out)
				}
			}
			if as == "nobody" {
				asNobody(t, attack)
			} else {
				ended := make(chan bool)
				runOnOwnThread(func() { defer close(ended); attack() })
				<-ended
			}
			for _, name := range names {
				if got, err := os.ReadFile(at(name)); string(got) != "good\n" {
					t.Errorf("%s is %q now, %v", name, got, err)
				}
			}
			if _, err := os.Stat(at("skills/two")); err == nil {
				t.Error("a skill was added")
			}
		})
	}
}

// With strict isolation a server writes only to its own folders, and reads all other visible files.
func TestStdio_Strict_WritesToOwnFoldersAlone(t *testing.T) {
	needsLandlock(t)
	t.Setenv("HOME", t.TempDir())
	folder := t.TempDir()
	for _, name := range []string{"mine", "files", "others"} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c := Config{Name: "strict", Command: "sh", Dir: filepath.Join(folder, "mine"), Args: []string{"-c",
		"echo x > here; echo x > ../files/x; echo x > ../others/x; echo x > ../x; echo x > $npm_config_cache.x; mktemp; cat /etc/passwd > read",
		filepath.Join(folder, "files")}}
	own := OwnFolders(&config.Config{Dir: folder, MCP: config.MCP{Isolation: "strict"}})
	s, err := newStdio(c, &logBuffer{now: time.Now}, nil, func() []string { return nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.ownFolders = own
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-s.exited
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	cache, _ := makeCache(c)
	for path, want := range map[string]bool{"mine/here": true, "files/x": true, "others/x": false, "x": false, "mine/read": true,
		filepath.Join(cache, "npm.x"): true} {
		if !filepath.IsAbs(path) {
			path = filepath.Join(folder, path)
		}
		if info, err := os.Stat(path); (err == nil && info.Size() > 0) != want {
			t.Errorf("%s written: %t, %v", path, !want, err)
		}
	}
	if made, _ := filepath.Glob(filepath.Join(cache, "tmp", "*")); len(made) != 1 ||
		!slices.Contains(s.isolation, "can write only to its own folders") {
		t.Errorf("temporary files %v; enforced: %q", made, s.isolation)
	}
	if OwnFolders(&config.Config{}) != nil {
		t.Error("other isolation limits writing, too")
	}
}
