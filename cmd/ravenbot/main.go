// Command ravenbot is the bot: see internal/cli for its commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"ravenbot/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // a second signal ends the process at once
	}()
	code := cli.Run(ctx, cli.World{Args: os.Args[1:], In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.LookupEnv})
	stop()
	os.Exit(code)
}
