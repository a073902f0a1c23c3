package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// entry is a name with what it stands for, in a list of the manual page.
type entry struct{ name, text string }

// exitStatuses are the statuses that the program ends with.
var exitStatuses = []entry{
	{fmt.Sprint(exitDone), "done"},
	{fmt.Sprint(exitFailed), "failed"},
	{fmt.Sprint(exitUsage), "wrong usage or configuration"},
	{fmt.Sprint(exitStore), "store in use or damaged"},
}

// manualFiles are the files of a bot whose store is a file, as the shipped configuration names it.
var manualFiles = []entry{
	{"config.json", "The configuration; --config names another file. Relative paths in it count from its folder."},
	{".env", "Variables for the configuration, in the same folder. The environment overrides them."},
	{"data/ravenbot.db", "The store: conversations, posts under way, items of feeds."},
	{"data/ravenbot.db.key", "The key of the secrets in the store. Without it, or storeKey, they cannot be read."},
	{"data/ravenbot.db.token", "The administrator's token, made at the first start where http.adminToken is empty."},
	{"data/ravenbot.db.files", "The files of agents."},
	{"data/ravenbot.db.backups", "The copies that the daemon makes every day."},
	{"data/ravenbot.db.initialized", "Marks that the store was made, so that a store which is missing is an error " +
		"and not a new beginning."},
	{"data/ravenbot.db.log-0", "The newest changes of the store, while the bot runs or after it was killed."},
	{"data/ravenbot.db.log-1", "The same. Both belong to the store: move them with it."},
}

// manualVariables are the variables of the environment that the program reads, or that the shipped configuration does.
var manualVariables = []entry{
	{"RAVENBOT_STORE", "The path of the store, or the postgres:// address of a database (store)."},
	{"RAVENBOT_STORE_KEY", "The key of the secrets in the store (storeKey)."},
	{"RAVENBOT_ADMIN_TOKEN", "The administrator's token for pages and API (http.adminToken)."},
	{"RAVENBOT_LISTEN", "The address that the HTTP server listens on (http.listen)."},
	{"RAVENBOT_PUBLIC_URL", "The address at which others reach it, for links (http.publicURL)."},
	{"GEMINI_API_KEY", "The key for Gemini."},
	{"ANTHROPIC_API_KEY", "The key for Claude."},
	{"DISCORD_TOKEN", "The token of the bot on Discord."},
	{"SLACK_BOT_TOKEN", "The bot token of the app on Slack."},
	{"SLACK_APP_TOKEN", "Its app-level token, for Socket Mode."},
	{"SLACK_SIGNING_SECRET", "Its signing secret, for requests over HTTP."},
	{"REMOTE_MCP_TOKEN", "The token of an MCP server that is an example in the shipped configuration."},
	{"TZ", "The time zone of the log, and of what names no other."},
	{"GOMEMLIMIT, GOGC", "Memory limits in Go's format; they override the limits that the daemon finds."},
	{"HTTPS_PROXY, HTTP_PROXY, NO_PROXY", "The proxy for requests to platforms and models."},
}

// printManual prints the manual page.
func printManual(_ context.Context, c *invocation) error {
	root := newRoot(&invocation{World: c.World})
	root.InitDefaultHelpCmd()
	return writeManual(c.Out, root)
}

// writeManual writes the manual page of a command and all below it, for section 1, in the macros man(7).
func writeManual(w io.Writer, root *cobra.Command) error {
	p := &page{}
	// The date has plain hyphens, or mandoc does not know it for one.
	fmt.Fprintf(&p.text, ".TH %s 1 %q %q \"User Commands\"\n", strings.ToUpper(root.Name()), date,
		root.Name()+" "+roff(version))
	p.macro("SH", "NAME")
	p.line(root.Name() + " - " + strings.TrimSuffix(strings.ToLower(root.Short[:1])+root.Short[1:], "."))
	p.macro("SH", "SYNOPSIS")
	p.macro("B", root.Name())
	p.line("[--config FILE] COMMAND [FLAG…] [ARGUMENT…]")
	p.macro("SH", "DESCRIPTION")
	p.sentence("The daemon is started by ravenbot run. The other commands set it up, look at it, or do one piece of work. " +
		"Those that need live state ask the daemon of the same configuration over HTTP.")
	p.macro("PP")
	p.sentence("Results are written to standard output, all else to standard error.")
	p.macro("SH", "OPTIONS")
	p.flags(root.PersistentFlags())
	p.item("-h, --help", "Show the help of a command.")
	p.item("--version", "Print version, commit and Go version.")
	p.macro("SH", "COMMANDS")
	p.commands(root)
	p.list("EXIT STATUS", exitStatuses)
	p.list("FILES", manualFiles)
	p.list("ENVIRONMENT", manualVariables)
	_, err := io.WriteString(w, p.text.String())
	return err
}

// date is the day of the commit that the program was built from. It is set by the linker where the build knows it; the
// date of now would make two builds of one commit differ.
var date = ""

// page is a manual page that is being written.
type page struct{ text strings.Builder }

// macro writes a line that calls a macro with some arguments.
func (p *page) macro(name string, args ...string) {
	p.text.WriteString("." + name)
	for _, arg := range args {
		p.text.WriteString(` "` + strings.ReplaceAll(roff(arg), `"`, `\(dq`) + `"`)
	}
	p.text.WriteString("\n")
}

// line writes a line of text.
func (p *page) line(text string) {
	text = roff(text)
	// Else it would be taken for a macro.
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	p.text.WriteString(text + "\n")
}

// sentence writes text in lines of at most lineWidth characters as a sentence, which the help begins in lower case and
// without a full stop.
func (p *page) sentence(text string) {
	const lineWidth = 72 // mandoc -Tlint wants 80 at most, escapes included
	text = strings.ToUpper(text[:1]) + text[1:]
	if !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, ":") {
		text += "."
	}
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(roff(line+" "+word)) > lineWidth {
			p.line(line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	p.line(line)
}

// item writes a name in bold, with what it stands for below it.
func (p *page) item(name, text string) {
	p.macro("TP")
	p.macro("B", name)
	p.sentence(text)
}

// list writes a section of names.
func (p *page) list(title string, entries []entry) {
	p.macro("SH", title)
	for _, e := range entries {
		p.item(e.name, e.text)
	}
}

// commands writes the commands below cmd, each with its own flags.
func (p *page) commands(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		path := strings.TrimPrefix(sub.CommandPath(), sub.Root().Name()+" ")
		_, arguments, _ := strings.Cut(sub.Use, " ")
		p.macro("SS", strings.TrimSpace(path+" "+arguments))
		for i, paragraph := range strings.Split(cmp.Or(sub.Long, sub.Short), "\n\n") {
			if i > 0 {
				p.macro("PP")
			}
			p.paragraph(paragraph)
		}
		p.flags(sub.LocalNonPersistentFlags())
		p.commands(sub)
	}
}

// paragraph writes a paragraph of a help text. One that is indented is commands, which stay lines.
func (p *page) paragraph(text string) {
	if !strings.HasPrefix(text, " ") {
		p.sentence(text)
		return
	}
	p.macro("nf")
	for line := range strings.SplitSeq(text, "\n") {
		p.line(line)
	}
	p.macro("fi")
}

// flags writes what each flag means. --help stands at the top of the page for all commands.
func (p *page) flags(set *pflag.FlagSet) {
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if !slices.Contains([]string{"", "false", "0", "[]"}, f.DefValue) {
			usage += " (default " + f.DefValue + ")"
		}
		p.item(strings.TrimSpace(name+" "+value), usage)
	})
}

// roff returns text in which no character means anything to roff, in ASCII.
func roff(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r > '~':
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
