package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	exitWait     = 300 * time.Millisecond // for a process to end after its input is closed
	termWait     = 2 * time.Second        // between SIGTERM and SIGKILL
	killWait     = 5 * time.Second        // for the kernel to end a killed process
	drainWait    = 500 * time.Millisecond // to read the last output
	writeTimeout = 30 * time.Second       // for a process to read a message
)

// stdioTransport runs a process and exchanges messages over its standard streams, one per line. It ends the process
// with all descendants.
type stdioTransport struct {
	*rpcConn
	cmd     *exec.Cmd
	logs    *logBuffer
	watcher Watcher
	guard   func() guarded // the restricted paths; nil: it is not isolated

	c          Config
	ownFolders func(c Config) []string // Options.OwnFolders

	isolation []string // description of the isolation; set when Start returns

	outbox    chan []byte
	in        *os.File // the bot's ends of the pipes
	out, errs *os.File
	exited    chan struct{} // closed when the process has been reaped

	mu        sync.Mutex // guards signals against reaping: the system may then reuse the id
	reaped    bool
	closeOnce sync.Once
}

// newStdio prepares the program of a server; Start runs it. watcher watches its process group. protected returns the
// paths to hide, readOnly the paths to make read-only. It fails if the program is not found.
func newStdio(
	c Config,
	logs *logBuffer,
	watcher Watcher,
	protected, readOnly func() []string,
) (*stdioTransport, error) {
	env := buildEnvironment(c.Env)
	path, err := findCommand(c.Command, c.Dir, env)
	if err != nil {
		return nil, explainCommand(err, c)
	}
	s := &stdioTransport{c: c, logs: logs, watcher: watcher, outbox: make(chan []byte, 16), exited: make(chan struct{})}
	s.cmd = &exec.Cmd{
		Path:        path,
		Args:        append([]string{c.Command}, c.Args...),
		Env:         env,
		Dir:         c.Dir,
		SysProcAttr: ownGroup(),
	}
	switch {
	case protected != nil:
		cache, more := makeCache(c)
		s.cmd.Env = append(s.cmd.Env, more...)
		s.guard = func() guarded {
			g := guarded{hidden: hiddenPaths(protected(), c.Allow), writable: realPaths([]string{cache})}
			if readOnly != nil {
				g.readOnly = hiddenPaths(readOnly(), c.Allow)
			}
			if s.ownFolders != nil {
				g.isStrict, g.writable = true, append(g.writable, realPaths(s.ownFolders(c))...)
				temporary := filepath.Join(cache, "tmp")
				_ = os.Mkdir(temporary, 0o700) // if this fails, the program reports it
				s.cmd.Env = append(s.cmd.Env, "TMPDIR="+temporary)
			}
			return g
		}
	case c.NoNetwork:
		return nil, errors.New("network none requires mcp.isolation auto")
	}
	s.rpcConn = newRPCConn(func(line []byte) {
		logs.add("stdout", bytes.ReplaceAll(line, []byte{0}, []byte("␀"))) // makes UTF-16 visible
	})
	s.send = s.enqueue
	return s, nil
}

// isInherited reports whether servers inherit a variable. Others must be in the entry, so that no token of the bot
// reaches a server. The list is from the official TypeScript SDK, with locale, time zone and temporary directory.
func isInherited(name string) bool {
	return slices.Contains([]string{"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "TZ", "TMPDIR"}, name) ||
		strings.HasPrefix(name, "LC_")
}

// buildEnvironment returns the inherited variables and the variables of the entry, which win.
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

// explainCommand adds a remedy to the error of a missing command. It names no argument, which may be a secret.
func explainCommand(err error, c Config) error {
	program, _, isLine := strings.Cut(strings.TrimSpace(c.Command), " ")
	switch {
	case isLine:
		return fmt.Errorf("start %q: command takes the program alone: write \"command\": %q, and each other word in args",
			program, program)
	case strings.EqualFold(strings.TrimSuffix(program, ".exe"), "cmd") && len(c.Args) > 1:
		return fmt.Errorf("start %q, a program of Windows: write \"command\": %q, and the following words in args",
			program, c.Args[1])
	}
	return err
}

// findCommand returns the path of a command, from the PATH of the process. dir is its working directory.
func findCommand(command, dir string, env []string) (string, error) {
	// First, because exec's error for a missing directory names only the command.
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
		// Absolute, because LookPath would search "server" in the bot's PATH.
		path, err := filepath.Abs(path)
		if err == nil {
			_, err = exec.LookPath(path)
		}
		if err != nil {
			return "", fmt.Errorf("start %q: %w: check command, a relative one counts from cwd", command, errors.Unwrap(err))
		}
		return path, nil
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

// Start starts the process, which runs until Close. It may be called once. After an error nothing is left running.
func (s *stdioTransport) Start(context.Context) error {
	stdin, in, failedIn := os.Pipe()
	out, stdout, failedOut := os.Pipe()
	errs, stderr, failedErrs := os.Pipe()
	// Closed here, so that the streams end with the process.
	for _, f := range []*os.File{stdin, stdout, stderr} {
		defer f.Close()
	}
	s.in, s.out, s.errs = in, out, errs
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = stdin, stdout, stderr
	err := errors.Join(failedIn, failedOut, failedErrs)
	if err == nil {
		started := make(chan error) // unbuffered: runProcess waits for Start
		// Linux kills the child (Pdeathsig) when the thread that started it ends.
		runOnOwnThread(func() { s.runProcess(started) })
		err = <-started
	}
	if err != nil {
		return errors.Join(fmt.Errorf("start %q: %w", s.cmd.Args[0], err), in.Close(), out.Close(), errs.Close())
	}
	s.logs.add("bot", fmt.Appendf(nil, "started %s as process %d", s.cmd.Path, s.cmd.Process.Pid))
	return nil
}

// runProcess isolates the thread, starts the process, waits for its end and reaps it. The goroutine must have its own
// thread.
func (s *stdioTransport) runProcess(started chan<- error) {
	var err error
	if s.guard != nil {
		makeHomeCaches()
		s.isolation, err = isolateThread(s.guard(), s.c.NoNetwork)
	}
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		started <- err
		return
	}
	defer close(s.exited)
	if s.guard != nil {
		s.isolation = append(s.isolation, limitProcess(s.cmd.Process.Pid, s.c.MaxMemory))
	}
	unwatch := s.watchGroup()
	var reading, work sync.WaitGroup
	drained, outputEnded := make(chan struct{}), make(chan struct{})
	reading.Go(func() { s.readOutput(); close(outputEnded) })
	reading.Go(s.readErrors)
	work.Go(func() { reading.Wait(); close(drained) })
	work.Go(func() {
		<-outputEnded
		s.failUnlessEnded(errors.New("it closed its output"))
	})
	work.Go(s.writeMessages)
	work.Go(s.limitUsage)
	started <- nil
	s.reap(drained, unwatch)
	work.Wait()
}

// watchGroup calls Watch in another goroutine, because the first call starts a process that must not be isolated.
func (s *stdioTransport) watchGroup() (done func()) {
	if s.watcher == nil {
		return func() {}
	}
	watched := make(chan func())
	go func() { watched <- s.watcher.Watch(s.cmd.Process.Pid) }()
	return <-watched
}

// failUnlessEnded ends the connection, unless it ends for another reason in a moment: an ending process closes its
// streams first, and reap then has the better reason.
func (s *stdioTransport) failUnlessEnded(reason error) {
	select {
	case <-s.done:
	case <-time.After(exitWait):
		s.fail(reason)
	}
}

// reap waits for the end of the process, kills its descendants, and reaps it.
func (s *stdioTransport) reap(drained <-chan struct{}, unwatch func()) {
	if !awaitExit(s.cmd.Process.Pid) { // some systems cannot wait without reaping
		_ = s.cmd.Wait()
	}
	// Before reaping: the system cannot reuse the id of the group yet.
	s.signal(syscall.SIGKILL)
	s.in.Close()
	// The last output is worth reading, but a descendant outside of the group may keep the pipes open.
	select {
	case <-drained:
	case <-time.After(drainWait):
	}
	// Before reaping: the watchdog process must not kill another group with this id.
	unwatch()
	s.mu.Lock()
	_ = s.cmd.Wait() // its error repeats ProcessState
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
			// The log gets the beginning of the line.
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

// enqueue passes a message to writeMessages, so that callers do not wait for a server that does not read.
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

// writeMessages writes messages until the connection ends. The process must read each within writeTimeout.
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
			if err != nil {
				s.failUnlessEnded(fmt.Errorf("it does not take messages: %w", err))
				return
			}
		}
	}
}

// Close ends the process by closing its input, then by SIGTERM, then by SIGKILL. It returns when the process is gone,
// after 7.3 s at the latest, even if the kernel cannot end it. It may be called several times, and before Start.
func (s *stdioTransport) Close() error {
	// First, so that the end of the process does not count as a loss.
	s.fail(errors.New("closed"))
	s.closeOnce.Do(func() {
		if s.cmd.Process == nil {
			return
		}
		s.in.Close()
		exited := s.waitExited(exitWait)
		if !exited {
			s.signal(syscall.SIGTERM)
			exited = s.waitExited(termWait)
		}
		if !exited {
			s.signal(syscall.SIGKILL)
			s.waitExited(killWait)
		}
	})
	return nil
}

func (s *stdioTransport) waitExited(within time.Duration) bool {
	select {
	case <-s.exited:
		return true
	case <-time.After(within):
		return false
	}
}
