//go:build unix

package watchdog

import "syscall"

// newSession puts the watchdog into a session of its own, so that a signal to the bot's process group or terminal
// does not end it.
func newSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// killGroup kills a process group by its id.
func killGroup(group int) {
	_ = syscall.Kill(-group, syscall.SIGKILL) // an error means that the group is already gone
}
