// Package skill reads Agent Skills (https://agentskills.io, read 2026-11): folders with a SKILL.md that instructs a
// model how to do certain work. Its front matter is checked strictly. Its body and the other files are read when the
// model asks for them. Nothing outside of a skill's folder is read, and nothing in it is ever run.
package skill

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"ravenbot/internal/core/text"
)

// Skill is a skill that was found valid.
type Skill struct {
	Name        string
	Description string // what it does, and when to use it
	Folder      string
}

// fileName is the file that makes a folder a skill.
const fileName = "SKILL.md"

// Limits. Those of names and texts are the standard's.
const (
	maxName          = 64
	maxDescription   = 1024
	maxCompatibility = 500
	maxSkills        = 100       // of an agent: each is in every prompt
	maxFile          = 256 << 10 // bytes of SKILL.md, and of any other file
)

// Fault says what is wrong with a skill. Its text names the file and the remedy.
type Fault struct{ File, Problem, Remedy string }

func (f *Fault) Error() string { return fmt.Sprintf("%s: %s; %s", f.File, f.Problem, f.Remedy) }

// Load returns the skills in the folders that patterns name, sorted by name. The error joins a *Fault for each that is
// not valid; the others are returned all the same.
func Load(patterns []string) ([]Skill, error) {
	var list []Skill
	var faults []error
	for _, pattern := range patterns {
		folders, err := matchFolders(pattern)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		for _, folder := range folders {
			s, err := open(folder)
			at := slices.IndexFunc(list, func(o Skill) bool { return o.Name == s.Name })
			switch {
			case err != nil:
				faults = append(faults, err)
			case at < 0:
				list = append(list, s)
			case list[at].Folder != folder:
				faults = append(faults, &Fault{
					filepath.Join(folder, fileName),
					fmt.Sprintf("there is another skill called %s in %s", s.Name, list[at].Folder),
					"rename one, with its folder",
				})
			}
		}
	}
	slices.SortFunc(list, func(a, b Skill) int { return strings.Compare(a.Name, b.Name) })
	if len(list) > maxSkills {
		tooMany := fmt.Sprintf("there are more than %d skills", maxSkills)
		faults = append(faults, &Fault{list[maxSkills].Folder, tooMany, "name fewer"})
		list = list[:maxSkills]
	}
	return list, errors.Join(faults...)
}

// Faults returns the faults in an error of Load.
func Faults(err error) []*Fault {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	var list []*Fault
	for _, e := range joined.Unwrap() {
		if f, ok := errors.AsType[*Fault](e); ok {
			list = append(list, f)
		}
	}
	return list
}

// matchFolders returns the folders with a SKILL.md that a pattern names.
func matchFolders(pattern string) ([]string, error) {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return nil, &Fault{pattern, "it is not a valid pattern", "write a folder, or a pattern such as skills/*"}
	}
	var folders []string
	for _, folder := range found {
		if info, err := os.Stat(filepath.Join(folder, fileName)); err == nil && info.Mode().IsRegular() {
			folders = append(folders, folder)
		}
	}
	if len(folders) == 0 {
		return nil, &Fault{pattern, "there is no folder with a " + fileName, "create one, or remove the name"}
	}
	return folders, nil
}

// frontMatter is what SKILL.md begins with. Other keys are not in the standard.
type frontMatter struct {
	Name          string            `yaml:"name"`
	Description   string            `yaml:"description"`
	License       string            `yaml:"license"`
	Compatibility string            `yaml:"compatibility"`
	Metadata      map[string]string `yaml:"metadata"`
	AllowedTools  string            `yaml:"allowed-tools"` // not honoured: what a tool may do is the operator's to say
}

// open reads the front matter of a skill. The error is a *Fault.
func open(folder string) (Skill, error) {
	file := filepath.Join(folder, fileName)
	fault := func(problem, remedy string) (Skill, error) { return Skill{}, &Fault{file, problem, remedy} }
	text, err := readFile(folder, fileName)
	if err != nil {
		return fault(err.Error(), "make it a text file that the bot may read")
	}
	head, _, ok := split(text)
	if !ok {
		return fault("it has no front matter",
			"begin it with a line of three hyphens, name, description, and three hyphens again")
	}
	var m frontMatter
	d := yaml.NewDecoder(strings.NewReader(head))
	d.KnownFields(true)
	if err := d.Decode(&m); err != nil && !errors.Is(err, io.EOF) {
		return fault("its front matter cannot be read: "+oneLine(err.Error()),
			"use only name, description, license, compatibility, metadata and allowed-tools, as YAML")
	}
	base := filepath.Base(folder)
	switch {
	case m.Name == "":
		return fault("it has no name", "add name: "+base)
	case !namePattern().MatchString(m.Name) || len(m.Name) > maxName:
		return fault(fmt.Sprintf("the name %.80q is not allowed", m.Name),
			fmt.Sprintf("use at most %d lower-case letters, digits and single hyphens between them", maxName))
	case m.Name != base:
		return fault(fmt.Sprintf("the name is %s, the folder is called %s", m.Name, base), "give both the same name")
	case strings.TrimSpace(m.Description) == "":
		return fault("it has no description", "describe its purpose and when to use it")
	case utf8.RuneCountInString(m.Description) > maxDescription:
		return fault(fmt.Sprintf("the description has more than %d characters", maxDescription), "shorten it")
	case utf8.RuneCountInString(m.Compatibility) > maxCompatibility:
		return fault(fmt.Sprintf("compatibility has more than %d characters", maxCompatibility), "shorten it")
	}
	return Skill{m.Name, oneLine(m.Description), folder}, nil
}

var namePattern = text.Pattern(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// oneLine returns a text on one line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// split returns the front matter and the body of a SKILL.md; false: it has no front matter.
func split(text string) (head, body string, ok bool) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return "", "", false
	}
	// The end may follow at once, where there is nothing between the lines.
	head, body, ok = strings.Cut("\n"+rest+"\n", "\n---\n")
	return strings.TrimPrefix(head, "\n"), strings.TrimSpace(body), ok
}

// errNotText means that a file is not for reading.
var errNotText = errors.New("it is not text")

// readFile returns a text file below a folder. Links that lead out of the folder are not followed.
func readFile(folder, name string) (string, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return "", errors.New("its folder cannot be opened")
	}
	defer root.Close()
	info, err := root.Stat(filepath.FromSlash(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", errors.New("there is no such file")
	case err != nil:
		return "", errors.New("it is not within the skill's folder, or cannot be read")
	case info.IsDir():
		return "", errors.New("it is a folder")
	case !info.Mode().IsRegular(): // a pipe would be waited for
		return "", errors.New("it is not a file")
	case info.Size() > maxFile:
		return "", fmt.Errorf("it is larger than %d KiB", maxFile>>10)
	}
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return "", errors.New("it cannot be read")
	}
	defer f.Close()
	// It may have grown meanwhile.
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return "", errors.New("it cannot be read")
	}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return "", errNotText
	}
	return string(data), nil
}
