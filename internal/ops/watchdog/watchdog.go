// Package watchdog kills the process groups that a killed bot leaves running.
//
// A process that is killed by force cannot clean up, and the kernel does not end the processes that its children
// started. So the bot starts a second process of the same program, the watchdog process, and sends it the ids of its
// process groups. At the end of its standard input, which means that the bot is gone, the watchdog process kills the
// remaining groups and exits.
//
// The watchdog process starts with the first group, is replaced if it is killed, and holds nothing of the bot except
// that pipe. While the bot lives, the callers end their groups themselves.
package watchdog

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Argument is the first argument of a watchdog process. A program that is started with it has to call Main.
const Argument = "end-what-is-left"

// Main runs the watchdog process: it reads the groups from in and, when in ends, kills those that are left. It
// returns the exit status: 1 where a line is not one that a Watchdog writes.
func Main(in io.Reader) int {
	// The bot's own shutdown signals may reach this process too. It has to outlive the bot.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	groups := map[int]bool{}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		sign, number, _ := strings.Cut(lines.Text(), " ")
		group, err := strconv.Atoi(number)
		switch {
		case err != nil || group <= 1: // kill(2) takes 0 for our own group and -1 for every process
			return 1
		case sign == "+":
			groups[group] = true
		default:
			delete(groups, group)
		}
	}
	for group := range groups {
		killGroup(group)
	}
	return 0
}

// Watchdog starts the watchdog process and sends it process groups. It is safe for concurrent use. New makes one.
type Watchdog struct {
	program, name string
	log           *slog.Logger

	mu     sync.Mutex
	stdin  io.WriteCloser // of the watchdog process; nil while it does not run
	cmd    *exec.Cmd
	groups map[int]bool
	warned bool // the log says already that there is no watchdog process
}

// New returns a Watchdog that starts program, with name as the name it was called by. The program has to call Main
// where its first argument is Argument.
func New(program, name string, log *slog.Logger) *Watchdog {
	return &Watchdog{program: program, name: name, log: log, groups: map[int]bool{}}
}

// Watch adds a process group. The caller calls done once, before the system can give the group's id to another
// group. Where the watchdog process cannot be started, Watch logs a warning, once.
func (w *Watchdog) Watch(group int) (done func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.groups[group] = true
	// Sent under the lock: lines in the wrong order would have an ended group killed, whose id others may have.
	w.send("+", group)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.groups, group)
		w.send("-", group)
	}
}

// send writes a line to the watchdog process, and starts one where none runs. The caller holds w.mu.
func (w *Watchdog) send(sign string, group int) {
	if w.stdin != nil {
		if _, err := fmt.Fprintln(w.stdin, sign, group); err == nil {
			return
		}
		w.stop() // the process is gone: somebody killed it
	}
	if len(w.groups) == 0 {
		return
	}
	// start sends every group in w.groups, this one included.
	if err := w.start(); err != nil && !w.warned {
		w.warned = true
		w.log.Warn(
			"failed to start the watchdog process; if the bot is killed, processes of its tool servers may remain",
			"error", err,
		)
	}
}

// start starts the watchdog process and sends it all groups. The caller holds w.mu.
func (w *Watchdog) start() error {
	cmd := exec.Command(w.program)
	cmd.Args = []string{w.name, Argument}
	cmd.Env = []string{"GOMAXPROCS=1"} // one thread is enough; no secret of the bot's environment is passed on
	// A process in the bot's directory would keep its file system from being unmounted.
	cmd.Dir = string(os.PathSeparator)
	cmd.SysProcAttr = newSession()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	w.stdin, w.cmd = stdin, cmd
	for group := range w.groups {
		if _, err := fmt.Fprintln(stdin, "+", group); err != nil {
			return err
		}
	}
	return nil
}

// stop closes the input of the watchdog process and waits until it has exited. The caller holds w.mu.
func (w *Watchdog) stop() {
	_ = w.stdin.Close()
	_ = w.cmd.Wait() // its exit status does not matter
	w.stdin, w.cmd = nil, nil
}

// Close ends the watchdog process, which kills the groups that are left.
func (w *Watchdog) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stdin != nil {
		w.stop()
	}
	// Without groups, a call of done that comes later does not start the process again.
	clear(w.groups)
}
