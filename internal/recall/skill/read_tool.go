package skill

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
)

const (
	// maxShown is how much of a skill is shown at once, in bytes: the standard recommends 5,000 tokens at most.
	maxShown = 24 << 10
	// maxListed is how many files of a skill are named.
	maxListed = 100
)

// ReadTool returns the native tool skill_read. skills returns those of an agent.
func ReadTool(skills func(agent string) []Skill) tool.Tool {
	yes := true
	return tool.Func{
		Described: tool.Spec{Server: "skill", Name: "read", Native: true, MaxShown: maxShown,
			Description: "Reads a skill: instructions for certain work, and the files that they name.",
			Schema: json.RawMessage(`{"type":"object","properties":{` +
				`"name":{"type":"string","description":"the skill"},` +
				`"file":{"type":"string","description":"a file of it, such as references/forms.md; without it, the ` +
				`instructions"}},` +
				`"required":["name"]}`),
			Hints: tool.Hints{ReadOnly: &yes}},
		Do: func(ctx context.Context, args json.RawMessage) (tool.Result, error) {
			var in struct{ Name, File string }
			if err := json.Unmarshal(args, &in); err != nil {
				return tool.Failure(err.Error()), nil
			}
			list := skills(tool.CallerFrom(ctx).Agent)
			i := slices.IndexFunc(list, func(s Skill) bool { return s.Name == in.Name })
			if i < 0 {
				return tool.Failure(fmt.Sprintf("There is no skill %q. The skills are: %s.", in.Name, names(list))), nil
			}
			words, err := list[i].read(in.File)
			if err != nil {
				return tool.Failure(fmt.Sprintf("%s of skill %s is not read: %v.", in.File, in.Name, err)), nil
			}
			return tool.Text(words), nil
		},
	}
}

// names returns the names of skills for a model, or "none".
func names(list []Skill) string {
	if len(list) == 0 {
		return "none"
	}
	var all []string
	for _, s := range list {
		all = append(all, s.Name)
	}
	return strings.Join(all, ", ")
}

// read returns a file of the skill or, without a name, its instructions and the names of its files.
func (s Skill) read(file string) (string, error) {
	if file != "" && file != fileName {
		return readFile(s.Folder, file)
	}
	whole, err := readFile(s.Folder, fileName)
	if err != nil {
		return "", err
	}
	_, body, ok := split(whole)
	if !ok {
		body = whole // it was changed since it was found valid
	}
	if files := s.files(); len(files) > 0 {
		body += "\n\n[Files of this skill, which skill_read reads. Scripts are not run: " + strings.Join(files, ", ") + "]"
	}
	return body, nil
}

// files returns the names of the other files of a skill.
func (s Skill) files() []string {
	root, err := os.OpenRoot(s.Folder)
	if err != nil {
		return nil
	}
	defer root.Close()
	var list []string
	seen := 0
	// A part that cannot be read is left out, and a folder of thousands is not walked to its end.
	_ = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if seen++; seen > 50*maxListed || len(list) == maxListed {
			return fs.SkipAll
		}
		if err != nil {
			return nil
		}
		isHidden := strings.HasPrefix(d.Name(), ".") && name != "."
		if isHidden && d.IsDir() {
			return fs.SkipDir
		}
		if d.Type().IsRegular() && name != fileName && !isHidden {
			list = append(list, text.OneLine(name))
		}
		return nil
	})
	return list
}
