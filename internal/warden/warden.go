// Package warden ends what a killed bot leaves behind. A process that is killed by force
// can end nothing itself, and the kernel ends its children, where it does, but not what
// they started. So a second process of the same program is told which groups of processes are
// the bot's; when the bot is gone, which it learns from the end of its input, it kills
// those that are left, and ends. It is started with the first group, and holds nothing
// of the bot but that pipe. Whoever starts a group ends it as long as the bot lives.
package warden

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

// Word is the argument with which the program is a warden (Main).
const Word = "end-what-is-left"

// Main reads which groups there are, and kills those that are left when the input ends.
// It is not ended by signals that are meant for the bot.
func Main(in io.Reader) int {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	groups := map[int]bool{}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		sign, number, _ := strings.Cut(lines.Text(), " ")
		group, err := strconv.Atoi(number)
		switch {
		case err != nil || group <= 1: // 0 and -1 would be ourselves, and everybody
			return 1
		case sign == "+":
			groups[group] = true
		default:
			delete(groups, group)
		}
	}
	for group := range groups {
		kill(group)
	}
	return 0
}

// Warden tells the second process of groups. It is safe for concurrent use; the zero
// value is not ready.
type Warden struct {
	program, name string
	log           *slog.Logger

	mu     sync.Mutex
	in     io.WriteCloser // of the second process; nil: it does not run
	cmd    *exec.Cmd
	groups map[int]bool
	failed bool // it was said that there is none
}

// New returns a warden for which a program is started that calls Main where its first argument is
// Word. name is what the program is to think it is called by.
func New(program, name string, log *slog.Logger) *Warden {
	return &Warden{program: program, name: name, log: log, groups: map[int]bool{}}
}

// Watch tells of a group of processes; done has to be called once, before its id can be
// given to another. Where there can be no second process the log says so, once.
func (w *Warden) Watch(group int) (done func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.groups[group] = true
	w.tell("+", group)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.groups, group)
		w.tell("-", group)
	}
}

// tell writes to the second process, and starts one where there is none. w.mu is held.
func (w *Warden) tell(sign string, group int) {
	if w.in != nil {
		if _, err := fmt.Fprintln(w.in, sign, group); err == nil {
			return
		}
		w.end() // somebody has killed it
	}
	if len(w.groups) == 0 {
		return
	}
	if err := w.start(); err != nil && !w.failed {
		w.failed = true
		w.log.Warn("nothing watches over tool servers: should the bot be killed, what they started may be left behind", "error", err)
	}
}

func (w *Warden) start() error {
	cmd := exec.Command(w.program)
	cmd.Args = []string{w.name, Word}
	cmd.Env = []string{"GOMAXPROCS=1"}
	cmd.Dir = string(os.PathSeparator)
	cmd.SysProcAttr = apart()
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	w.in, w.cmd = in, cmd
	for group := range w.groups {
		if _, err := fmt.Fprintln(in, "+", group); err != nil {
			return err
		}
	}
	return nil
}

// end closes the input of the second process and waits for it. w.mu is held.
func (w *Warden) end() {
	_ = w.in.Close()
	_ = w.cmd.Wait() // however it ended
	w.in, w.cmd = nil, nil
}

// Close ends the second process, which kills what is left.
func (w *Warden) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.in != nil {
		w.end()
	}
	clear(w.groups)
}
