// Package archtest checks the structure of the code: imports, owners of dependencies, lengths, and the absence of
// secrets and private paths.
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

const root = "../../.."

// mayImport says which of our packages a package may import; the longest prefix that
// fits a package decides. A trailing / means everything below. internal/core/text and
// internal/core/origin are open to all.
var mayImport = map[string][]string{
	"internal/core/text": {}, "internal/core/origin": {}, "internal/ops/measure": {}, "internal/core/address": {},
	"internal/core/chat": {}, "internal/core/llm": {}, "internal/core/tool": {"internal/core/chat"},
	"internal/core/conversation": {"internal/core/llm", "internal/core/chat"},
	"internal/store":             {"internal/core/chat", "internal/core/llm", "internal/core/tool", "internal/core/conversation"},
	"internal/turn/markdown":     {}, "internal/ops/frame": {}, "internal/news/bundled": {}, "internal/turn/schema": {}, "internal/news/schedule": {}, "internal/model/toolschema": {"internal/core/llm"},
	"internal/model/client": {"internal/ops/egress", "internal/core/llm"}, "internal/model/compat": {"internal/core/llm"},
	"internal/news/summary": {}, "internal/ops/egress": {"internal/core/resident"}, "internal/ops/config": {"internal/ops/egress"}, "internal/testing/failpoint": {}, "internal/ops/metrics": {"internal/turn/budget", "internal/turn/delivery", "internal/news/digest", "internal/news/feed", "internal/turn/invoke", "internal/model/breaker", "internal/mcp", "internal/ops/measure", "internal/turn/platform", "internal/store", "internal/ops/trouble"}, "internal/recall/page": {}, "internal/recall/search": {}, "internal/recall/pdftext": {},
	"internal/news/feed":     append(vocabulary(), "internal/ops/egress"),
	"internal/store/":        append(vocabulary(), "internal/store/kv"),
	"internal/model/":        append(vocabulary(), "internal/model/client", "internal/model/toolschema"),
	"internal/model/breaker": append(vocabulary(), "internal/ops/measure"),
	"internal/model/offline": append(vocabulary(), "internal/news/summary"),
	"internal/tools/":        append(vocabulary(), "internal/ops/egress", "internal/news/summary", "internal/recall/page"),
	"internal/recall/memory": append(vocabulary(), "internal/feature", "internal/recall/meaning", "internal/recall/search"),
	"internal/tools/web":     append(vocabulary(), "internal/ops/egress", "internal/turn/markdown", "internal/recall/page"),
	"internal/tools/feeds":   append(vocabulary(), "internal/ops/egress", "internal/news/summary", "internal/news/feed"),
	"internal/mcp":           append(vocabulary(), "internal/ops/egress", "internal/ops/config", "internal/core/resident"),
	"internal/mcp/oauth":     {"internal/ops/egress", "internal/store/seal"},
	"internal/store/seal":    {"internal/store"},
	"adapters/":              append(edge(), "adapters/kit"),
	"adapters/kit":           {"internal/core/chat", "internal/core/workers"},
	"adapters/web": append(vocabulary(), "internal/ops/frame", "internal/turn/markdown", "internal/turn/agent", "internal/turn/delivery",
		"internal/news/digest"),
	"internal/turn/agent":       append(behaviour(), "internal/turn/markdown", "internal/turn/prompt"),
	"internal/turn/prompt":      {"internal/core/chat", "internal/core/llm"},
	"internal/turn/delivery":    append(behaviour(), "internal/core/workers"),
	"internal/turn/policy":      append(behaviour(), "internal/news/bundled", "internal/ops/config"),
	"internal/turn/invoke":      append(behaviour(), "internal/recall/page"),
	"internal/mcp/mcpserve":     behaviour(),
	"internal/feature/approval": behaviour(),
	"internal/ops/watchdog":     {},
	"internal/core/resident":    {},
	"internal/core/workers":     {},
	"internal/turn/budget":      append(behaviour(), "internal/ops/config"),
	"internal/ops/audit":        append(vocabulary(), "internal/ops/egress"),
	"internal/feature/elicit":   behaviour(),
	"internal/turn/hook":        append(vocabulary(), "internal/ops/config", "internal/turn/policy"),
	"internal/feature/settings": behaviour(),
	"internal/feature/catchup":  append(vocabulary(), "internal/feature", "internal/recall/history", "internal/news/schedule"),
	"internal/feature/jobs": append(vocabulary(), "internal/ops/config", "internal/feature", "internal/news/feed",
		"internal/news/schedule"),
	"internal/feature/poll": append(vocabulary(), "internal/feature"),
	"internal/ops/totals":   {"internal/ops/measure", "internal/store"},
	"internal/ops/trouble": append(behaviour(), "internal/turn/budget", "internal/news/digest", "internal/model/breaker", "internal/mcp",
		"internal/turn/platform"),
	"internal/ops/retention": append(vocabulary(), "internal/ops/config"),
	"internal/ops/replica":   {"internal/core/chat", "internal/store"},
	"internal/store/storage": append(vocabulary(), "internal/ops/config", "internal/store/seal", "internal/store/bolt",
		"internal/store/kv", "internal/store/postgres", "internal/store/records"),
	"internal/feature":        vocabulary(),
	"internal/turn/access":    append(vocabulary(), "internal/ops/config"),
	"internal/turn/platform":  {"internal/core/chat"},
	"internal/model/provider": {"internal/turn/agent", "internal/ops/config", "internal/core/llm", "internal/model/"},
	"internal/turn/roster": append(behaviour(), "internal/turn/agent", "internal/ops/config", "internal/recall/knowledge",
		"internal/mcp", "internal/recall/meaning", "internal/turn/policy", "internal/turn/prompt", "internal/feature/settings", "internal/recall/skill", "internal/recall/toolsearch"),
	"internal/mcp/sampling": append(vocabulary(), "internal/turn/agent", "internal/mcp"),
	"internal/mcp/signin": append(vocabulary(), "internal/ops/config", "internal/ops/egress", "internal/feature/elicit",
		"internal/mcp", "internal/mcp/oauth", "internal/store/seal"),
	"internal/recall/history":    append(behaviour(), "internal/turn/markdown", "internal/recall/meaning", "internal/recall/search"),
	"internal/ops/transfer":      append(vocabulary(), "internal/recall/history"),
	"internal/recall/toolsearch": append(behaviour(), "internal/recall/meaning", "internal/recall/search"),
	"internal/recall/knowledge":  append(vocabulary(), "internal/recall/document", "internal/recall/meaning", "internal/recall/search"),
	"internal/news/digest": append(behaviour(), "internal/feature/catchup", "internal/news/schedule", "internal/ops/config",
		"internal/tools/feeds"),
	"internal/ops/admin": append(behaviour(), "internal/ops/trouble", "internal/turn/budget", "internal/ops/frame", "internal/recall/history", "internal/recall/knowledge", "internal/model/breaker",
		"internal/mcp", "internal/ops/transfer", "internal/turn/platform", "internal/turn/roster", "internal/turn/agent", "internal/feature/approval",
		"internal/ops/audit", "internal/turn/delivery", "internal/news/digest", "internal/feature/jobs", "internal/mcp/mcpserve", "internal/turn/policy",
		"internal/news/schedule", "internal/feature/settings", "internal/turn/markdown", "internal/ops/totals"),
	"internal/testing/eval": append(behaviour(), "internal/turn/agent", "internal/turn/budget", "internal/news/digest",
		"internal/recall/document", "internal/news/feed", "internal/recall/history", "internal/recall/knowledge", "internal/recall/page",
		"internal/store/storage", "internal/store/records", "internal/recall/memory", "internal/recall/toolsearch"),
	"internal/recall/document":     {"internal/recall/page"},
	"internal/recall/skill":        {"internal/core/tool"},
	"internal/testing/chattest":    {"internal/core/chat"},
	"internal/testing/sim":         {},
	"internal/testing/sim/":        {"internal/testing/sim"},
	"internal/testing/sandbox":     {"internal/testing/sim/"},
	"internal/testing/browsertest": {},
	"internal/testing/kvtest":      append(vocabulary(), "internal/store/kv"),
	"internal/testing/pgtest":      vocabulary(),
	"internal/testing/llmtest":     vocabulary(),
	"internal/testing/storetest":   vocabulary(),
	"internal/recall/meaning":      {"internal/store/kv"},
	"internal/testing/meaningtest": {"internal/recall/meaning", "internal/store/kv"},
	"internal/store/records":       append(vocabulary(), "internal/recall/meaning", "internal/store/kv"),
	"internal/testing/archtest":    {},
	"internal/testing/allocations": {},
	".":                            {},
	"internal/app":                 {"internal/", "adapters/"},
	"internal/cli":                 {"internal/", "adapters/"},
	"cmd/":                         {"internal/", "adapters/"},
}

func vocabulary() []string {
	return []string{"internal/core/chat", "internal/core/llm", "internal/core/tool", "internal/core/conversation", "internal/store"}
}

func edge() []string {
	return append(vocabulary(), "internal/turn/markdown", "internal/testing/failpoint")
}

func behaviour() []string {
	return append(vocabulary(), "internal/core/address", "internal/feature", "internal/news/feed", "internal/news/summary", "internal/testing/failpoint", "internal/ops/measure",
		"internal/core/resident")
}

// holders are the packages that may import a dependency, tests apart.
var holders = map[string][]string{
	"codeberg.org/readeck/go-readability":             {"internal/recall/page"},
	"github.com/JohannesKaufmann/html-to-markdown/v2": {"internal/recall/page"},
	"github.com/KimMachineGun/automemlimit":           {"internal/cli"},
	"github.com/bwmarrin/discordgo":                   {"adapters/discord"},
	"github.com/clipperhouse/uax29/v2":                {"internal/news/summary", "internal/turn/markdown"},
	"github.com/google/go-cmp":                        {"internal/testing/kvtest", "internal/testing/storetest"},
	"github.com/gorilla/websocket":                    {"adapters/discord", "adapters/slack", "internal/testing/sim", "internal/testing/sim/"},
	"github.com/chromedp/cdproto":                     {"internal/testing/browsertest"},
	"github.com/chromedp/chromedp":                    {"internal/testing/browsertest"},
	"github.com/jackc/pgx/v5":                         {"internal/store/postgres", "internal/testing/pgtest"},
	"github.com/joho/godotenv":                        {"internal/ops/config"},
	"github.com/kljensen/snowball":                    {"internal/recall/search"},
	"github.com/landlock-lsm/go-landlock":             {"internal/mcp"},
	"github.com/ledongthuc/pdf":                       {"internal/recall/pdftext"},
	"github.com/mark3labs/mcp-go":                     {"internal/mcp", "internal/mcp/mcpserve"},
	"github.com/rogpeppe/go-internal/diff":            {"internal/mcp"},
	"github.com/microcosm-cc/bluemonday":              {"internal/news/feed"},
	"github.com/mmcdole/gofeed":                       {"internal/news/feed"},
	"github.com/prometheus/client_golang":             {"internal/ops/metrics"},
	"github.com/robfig/cron/v3":                       {"internal/news/schedule"},
	"github.com/santhosh-tekuri/jsonschema/v6":        {"internal/model/toolschema", "internal/turn/schema", "internal/testing/sim/"},
	"github.com/slack-go/slack":                       {"adapters/slack"},
	"github.com/spf13/cobra":                          {"internal/cli"},
	"github.com/spf13/pflag":                          {"internal/cli"},
	"github.com/tailscale/hujson":                     {"internal/ops/config"},
	"github.com/wneessen/go-mail":                     {"adapters/email"},
	"github.com/yuin/goldmark":                        {"internal/turn/markdown"},
	"go.etcd.io/bbolt":                                {"internal/store/bolt"},
	"go.yaml.in/yaml/v3":                              {"internal/recall/skill"},
	"golang.org/x/net":                                {"internal/core/address", "internal/news/feed", "internal/recall/page"},
	"golang.org/x/oauth2":                             {"internal/model/gemini"},
	"golang.org/x/sync":                               {"internal/core/resident"},
	"golang.org/x/sys/unix":                           {"internal/mcp"},
	"golang.org/x/text":                               {"internal/news/feed", "internal/recall/pdftext", "internal/turn/markdown", "internal/news/summary", "internal/turn/schema"},
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
			if !ok || ours == s.pkg || ours == "internal/core/text" || ours == "internal/core/origin" {
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
			case ours == "internal/testing/sandbox" && s.pkg != "internal/cli":
				t.Errorf("%s may not import %s", s.path, ours)
			case ours == "internal/testing/browsertest": // and with it chromedp: for tests only
				t.Errorf("%s may not import %s", s.path, ours)
			case (ours == "internal/testing/sim" || covers("internal/testing/sim/", ours)) && s.pkg != "internal/testing/sandbox" &&
				s.pkg != "internal/testing/sim" && !covers("internal/testing/sim/", s.pkg):
				t.Errorf("%s may not import %s", s.path, ours)
			}
			seen = seen || i == "ravenbot/internal/testing/sandbox"
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
		if m := private.Find(text); m != nil && !strings.HasPrefix(name, "internal/testing/archtest/") &&
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
		if s.test || covers("adapters/", s.pkg) || covers("internal/testing/sim/", s.pkg) ||
			slices.Contains([]string{"internal/cli", "internal/testing/sandbox", "internal/testing/sim", "internal/testing/storetest"}, s.pkg) {
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
		for _, parent := range []string{"internal/model/", "internal/tools/", "internal/store/", "internal/testing/"} {
			if covers(parent, pkg) {
				pkg = strings.TrimSuffix(parent, "/")
			}
		}
		if !strings.Contains(string(text), "\n| `"+pkg+"` |") {
			t.Errorf("ARCHITECTURE.md has no row for %s", pkg)
		}
	}
}
