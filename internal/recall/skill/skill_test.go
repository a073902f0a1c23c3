package skill_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ravenbot/internal/core/tool"
	"ravenbot/internal/recall/skill"
)

// write writes files below a folder, and returns it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const good = "---\nname: pdf-forms\ndescription: >\n  Fills forms.\n  Use it for forms.\nlicense: MIT\nmetadata:\n  " +
	"version: 1.0\nallowed-tools: Read\n---\n\n# Forms\n\nSee references/a.md.\n"

func TestLoad_FrontMatter(t *testing.T) {
	long := strings.Repeat("x", 1025)
	for name, c := range map[string]struct{ folder, text, want string }{
		"valid":              {"pdf-forms", good, ""},
		"line ends":          {"pdf-forms", strings.ReplaceAll(good, "\n", "\r\n"), ""},
		"no front matter":    {"a", "# A", "it has no front matter; begin it with"},
		"no end":             {"a", "---\nname: a\n", "it has no front matter"},
		"nothing in it":      {"a", "---\n---\nbody", "it has no name; add name: a"},
		"no description":     {"a", "---\nname: a\n---\n", "it has no description; describe its purpose"},
		"a long description": {"a", "---\nname: a\ndescription: " + long + "\n---\n", "the description has more than 1024 characters"},
		"another folder":     {"b", "---\nname: a\ndescription: x\n---\n", "the name is a, the folder is called b; give both the same name"},
		"capitals":           {"A", "---\nname: A\ndescription: x\n---\n", `the name "A" is not allowed; use at most 64 lower-case`},
		"two hyphens":        {"a--b", "---\nname: a--b\ndescription: x\n---\n", "is not allowed"},
		"a hyphen first":     {"-a", "---\nname: -a\ndescription: x\n---\n", "is not allowed"},
		"a long name":        {strings.Repeat("a", 65), "---\nname: " + strings.Repeat("a", 65) + "\ndescription: x\n---\n", "is not allowed"},
		"an unknown key":     {"a", "---\nname: a\ndescription: x\nauthor: me\n---\n", "field author not found"},
		"the same key twice": {"a", "---\nname: a\nname: a\ndescription: x\n---\n", "already defined"},
		"no YAML":            {"a", "---\nname: [a\n---\n", "its front matter cannot be read"},
		"a list as name":     {"a", "---\nname: [a]\ndescription: x\n---\n", "its front matter cannot be read"},
		"no text":            {"a", "---\nname: a\x00\n---\n", "it is not text"},
		"too large":          {"a", good + strings.Repeat("x", 256<<10), "it is larger than 256 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, map[string]string{c.folder + "/SKILL.md": c.text, "notes/README.md": "no skill"})
			list, err := skill.Load([]string{filepath.Join(dir, "*")})
			if c.want == "" {
				if err != nil || len(list) != 1 || list[0].Name != c.folder ||
					list[0].Description != "Fills forms. Use it for forms." {
					t.Errorf("%+v, %v", list, err)
				}
				return
			}
			faults := skill.Faults(err)
			if len(faults) != 1 || !strings.Contains(err.Error(), c.want) ||
				faults[0].File != filepath.Join(dir, c.folder, "SKILL.md") || faults[0].Remedy == "" || len(list) != 0 {
				t.Errorf("%+v, %v", list, err)
			}
		})
	}
}

func TestLoad_Patterns(t *testing.T) {
	text := func(name string) string { return "---\nname: " + name + "\ndescription: x\n---\n" }
	dir := write(t, map[string]string{"one/b/SKILL.md": text("b"), "one/a/SKILL.md": text("a"),
		"two/a/SKILL.md": text("a"), "one/bad/SKILL.md": "x"})
	for name, c := range map[string]struct {
		patterns []string
		names    string
		faults   []string
	}{
		"a folder":           {[]string{"one/b"}, "b", nil},
		"named twice":        {[]string{"one/a", "one/[ab]"}, "a b", nil},
		"one of them broken": {[]string{"one/*"}, "a b", []string{"it has no front matter"}},
		"two of one name":    {[]string{"one/a", "two/*"}, "a", []string{"there is another skill called a"}},
		"nothing there":      {[]string{"three/*", "one/b"}, "b", []string{"there is no folder with a SKILL.md; create one, or remove the name"}},
		"no pattern":         {[]string{"one/["}, "", []string{"it is not a valid pattern"}},
	} {
		t.Run(name, func(t *testing.T) {
			var patterns, names []string
			for _, p := range c.patterns {
				patterns = append(patterns, filepath.Join(dir, p))
			}
			list, err := skill.Load(patterns)
			for _, s := range list {
				names = append(names, s.Name)
			}
			if got := strings.Join(names, " "); got != c.names || len(skill.Faults(err)) != len(c.faults) {
				t.Errorf("skills %q, faults %v", got, err)
			}
			for _, want := range c.faults {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("faults %v, want %q", err, want)
				}
			}
		})
	}
}

func TestReadTool_ReadsTheCallersSkillsAlone(t *testing.T) {
	dir := write(t, map[string]string{"pdf-forms/SKILL.md": good, "pdf-forms/references/a.md": "how to",
		"pdf-forms/scripts/run.sh": "rm -rf /",
		"pdf-forms/logo.png":       "\x89PNG\x00", "pdf-forms/.git/config": "hidden", "secret.txt": "secret"})
	folder := filepath.Join(dir, "pdf-forms")
	for link, target := range map[string]string{"out.md": "../secret.txt", "abs.md": filepath.Join(dir, "secret.txt"),
		"in.md": "references/a.md", "up": ".."} {
		if err := os.Symlink(target, filepath.Join(folder, link)); err != nil {
			t.Skip("links cannot be made: ", err)
		}
	}
	list, err := skill.Load([]string{folder})
	if err != nil {
		t.Fatal(err)
	}
	read := skill.ReadTool(func(agent string) []skill.Skill {
		if agent == "helper" {
			return list
		}
		return nil
	})
	for name, c := range map[string]struct {
		agent, args, want string
		fails             bool
	}{
		"the instructions":      {"helper", `{"name":"pdf-forms"}`, "# Forms\n\nSee references/a.md.\n\n[Files of this skill, which skill_read reads. Scripts are not run: logo.png, references/a.md, scripts/run.sh]", false},
		"a file":                {"helper", `{"name":"pdf-forms","file":"references/a.md"}`, "how to", false},
		"a script":              {"helper", `{"name":"pdf-forms","file":"scripts/run.sh"}`, "rm -rf /", false},
		"a link within":         {"helper", `{"name":"pdf-forms","file":"in.md"}`, "how to", false},
		"another agent":         {"other", `{"name":"pdf-forms"}`, `There is no skill "pdf-forms". The skills are: none.`, true},
		"an unknown one":        {"helper", `{"name":"x"}`, "The skills are: pdf-forms.", true},
		"above the folder":      {"helper", `{"name":"pdf-forms","file":"../secret.txt"}`, "not within the skill's folder", true},
		"an absolute path":      {"helper", `{"name":"pdf-forms","file":"/etc/hostname"}`, "not within the skill's folder", true},
		"a link out":            {"helper", `{"name":"pdf-forms","file":"out.md"}`, "not within the skill's folder", true},
		"an absolute link":      {"helper", `{"name":"pdf-forms","file":"abs.md"}`, "not within the skill's folder", true},
		"through a link":        {"helper", `{"name":"pdf-forms","file":"up/secret.txt"}`, "not within the skill's folder", true},
		"a folder":              {"helper", `{"name":"pdf-forms","file":"references"}`, "it is a folder", true},
		"a picture":             {"helper", `{"name":"pdf-forms","file":"logo.png"}`, "it is not text", true},
		"what is not there":     {"helper", `{"name":"pdf-forms","file":"b.md"}`, "there is no such file", true},
		"arguments of any kind": {"helper", `[]`, "cannot unmarshal", true},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := read.Call(tool.WithCaller(t.Context(), tool.Caller{Agent: c.agent}), json.RawMessage(c.args))
			if err != nil || res.IsError != c.fails || !strings.Contains(res.Text, c.want) || !c.fails && res.Text != c.want ||
				strings.Contains(res.Text, "secret\n") {
				t.Errorf("%v, %+v", err, res)
			}
		})
	}
	if !slices.Equal(list, []skill.Skill{{Name: "pdf-forms", Description: "Fills forms. Use it for forms.",
		Folder: folder}}) {
		t.Errorf("the skills are %+v", list)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(good)
	f.Add("---\na: &a [*a]\n---\n")
	f.Fuzz(func(t *testing.T, text string) {
		dir := write(t, map[string]string{"a/SKILL.md": text})
		list, err := skill.Load([]string{filepath.Join(dir, "a")})
		if (err == nil) != (len(list) == 1) {
			t.Errorf("%v, %v", list, err)
		}
	})
}
