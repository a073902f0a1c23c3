package mcp

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/text"
)

// The end of a process says more than a pipe that broke just before.
func TestFailUnlessEnded_PrefersTheBetterReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed, ended := errors.New("it closed its output"), errors.New("the process ended")
		for after, want := range map[time.Duration]error{299 * time.Millisecond: ended, 301 * time.Millisecond: closed} {
			s := &stdioTransport{rpcConn: newRPCConn(func([]byte) {})}
			time.AfterFunc(after, func() { s.fail(ended) })
			s.failUnlessEnded(closed)
			<-s.done
			if err := s.lossReason(); !errors.Is(err, want) {
				t.Errorf("the process ends after %v: %v, want %v", after, err, want)
			}
			synctest.Wait()
			time.Sleep(time.Second)
		}
	})
}

// A server that does not read holds up nobody beyond their deadline, and nobody once its connection is lost.
func TestEnqueue_FullPipe(t *testing.T) {
	newFull := func() *stdioTransport {
		s := &stdioTransport{rpcConn: newRPCConn(func([]byte) {}), outbox: make(chan []byte, 1)}
		if err := s.enqueue(t.Context(), []byte("first")); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := newFull()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.enqueue(ctx, []byte("second")); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who has left: %v", err)
	}
	if got := string(<-s.outbox); got != "first\n" {
		t.Errorf("queued is %q", got)
	}
	s, reason := newFull(), errors.New("it ended")
	s.fail(reason)
	if err := s.enqueue(t.Context(), []byte("second")); !errors.Is(err, reason) {
		t.Errorf("over a lost connection: %v", err)
	}
}

// processOf returns the transport of a program, which is not isolated and not started yet.
func processOf(t *testing.T, c Config, logs *logBuffer) *stdioTransport {
	t.Helper()
	s, err := newStdio(c, logs, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A transport that was not started has nothing to end, and one may be closed again.
func TestStdio_Close_BeforeStartAndTwice(t *testing.T) {
	logs := &logBuffer{now: time.Now}
	s := processOf(t, fakeServer("a", "plain"), logs)
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	s = processOf(t, fakeServer("a", "plain"), logs)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if !isClosed(s.exited) || !isClosed(s.done) || s.lossReason().Error() != "closed" {
		t.Errorf("after Close the process runs: %v; the reason is %v", !isClosed(s.exited), s.lossReason())
	}
	s.signal(syscall.SIGKILL) // to nobody: its id may be that of another process by now
	if err := s.in.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("its input was still open: %v", err)
	}
	for what, f := range map[string]*os.File{"output": s.out, "errors": s.errs} {
		if err := f.Close(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("its %s was still open: %v", what, err)
		}
	}
}

// A process that does not end when it is asked to has ended when Close returns.
func TestStdio_Close_StubbornProcess_WaitsForItsEnd(t *testing.T) {
	t.Parallel()
	s := processOf(t, Config{Name: "a", Command: "sh", Args: []string{"-c", "trap '' TERM; echo ready; sleep 600 & wait"}},
		&logBuffer{now: time.Now})
	ready := make(chan struct{})
	s.onInvalid = func([]byte) { close(ready) }
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-ready
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if !isClosed(s.exited) {
		t.Error("Close returned before the process had ended")
	}
}

// If nothing can be written any more, the end of a process is reported without a wait for its output.
func TestStdio_Reap_WaitsOnlyForOutput(t *testing.T) {
	for range 10 { // a busy machine may take its time, but not always
		s := processOf(t, Config{Name: "a", Command: "true"}, &logBuffer{now: time.Now})
		began := time.Now()
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-s.exited
		took := time.Since(began)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if took < drainWait {
			return
		}
	}
	t.Errorf("each process was waited for as long as %v", drainWait)
}

// The log names the program and the exit status of the process.
func TestStdio_LogsStartAndEnd(t *testing.T) {
	logs := &logBuffer{now: time.Now}
	s := processOf(t, Config{Name: "a", Command: "sh", Args: []string{"-c", "echo noise >&2; echo junk; exit 7"}}, logs)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-s.exited
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	var got []string
	for _, l := range logs.lines(text.OneLine) {
		got = append(got, l.Stream+": "+l.Text)
	}
	slices.Sort(got)
	if len(got) != 4 || got[0] != "bot: ended: exit status 7" || !strings.HasPrefix(got[1], "bot: started ") ||
		got[2] != "stderr: noise" || got[3] != "stdout: junk" {
		t.Errorf("the log is %q", got)
	}
	if s.lossReason().Error() != "the process ended (exit status 7)" {
		t.Errorf("the connection ended: %v", s.lossReason())
	}
}

// A program that cannot be started leaves no pipe open.
func TestStdio_Start_Fails(t *testing.T) {
	s := processOf(t, Config{Name: "a", Command: "sh"}, &logBuffer{now: time.Now})
	s.cmd.Path = t.TempDir() // no program
	if err := s.Start(t.Context()); err == nil || !strings.HasPrefix(err.Error(), `start "sh": `) {
		t.Errorf("error %v", err)
	}
	for what, f := range map[string]*os.File{"input": s.in, "output": s.out, "errors": s.errs} {
		if err := f.Close(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("its %s was left open: %v", what, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// What a process gets of our environment is short, and what its entry says counts more.
func TestBuildEnvironment(t *testing.T) {
	t.Setenv("TZ", "UTC")
	t.Setenv("LC_ALL", "C")
	t.Setenv("LANG", "de_DE")
	t.Setenv("SECRET", "sesame")
	env := buildEnvironment(map[string]string{"LANG": "C", "OWN": "x=y"})
	for v, want := range map[string]bool{"TZ=UTC": true, "LC_ALL=C": true, "LANG=C": true, "OWN=x=y": true,
		"LANG=de_DE": false, "SECRET=sesame": false} {
		if slices.Contains(env, v) != want {
			t.Errorf("%s is there: %v", v, !want)
		}
	}
	if !slices.IsSorted(env) {
		t.Error("the order of the variables is left to chance")
	}
}

// The error explains how to install a missing program.
func TestInstallHint(t *testing.T) {
	for command, want := range map[string]string{
		"npx": "Node.js", "node": "Node.js", "npm": "Node.js", "uvx": "install uv", "uv": "install uv",
		"python3": "Python 3", "pipx": "Python 3", "docker": "needs no container", "x": "whole path",
	} {
		if got := installHint(command); !strings.Contains(got, want) {
			t.Errorf("%s: %s", command, got)
		}
	}
}
