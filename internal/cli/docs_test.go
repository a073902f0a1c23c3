package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ravenbot/adapters/slack"
	"ravenbot/internal/ops/config"
)

const root = "../.."

func readText(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// documents are the Markdown files, from the root.
func documents(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			rel, err := filepath.Rel(root, f)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, filepath.ToSlash(rel))
		}
	}
	if !slices.Contains(names, "README.md") || len(names) < 3 {
		t.Fatalf("only %q were found", names)
	}
	return names
}

// TestReferenceIsTheHelp keeps docs/cli.md in step with what the commands say.
func TestReferenceIsTheHelp(t *testing.T) {
	const name = "docs/cli.md"
	var b strings.Builder
	b.WriteString("# The command line\n\nThis page is what the commands say of themselves, written by `go test " +
		"./internal/cli -update`.\n")
	for _, cmd := range commands(newRoot(&invocation{})) {
		path := strings.Fields(cmd.CommandPath())[1:]
		title := cmp.Or(strings.Join(path, " "), "ravenbot")
		fmt.Fprintf(&b, "\n## %s\n\n```text\n", title)
		var out bytes.Buffer
		if code := Run(t.Context(), World{Args: append(path, "--help"), Out: &out, Err: &out}); code != exitDone {
			t.Errorf("ravenbot %s --help: status %d", title, code)
		}
		b.Write(out.Bytes())
		b.WriteString("```\n")
	}
	if *update {
		if err := os.WriteFile(filepath.Join(root, name), []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := gocmp.Diff(readText(t, name), b.String()); diff != "" {
		t.Errorf("%s; go test ./internal/cli -update writes it (-file +help):\n%s", name, diff)
	}
}

// commands returns a command and those below it, in the order of help.
func commands(cmd *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		list = append(list, commands(sub)...)
	}
	return list
}

// commandLine finds command lines: in quotes or backquotes, and at the start of a
// line of a script or unit.
var commandLine = regexp.MustCompile("(?m)[`\"](?:bin/)?ravenbot ([^`\"\n]+)[`\"]|" +
	"^(?:\t|ExecStart=)?(?:bin/|/usr/local/bin/)?ravenbot ((?:[a-z]+ |--)[^\n]*)$")

func TestCommandsThatAreWrittenDownExist(t *testing.T) {
	files := append(documents(t), "config.json", ".env.example", "Makefile", "Dockerfile", "deploy/compose.yaml",
		"deploy/ravenbot.service")
	found := map[string]int{}
	for _, name := range files {
		for _, m := range commandLine.FindAllStringSubmatch(readText(t, name), -1) {
			line := m[1] + m[2]
			found[name]++
			if err := exists(strings.Fields(line)); err != nil {
				t.Errorf("%s: ravenbot %s: %v", name, line, err)
			}
		}
	}
	for _, name := range []string{"README.md", "config.json", "Makefile", "deploy/ravenbot.service"} {
		if found[name] == 0 {
			t.Errorf("no command line was found in %s", name)
		}
	}
}

// exists looks for the command and the flags of a line, which may be written as in a manual,
// with [brackets] and PLACES.
func exists(words []string) error {
	cmd := newRoot(&invocation{})
	var arguments []string
	for i := 0; i < len(words) && !slices.Contains([]string{"|", ">", "#"}, words[i]); i++ { // the rest is the shell's
		name, isFlag := strings.CutPrefix(strings.Trim(words[i], "[]"), "--")
		if !isFlag {
			if next := below(cmd, words[i]); next != nil && len(arguments) == 0 {
				cmd = next
			} else {
				arguments = append(arguments, words[i])
			}
			continue
		}
		name, _, whole := strings.Cut(name, "=")
		cmd.InheritedFlags() // merges them into Flags
		f := cmd.Flags().Lookup(name)
		switch {
		case f == nil && name != "help":
			return fmt.Errorf("there is no flag --%s", name)
		case f == nil || whole:
			continue
		}
		if value, _ := pflag.UnquoteUsage(f); value != "" {
			i++ // the next word is the flag's
		}
	}
	switch {
	case cmd.HasSubCommands() && len(arguments) == 1 && (arguments[0] == "COMMAND" || arguments[0] == "[command]"):
		return nil
	case cmd.HasSubCommands():
		return needCommand(cmd, arguments)
	case len(strings.Fields(cmd.Use)) == 1 && len(arguments) > 0:
		return fmt.Errorf("it takes no arguments")
	}
	return nil
}

func below(cmd *cobra.Command, name string) *cobra.Command {
	for _, sub := range cmd.Commands() {
		if sub.Name() == name {
			return sub
		}
	}
	return nil
}

func TestWrongCommandLinesAreFound(t *testing.T) {
	for line, right := range map[string]bool{
		"run --config config.json": true, "chat [TEXT]": true, "digest preview NAME [--explain]": true,
		"config check --help":          true,
		"schedule next EXPR --tz ZONE": true, "feeds parse --url U FILE": true, "COMMAND --help": true,
		"man | less": true, "version > FILE # now": true, "man less": false,
		"fly": false, "chat --loud": false, "digest": false, "digest burn NAME": false, "run now": false,
		"feeds parse --url=U --loud": false,
	} {
		if err := exists(strings.Fields(line)); (err == nil) != right {
			t.Errorf("ravenbot %s: %v", line, err)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinksInDocumentsLeadSomewhere(t *testing.T) {
	seen := 0
	for _, name := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(readText(t, name), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			seen++
			path := filepath.Join(root, filepath.Dir(name), target)
			if target == "" {
				path = filepath.Join(root, name)
			}
			text, err := os.ReadFile(path)
			if err != nil && !isFolder(path) {
				t.Errorf("%s: %v", name, err)
			}
			if anchor != "" && !slices.Contains(anchors(string(text)), anchor) {
				t.Errorf("%s: %s has no heading #%s", name, path, anchor)
			}
		}
	}
	if seen < 3 {
		t.Errorf("only %d links were found", seen)
	}
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

var heading = regexp.MustCompile(`(?m)^#+ (.+)$`)

// anchors are the names that GitHub gives headings.
func anchors(text string) []string {
	var list []string
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		list = append(list, strings.ReplaceAll(regexp.MustCompile(`[^\p{L}\d _-]`).ReplaceAllString(strings.ToLower(m[1]),
			""), " ", "-"))
	}
	return list
}

var snippet = regexp.MustCompile("(?ms)^```jsonc?\n(.*?)^```$")

// someEnvironment has every variable but the one that is no free text.
func someEnvironment(name string) (string, bool) { return "set", name != "RAVENBOT_STORE_KEY" }

// TestSnippetsAreConfiguration reads every piece of configuration in the
// documents as the bot would.
func TestSnippetsAreConfiguration(t *testing.T) {
	seen := 0
	for _, name := range documents(t) {
		for _, m := range snippet.FindAllStringSubmatch(readText(t, name), -1) {
			seen++
			path := filepath.Join(t.TempDir(), "config.json")
			if err := os.WriteFile(path, []byte("{\n"+m[1]+"}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := config.Load(path, config.Options{Env: someEnvironment, Checks: configChecks()})
			if err != nil {
				t.Errorf("%s:\n%s%v", name, m[1], err)
			}
		}
	}
	if seen < 2 {
		t.Errorf("only %d snippets were found", seen)
	}
}

func TestReadmeNamesTheScopesOfSlack(t *testing.T) {
	_, text, _ := strings.Cut(readText(t, "docs/slack.md"), "It asks for the scopes")
	text, _, ok := strings.Cut(text, ", switches")
	if !ok {
		t.Fatal("the sentence about scopes was not found")
	}
	var named []string
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
		named = append(named, m[1])
	}
	if diff := gocmp.Diff(slices.Sorted(slices.Values(slack.Scopes())), slices.Sorted(slices.Values(named))); diff != "" {
		t.Errorf("scopes (-asked +named):\n%s", diff)
	}
}

// TestDependenciesAreListed compares README's table with the modules of go.mod
// that our packages import.
func TestDependenciesAreListed(t *testing.T) {
	_, table, _ := strings.Cut(readText(t, "docs/dependencies.md"), "# Dependencies")
	var listed []string
	for _, row := range regexp.MustCompile(`(?m)^\| (.+?) \|`).FindAllStringSubmatch(table, -1) {
		for _, name := range strings.Split(regexp.MustCompile(`\]\([^)]*\)|\[`).ReplaceAllString(row[1], ""), ", ") {
			if module, ok := moduleName(name); ok {
				listed = append(listed, module)
			}
		}
	}
	if diff := gocmp.Diff(imported(t), slices.Sorted(slices.Values(listed))); diff != "" {
		t.Errorf("dependencies (-imported +in the table):\n%s", diff)
	}
}

// moduleName is the module that the table names, where hosts may be left out.
func moduleName(name string) (string, bool) {
	first, _, isPath := strings.Cut(name, "/")
	switch {
	case !isPath:
		return "", false
	case first == "x":
		return "golang.org/" + name, true
	case !strings.Contains(first, "."):
		return "github.com/" + name, true
	}
	return name, true
}

var requirement = regexp.MustCompile(`(?m)^\t(\S+) v\S+$`)

// imported are the modules that go.mod names and that we import, sorted.
func imported(t *testing.T) []string {
	t.Helper()
	var modules []string
	for _, m := range requirement.FindAllStringSubmatch(readText(t, "go.mod"), -1) {
		modules = append(modules, m[1])
	}
	used := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || d.IsDir() {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range file.Imports {
			for _, m := range modules {
				if p := strings.Trim(i.Path.Value, `"`); p == m || strings.HasPrefix(p, m+"/") {
					used[m] = true
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(used))
}
