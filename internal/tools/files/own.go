package files

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// ownFiles are the files of the bot itself, which no tool reads or changes whatever the roots are.
type ownFiles struct{ paths []string }

// errOwn is the cause of errors about the bot's own files.
var errOwn = errors.New("belongs to the bot")

// newOwnFiles returns ownFiles for paths that need not exist yet.
func newOwnFiles(paths []string) *ownFiles {
	o := &ownFiles{}
	for _, p := range paths {
		o.paths = append(o.paths, resolvePath(p))
	}
	return o
}

// covers reports whether a path without links is one of the bot's own files, is below one, or is beside one and begins
// with its name and one of ".-_~": copies and files such as ravenbot.db.token are named so.
func (o *ownFiles) covers(resolved string) bool {
	// Some file systems ignore case; on others a second file of nearly the same name is no loss.
	resolved = strings.ToLower(resolved)
	for _, own := range o.paths {
		rest, found := strings.CutPrefix(resolved, strings.ToLower(own))
		if found && (rest == "" || strings.ContainsRune(`/\.-_~`, rune(rest[0]))) {
			return true
		}
	}
	return false
}

// isOwn reports whether a file is one of the bot's own under another name, such as a hard link.
func (o *ownFiles) isOwn(info os.FileInfo) bool {
	for _, own := range o.paths {
		if known, err := os.Stat(own); err == nil && os.SameFile(known, info) {
			return true
		}
	}
	return false
}

// refuse returns an error where a location is one of the bot's own files, links followed.
func (o *ownFiles) refuse(at location) error {
	if o.covers(resolvePath(filepath.Join(at.root.Path, filepath.FromSlash(at.name)))) {
		return describeOwn(at)
	}
	return nil
}

func describeOwn(at location) error {
	return &modelError{at.String() + " is one of the bot's own files, which are never read or changed by tools", errOwn}
}

// resolvePath returns an absolute path with its links followed, as far as it exists.
func resolvePath(p string) string {
	p, err := filepath.Abs(p)
	if err != nil {
		return filepath.Clean(p)
	}
	if whole, err := filepath.EvalSymlinks(p); err == nil {
		return whole
	}
	// A file that is yet to be written may be below a link.
	parent := filepath.Dir(p)
	if parent == p {
		return p
	}
	return filepath.Join(resolvePath(parent), filepath.Base(p))
}
