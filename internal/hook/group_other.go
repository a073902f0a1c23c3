//go:build !unix

package hook

import "os/exec"

// group has nothing to ask for where there are no process groups.
func group(*exec.Cmd) {}

func killGroup(*exec.Cmd) {}
