//go:build !unix

package cli

import (
	"log/slog"
	"os"
)

// restartProcess ends the process, so that nothing of what ran before goes on: whoever supervises it starts it again.
func restartProcess(log *slog.Logger) {
	log.Error("another replica has taken over; stopping, so that the supervisor starts this one again")
	os.Exit(1)
}
