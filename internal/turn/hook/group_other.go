//go:build !unix

package hook

import "os/exec"

// setProcessGroup does nothing: this system has no process groups.
func setProcessGroup(*exec.Cmd) {}

func killGroup(*exec.Cmd) {}
