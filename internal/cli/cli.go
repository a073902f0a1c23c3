// Package cli is the command line: commands.go has the tree of commands, and each command or group has a file. It
// promises the exit status (0 done, 1 failed, 2 wrong usage or configuration, 3 store in use or damaged), results on
// standard output and everything else on standard error. Other packages do the work.
//
// A command is a function of an invocation, which has the streams, the flags and the configuration. Commands that need
// the bot's data ask the running daemon over its API. If no daemon runs, they open the store and call the same
// handlers in their own process (local_api.go). So a command behaves the same in both cases and never opens a store
// that is in use. output.go prints results for people; --json prints the API's answer.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/feature/jobs"
	"ravenbot/internal/news/bundled"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/schedule"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/ops/watchdog"
	"ravenbot/internal/recall/pdftext"
	"ravenbot/internal/recall/skill"
	"ravenbot/internal/store"
	"ravenbot/internal/tools/billing"
)

// version is set by the linker.
var version = "dev"

// The exit statuses.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitStore  = 3
)

// World holds what a command uses of the outside: arguments (without the program's name), streams and environment.
// Tests replace them.
type World struct {
	Args     []string
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) (string, bool)
}

// invocation is one run of a command.
type invocation struct {
	World
	flags  *pflag.FlagSet // of the command
	config string
	json   bool
	args   []string // without flags and the names of commands
}

// jsonFlag adds --json, for commands whose output is data.
func jsonFlag(c *invocation) { c.flags.BoolVar(&c.json, "json", false, "print data as JSON") }

// usageError is the error of a command that was called wrongly. It ends with exit status 2.
type usageError struct{ text string }

// Error returns what was wrong, without the name of the command, which reportError adds.
func (e *usageError) Error() string { return e.text }

// usageErrorf returns a usageError.
func usageErrorf(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// Run runs the command that the arguments name and returns the exit status. It prints an error on w.Err, where control
// characters are replaced. When ctx ends, a command ends early with the status of a failure, but the daemon ends in
// order with that of success.
func Run(ctx context.Context, w World) int {
	// The daemon starts this program again for these two jobs; they are no commands for people.
	if len(w.Args) > 0 {
		switch w.Args[0] {
		case pdftext.Word:
			return pdftext.Main(w.In, w.Out)
		case watchdog.Argument:
			return watchdog.Main(w.In)
		}
	}
	if len(w.Args) > 0 && (w.Args[0] == "-version" || w.Args[0] == "--version") {
		w.Args = append([]string{"version"}, w.Args[1:]...)
	}
	c := &invocation{World: w}
	root := newRoot(c)
	// cobra reads os.Args instead of nil.
	root.SetArgs(append([]string{}, w.Args...))
	c.Err = printableWriter{w.Err}
	// ExecuteContextC also returns the command that failed, which the error message names.
	cmd, err := root.ExecuteContextC(ctx)
	return c.reportError(cmd.CommandPath(), err)
}

// invoke runs fn after cobra has read flags and arguments. It returns a usage error for --json where the command prints
// no data.
func (c *invocation) invoke(ctx context.Context, fn func(context.Context, *invocation) error) error {
	if c.json && c.flags.Lookup("json").Hidden {
		return usageErrorf("unknown flag: --json")
	}
	// JSON escapes control characters by itself, and must not be changed.
	if !c.json {
		c.Out = printableWriter{c.Out}
	}
	return fn(ctx, c)
}

// flagText returns the value of a flag of any type, as text. It panics for a flag that the command does not have.
func (c *invocation) flagText(flag string) string { return c.flags.Lookup(flag).Value.String() }

// flagOn reports whether a flag without a value is on.
func (c *invocation) flagOn(flag string) bool { return c.flagText(flag) == "true" }

// flagInt returns the value of a flag of type int. It panics for another type.
func (c *invocation) flagInt(flag string) int {
	n, err := c.flags.GetInt(flag)
	if err != nil {
		panic(err)
	}
	return n
}

// reportError prints the error of a command, named by the first two words of its path, and returns the exit status. It
// prints nothing for nil.
func (c *invocation) reportError(path string, err error) int {
	var usage *usageError
	var faults *config.Faults
	var inUse *store.InUseError
	var damaged *store.DamagedError
	var newer *store.NewerError
	var folder *config.FolderError
	words := strings.Fields(path)
	name := strings.Join(words[:min(2, len(words))], " ")
	switch {
	case err == nil:
		return exitDone
	// Before the other cases: what was interrupted may wrap any of them.
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(c.Err, "%s: interrupted\n", name)
		return exitFailed
	case errors.As(err, &usage):
		fmt.Fprintf(c.Err, "%s: %v (%s --help tells more)\n", name, err, path)
		return exitUsage
	// Faults print their own lines with file and line number, so they get no prefix.
	case errors.As(err, &faults):
		fmt.Fprintln(c.Err, err)
		return exitUsage
	}
	fmt.Fprintf(c.Err, "%s: %v\n", name, err)
	switch {
	case errors.As(err, &inUse), errors.As(err, &damaged), errors.As(err, &newer):
		return exitStore
	case errors.Is(err, errNoConfig), errors.As(err, &folder):
		return exitUsage
	}
	return exitFailed
}

// errNoConfig is the error of a configuration that is missing or cannot be read.
var errNoConfig = errors.New("no configuration")

// configFlag returns what names the configuration of this call in another one, beginning with a blank; "": nothing has to.
func (c *invocation) configFlag() string {
	switch {
	case c.config == c.flags.Lookup("config").DefValue:
		return ""
	case strings.Trim(c.config, "/._-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == "":
		return " --config " + c.config
	}
	return " --config '" + strings.ReplaceAll(c.config, "'", `'\''`) + "'"
}

// loadConfig reads the configuration and prints its warnings. It returns an error that wraps errNoConfig when
// the file cannot be read, and *config.Faults when it is wrong.
func (c *invocation) loadConfig() (*config.Config, error) {
	cfg, err := config.Load(c.config, config.Options{Env: c.Env, Checks: configChecks()})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no file %s: ravenbot init makes one, and --config names another",
			errNoConfig, c.config)
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w: %w: give this user the right to read it, or run as the user whose file it is", errNoConfig,
			err)
	}
	if faults := (*config.Faults)(nil); err != nil && !errors.As(err, &faults) {
		return nil, fmt.Errorf("%w: %w; --config names another file", errNoConfig, err)
	}
	if err != nil {
		return nil, err
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintf(c.Err, "warning: %s\n", w)
	}
	return cfg, nil
}

// configChecks returns the checks of values that the config package cannot judge itself.
func configChecks() config.Checks {
	return config.Checks{
		Filter:        digest.CheckFilter,
		DigestChannel: digest.CheckChannel,
		Mailbox: func(address string) error {
			_, err := chat.Mailbox(address)
			return err
		},
		QuietHours: func(hours string) error {
			_, err := jobs.ParseQuietHours(hours)
			return err
		},
		HookTemplate: func(words string) error {
			_, err := jobs.ParseTemplate(words)
			return err
		},
		NearestZone: schedule.NearestZone,
		Tools:       tool.NativeNames,
		Schedule: func(expr, zone string) error {
			location, err := schedule.LoadZone(zone)
			if err != nil {
				location = time.UTC // the zone has a check of its own
			}
			s, err := schedule.Parse(expr, location)
			if err != nil {
				return err
			}
			// A valid expression may still name a date that does not exist, such as 30 February.
			if _, due := s.Next(time.Now()); !due && !s.HasEnded(time.Now()) {
				return fmt.Errorf("%q is never due", expr)
			}
			return nil
		},
		Skills: func(pattern string) []config.SkillFault {
			_, err := skill.Load([]string{pattern})
			var list []config.SkillFault
			for _, f := range skill.Faults(err) {
				list = append(list, config.SkillFault{Problem: f.File + ": " + f.Problem, Remedy: f.Remedy})
			}
			return list
		},
		Address: func(s string) error {
			_, err := chat.ParseAddress(s)
			return err
		},
		Bundled: func(name string) error {
			// Opening is the whole check: the feeds are embedded in the program.
			f, err := bundled.Feeds().Open(name + ".xml")
			if near := text.Nearest(name, bundled.Names()); err != nil && near != "" {
				return fmt.Errorf("no feed of this name came with the bot, did you mean %q?", near)
			}
			if err != nil {
				return fmt.Errorf("no feed of this name came with the bot; there are %s", strings.Join(bundled.Names(), ", "))
			}
			return f.Close()
		},
		Tariff: func(path string) error {
			_, err := billing.Load(path)
			return err
		},
	}
}
