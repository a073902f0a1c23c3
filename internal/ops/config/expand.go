package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ravenbot/internal/core/text"
)

// maxSecretFile limits what ${file:…} reads: keys and prompts, not archives.
const maxSecretFile = 1 << 20

// expand replaces ${…} in a string of the file, once: a variable's value is never read as syntax. It adds a fault and
// returns false where that fails.
func (d *decoder) expand(n *node) (string, bool) {
	if !strings.Contains(n.text, "${") {
		return n.text, true
	}
	s, bad := d.expandText(n.text)
	if bad == nil {
		return s, true
	}
	d.addFault(n, bad.reason, bad.remedy)
	return "", false
}

// badReference is what is wrong with a ${…}, as reason and remedy of a fault.
type badReference struct{ reason, remedy string }

// expandText replaces ${…} in a text. $${ stands for a plain ${. The second result is nil where all of it was replaced.
func (d *decoder) expandText(s string) (string, *badReference) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${")
		if !found {
			out.WriteString(s)
			return out.String(), nil
		}
		// The $ of $${ is in before already; only the brace is missing.
		if strings.HasSuffix(before, "$") {
			out.WriteString(before + "{")
			s = rest
			continue
		}
		out.WriteString(before)
		end := closingBrace(rest)
		if end < 0 {
			return "", &badReference{"a ${ without its }", "close it, or write $${ for a plain ${"}
		}
		value, bad := d.resolve(rest[:end])
		if bad != nil {
			return "", bad
		}
		out.WriteString(value)
		s = rest[end+1:]
	}
}

// closingBrace returns the offset of the brace that ends a reference, past any reference inside it, or -1.
func closingBrace(s string) int {
	depth := 0
	for i := range len(s) {
		switch {
		// Only ${ nests; a plain brace is text.
		case s[i] == '{' && i > 0 && s[i-1] == '$':
			depth++
		case s[i] == '}' && depth > 0:
			depth--
		case s[i] == '}':
			return i
		}
	}
	return -1
}

// variableName matches the name of a variable; dots are of some hosts' own variables.
var variableName = text.Pattern(`^[A-Za-z_][A-Za-z0-9_.]*$`)

// resolve returns the value of what stands between ${ and }, or why there is none. In a disabled entry a variable that
// is not set is empty.
func (d *decoder) resolve(ref string) (string, *badReference) {
	name, fallback, hasDefault := strings.Cut(ref, ":-")
	if path, ok := strings.CutPrefix(ref, "file:"); ok {
		return d.readReferencedFile(path)
	}
	name = strings.TrimPrefix(name, "env:")
	if value, ok := d.editorVariable(name); ok {
		return value, nil
	}
	if kind, id, ok := strings.Cut(name, ":"); ok {
		// VS Code asks its user for these; a disabled entry may keep them.
		if kind == "input" {
			if d.disabled {
				return "", nil
			}
			return "", &badReference{fmt.Sprintf("${input:%s} asks the user of an editor; nobody can be asked here", clip(id)),
				"put the value in .env and write ${NAME}"}
		}
		return "", &badReference{
			fmt.Sprintf("${%s:…} is not known", clip(kind)),
			"write ${NAME}, ${NAME:-default}, ${env:NAME} or ${file:PATH}",
		}
	}
	if !variableName().MatchString(name) {
		return "", &badReference{
			fmt.Sprintf("%s is not the name of a variable", quote(name)),
			"write letters, digits and _, or $${ for a plain ${",
		}
	}
	// As in a shell, :- also replaces an empty value.
	if value, ok := d.env(name); ok && (value != "" || !hasDefault) {
		return value, nil
	}
	// The default is text of the file, so references in it are replaced.
	if hasDefault {
		return d.expandText(fallback)
	}
	if d.disabled {
		return "", nil
	}
	return "", &badReference{fmt.Sprintf("the variable %s is not set", name),
		fmt.Sprintf("set it in .env or the environment, or write ${%s:-} to allow it to be empty", name)}
}

// home returns the home folder, and false if it is not known.
func (d *decoder) home() (string, bool) {
	if home, ok := d.env("HOME"); ok {
		return home, true
	}
	home, err := os.UserHomeDir()
	return home, err == nil
}

// editorVariable returns the value of variables of editors that MCP entries are copied from; false outside of such
// entries, and for other names.
func (d *decoder) editorVariable(name string) (string, bool) {
	if !d.inServer {
		return "", false
	}
	switch name {
	case "workspaceFolder":
		return d.dir, true
	case "workspaceFolderBasename":
		return filepath.Base(d.dir), true
	case "userHome":
		return d.home()
	case "pathSeparator", "/":
		return string(filepath.Separator), true
	}
	return "", false
}

// readReferencedFile returns the content of ${file:PATH} without its last line break, which editors add.
func (d *decoder) readReferencedFile(written string) (string, *badReference) {
	path, bad := d.expandText(written)
	if bad != nil {
		return "", bad
	}
	if d.disabled {
		return "", nil
	}
	full := d.absPath(path)
	text, err := readLimited(full, maxSecretFile)
	if err != nil {
		return "", &badReference{
			fmt.Sprintf("the file %s cannot be read: %v", quote(written), plainCause(err)),
			"create it, or correct the path",
		}
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), nil
}

// readLimited reads a regular file of limited size; opening a pipe or device might block forever.
func readLimited(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("it is larger than %d bytes", limit)
	}
	return text, err
}

// plainCause removes the path that the operating system's error repeats: it may have come from a variable.
func plainCause(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err
	}
	return err
}

// bareVariable matches $NAME.
var bareVariable = text.Pattern(`\$[A-Za-z_][A-Za-z0-9_]*`)

// expandEnv is expand for the env of an MCP server, where other hosts also accept $NAME. An unset one stays as
// written: it may be part of a password.
func (d *decoder) expandEnv(n *node) (string, bool) {
	if strings.Contains(n.text, "${") {
		return d.expand(n)
	}
	return bareVariable().ReplaceAllStringFunc(n.text, func(ref string) string {
		if value, ok := d.env(ref[1:]); ok {
			return value
		}
		if !d.disabled {
			d.addWarning(
				n,
				"looks like a variable, which is not set, and stays as written",
				"set it, or write ${NAME} to have it checked",
			)
		}
		return ref
	}), true
}
