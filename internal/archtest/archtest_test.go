// Package archtest checks the shape of the code: who imports whom, who holds a
// dependency, how long things are, and that no secret or private path is in it.
package archtest

import (
	"bufio"
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// mayImport says which of our packages a package may import; the longest prefix that
// fits a package decides. A trailing / means everything below. internal/text and
// internal/origin are open to all.
var mayImport = map[string][]string{
	"internal/text": {}, "internal/origin": {}, "internal/measure": {}, "internal/address": {},
	"internal/chat": {}, "internal/llm": {}, "internal/tool": {"internal/chat"},
	"internal/conversation": {"internal/llm", "internal/chat"},
	"internal/store":        {"internal/chat", "internal/llm", "internal/tool", "internal/conversation"},
	"internal/markdown":     {}, "internal/frame": {}, "internal/bundled": {}, "internal/schema": {}, "internal/schedule": {}, "internal/llm/toolschema": {"internal/llm"},
	"internal/llm/client": {"internal/egress", "internal/llm"}, "internal/llm/compat": {"internal/llm"},
	"internal/summary": {}, "internal/egress": {"internal/resident"}, "internal/config": {"internal/egress"}, "internal/failpoint": {}, "internal/metrics": {"internal/budget", "internal/delivery", "internal/digest", "internal/feed", "internal/invoke", "internal/llm/breaker", "internal/mcp", "internal/measure", "internal/platform", "internal/store", "internal/trouble"}, "internal/page": {}, "internal/search": {}, "internal/pdftext": {},
	"internal/feed":        append(vocabulary(), "internal/egress"),
	"internal/store/":      append(vocabulary(), "internal/store/kv"),
	"internal/llm/":        append(vocabulary(), "internal/llm/client", "internal/llm/toolschema"),
	"internal/llm/breaker": append(vocabulary(), "internal/measure"),
	"internal/llm/offline": append(vocabulary(), "internal/summary"),
	"internal/tool/":       append(vocabulary(), "internal/egress", "internal/summary", "internal/page"),
	"internal/tool/memory": append(vocabulary(), "internal/feature", "internal/meaning", "internal/search"),
	"internal/tool/web":    append(vocabulary(), "internal/egress", "internal/markdown", "internal/page"),
	"internal/tool/feeds":  append(vocabulary(), "internal/egress", "internal/summary", "internal/feed"),
	"internal/mcp":         append(vocabulary(), "internal/egress", "internal/config", "internal/resident"),
	"internal/mcp/oauth":   {"internal/egress", "internal/seal"},
	"internal/seal":        {"internal/store"},
	"adapters/":            append(edge(), "adapters/kit"),
	"adapters/kit":         {"internal/chat", "internal/workers"},
	"adapters/web": append(vocabulary(), "internal/frame", "internal/markdown", "internal/agent", "internal/delivery",
		"internal/digest"),
	"internal/agent":    append(behaviour(), "internal/markdown", "internal/prompt"),
	"internal/prompt":   {"internal/chat", "internal/llm"},
	"internal/delivery": append(behaviour(), "internal/workers"),
	"internal/policy":   append(behaviour(), "internal/bundled", "internal/config"),
	"internal/invoke":   append(behaviour(), "internal/page"),
	"internal/mcpserve": behaviour(),
	"internal/approval": behaviour(),
	"internal/watchdog": {},
	"internal/resident": {},
	"internal/workers":  {},
	"internal/budget":   append(behaviour(), "internal/config"),
	"internal/audit":    append(vocabulary(), "internal/egress"),
	"internal/elicit":   behaviour(),
	"internal/hook":     append(vocabulary(), "internal/config", "internal/policy"),
	"internal/settings": behaviour(),
	"internal/catchup":  append(vocabulary(), "internal/feature", "internal/history", "internal/schedule"),
	"internal/jobs": append(vocabulary(), "internal/config", "internal/feature", "internal/feed",
		"internal/schedule"),
	"internal/poll":   append(vocabulary(), "internal/feature"),
	"internal/totals": {"internal/measure", "internal/store"},
	"internal/trouble": append(behaviour(), "internal/budget", "internal/digest", "internal/llm/breaker", "internal/mcp",
		"internal/platform"),
	"internal/retention": append(vocabulary(), "internal/config"),
	"internal/replica":   {"internal/chat", "internal/store"},
	"internal/storage": append(vocabulary(), "internal/config", "internal/seal", "internal/store/bolt",
		"internal/store/kv", "internal/store/postgres", "internal/store/records"),
	"internal/feature":  vocabulary(),
	"internal/access":   append(vocabulary(), "internal/config"),
	"internal/platform": {"internal/chat"},
	"internal/provider": {"internal/agent", "internal/config", "internal/llm", "internal/llm/"},
	"internal/roster": append(behaviour(), "internal/agent", "internal/config", "internal/knowledge",
		"internal/mcp", "internal/meaning", "internal/policy", "internal/prompt", "internal/settings", "internal/skill", "internal/toolsearch"),
	"internal/sampling": append(vocabulary(), "internal/agent", "internal/mcp"),
	"internal/signin": append(vocabulary(), "internal/config", "internal/egress", "internal/elicit",
		"internal/mcp", "internal/mcp/oauth", "internal/seal"),
	"internal/history":    append(behaviour(), "internal/markdown", "internal/meaning", "internal/search"),
	"internal/transfer":   append(vocabulary(), "internal/history"),
	"internal/toolsearch": append(behaviour(), "internal/meaning", "internal/search"),
	"internal/knowledge":  append(vocabulary(), "internal/document", "internal/meaning", "internal/search"),
	"internal/digest": append(behaviour(), "internal/catchup", "internal/schedule", "internal/config",
		"internal/tool/feeds"),
	"internal/admin": append(behaviour(), "internal/budget", "internal/frame", "internal/history", "internal/knowledge", "internal/llm/breaker",
		"internal/mcp", "internal/transfer", "internal/platform", "internal/roster", "internal/agent", "internal/approval",
		"internal/audit", "internal/delivery", "internal/digest", "internal/jobs", "internal/mcpserve", "internal/policy",
		"internal/schedule", "internal/settings", "internal/markdown", "internal/totals"),
	"internal/eval": append(behaviour(), "internal/agent", "internal/budget", "internal/digest",
		"internal/document", "internal/feed", "internal/history", "internal/knowledge", "internal/page",
		"internal/storage", "internal/store/records", "internal/tool/memory", "internal/toolsearch"),
	"internal/document":            {"internal/page"},
	"internal/skill":               {"internal/tool"},
	"internal/chat/chattest":       {"internal/chat"},
	"internal/sim":                 {},
	"internal/sim/":                {"internal/sim"},
	"internal/sandbox":             {"internal/sim/"},
	"internal/browsertest":         {},
	"internal/store/storetest":     vocabulary(),
	"internal/meaning":             {"internal/store/kv"},
	"internal/meaning/meaningtest": {"internal/meaning", "internal/store/kv"},
	"internal/store/records":       append(vocabulary(), "internal/meaning", "internal/store/kv"),
	"internal/archtest":            {},
	"internal/allocations":         {},
	".":                            {},
	"internal/app":                 {"internal/", "adapters/"},
	"internal/cli":                 {"internal/", "adapters/"},
	"cmd/":                         {"internal/", "adapters/"},
}

func vocabulary() []string {
	return []string{"internal/chat", "internal/llm", "internal/tool", "internal/conversation", "internal/store"}
}

func edge() []string { return append(vocabulary(), "internal/markdown", "internal/failpoint") }

func behaviour() []string {
	return append(vocabulary(), "internal/address", "internal/feature", "internal/feed", "internal/summary", "internal/failpoint", "internal/measure",
		"internal/resident")
}

// holders are the packages that may import a dependency, tests apart.
var holders = map[string][]string{
	"codeberg.org/readeck/go-readability":             {"internal/page"},
	"github.com/JohannesKaufmann/html-to-markdown/v2": {"internal/page"},
	"github.com/KimMachineGun/automemlimit":           {"internal/cli"},
	"github.com/bwmarrin/discordgo":                   {"adapters/discord"},
	"github.com/clipperhouse/uax29/v2":                {"internal/summary", "internal/markdown"},
	"github.com/google/go-cmp":                        {"internal/store/kv/kvtest", "internal/store/storetest"},
	"github.com/gorilla/websocket":                    {"adapters/discord", "adapters/slack", "internal/sim", "internal/sim/"},
	"github.com/chromedp/cdproto":                     {"internal/browsertest"},
	"github.com/chromedp/chromedp":                    {"internal/browsertest"},
	"github.com/jackc/pgx/v5":                         {"internal/store/postgres", "internal/store/postgres/pgtest"},
	"github.com/joho/godotenv":                        {"internal/config"},
	"github.com/kljensen/snowball":                    {"internal/search"},
	"github.com/landlock-lsm/go-landlock":             {"internal/mcp"},
	"github.com/ledongthuc/pdf":                       {"internal/pdftext"},
	"github.com/mark3labs/mcp-go":                     {"internal/mcp", "internal/mcpserve"},
	"github.com/rogpeppe/go-internal/diff":            {"internal/mcp"},
	"github.com/microcosm-cc/bluemonday":              {"internal/feed"},
	"github.com/mmcdole/gofeed":                       {"internal/feed"},
	"github.com/prometheus/client_golang":             {"internal/metrics"},
	"github.com/robfig/cron/v3":                       {"internal/schedule"},
	"github.com/santhosh-tekuri/jsonschema/v6":        {"internal/llm/toolschema", "internal/schema", "internal/sim/"},
	"github.com/slack-go/slack":                       {"adapters/slack"},
	"github.com/spf13/cobra":                          {"internal/cli"},
	"github.com/spf13/pflag":                          {"internal/cli"},
	"github.com/tailscale/hujson":                     {"internal/config"},
	"github.com/wneessen/go-mail":                     {"adapters/email"},
	"github.com/yuin/goldmark":                        {"internal/markdown"},
	"go.etcd.io/bbolt":                                {"internal/store/bolt"},
	"go.yaml.in/yaml/v3":                              {"internal/skill"},
	"golang.org/x/net":                                {"internal/address", "internal/feed", "internal/page"},
	"golang.org/x/oauth2":                             {"internal/llm/gemini"},
	"golang.org/x/sync":                               {"internal/resident"},
	"golang.org/x/sys/unix":                           {"internal/mcp"},
	"golang.org/x/text":                               {"internal/feed", "internal/pdftext", "internal/markdown", "internal/summary", "internal/schema"},
}

type source struct {
	path string // from the root
	pkg  string // folder from the root
	file *ast.File
	fset *token.FileSet
	test bool
	text []byte
}

func sources(t *testing.T) []source {
	t.Helper()
	var list []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" ||
			name == "helm") { // its tests are a module of their own
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		list = append(list, source{filepath.ToSlash(rel), filepath.ToSlash(filepath.Dir(rel)), file, fset,
			strings.HasSuffix(name, "_test.go"), text})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 50 {
		t.Fatalf("only %d Go files were found", len(list))
	}
	return list
}

func imports(f *ast.File) []string {
	var list []string
	for _, i := range f.Imports {
		list = append(list, strings.Trim(i.Path.Value, `"`))
	}
	return list
}

// covers reports that a rule names a package: itself, or with a trailing slash
// everything below it.
func covers(rule, pkg string) bool {
	return rule == pkg || strings.HasSuffix(rule, "/") && strings.HasPrefix(pkg, rule)
}

func allowed(t *testing.T, pkg string) []string {
	t.Helper()
	best := ""
	for rule := range mayImport {
		if covers(rule, pkg) && len(rule) > len(best) {
			best = rule
		}
	}
	if best == "" {
		t.Errorf("package %s is unknown; name it in mayImport and in ARCHITECTURE.md", pkg)
		return []string{"internal/", "adapters/"}
	}
	return mayImport[best]
}

func TestPackages_ImportOnlyWhatTheyMay(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		may := allowed(t, s.pkg)
		for _, i := range imports(s.file) {
			ours, ok := strings.CutPrefix(i, "ravenbot/")
			if !ok || ours == s.pkg || ours == "internal/text" || ours == "internal/origin" {
				continue
			}
			if !slices.ContainsFunc(may, func(rule string) bool { return covers(rule, ours) }) {
				t.Errorf("%s may not import %s", s.path, ours)
			}
		}
	}
}

// TestSimulations_AreStartedByTheSandboxAlone keeps what pretends to be a platform out of what
// serves people: only the command that says so may start it.
func TestSimulations_AreStartedByTheSandboxAlone(t *testing.T) {
	seen := false
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, i := range imports(s.file) {
			switch ours := strings.TrimPrefix(i, "ravenbot/"); {
			case ours == "internal/sandbox" && s.pkg != "internal/cli":
				t.Errorf("%s may not import %s", s.path, ours)
			case ours == "internal/browsertest": // and with it chromedp: for tests only
				t.Errorf("%s may not import %s", s.path, ours)
			case (ours == "internal/sim" || covers("internal/sim/", ours)) && s.pkg != "internal/sandbox" &&
				s.pkg != "internal/sim" && !covers("internal/sim/", s.pkg):
				t.Errorf("%s may not import %s", s.path, ours)
			}
			seen = seen || i == "ravenbot/internal/sandbox"
		}
	}
	if !seen {
		t.Error("nothing imports the sandbox")
	}
}

func TestDependencies_AreImportedByTheirPackagesAlone(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, i := range imports(s.file) {
			if first, _, _ := strings.Cut(i, "/"); !strings.Contains(first, ".") {
				continue
			}
			held := false
			for module, packages := range holders {
				if i == module || strings.HasPrefix(i, module+"/") {
					held = slices.ContainsFunc(packages, func(rule string) bool { return covers(rule, s.pkg) })
				}
			}
			if !held {
				t.Errorf("%s may not import %s", s.path, i)
			}
		}
	}
}

// TestCode_KeepsItsShape sounds the alarms on size and on what is never done.
func TestCode_KeepsItsShape(t *testing.T) {
	for _, s := range sources(t) {
		if n := bytes.Count(s.text, []byte("\n")); n > 900 {
			t.Errorf("%s has %d lines", s.path, n)
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			lines := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line
			if lines > 100 && !s.test {
				t.Errorf("%s: %s has %d lines", s.path, f.Name.Name, lines)
			}
			if f.Name.Name == "init" && f.Recv == nil {
				t.Errorf("%s has an init", s.path)
			}
		}
		if bytes.Contains(s.text, []byte("//"+"nolint")) {
			t.Errorf("%s silences a linter", s.path)
		}
		if s.test && bytes.Contains(s.text, []byte("time.Sleep(")) && !bytes.Contains(s.text, []byte("synctest")) {
			t.Errorf("%s sleeps", s.path)
		}
	}
}

func TestPackages_HaveAPackageComment(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range sources(t) {
		documented[s.pkg] = documented[s.pkg] || s.file.Doc != nil
	}
	for pkg, ok := range documented {
		if !ok {
			t.Errorf("package %s has no package comment", pkg)
		}
	}
}

// secret matches what real credentials look like; those of tests are shorter.
var secret = regexp.MustCompile(`xox[abp]-\d{9,}-|xapp-\d-[A-Z0-9]{9,}-|AIza[0-9A-Za-z_-]{35}|sk-[A-Za-z0-9]{32,}|` +
	`[MN][A-Za-z\d]{23}\.[\w-]{6}\.[\w-]{27}|-----BEGIN [A-Z ]*PRIVATE KEY`)

// private matches paths of one machine.
var private = regexp.MustCompile(`/(work|root)/[a-z]`)

func TestFiles_HoldNoSecretAndNoPathOfOneMachine(t *testing.T) {
	out, err := exec.Command("git", "-C", root, "ls-files").Output()
	if err != nil {
		t.Skip("not in a git checkout: ", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		name := lines.Text()
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || bytes.IndexByte(text, 0) >= 0 {
			continue
		}
		if m := secret.Find(text); m != nil {
			t.Errorf("%s holds what looks like a credential: %.12s…", name, m)
		}
		if m := private.Find(text); m != nil && !strings.HasPrefix(name, "internal/archtest/") &&
			!strings.HasPrefix(name, "deploy/") && name != "Dockerfile" {
			t.Errorf("%s holds a path of one machine: %s", name, m)
		}
	}
}

// appExports are the names that internal/app exports. It constructs the bot and does nothing else.
var appExports = []string{"Options", "App", "New", "CommandSpecs", "MessageCommands", "Run", "Reload", "Close",
	"Listen", "Addr", "LoginLink"}

func TestApp_OnlyConstructs(t *testing.T) {
	for _, s := range sources(t) {
		if s.pkg != "internal/app" || s.test {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() || isMethodOfUnexported(f) {
				continue
			}
			if !slices.Contains(appExports, f.Name.Name) && s.path != "internal/app/local.go" {
				t.Errorf("%s exports %s; behaviour belongs to the package that owns it", s.path, f.Name.Name)
			}
		}
	}
}

func isMethodOfUnexported(f *ast.FuncDecl) bool {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return false
	}
	t := f.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	name, ok := t.(*ast.Ident)
	return ok && !name.IsExported()
}

// platformTest matches code that asks which platform an address is of, or knows how the
// addresses of a platform are written.
var platformTest = regexp.MustCompile(`Platform [=!]= "|"@me"|HasPrefix\([^)]*\.(Channel|Workspace), "|Platform: ` +
	`+"(web|discord|slack|terminal)"`)

// Only adapters know platforms by name. Construction and the command line name them, and the
// simulations are of them.
func TestPlatforms_AreNamedInAdaptersAlone(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || covers("adapters/", s.pkg) || covers("internal/sim/", s.pkg) ||
			slices.Contains([]string{"internal/cli", "internal/sandbox", "internal/sim", "internal/store/storetest"}, s.pkg) {
			continue
		}
		for n, line := range strings.Split(string(s.text), "\n") {
			if platformTest.MatchString(line) {
				t.Errorf("%s:%d names a platform: %s", s.path, n+1, strings.TrimSpace(line))
			}
		}
	}
}

// place matches a path of the repository in the text.
var place = regexp.MustCompile("`((?:internal|adapters|cmd|docs|deploy)/[a-z][A-Za-z0-9_./-]*|\\.env\\.example)`")

func TestArchitecture_NamesFilesThatExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := place.FindAllStringSubmatch(string(text), -1)
	if len(found) < 60 {
		t.Errorf("only %d paths are named", len(found))
	}
	for _, m := range found {
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
			t.Errorf("ARCHITECTURE.md names %s: %v", m[1], err)
		}
	}
}

// Every package has its row in ARCHITECTURE.md, those below a vocabulary that of its parent.
func TestArchitecture_HasARowForEveryPackage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sources(t) {
		pkg := s.pkg
		for _, parent := range []string{"internal/llm/", "internal/tool/", "internal/store/", "internal/sim/"} {
			if covers(parent, pkg) {
				pkg = strings.TrimSuffix(parent, "/")
			}
		}
		if !strings.Contains(string(text), "\n| `"+pkg+"` |") {
			t.Errorf("ARCHITECTURE.md has no row for %s", pkg)
		}
	}
}
