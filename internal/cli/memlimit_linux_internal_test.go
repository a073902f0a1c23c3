package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestGoMemory(t *testing.T) {
	const mib = 1 << 20
	for allowed, want := range map[uint64]int64{
		20 * mib:  0, // the collector then takes half of the processor time at most
		64 * mib:  28 * mib,
		128 * mib: 92 * mib,
		500 * mib: 400 * mib,
	} {
		if got := goMemory(allowed); got != want {
			t.Errorf("of %d MiB Go may use %d MiB, want %d", allowed/mib, got/mib, want/mib)
		}
	}
}

// A bot in a container keeps within the container's memory, unless its operator says how much it may use.
func TestRun_MemoryIsLimited_HeapKeepsWithinIt(t *testing.T) {
	for env, want := range map[string]string{"": "2.9360128e+07", "GOMEMLIMIT=50MiB": "5.24288e+07"} {
		address := startBot(t, memoryGroup(t, 64<<20), env)
		if got := metric(t, address, "go_gc_gomemlimit_bytes"); got != want {
			t.Errorf("%s: the limit is %s bytes, want %s", env, got, want)
		}
	}
}

// The limit of the environment is logged as the one of a container is.
func TestTuneCollector_LimitOfTheEnvironment_IsLogged(t *testing.T) {
	var log strings.Builder
	c := &invocation{World: World{Env: func(string) (string, bool) { return "", true }}}
	c.tuneCollector(slog.New(slog.NewTextHandler(&log, nil)))
	want := fmt.Sprintf(`msg="memory limit" from=GOMEMLIMIT goMiB=%d`, debug.SetMemoryLimit(-1)>>20)
	if !strings.Contains(log.String(), want) {
		t.Errorf("logged %q, want %q", log.String(), want)
	}
}

func TestGCPercent(t *testing.T) {
	for inUse, want := range map[uint64]int{0: 400, 4 << 20: 400, 8 << 20: 200, 20 << 20: 80, 300 << 20: 75} {
		if got := gcPercent(inUse); got != want {
			t.Errorf("with %d bytes in use the heap may grow by %d %%, want %d", inUse, got, want)
		}
	}
}

// While there is little to do the heap may grow to several times what is in use, unless the operator says how far.
func TestRun_LittleInUse_CollectsSeldom(t *testing.T) {
	idle := startBot(t, t.TempDir(), "")
	got, err := strconv.Atoi(metric(t, idle, "go_gc_gogc_percent"))
	if err != nil || got < 200 || got > 500 {
		t.Error("the heap of an idle bot may grow by", got, "percent:", err)
	}
	if got := metric(t, startBot(t, t.TempDir(), "GOGC=70"), "go_gc_gogc_percent"); got != "70" {
		t.Error("with GOGC=70 it may grow by", got, "percent")
	}
}

// startBot starts a bot in a control group, whose folder it is given, and returns its address when it is ready.
func startBot(t *testing.T, group, env string) (address string) {
	t.Helper()
	dir, address := t.TempDir(), freeAddress(t)
	text := fmt.Sprintf(`{"http": {"listen": %q}, "models": {"default": {"provider": "offline"}}}`, address)
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "sh", "-c",
		`echo $$ >"$0" && exec ravenbot run --config config.json`, filepath.Join(group, "cgroup.procs"))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "RAVENBOT_ADMIN_TOKEN=token-of-the-admin", env)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(io.Discard, log)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	lines := bufio.NewScanner(log)
	for lines.Scan() && !strings.Contains(lines.Text(), "msg=ready") {
	}
	return address
}

// memoryGroup makes a control group that lasts for the test, and returns its folder. What is in it may use some bytes of
// memory.
func memoryGroup(t *testing.T, bytes int) string {
	t.Helper()
	parent, file := "/sys/fs/cgroup/memory", "memory.limit_in_bytes" // version 1
	if _, err := os.Stat(parent); err != nil {
		parent, file = "/sys/fs/cgroup", "memory.max"
	}
	dir, err := os.MkdirTemp(parent, "ravenbot-test-")
	if err != nil {
		t.Skip("no control group can be made here: ", err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil { // the files in it are not to be removed
			t.Error(err)
		}
	})
	limit, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		t.Skip("memory cannot be limited here: ", err)
	}
	defer limit.Close()
	if _, err := fmt.Fprint(limit, bytes); err != nil {
		t.Skip("memory cannot be limited here: ", err)
	}
	return dir
}

// metric returns the value of a metric of the bot at an address.
func metric(t *testing.T, address, name string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer token-of-the-admin")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n"+name+" ")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}
