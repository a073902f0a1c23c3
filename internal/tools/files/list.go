package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"ravenbot/internal/core/tool"
)

// maxListed is how many lines files_list returns.
const maxListed = 500

type listArgs struct {
	Path  string
	Depth int
}

// listTool returns the tool that lists a folder.
func (p *pack) listTool() tool.Tool {
	return newTool(
		"list",
		"Lists the files in a folder, or those that a pattern matches, with size and date. "+
			"There are: "+p.rootNames()+".",
		`{"type":"object","properties":{"path":{"type":"string","description":"a folder, or a pattern such as `+
			`docs/**/*.md, beginning with the name of a root; all roots if not given"},`+
			`"depth":{"type":"integer","minimum":1,"maximum":32,"description":"how many levels of folders, 1 if not given; `+
			`patterns go as deep as they say"}}}`,
		readOnly(),
		p.list,
	)
}

// list lists a folder, what a pattern matches, or every root. What does not fit into maxListed lines is said at the
// end.
func (p *pack) list(ctx context.Context, in listArgs) (string, error) {
	targets, err := p.targets(in.Path)
	if err != nil {
		return "", err
	}
	l := lister{depth: max(in.Depth, 1)}
	for _, t := range targets {
		if err := l.listTarget(ctx, t, len(targets) > 1); err != nil {
			return "", err
		}
	}
	if l.lines == 0 && l.omitted == "" {
		return "Nothing is there.", nil
	}
	if l.omitted != "" {
		l.text.WriteString("\nNot everything is listed: " + l.omitted + ".")
	}
	return l.text.String(), nil
}

type lister struct {
	depth   int
	text    strings.Builder
	lines   int
	seen    int
	omitted string // why the list is not complete
}

// listTarget lists one target. Where there are several, one that cannot be opened does not hide the others.
func (l *lister) listTarget(ctx context.Context, t target, among bool) error {
	root, err := t.root.open()
	if err != nil {
		if among {
			l.omitted = err.Error()
			return nil
		}
		return err
	}
	defer root.Close()
	if t.wanted == nil {
		at := location{t.root, t.from}
		info, err := root.Stat(t.from)
		if err != nil {
			return describeError("read", at, err)
		}
		if among && l.depth == 1 || !info.IsDir() {
			return l.writeLine(at, fs.FileInfoToDirEntry(info))
		}
	}
	w := walk{root: root, at: t.root, seen: &l.seen, fn: func(at location, e fs.DirEntry) error {
		if t.wanted != nil && !t.wanted.match(at.root.Name+"/"+at.name) {
			return nil
		}
		return l.writeLine(at, e)
	}}
	depth := l.depth
	if t.wanted != nil {
		depth = maxDepth
	}
	err = w.visit(ctx, t.from, depth)
	if w.omitted != "" {
		l.omitted = w.omitted
	}
	if errors.Is(err, errEnough) || t.wanted != nil && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// writeLine adds an entry; errEnough ends the listing after maxListed of them.
func (l *lister) writeLine(at location, e fs.DirEntry) error {
	if l.lines++; l.lines > maxListed {
		l.omitted = fmt.Sprintf("there are more than %d", maxListed)
		return errEnough
	}
	info, err := e.Info()
	switch {
	case err != nil: // it was deleted since the folder was read
		l.lines--
	case e.IsDir():
		fmt.Fprintf(&l.text, "%s/\n", at)
	case e.Type()&fs.ModeSymlink != 0:
		fmt.Fprintf(&l.text, "%s (a link)\n", at)
	case !info.Mode().IsRegular():
		fmt.Fprintf(&l.text, "%s (no regular file)\n", at)
	default:
		fmt.Fprintf(&l.text, "%s (%s, %s)\n", at, formatSize(info.Size()), info.ModTime().UTC().Format("2006-01-02 15:04"))
	}
	return nil
}
