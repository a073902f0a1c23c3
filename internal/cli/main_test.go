package cli

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// update has the tests write what they compare with.
var update = flag.Bool("update", false, "write docs/cli.md and the outputs in the scripts")

// TestMain lets the scripts run this very binary as ravenbot, as cmd/ravenbot does.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"ravenbot": func() {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := Run(ctx, World{Args: os.Args[1:], In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.LookupEnv})
		stop()
		os.Exit(code)
	}})
}
