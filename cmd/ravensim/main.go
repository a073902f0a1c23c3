// Command ravensim is a tool for developers that simulates the peers of ravenbot. Each subcommand is in its own file.
// It is not released.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// world is what a subcommand may use of the process.
type world struct {
	args     []string // the arguments after the subcommand
	out, err io.Writer
	env      func(string) string
}

// command is one subcommand. run returns the exit status.
type command struct {
	name, use string
	run       func(context.Context, world) int
}

func commands() []command {
	return []command{
		{"conformance", "URL: the client under test for the official MCP conformance suite", conformance},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:])
	stop()
	os.Exit(status)
}

// run carries out a command and returns the exit status; 2: there is no such command.
func run(ctx context.Context, args []string) int {
	all := commands()
	if len(args) > 0 {
		if i := slices.IndexFunc(all, func(c command) bool { return c.name == args[0] }); i >= 0 {
			return all[i].run(ctx, world{args[1:], os.Stdout, os.Stderr, os.Getenv})
		}
	}
	fmt.Fprintln(os.Stderr, "usage: ravensim COMMAND …")
	for _, c := range all {
		fmt.Fprintf(os.Stderr, "  %s %s\n", c.name, c.use)
	}
	return 2
}
