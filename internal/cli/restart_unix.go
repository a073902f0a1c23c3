//go:build unix

package cli

import (
	"log/slog"
	"os"
	"syscall"
)

// restartProcess begins this program anew in the same process: nothing of what ran before goes on, and no supervisor
// is needed. It returns only by ending the process.
func restartProcess(log *slog.Logger) {
	log.Error("another replica has taken over; restarting")
	program, err := os.Executable()
	if err == nil {
		// Environ is Go's copy of the variables: closeProcess has overwritten those with which this process began.
		err = syscall.Exec(program, os.Args, os.Environ())
	}
	log.Error("restart failed", "error", err)
	os.Exit(1)
}
