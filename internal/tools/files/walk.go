package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// maxEntries is how many files and folders one call visits.
	maxEntries = 20_000
	// maxDepth is how many levels below a root are visited.
	maxDepth = 32
)

// errEnough ends a walk that has found enough, or has reached a limit.
var errEnough = errors.New("enough")

// walk visits what is below folders in the order of names. It does not follow links, which could form a circle.
type walk struct {
	root    *os.Root
	at      Root
	seen    *int   // entries of all roots together
	omitted string // why something was skipped; empty: nothing was
	fn      func(at location, e fs.DirEntry) error
}

// visit calls fn for everything in a folder, and in folders below it down to depth levels.
func (w *walk) visit(ctx context.Context, folder string, depth int) error {
	if depth <= 0 {
		return nil
	}
	list, err := w.entries(folder)
	if err != nil {
		return err
	}
	// Links are not followed on the way, so that of the root alone is resolved.
	folderPath := filepath.Join(resolvePath(w.at.Path), filepath.FromSlash(folder))
	for _, e := range list {
		if w.at.own.covers(filepath.Join(folderPath, e.Name())) {
			continue
		}
		if *w.seen++; *w.seen > maxEntries {
			w.omitted = fmt.Sprintf("there are more than %d files and folders", maxEntries)
			return errEnough
		}
		if ctx.Err() != nil {
			w.omitted = fmt.Sprintf("looking took longer than %s", callTimeout)
			return errEnough
		}
		name := path.Join(folder, e.Name())
		if err := w.fn(location{w.at, name}, e); err != nil {
			return err
		}
		if !e.IsDir() {
			continue
		}
		if err := w.visit(ctx, name, depth-1); errors.Is(err, errEnough) {
			return err
		} else if err != nil { // one folder that cannot be read must not hide the others
			w.omitted = err.Error()
		}
	}
	return nil
}

// entries returns what is in a folder by name. A folder with more than maxEntries is read up to one more, which the
// visit refuses.
func (w *walk) entries(folder string) ([]fs.DirEntry, error) {
	f, err := w.root.Open(folder)
	if err != nil {
		return nil, describeError("read", location{w.at, folder}, err)
	}
	defer f.Close()
	// One more than a call may visit, so that visit notices that there are more.
	list, err := f.ReadDir(maxEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, describeError("read", location{w.at, folder}, err)
	}
	slices.SortFunc(list, func(x, y fs.DirEntry) int { return cmp.Compare(x.Name(), y.Name()) })
	return list, nil
}

// pattern is the elements of a glob; ** stands for any number of path elements.
type pattern []string

// isPattern reports whether a path has a character that makes it a pattern.
func isPattern(s string) bool { return strings.ContainsAny(s, "*?[") }

// parsePattern reads a pattern whose elements are those of path.Match, or ** for any number of folders.
func parsePattern(s string) (pattern, error) {
	if len(s) > maxPathBytes {
		return nil, fmt.Errorf("the pattern is longer than %d bytes", maxPathBytes)
	}
	if err := rejectDotDot(s); err != nil {
		return nil, err
	}
	var list pattern
	for _, e := range strings.Split(path.Clean(s), "/") {
		if _, err := path.Match(e, ""); err != nil {
			return nil, fmt.Errorf("%s is not a pattern: a bracket is not closed, or a \\ ends it", quoteName(s))
		}
		if e == "**" && len(list) > 0 && list[len(list)-1] == "**" {
			continue
		}
		list = append(list, e)
	}
	return list, nil
}

// match reports whether the pattern matches a whole path. It compares each element of the pattern with each of the path
// at most once, so that no pattern takes exponential time.
func (p pattern) match(name string) bool {
	elements := strings.Split(name, "/")
	reach := make([]bool, len(elements)+1) // reach[n]: the pattern so far may match the first n elements
	reach[0] = true
	for _, e := range p {
		next := make([]bool, len(reach))
		for n := range reach {
			switch {
			case e == "**":
				next[n] = reach[n] || n > 0 && next[n-1]
			case n > 0 && reach[n-1]:
				next[n], _ = path.Match(e, elements[n-1])
			}
		}
		reach = next
	}
	return reach[len(elements)]
}

// target is what a call is about: one location, or everything in a root that a pattern matches.
type target struct {
	root   Root
	from   string  // where the walk begins
	wanted pattern // nil: everything below from
}

// targets returns the targets of a path or pattern; of an empty one, all roots. An existing file whose name looks like
// a pattern is taken literally.
func (p *pack) targets(written string) ([]target, error) {
	if written == "" || written == "." {
		var all []target
		for _, r := range p.roots {
			all = append(all, target{root: r, from: "."})
		}
		return all, nil
	}
	if !isPattern(written) || p.exists(written) {
		at, err := p.find(written)
		return []target{{root: at.root, from: at.name}}, err
	}
	wanted, err := parsePattern(written)
	if err != nil {
		return nil, err
	}
	var list []target
	for _, r := range p.roots {
		// The name of a root may hold characters of a pattern, which does not match itself then.
		if ok, _ := path.Match(wanted[0], r.Name); ok || wanted[0] == "**" || wanted[0] == r.Name {
			t := target{r, wanted.commonFolder(), wanted}
			if len(wanted) == 1 && wanted[0] != "**" { // the root itself
				t.wanted = nil
			}
			list = append(list, t)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s matches no root: paths begin with one of %s", quoteName(written), p.rootNames())
	}
	return list, nil
}

// commonFolder returns the folder of the root that everything which the pattern matches is in.
func (p pattern) commonFolder() string {
	var plain []string
	for _, e := range p[1:] {
		if isPattern(e) || len(plain) == len(p)-2 { // the last is what is looked for
			break
		}
		plain = append(plain, e)
	}
	if isPattern(p[0]) || len(plain) == 0 {
		return "."
	}
	return path.Join(plain...)
}

// exists reports whether something has the name that was written, which may look like a pattern.
func (p *pack) exists(written string) bool {
	at, err := p.find(written)
	if err != nil {
		return false
	}
	root, err := at.root.open()
	if err != nil {
		return false
	}
	defer root.Close()
	_, err = root.Lstat(at.name)
	return err == nil
}
