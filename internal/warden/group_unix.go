//go:build unix

package warden

import "syscall"

// apart puts the second process where what ends the bot's group or session does not reach it.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func kill(group int) {
	_ = syscall.Kill(-group, syscall.SIGKILL) // nobody left is what we want
}
