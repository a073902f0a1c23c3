package pdftext_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ravenbot/internal/recall/pdftext"
)

// The process that reads is told nothing of this one's but how much memory it may use, is ended when its time is up,
// and leaves nothing behind.
func TestTheReadingProcessKnowsNothingAndIsEnded(t *testing.T) {
	dir := t.TempDir()
	seen, program := filepath.Join(dir, "seen"), filepath.Join(dir, "program")
	script := "#!/bin/sh\n(echo $$; cat /proc/$$/environ) > " + seen + ".new\n/bin/mv " + seen + ".new " + seen +
		"\nexec /bin/sleep 600\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DISCORD_TOKEN", "a secret")
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(256 << 20))
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := os.Stat(seen); err == nil || ctx.Err() != nil {
				cancel(stopped)
				return
			}
		}
	}()
	if _, err := pdftext.Separate(ctx, program, program, []byte("%PDF")); !errors.Is(err, stopped) {
		t.Errorf("it ended with %v", err)
	}
	cancel(nil)
	said, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	number, environment, _ := strings.Cut(string(said), "\n")
	if environment != "GOMAXPROCS=1\x00GOMEMLIMIT=67108864\x00" {
		t.Errorf("it was told %q", environment)
	}
	pid, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there: %v", pid, err)
	}
}
