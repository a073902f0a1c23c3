package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"

	"ravenbot/internal/ops/watchdog"
	"ravenbot/internal/recall/pdftext"
)

// readPDF starts this program again to read a PDF in a process of its own.
func readPDF(ctx context.Context, data []byte) ([]string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program that reads PDFs: %w", err)
	}
	return pdftext.Separate(ctx, program, os.Args[0], data)
}

// newWatchdog returns a watchdog that starts this program again to end orphaned tool servers, should the bot
// be killed.
func newWatchdog(log *slog.Logger) *watchdog.Watchdog {
	program, err := os.Executable()
	if err != nil {
		log.Debug("this program's own file is not known", "error", err)
	}
	return watchdog.New(cmp.Or(program, os.Args[0]), os.Args[0], log)
}
