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
	"maps"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/bundled"
	"ravenbot/internal/chat"
	"ravenbot/internal/config"
	"ravenbot/internal/digest"
	"ravenbot/internal/pdftext"
	"ravenbot/internal/schedule"
	"ravenbot/internal/store"
	"ravenbot/internal/tool/billing"
	"ravenbot/internal/watchdog"
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
	usage []string // the ways to call it, without the name
	does  string
	flags func(*call)
	run   func(context.Context, *call) error
}

func commands() map[string]command {
	return map[string]command{
		"run":     {nil, "run the daemon", nil, run},
		"backup":  {[]string{"FILE"}, "copy the store to a file, also while the daemon runs", backupFlags, backup},
		"restore": {[]string{"FILE"}, "put a backup in the place of the store, which is kept beside it", nil, restore},
		"store":   {[]string{"check", "compact"}, "read the whole store and count what it holds, or give the disk back what is free in it", jsonFlag, storeFile},
		"chat":    {[]string{"[TEXT]"}, "ask once, or talk in the terminal", jsonFlag, talk},
		"config": {[]string{"check", "print", "schema"},
			"check the configuration, show it with its defaults, or print its JSON Schema", jsonFlag, configure},
		"digest": {[]string{"list", "preview NAME", "run NAME"},
			"list digests, show what one would post, or have the daemon post it", digestFlags, digests},
		"discord": {[]string{"invite"}, "print the address at which the bot is added to a server", jsonFlag, discordApp},
		"doctor":  {nil, "check everything that can be checked, and say what is wrong, what is lost by it, and how to mend it", jsonFlag, doctor},
		"feeds": {[]string{"parse FILE-or-URL…", "discover URL", "import OPML", "export"},
			"show what a feed holds, find the feeds of a page, or take lists of feeds from other readers and to them", feedFlags, feeds},
		"init": {nil, "ask for keys and tokens, try each at once, and write config.json and .env", initFlags, initialise},
		"mcp": {[]string{"list", "tools SERVER-or-URL", "call SERVER TOOL JSON", "logs SERVER", "approve SERVER", "serve"},
			"look at MCP servers and use them, or offer the bot's own tools as one on standard streams", jsonFlag, mcpCommand},
		"tokens":    {[]string{"create NAME", "list", "revoke NAME"}, "make and revoke the tokens with which other MCP hosts use the bot's tools", tokenFlags, tokens},
		"sandbox":   {nil, "run the daemon in a simulated world, with no token and no network, and talk with it", sandboxFlags, sandboxed},
		"schedule":  {[]string{"next EXPR"}, "show when a schedule is due", scheduleFlags, when},
		"slack":     {[]string{"manifest"}, "print the manifest from which Slack makes the app, as the configuration needs it", slackFlags, slackApp},
		"summarize": {[]string{"FILE"}, "print the main sentences of a text (- for standard input)", summaryFlags, summarize},
		"usage":     {nil, "show what was asked of models in the last 30 days, and what it cost", jsonFlag, spent},
		"tools": {[]string{"list", "search QUERY", "why TOOL", "eval"},
			"list the tools there are, find some, say what decides whether one may be used, or measure the search", toolFlags, tools},
		"agents":  {nil, "list the agents: who answers, with which model and tools", jsonFlag, listAgents},
		"version": {nil, "print version, commit and Go version", jsonFlag, printVersion},
	}
}

// jsonFlag is for commands whose output is data.
func jsonFlag(c *call) { c.flags.BoolVar(&c.json, "json", false, "print data as JSON") }

// usageError is a command that was called wrongly.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func misuse(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// Run runs the command that the arguments name and gives the exit status.
func Run(ctx context.Context, w World) int {
	before, name, after := split(w.Args)
	switch name {
	case "":
		help(w.Err)
		return misused
	case "help", "-h", "-help", "--help":
		if len(after) == 0 {
			help(w.Out)
			return done
		}
		name, after = after[0], []string{"--help"}
	case pdftext.Word:
		return pdftext.Main(w.In, w.Out)
	case watchdog.Argument:
		return watchdog.Main(w.In)
	case "-version", "--version":
		name = "version"
	}
	cmd, ok := commands()[name]
	if !ok {
		fmt.Fprintf(w.Err, "ravenbot: there is no command %q\n\n", name)
		help(w.Err)
		return misused
	}
	c := &call{World: w}
	c.flags = cmd.flagSet(c, name)
	err := c.parse(append(before, after...))
	if c.Err = (visible{c.Err}); !c.json {
		c.Out = visible{c.Out}
	}
	if errors.Is(err, flag.ErrHelp) {
		cmd.help(w.Out, name, c.flags)
		return done
	}
	if err == nil {
		err = cmd.run(ctx, c)
	}
	return c.status(name, err)
}

// split finds the command's name; --config and --json may stand before it.
func split(args []string) (before []string, name string, after []string) {
	n := 0
	for n < len(args) {
		flag, _, whole := strings.Cut(args[n], "=")
		switch flag {
		case "-config", "--config":
			if !whole {
				n++ // its value is the next argument
			}
		case "-json", "--json":
		default:
			return args[:n:n], args[n], args[n+1:]
		}
		n++
	}
	return args, "", nil
}

func (cmd command) flagSet(c *call, name string) *flag.FlagSet {
	c.flags = flag.NewFlagSet(name, flag.ContinueOnError)
	c.flags.SetOutput(io.Discard)
	c.flags.StringVar(&c.config, "config", "config.json", "the configuration `FILE`")
	if cmd.flags != nil {
		cmd.flags(c)
	}
	return c.flags
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
	case err == nil:
		return done
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(c.Err, "ravenbot %s: interrupted\n", name)
		return failed
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

// errNoConfig says that there is no configuration, or that it cannot be read.
var errNoConfig = errors.New("no configuration")

// load reads the configuration and says its warnings.
func (c *call) load() (*config.Config, error) {
	cfg, err := config.Load(c.config, config.Options{Env: c.Env, Checks: checks()})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no file %s; --config names another", errNoConfig, c.config)
	}
	if faults := (*config.Faults)(nil); err != nil && !errors.As(err, &faults) {
		return nil, fmt.Errorf("%w: %w; --config names another file", errNoConfig, err)
	}
	if err != nil {
		return nil, err
	}
	if faults := unbuilt(cfg); len(faults) > 0 {
		return nil, &config.Faults{List: faults}
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintf(c.Err, "warning: %s\n", w)
	}
	return cfg, nil
}

// checks are what the configuration room cannot judge by itself.
func checks() config.Checks {
	return config.Checks{
		Filter: digest.CheckFilter, Template: digest.CheckTemplate,
		Schedule: func(expr, zone string) error {
			location, err := schedule.LoadZone(zone)
			if err != nil {
				location = time.UTC // the zone is told of by itself
			}
			s, err := schedule.Parse(expr, location)
			if err != nil {
				return err
			}
			if _, due := s.Next(time.Now()); !due {
				return fmt.Errorf("%q is never due", expr)
			}
			return nil
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
		Tariff: func(path string) error {
			_, err := billing.Load(path)
			return err
		},
	}
}

// unbuilt names the settings that this version cannot run with.
func unbuilt(c *config.Config) []config.Fault {
	var list []config.Fault
	if store := c.Store.Reveal(); strings.HasPrefix(store, "postgres://") || strings.HasPrefix(store, "postgresql://") {
		list = append(list, config.Fault{File: c.Path, Key: "store", Reason: "this version keeps everything in a file and has no PostgreSQL store yet",
			Remedy: `name a file, such as "data/ravenbot.db"`})
	}
	return list
}

func help(w io.Writer) {
	fmt.Fprint(w, "A chat bot for Discord, Slack, the browser and the terminal.\n\nUsage: ravenbot COMMAND [--config FILE] [--json]\n\n")
	all := commands()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(w, "  %-42s %s\n", strings.TrimSpace(name+" "+strings.Join(all[name].usage, " | ")), all[name].does)
	}
	fmt.Fprint(w, "\nravenbot COMMAND --help tells more.\n"+
		"Exit status: 0 done, 1 failed, 2 wrong usage or configuration, 3 store in use or damaged.\n")
}

func (cmd command) help(w io.Writer, name string, flags *flag.FlagSet) {
	for i, usage := range append(cmd.usage, "")[:max(1, len(cmd.usage))] {
		label := "Usage: "
		if i > 0 {
			label = "       "
		}
		fmt.Fprintln(w, strings.TrimRight(label+"ravenbot "+name+" "+usage, " "))
	}
	fmt.Fprintf(w, "\n%s\n\nFlags:\n", cmd.does)
	flags.VisitAll(func(f *flag.Flag) {
		value, does := flag.UnquoteUsage(f)
		if f.DefValue != "" && f.DefValue != "false" {
			does += " (without it: " + f.DefValue + ")"
		}
		fmt.Fprintf(w, "  %-18s %s\n", strings.TrimSpace("--"+f.Name+" "+value), does)
	})
}
