// Package cli is the command line: one file a command. It promises the exit
// status of the contract (0 done, 1 failed, 2 wrong usage or configuration, 3
// store in use or damaged), results on standard output and everything else on
// standard error. What commands do is done by the rooms they call.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"ravenbot/internal/bundled"
	"ravenbot/internal/chat"
	"ravenbot/internal/config"
	"ravenbot/internal/schedule"
	"ravenbot/internal/store"
)

// version is set by the linker.
var version = "dev"

// The exit statuses.
const (
	done    = 0
	failed  = 1
	misused = 2
	locked  = 3
)

// World is what a command sees of the outside.
type World struct {
	Args     []string
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) (string, bool)
}

// call is one command being run.
type call struct {
	World
	flags  *flag.FlagSet
	config string
	json   bool
	args   []string // without flags
}

// command is one of the words after ravenbot. Its flags function may add flags of
// its own before they are read.
type command struct {
	usage string // arguments, as help shows them
	does  string
	flags func(*call)
	run   func(context.Context, *call) error
}

func commands() map[string]command {
	return map[string]command{
		"run":       {"", "run the daemon", nil, run},
		"chat":      {"[TEXT]", "ask once, or talk in the terminal", nil, talk},
		"config":    {"check|print|schema", "check the configuration, show it, or print its JSON Schema", nil, configure},
		"digest":    {"list|preview NAME|run NAME", "list digests, show what one would post, or post it", digestFlags, digests},
		"feeds":     {"parse FILE-or-URL…", "show what a feed holds", feedFlags, feeds},
		"schedule":  {"next EXPR", "show when a schedule is due", scheduleFlags, when},
		"summarize": {"FILE", "print the main sentences of a text (- for standard input)", summaryFlags, summarize},
		"version":   {"", "print version, commit and Go version", nil, printVersion},
	}
}

// usageError is a command that was called wrongly.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func misuse(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// Run runs the command named by the first argument and gives the exit status.
func Run(ctx context.Context, w World) int {
	if len(w.Args) == 0 {
		help(w.Err)
		return misused
	}
	name := w.Args[0]
	if slices.Contains([]string{"help", "-h", "-help", "--help"}, name) {
		help(w.Out)
		return done
	}
	cmd, ok := commands()[name]
	if !ok {
		fmt.Fprintf(w.Err, "ravenbot: there is no command %q\n\n", name)
		help(w.Err)
		return misused
	}
	c := &call{World: w, flags: flag.NewFlagSet(name, flag.ContinueOnError)}
	c.flags.SetOutput(io.Discard)
	c.flags.StringVar(&c.config, "config", "config.json", "the configuration `file`")
	c.flags.BoolVar(&c.json, "json", false, "print data as JSON")
	if cmd.flags != nil {
		cmd.flags(c)
	}
	err := c.parse(w.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		cmd.help(w.Out, name, c.flags)
		return done
	}
	if err == nil {
		err = cmd.run(ctx, c)
	}
	return c.status(name, err)
}

// parse reads flags before, between and after the arguments.
func (c *call) parse(args []string) error {
	for len(args) > 0 {
		if err := c.flags.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return err
			}
			return misuse("%v", err)
		}
		stopped := len(args) > c.flags.NArg() && args[len(args)-c.flags.NArg()-1] == "--"
		args = c.flags.Args()
		if stopped {
			c.args = append(c.args, args...)
			return nil
		}
		if len(args) > 0 {
			c.args, args = append(c.args, args[0]), args[1:]
		}
	}
	return nil
}

// status reports an error and gives its exit status.
func (c *call) status(name string, err error) int {
	var usage *usageError
	var faults *config.Faults
	var inUse *store.InUseError
	var damaged *store.DamagedError
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return done
	case errors.As(err, &usage):
		fmt.Fprintf(c.Err, "ravenbot %s: %v (ravenbot %s --help tells more)\n", name, err, name)
		return misused
	case errors.As(err, &faults):
		fmt.Fprintln(c.Err, err)
		return misused
	}
	fmt.Fprintf(c.Err, "ravenbot %s: %v\n", name, err)
	switch {
	case errors.As(err, &inUse), errors.As(err, &damaged):
		return locked
	case errors.Is(err, errNoConfig):
		return misused
	}
	return failed
}

var errNoConfig = errors.New("no configuration")

// load reads the configuration and says its warnings.
func (c *call) load() (*config.Config, error) {
	cfg, err := config.Load(c.config, config.Options{Env: c.Env, Checks: checks()})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no file %s; --config names another", errNoConfig, c.config)
	}
	if err != nil {
		return nil, err
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintf(c.Err, "warning: %s\n", w)
	}
	for _, w := range unserved(cfg) {
		fmt.Fprintf(c.Err, "warning: %s\n", w)
	}
	return cfg, nil
}

// checks are what the configuration room cannot judge by itself.
func checks() config.Checks {
	return config.Checks{
		Schedule: func(expr, zone string) error {
			location, err := schedule.LoadZone(zone)
			if err != nil {
				return err
			}
			_, err = schedule.Parse(expr, location)
			return err
		},
		Address: func(s string) error {
			_, err := chat.ParseAddress(s)
			return err
		},
		Bundled: func(name string) error {
			f, err := bundled.Feeds().Open(name + ".xml")
			if err != nil {
				return fmt.Errorf("no feed of this name came with the bot")
			}
			return f.Close()
		},
	}
}

// unserved names the settings that this version reads and does not act on yet: a
// cap or a guard that is silently not there would be worse than none.
func unserved(c *config.Config) []string {
	var list []string
	add := func(is bool, key, what string) {
		if is {
			list = append(list, key+": "+what)
		}
	}
	b := c.Budget
	add(b.InstanceDailyUSD+b.ChannelDailyUSD+b.UserDailyUSD+b.DigestDailyUSD > 0, "budget", "caps are not enforced by this version")
	add(len(c.Tools.Hooks) > 0, "tools.hooks", "hooks are not run by this version")
	add(len(c.Tools.Files.Roots) > 0, "tools.files.roots", "the files tools are not in this version; the filesystem MCP server reads files")
	add(c.Tools.Billing.File != "", "tools.billing.file", "the billing tools are not in this version")
	add(c.Tools.Discovery.Mode == "always", "tools.discovery.mode", "tools are always listed by this version")
	for name, a := range c.Agents {
		add(len(a.Knowledge) > 0, "agents."+name+".knowledge", "knowledge files are not read by this version")
	}
	for _, p := range c.Tools.Policy {
		if p.Decision == "ask" {
			add(true, "tools.policy", "a call that would be asked about is denied by this version")
			break
		}
	}
	slices.Sort(list)
	return list
}

func help(w io.Writer) {
	fmt.Fprintln(w, "ravenbot is a chat bot for Discord, Slack and the browser.\n\nUsage: ravenbot COMMAND [--config FILE] [--json]")
	fmt.Fprintln(w)
	all := commands()
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(w, "  %-42s %s\n", strings.TrimSpace(name+" "+all[name].usage), all[name].does)
	}
	fmt.Fprintln(w, "\nravenbot COMMAND --help tells more.")
}

func (cmd command) help(w io.Writer, name string, flags *flag.FlagSet) {
	fmt.Fprintf(w, "Usage: %s\n\n%s\n\nFlags:\n", strings.TrimSpace("ravenbot "+name+" "+cmd.usage), cmd.does)
	flags.SetOutput(w)
	flags.PrintDefaults()
}
