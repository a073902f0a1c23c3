package warden_test

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

	"ravenbot/internal/warden"
)

// bot is the argument with which this program is a bot that starts two groups, of which one
// is over soon, writes their ids, and waits to be killed.
const bot = "bot"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case warden.Word:
			os.Exit(warden.Main(os.Stdin))
		case bot:
			w := warden.New(os.Args[0], os.Args[0], slog.Default())
			stays, over := start(), start()
			w.Watch(stays)
			w.Watch(over)()
			fmt.Println(stays, over)
			select {}
		}
	}
	goleak.VerifyTestMain(m)
}

// start starts a group of two, of which the second ignores whatever it can.
func start() int {
	c := exec.Command("sh", "-c", `sh -c "trap '' TERM HUP INT; sleep 1000" & wait`)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		panic(err)
	}
	return c.Process.Pid
}

// within waits until a group is gone; false: it is there after some seconds.
func within(group int) bool {
	end, look := time.NewTimer(20*time.Second), time.NewTicker(10*time.Millisecond)
	defer end.Stop()
	defer look.Stop()
	for !errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) && !dead(group) {
		select {
		case <-look.C:
		case <-end.C:
			return false
		}
	}
	return true
}

// dead reports that all of a group are zombies, which wait for somebody to reap them.
func dead(group int) bool {
	out, _ := exec.Command("ps", "-e", "-o", "pgid=,stat=").Output()
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == strconv.Itoa(group) && !strings.HasPrefix(f[1], "Z") {
			return false
		}
	}
	return len(out) > 0
}

func TestWhatAKilledBotLeavesIsEnded(t *testing.T) {
	c := exec.Command(os.Args[0], bot)
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
	if !within(stays) {
		_ = syscall.Kill(-stays, syscall.SIGKILL)
		t.Error("what the bot had started is still there")
	}
	if err := syscall.Kill(-over, 0); err != nil {
		t.Errorf("a group that was taken back was killed: %v", err)
	}
}

func TestAWardenThatWasKilledIsReplaced(t *testing.T) {
	w := warden.New(os.Args[0], os.Args[0], slog.Default())
	group := start()
	done := w.Watch(group)
	out, err := exec.Command("pgrep", "-f", "-P", strconv.Itoa(os.Getpid()), warden.Word).Output()
	if err != nil {
		t.Fatalf("there is no second process: %v", err)
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(out)))
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if !within(pid) { // it leads a group of its own
		t.Fatal("it cannot be killed")
	}
	next := start()
	w.Watch(next)()
	_ = syscall.Kill(-next, syscall.SIGKILL)
	w.Close()
	if !within(group) {
		t.Error("the one in its place did not know of the group")
	}
	done()
}

func TestWithoutAProgramItIsSaidOnce(t *testing.T) {
	var log bytes.Buffer
	w := warden.New("/nowhere", "nowhere", slog.New(slog.NewTextHandler(&log, nil)))
	w.Watch(1 << 30)()
	w.Watch(1 << 30)()
	w.Close()
	if n := strings.Count(log.String(), "nothing watches over tool servers"); n != 1 {
		t.Errorf("it was said %d times", n)
	}
}

func TestMainTakesNoOrderAgainstEverybody(t *testing.T) {
	for _, order := range []string{"+ -1\n", "+ 0\n", "+ 1\n", "+ x\n", "nonsense\n"} {
		if warden.Main(strings.NewReader(order)) == 0 {
			t.Errorf("%q was taken", order)
		}
	}
}
