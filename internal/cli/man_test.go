package cli

import (
	"bytes"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"ravenbot"
)

// manual returns the manual page as the command prints it.
func manual(t *testing.T) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := Run(t.Context(), World{Args: []string{"man"}, Out: &out, Err: &errs}); code != exitDone || errs.Len() > 0 {
		t.Fatalf("ravenbot man: status %d, %s", code, &errs)
	}
	return out.String()
}

// sectionOf returns what stands below the heading of a command, up to the next heading.
func sectionOf(page, command string) (string, bool) {
	_, rest, found := strings.Cut(page, "\n.SS \""+roff(command))
	section, _, _ := strings.Cut(rest, "\n.S")
	return section, found
}

func TestManual_HasEveryCommandWithItsFlags(t *testing.T) {
	page := manual(t)
	tree := newRoot(&invocation{})
	tree.InitDefaultHelpCmd()
	list := commands(tree)
	for _, cmd := range list[1:] {
		path := strings.TrimPrefix(cmd.CommandPath(), "ravenbot ")
		section, found := sectionOf(page, path)
		if !found {
			t.Errorf("the command %s is missing", path)
			continue
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if value, _ := pflag.UnquoteUsage(f); !strings.Contains(section, roff(strings.TrimSpace("--"+f.Name+" "+value))+"\"\n") {
				t.Errorf("%s: the flag --%s is missing:\n%s", path, f.Name, section)
			}
		})
	}
	if len(list) < 50 {
		t.Errorf("only %d commands were looked for", len(list))
	}
	for _, want := range []string{`.B "\-\-config FILE"`, ".TH RAVENBOT 1 ", ".SH \"EXIT STATUS\"\n.TP\n.B \"0\"\nDone.\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is missing", want)
		}
	}
}

// TestManual_NamesTheVariables compares the page with .env.example, which has every variable of the configuration.
func TestManual_NamesTheVariables(t *testing.T) {
	shipped := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^(?:# )?([A-Z][A-Z_]+)=`).FindAllSubmatch(ravenbot.Variables, -1) {
		shipped[string(m[1])] = true
	}
	var named []string
	for _, e := range manualVariables {
		if !slices.Contains([]string{"TZ", "GOMEMLIMIT, GOGC", "HTTPS_PROXY, HTTP_PROXY, NO_PROXY"}, e.name) {
			named = append(named, e.name)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(shipped)), slices.Sorted(slices.Values(named))); diff != "" {
		t.Errorf("variables (-.env.example +manual page):\n%s", diff)
	}
}

// TestManual_IsReadByRoff formats the page with what reads manual pages on this machine.
func TestManual_IsReadByRoff(t *testing.T) {
	page := manual(t)
	seen := 0
	for _, tool := range [][]string{
		{"groff", "-man", "-ww", "-Tutf8", "-z"},
		{"mandoc", "-Tlint", "-Wwarning"},
	} {
		if _, err := exec.LookPath(tool[0]); err != nil {
			continue
		}
		seen++
		cmd := exec.CommandContext(t.Context(), tool[0], tool[1:]...)
		cmd.Stdin = strings.NewReader(page)
		out, _ := cmd.CombinedOutput() // mandoc's status is that of its messages
		for line := range strings.Lines(string(out)) {
			// A program that was not built from a commit knows no date.
			if !strings.Contains(line, "missing date") {
				t.Errorf("%s: %s", tool[0], line)
			}
		}
	}
	if seen == 0 {
		t.Skip("neither groff nor mandoc is installed")
	}
}

func TestRoff_KeepsNothingOfItsLanguage(t *testing.T) {
	p := &page{}
	p.line(`.env and \fBbold\fR`)
	p.line("'quoted' a-b …")
	p.macro("B", `say "x"`)
	want := "\\&.env and \\efBbold\\efR\n" + "\\&'quoted' a\\-b \\[u2026]\n" + `.B "say \(dqx\(dq"` + "\n"
	if diff := cmp.Diff(want, p.text.String()); diff != "" {
		t.Error(diff)
	}
}
