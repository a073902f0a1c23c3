package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ravenbot/internal/core/text"
)

// newRoot returns the command tree. Every command works on c, which receives the flags and the arguments.
func newRoot(c *invocation) *cobra.Command {
	root := c.group("ravenbot", "A chat bot for Discord, Slack, the browser and the terminal.")
	var statuses []string
	for _, s := range exitStatuses {
		statuses = append(statuses, s.name+" "+s.text)
	}
	root.Long = root.Short + "\n\nExit status: " + strings.Join(statuses, ", ") + "."
	// reportError prints errors and decides the exit status.
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetOut(c.Out)
	root.SetErr(c.Err)
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().StringVar(&c.config, "config", "config.json", "the configuration `FILE`")
	// --json may stand before the command's name. It is hidden here because only the commands
	// whose output is data accept it: jsonFlag shows it there, and invoke refuses it elsewhere.
	root.PersistentFlags().BoolVar(&c.json, "json", false, "")
	root.PersistentFlags().Lookup("json").Hidden = true
	root.SetHelpCommand(helpCommand())
	root.AddCommand(
		c.command("agents", "list the agents: who answers, with which model and tools", 0, 0, listAgents, jsonFlag),
		c.command("chat [TEXT]", "ask once, or talk in the terminal", 0, unlimited, runChat, jsonFlag),
		completionCommand(),
		c.group("config", "check the configuration, show it with its defaults, or print its JSON Schema",
			c.command("check", "check the configuration", 0, 0, checkConfig, jsonFlag),
			c.command("print", "show the configuration with its defaults, secrets masked", 0, 0, printConfig, jsonFlag),
			c.command("schema", "print the JSON Schema of the configuration", 0, 0, printSchema, jsonFlag)),
		c.group("digest", "list digests, show what one would post, or have the daemon post it",
			c.command("list", "list the digests", 0, 0, listDigests, jsonFlag),
			c.command("preview NAME", "show what a digest would post; nothing is posted or marked as seen", 1, 1,
				previewDigest, previewFlags),
			c.command("run NAME", "have the daemon post a digest now", 1, 1, runDigest, jsonFlag)),
		c.group("discord", "work with the bot's application on Discord",
			c.command("invite", "print the address at which the bot is added to a server", 0, 0, inviteToDiscord, jsonFlag)),
		c.command("doctor", "check the set-up with live calls; name each fault, its effect and its remedy",
			0, 0, runDoctor, jsonFlag),
		c.command("eval FILE…", "measure answers, searches, pages, summaries and prompts by cases from files", 1, unlimited,
			evaluate, caseFlags),
		c.group("feeds", "show what a feed holds, find the feeds of a page, import and export lists of feeds",
			c.command("parse FILE-or-URL…", "show what feeds hold", 1, unlimited, parseFeeds, parseFlags),
			c.command("discover URL", "find the feeds of a page", 1, 1, discoverFeeds, jsonFlag),
			c.command("import OPML", "take over a list of feeds from another reader", 1, 1, importFeeds, importFlags),
			c.command("export", "write the feeds of all digests as OPML", 0, 0, exportFeeds, jsonFlag)),
		c.command("health", "ask the running daemon whether it is ready; the exit status is 1 if it is not", 0, 0, checkHealth),
		c.group("history", "search the messages of a conversation",
			c.command("search ADDRESS QUERY", "find messages of a channel and its threads, or of one thread", 2, unlimited,
				searchHistory, historyFlags)),
		c.command("init", "ask for keys and tokens, try each at once, and write config.json and .env", 0, 0,
			runInit, initFlags),
		c.group("knowledge", "search the files that agents know",
			c.command("search AGENT QUERY", "find the passages of an agent's files that fit a question", 2, unlimited,
				searchKnowledge, knowledgeFlags)),
		c.command("login", "print a link of the running daemon that opens the chat page, once, within 15 minutes", 0, 0,
			printLoginLink, jsonFlag),
		c.command("man", "print the manual page, for man -l -", 0, 0, printManual),
		c.group("mcp", "look at MCP servers and use them, or offer the bot's own tools as one",
			c.command("list", "list the MCP servers", 0, 0, listServers, jsonFlag),
			c.command("tools SERVER-or-URL", "list the tools of a server", 1, 1, serverTools, jsonFlag),
			c.command("call SERVER TOOL JSON", "call a tool of a server", 3, 3, callTool, jsonFlag, yesFlag),
			c.command("logs SERVER", "show what a server logged", 1, 1, serverLogs, jsonFlag),
			c.command("approve SERVER", "approve the changed tools of a server", 1, 1, approveServer, jsonFlag),
			c.command("serve", "serve the bot's own tools over MCP on standard streams", 0, 0, serveMCP, jsonFlag)),
		c.group("memory", "list, add and remove notes",
			c.command("list", "list the notes of a person or channel, the newest first", 0, 0, listMemories, memoryFlags),
			c.command("search QUERY", "find notes by words or by a question", 1, unlimited, searchMemories, memoryFlags),
			c.command("add TEXT", "add a note", 1, unlimited, addMemory, memoryFlags),
			c.command("remove N", "remove a note by its number", 1, 1, removeMemory, memoryFlags)),
		c.command("replay ADDRESS TURN", "answer a stored turn (its number, its id or last) again with its recorded tool "+
			"results; nothing is changed or posted", 2, 2, replayTurn, replayFlags),
		c.command("run", "run the daemon", 0, 0, runDaemon),
		c.command("sandbox", "run the daemon in a simulated world, with no token and no network, and talk with it", 0, 0,
			runSandbox, sandboxFlags),
		c.group("schedule", "show when a schedule is due",
			c.command("next EXPR", "show when a schedule, or a time such as \"tomorrow at noon\", is due next; put the "+
				"expression in quotes", 1, 1,
				printNextDue, scheduleFlags)),
		c.group("slack", "work with the bot's app on Slack",
			c.command("manifest", "print the manifest from which Slack makes the app", 0, 0, printManifest, slackFlags)),
		c.command("summarize FILE", "print the main sentences of a text (- for standard input)", 1, 1,
			summarize, summaryFlags),
		c.group("tokens", "create and revoke the tokens with which other MCP hosts use the bot's tools",
			c.command("create NAME", "create a token and print it once", 1, 1, createToken, tokenFlags),
			c.command("list", "list the tokens", 0, 0, listTokens, jsonFlag),
			c.command("revoke NAME", "revoke a token", 1, 1, revokeToken, jsonFlag)),
		c.group("tools", "list and find tools, explain whether one may be used, or measure the search",
			c.command("list", "list all tools", 0, 0, listTools, jsonFlag),
			c.command("search QUERY", "find the tools that fit a request", 1, unlimited, searchTools, searchFlags),
			c.command("why TOOL", "explain which rule allows or refuses a tool", 1, 1, whyTool, whyFlags),
			c.command("simulate TOOL JSON", "show the decision about a call without running it", 1, 2,
				simulateCall, simulateFlags),
			c.command("eval", "measure the search against requests whose right tools are known", 0, 0,
				evaluateSearch, evalFlags)),
		c.command("usage", "show use and cost of models in the last 30 days", 0, 0,
			showUsage, jsonFlag),
		c.group("web", "read web pages as the bot does",
			c.command("read FILE-or-URL…", "show the main text of pages, whole", 1, unlimited, readPages, webFlags)),
		c.command("version", "print version, commit and Go version", 0, 0, printVersion, jsonFlag),
	)
	root.AddCommand(c.dataCommands()...)
	return root
}

// dataCommands returns the commands that look after what the bot keeps.
func (c *invocation) dataCommands() []*cobra.Command {
	return []*cobra.Command{
		c.group("audit", "check and export the record of changes",
			c.command("export [FILE]", "write all entries as JSON lines, oldest first, to a file or to standard output", 0, 1,
				exportAudit, overwriteFlag),
			c.command("verify [FILE]", "check the chain of the entries, or of an export", 0, 1,
				verifyAudit, verifyFlags)),
		c.command("backup FILE", "copy the store to a file, also while the daemon runs", 1, 1, backup, overwriteFlag),
		c.command("export FILE", "write messages, notes, settings and everything made through the API or in chat as JSON lines",
			1, 1, exportStore, exportFlags),
		c.command("import FILE", "add the records of an export that are not there; bad lines are named", 1, 1, importStore),
		c.command("restore FILE", "replace the store by a backup; the replaced store is kept", 1, 1, restore),
		c.group("store", "check, compact, migrate or salvage the store",
			c.command("check", "read the whole store and count its records", 0, 0, checkStore, jsonFlag),
			c.command("compact", "give the free space in the store back to the disk", 0, 0, compactStore, jsonFlag),
			c.command("migrate FROM TO", "copy a store to another engine: each is a path or a postgres:// address", 2, 2,
				migrateStore, jsonFlag),
			c.command("salvage FROM TO", "copy the readable records of a damaged store to a new file, and name the lost ones", 2, 2,
				salvageStore, jsonFlag)),
	}
}

// unlimited as the maximum of command means that there is none.
const unlimited = -1

// command returns a command that takes from minArgs to maxArgs arguments and runs fn.
func (c *invocation) command(
	use, short string,
	minArgs, maxArgs int,
	fn func(context.Context, *invocation) error,
	flags ...func(*invocation),
) *cobra.Command {
	cmd := &cobra.Command{
		Use:                   use,
		Short:                 short,
		DisableFlagsInUseLine: true,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0 && maxArgs == 0:
				return usageErrorf("it takes no arguments")
			case len(args) < minArgs, maxArgs != unlimited && len(args) > maxArgs:
				return usageErrorf("say %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c.flags, c.args = cmd.Flags(), args
			return c.invoke(cmd.Context(), fn)
		},
	}
	c.flags = cmd.Flags()
	for _, add := range flags {
		add(c)
	}
	return cmd
}

// group returns a command that only holds others.
func (c *invocation) group(name, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:                   name,
		Short:                 short,
		DisableFlagsInUseLine: true,
		Args:                  needCommand,
		// Without RunE cobra would print help and report success for a missing command.
		RunE: needCommand,
	}
	cmd.AddCommand(commands...)
	return cmd
}

// needCommand returns the usage error of a group whose command is missing or unknown.
func needCommand(group *cobra.Command, args []string) error {
	var uses, similar []string
	for _, cmd := range group.Commands() {
		if cmd.IsAvailableCommand() {
			uses = append(uses, cmd.Use)
		}
	}
	last := len(uses) - 1
	hint := "say " + strings.TrimPrefix(strings.Join(uses[:last], ", ")+" or "+uses[last], " or ")
	if !group.HasParent() {
		hint = "see the list of commands" // it is too long for one line
	}
	if len(args) == 0 {
		return usageErrorf("a command is missing: %s", hint)
	}
	// cobra sets its default of 2 only in its own error message, which is not used here.
	group.SuggestionsMinimumDistance = 2
	for _, name := range group.SuggestionsFor(args[0]) {
		similar = append(similar, fmt.Sprintf("%q", name))
	}
	if len(similar) > 0 {
		slices.Sort(similar)
		hint = "did you mean " + strings.Join(similar, " or ") + "?"
	}
	return usageErrorf("there is no command %q; %s", args[0], hint)
}

// flagError returns the usage error of a wrong flag. For one that does not exist it suggests the most similar flag.
func flagError(cmd *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok && invalid.GetFlag().Value.Type() == "int" {
		return usageErrorf("--%s wants a whole number, not %q", invalid.GetFlag().Name, invalid.GetValue())
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return usageErrorf("%v", err)
	}
	name, shown := unknown.GetSpecifiedName(), "--"+unknown.GetSpecifiedName()
	// A long name after a single dash is read as a row of short ones.
	if short := unknown.GetSpecifiedShortnames(); short != "" {
		name, shown = short, "-"+short
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	if near := text.Nearest(name, known); near != "" {
		return usageErrorf("unknown flag: %s; did you mean --%s?", shown, near)
	}
	return usageErrorf("unknown flag: %s", shown)
}

// helpCommand replaces cobra's, which reports success for a command that does not exist.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "help [COMMAND]",
		Short:                 "show the help of a command",
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil {
				return usageErrorf("%v", err)
			}
			if len(rest) > 0 && found.HasSubCommands() {
				return needCommand(found, rest)
			}
			// cobra adds --help when a command runs, but this one does not run.
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// completionCommand prints the script that completes commands and flags in a shell.
func completionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "print a script that completes commands and flags in your shell",
		Long: "Print a script that completes commands and flags in your shell. To load it into this shell:\n\n" +
			"  bash: source <(ravenbot completion bash)\n" +
			"  zsh:  source <(ravenbot completion zsh)\n" +
			"  fish: ravenbot completion fish | source",
		DisableFlagsInUseLine: true,
		ValidArgs:             shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return usageErrorf("name one shell: bash, zsh or fish")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			// The scripts call this program again (__complete) and so never go out of date.
			root, out := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			}
			return root.GenFishCompletion(out, true)
		},
	}
}
