package watchdog_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ravenbot/internal/ops/watchdog"
)

// botArgument makes this program a bot that starts two groups, takes one of them back, prints their ids and waits
// to be killed.
const botArgument = "bot"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case watchdog.Argument:
			os.Exit(watchdog.Main(os.Stdin))
		case botArgument:
			w := watchdog.New(os.Args[0], os.Args[0], slog.Default())
			stays, over := startGroup(), startGroup()
			w.Watch(stays)
			w.Watch(over)()
			fmt.Println(stays, over)
			select {}
		}
	}
	goleak.VerifyTestMain(m)
}

// startGroup starts a group of two processes, of which the second ignores every signal that it can.
func startGroup() int {
	c := exec.Command("sh", "-c", `sh -c "trap '' TERM HUP INT; sleep 1000" & wait`)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		panic(err)
	}
	return c.Process.Pid
}

// waitGone waits until a group is gone and reports whether it is gone within 20 seconds.
func waitGone(group int) bool {
	end, look := time.NewTimer(20*time.Second), time.NewTicker(10*time.Millisecond)
	defer end.Stop()
	defer look.Stop()
	for !errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) && !allZombies(group) {
		select {
		case <-look.C:
		case <-end.C:
			return false
		}
	}
	return true
}

// allZombies reports whether all processes of a group are zombies, which nobody has reaped yet. One that still has
// threads (l) does not count: they hold its pipes open, so that a write to it does not fail yet.
func allZombies(group int) bool {
	out, _ := exec.Command("ps", "-e", "-o", "pgid=,stat=").Output()
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) == 2 && f[0] == strconv.Itoa(group) && (f[1][0] != 'Z' || strings.Contains(f[1], "l")) {
			return false
		}
	}
	return len(out) > 0
}

func TestMain_BotKilled_KillsItsGroups(t *testing.T) {
	c := exec.Command(os.Args[0], botArgument)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	var stays, over int
	if _, err2 := fmt.Sscan(line, &stays, &over); err != nil || err2 != nil {
		t.Fatalf("%q: %v", line, errors.Join(err, err2))
	}
	defer func() { _ = syscall.Kill(-over, syscall.SIGKILL) }()
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	if !waitGone(stays) {
		_ = syscall.Kill(-stays, syscall.SIGKILL)
		t.Error("what the bot had started is still there")
	}
	if err := syscall.Kill(-over, 0); err != nil {
		t.Errorf("a group that was taken back was killed: %v", err)
	}
}

func TestWatch_WatchdogKilled_StartsAnother(t *testing.T) {
	w := watchdog.New(os.Args[0], os.Args[0], slog.Default())
	group := startGroup()
	done := w.Watch(group)
	out, err := exec.Command("pgrep", "-f", "-P", strconv.Itoa(os.Getpid()), watchdog.Argument).Output()
	if err != nil {
		t.Fatalf("there is no second process: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil { // 0 would be the group of this test
		t.Fatalf("not one second process: %q", out)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if !waitGone(pid) { // it leads a group of its own
		t.Fatal("it cannot be killed")
	}
	next := startGroup()
	w.Watch(next)()
	_ = syscall.Kill(-next, syscall.SIGKILL)
	w.Close()
	if !waitGone(group) {
		t.Error("the one in its place did not know of the group")
	}
	done()
}

func TestWatch_NoProgram_WarnsOnce(t *testing.T) {
	var log bytes.Buffer
	w := watchdog.New("/nowhere", "nowhere", slog.New(slog.NewTextHandler(&log, nil)))
	w.Watch(1 << 30)()
	w.Watch(1 << 30)()
	w.Close()
	if n := strings.Count(log.String(), "failed to start the watchdog process"); n != 1 {
		t.Errorf("it was logged %d times", n)
	}
}

func TestMain_RefusesGroupsOfEverybody(t *testing.T) {
	for _, order := range []string{"+ -1\n", "+ 0\n", "+ 1\n", "+ x\n", "nonsense\n"} {
		if watchdog.Main(strings.NewReader(order)) == 0 {
			t.Errorf("%q was taken", order)
		}
	}
}
