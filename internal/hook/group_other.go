//go:build !unix

package hook

import "os/exec"

// setProcessGroup has nothing to ask for where there are no process groups.
func setProcessGroup(*exec.Cmd) {}

func killGroup(*exec.Cmd) {}
