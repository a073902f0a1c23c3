package mcp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	exitWait         = 300 * time.Millisecond // for a server to end by itself once its input is closed
	termWait         = 2 * time.Second        // after the asking signal, before the killing one
	killWait         = 5 * time.Second        // for the kernel to end what was killed
	drainWait        = 500 * time.Millisecond // to read what an ended server had written
	writeTimeout     = 30 * time.Second       // for a server to take a message
	maxDeprioritized = 5 * time.Second        // that a starting server comes after all others
)

// stdioTransport carries messages over the standard streams of a process of its own, one
// a line. It ends the process with everything that it started.
type stdioTransport struct {
	*rpcConn
	cmd   *exec.Cmd
	logs  *logBuffer
	watch func(group int) (done func())

	outbox    chan []byte
	in        *os.File // its ends of the pipes: in is written, out and errs are read
	out, errs *os.File
	exited    chan struct{} // closed when the process has been reaped

	mu              sync.Mutex // guards signalling against reaping: an id may be given anew after
	reaped          bool
	restorePriority func() // has it come after others no longer
	closeOnce       sync.Once
}

func newStdio(c Config, logs *logBuffer, watch func(group int) (done func())) (*stdioTransport, error) {
	env := buildEnvironment(c.Env)
	path, err := findCommand(c.Command, c.Dir, env)
	if err != nil {
		return nil, err
	}
	s := &stdioTransport{logs: logs, watch: watch, outbox: make(chan []byte, 16), exited: make(chan struct{})}
	s.cmd = &exec.Cmd{Path: path, Args: append([]string{c.Command}, c.Args...), Env: env, Dir: c.Dir, SysProcAttr: ownGroup()}
	s.rpcConn = newRPCConn(func(line []byte) { logs.add("stdout", line) })
	s.send = s.enqueue
	return s, nil
}

// isInherited are the variables of ours that every server gets. Whatever else a
// server needs is written in its entry: no token of ours reaches it.
func isInherited(name string) bool {
	return slices.Contains([]string{"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "TZ", "TMPDIR"}, name) ||
		strings.HasPrefix(name, "LC_")
}

func buildEnvironment(own map[string]string) []string {
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if _, replaced := own[name]; !replaced && isInherited(name) {
			env = append(env, v)
		}
	}
	for name, value := range own {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

// findCommand gives the path of a command, looking in the PATH that the server will have.
func findCommand(command, dir string, env []string) (string, error) {
	if dir != "" {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return "", fmt.Errorf("start %q: its working folder %s does not exist: create it, or change cwd", command, dir)
		}
	}
	if strings.ContainsRune(command, filepath.Separator) {
		path := command
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if _, err := exec.LookPath(path); err != nil {
			return "", fmt.Errorf("start %q: %w: check command, a relative one counts from cwd", command, errors.Unwrap(err))
		}
		return filepath.Abs(path)
	}
	for _, v := range env {
		folders, ok := strings.CutPrefix(v, "PATH=")
		if !ok {
			continue
		}
		for _, folder := range filepath.SplitList(folders) {
			if path, err := exec.LookPath(filepath.Join(folder, command)); err == nil && filepath.IsAbs(path) {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("%s not found: %s", command, installHint(command))
}

func installHint(command string) string {
	switch command {
	case "npx", "npm", "node":
		return "install Node.js, or put its folder into PATH"
	case "uvx", "uv":
		return "install uv, or put its folder into PATH"
	case "python", "python3", "pip", "pipx":
		return "install Python 3, or put its folder into PATH"
	case "docker", "podman":
		return "install it, or use a server that needs no container"
	}
	return "install it, or write its whole path as command"
}

// Start starts the process; it does not end with ctx but with Close.
func (s *stdioTransport) Start(context.Context) error {
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
	}()
	pipe := func() (r, w *os.File, err error) {
		if r, w, err = os.Pipe(); err == nil {
			return r, w, nil
		}
		return nil, nil, fmt.Errorf("start %q: make a pipe: %w", s.cmd.Args[0], err)
	}
	stdin, in, err := pipe()
	if err != nil {
		return err
	}
	s.in, theirs = in, append(theirs, stdin)
	out, stdout, err := pipe()
	if err != nil {
		return errors.Join(err, in.Close())
	}
	s.out, theirs = out, append(theirs, stdout)
	errs, stderr, err := pipe()
	if err != nil {
		return errors.Join(err, in.Close(), out.Close())
	}
	s.errs, theirs = errs, append(theirs, stderr)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = stdin, stdout, stderr

	started := make(chan error)
	go s.runProcess(started)
	if err := <-started; err != nil {
		return errors.Join(fmt.Errorf("start %q: %w", s.cmd.Args[0], err), in.Close(), out.Close(), errs.Close())
	}
	s.logs.add("bot", fmt.Appendf(nil, "started %s as process %d", s.cmd.Path, s.cmd.Process.Pid))
	return nil
}

// runProcess starts the process, waits for its end and reaps it. It stays on one
// thread, since the kernel ties "kill the child when the parent dies" to the
// thread that made the child.
func (s *stdioTransport) runProcess(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := s.cmd.Start()
	if err != nil {
		started <- err
		return
	}
	defer close(s.exited)
	s.restorePriority = deprioritize(s.cmd.Process.Pid)
	late := time.AfterFunc(maxDeprioritized, s.endDeprioritized) // on a busy machine it would never be
	defer late.Stop()
	unwatch := s.watch(s.cmd.Process.Pid)
	var reading, work sync.WaitGroup
	drained, mute := make(chan struct{}), make(chan struct{})
	reading.Go(func() { s.readOutput(); close(mute) })
	reading.Go(s.readErrors)
	work.Go(func() { reading.Wait(); close(drained) })
	work.Go(func() { s.watchOutputEnd(mute) })
	work.Go(s.writeMessages)
	started <- nil
	s.reap(drained, unwatch)
	work.Wait()
}

// endDeprioritized says that the server has started.
func (s *stdioTransport) endDeprioritized() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.reaped {
		s.restorePriority()
	}
}

// watchOutputEnd ends the connection to a process that has closed its output but stays.
func (s *stdioTransport) watchOutputEnd(mute <-chan struct{}) {
	<-mute
	timer := time.NewTimer(exitWait)
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C:
		s.fail(errors.New("it closed its output"))
	}
}

// reap waits for the end of the process, ends what it left behind, and takes
// leave of it.
func (s *stdioTransport) reap(drained <-chan struct{}, unwatch func()) {
	if !awaitExit(s.cmd.Process.Pid) { // where that cannot be had, reaping comes first
		_ = s.cmd.Wait()
	}
	s.signal(syscall.SIGKILL)
	s.in.Close()
	timer := time.NewTimer(drainWait)
	defer timer.Stop()
	select {
	case <-drained:
	case <-timer.C:
	}
	unwatch()
	s.mu.Lock()
	_ = s.cmd.Wait() // its state is in cmd, and the only thing wanted
	s.reaped = true
	s.mu.Unlock()
	s.out.Close()
	s.errs.Close()
	s.logs.add("bot", []byte("ended: "+s.cmd.ProcessState.String()))
	s.fail(fmt.Errorf("the process ended (%s)", s.cmd.ProcessState))
}

func (s *stdioTransport) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.reaped {
		signalGroup(s.cmd.Process, sig)
	}
}

func (s *stdioTransport) readOutput() {
	lines := lineReader{r: bufio.NewReaderSize(s.out, 64<<10), max: maxMessageBytes}
	for {
		line, err := lines.next()
		switch {
		case errors.Is(err, errTooLong):
			s.onInvalid(line)
			s.fail(fmt.Errorf("it sent a line of more than %d MiB", maxMessageBytes>>20))
			return
		case err != nil:
			return
		}
		s.receive(line)
	}
}

func (s *stdioTransport) readErrors() {
	lines := lineReader{r: bufio.NewReaderSize(s.errs, 16<<10), max: 8 << 10}
	for {
		line, err := lines.next()
		if err != nil && !errors.Is(err, errTooLong) {
			return
		}
		s.logs.add("stderr", line)
	}
}

// enqueue hands a message to the writer, so that a server which does not read
// holds up nobody beyond their own deadline.
func (s *stdioTransport) enqueue(ctx context.Context, message []byte) error {
	select {
	case s.outbox <- append(message, '\n'):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.done:
		return s.lossReason()
	}
}

func (s *stdioTransport) writeMessages() {
	for {
		select {
		case <-s.done:
			return
		case message := <-s.outbox:
			err := s.in.SetWriteDeadline(time.Now().Add(writeTimeout))
			if err == nil {
				_, err = s.in.Write(message)
			}
			if err != nil && !errors.Is(err, os.ErrClosed) {
				s.fail(fmt.Errorf("it does not take messages: %w", err))
			}
			if err != nil {
				return
			}
		}
	}
}

// Close ends the process, first by closing its input, then by asking, then by
// force, and returns when it and its readers are gone.
func (s *stdioTransport) Close() error {
	s.fail(errors.New("closed"))
	s.closeOnce.Do(func() {
		if s.cmd.Process == nil {
			return
		}
		s.in.Close()
		left := s.waitExited(exitWait)
		if !left {
			s.signal(syscall.SIGTERM)
			left = s.waitExited(termWait)
		}
		if !left {
			s.signal(syscall.SIGKILL)
			left = s.waitExited(killWait)
		}
		if left {
			s.answers.Wait()
		}
	})
	return nil
}

func (s *stdioTransport) waitExited(within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-s.exited:
		return true
	case <-timer.C:
		return false
	}
}
