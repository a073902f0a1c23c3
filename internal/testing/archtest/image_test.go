package archtest

import (
	"bytes"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// copied matches what an instruction of the Dockerfile takes from the project.
var copied = regexp.MustCompile(`(?m)^COPY ((?:[\w./]+ )+)\S+$|cp ([\w./]+) /`)

// The image is built from the files that .dockerignore leaves: one that the program embeds must be among them.
func TestImage_IsBuiltFromFilesThatDockerSees(t *testing.T) {
	out, err := exec.Command("git", "-C", root, "ls-files").Output()
	if err != nil {
		t.Skip("not in a git checkout: ", err)
	}
	rules, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	seen := t.TempDir()
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || isIgnored(string(rules), name) {
			continue
		}
		to := filepath.Join(seen, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list := exec.Command("go", "list", "-deps", "./cmd/ravenbot")
	list.Dir = seen
	var complaint bytes.Buffer
	list.Stderr = &complaint
	if err := list.Run(); err != nil {
		t.Errorf("the program cannot be built in its image: %v\n%s", err, &complaint)
	}
	dockerfile, err := os.ReadFile(filepath.Join(seen, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	found := copied.FindAllSubmatch(dockerfile, -1)
	if len(found) < 4 {
		t.Errorf("found %d instructions that copy files into the image, not 4 or more", len(found))
	}
	for _, m := range found {
		for _, name := range strings.Fields(string(m[1]) + string(m[2])) {
			if _, err := os.Stat(filepath.Join(seen, name)); err != nil {
				t.Errorf("the Dockerfile copies %s: %v", name, err)
			}
		}
	}
}

// isIgnored reports whether rules, the lines of a .dockerignore, keep a file from Docker: the last one that fits the file
// or a folder above it decides (https://docs.docker.com/build/concepts/context/#dockerignore-files). A leading **/ fits in
// every folder; elsewhere ** is not understood.
func isIgnored(rules, name string) bool {
	ignored := false
	for rule := range strings.Lines(rules) {
		rule, isException := strings.CutPrefix(strings.TrimSpace(rule), "!")
		base, isAnywhere := strings.CutPrefix(rule, "**/")
		for part := name; part != "."; part = path.Dir(part) {
			at := part
			if isAnywhere {
				at = path.Base(part)
			}
			if fits, _ := path.Match(base, at); fits { // a wrong pattern fits nothing
				ignored = !isException
			}
		}
	}
	return ignored
}
