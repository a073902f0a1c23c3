// Package files is the native tool pack for the operator's files: files_read,
// files_list and files_search, and, in roots that say so, files_write and
// files_edit. It promises that nothing outside the roots is touched, whatever paths
// and links say (os.Root); that nothing but regular files is opened; that every call
// is bounded in files, bytes and time; that a file is replaced as a whole or not at
// all; and that paths are named from the root's name on, never by where the root is.
// It leaves who may call what to policy.
package files

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"ravenbot/internal/tool"
)

// Root is a folder that the tools may reach. Paths begin with its Name.
type Root struct {
	Name  string // one path element, unlike those of the other roots
	Path  string
	Write bool // files in it may be changed
}

// Tools returns the pack: none without a root, the readers alone where no root may
// be written to. A root is opened at each call, so that it need not be there yet.
func Tools(roots []Root) []tool.Tool {
	if len(roots) == 0 {
		return nil
	}
	p := &pack{roots: roots}
	list := []tool.Tool{p.readTool(), p.listTool(), p.searchTool()}
	if slices.ContainsFunc(roots, func(r Root) bool { return r.Write }) {
		list = append(list, p.writeTool(), p.editTool())
	}
	return list
}

type pack struct {
	roots []Root
	edits sync.Mutex // held while a file is read, changed and put back
}

// callTime is the longest that a call may look at files.
const callTime = 10 * time.Second

// shape makes a tool of a function that answers in text; its error is what the
// model is told.
func shape[In any](name, does, schema string, hints tool.Hints, do func(context.Context, In) (string, error)) tool.Tool {
	return tool.Func{
		Described: tool.Spec{Server: "files", Name: name, Native: true, Description: does, Schema: json.RawMessage(schema), Hints: hints},
		Do: func(ctx context.Context, args json.RawMessage) (tool.Result, error) {
			var in In
			if err := json.Unmarshal(args, &in); err != nil {
				return tool.Failure(err.Error()), nil
			}
			ctx, cancel := context.WithTimeout(ctx, callTime)
			defer cancel()
			text, err := do(ctx, in)
			if err != nil {
				return tool.Failure(err.Error() + "."), nil
			}
			return tool.Text(text), nil
		},
	}
}

func readOnly() tool.Hints {
	yes, no := true, false
	return tool.Hints{ReadOnly: &yes, OpenWorld: &no}
}

// rootNames lists the roots as paths.
func (p *pack) rootNames() string {
	var names []string
	for _, r := range p.roots {
		names = append(names, shown(r.Name))
	}
	return strings.Join(names, ", ")
}

// place is a path within a root.
type place struct {
	root Root
	name string // as io/fs has it; "." is the root itself
}

// String is the path as people write it.
func (p place) String() string { return shown(path.Join(p.root.Name, p.name)) }

// longest is how long a path or pattern may be, in bytes.
const longest = 1024

// find reads a path. It goes up nowhere: os.Root would refuse that too, but not in
// words that help.
func (p *pack) find(written string) (place, error) {
	if len(written) > longest {
		return place{}, fmt.Errorf("the path is longer than %d bytes", longest)
	}
	if strings.ContainsRune(written, 0) {
		return place{}, errors.New("the path holds a NUL")
	}
	if err := noUp(written); err != nil {
		return place{}, err
	}
	first, rest, _ := strings.Cut(path.Clean(written), "/")
	for _, r := range p.roots {
		if r.Name == first {
			return place{r, cmp.Or(rest, ".")}, nil
		}
	}
	return place{}, fmt.Errorf("%s is outside of what may be reached: paths begin with one of %s", shown(written), p.rootNames())
}

func noUp(written string) error {
	if slices.Contains(strings.Split(strings.ReplaceAll(written, `\`, "/"), "/"), "..") {
		return fmt.Errorf("%s goes up with .., which no path may", shown(written))
	}
	return nil
}

// open opens the folder that a root is.
func (r Root) open() (*os.Root, error) {
	root, err := os.OpenRoot(r.Path)
	if err != nil {
		return nil, because("open", place{r, "."}, err)
	}
	return root, nil
}

// failure is what the model is told. The chain of causes names places on this
// machine and stays behind.
type failure struct {
	text  string
	cause error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.cause }

// errKind is the cause where something is not of the kind that is wanted.
var errKind = errors.New("of another kind")

// because says what could not be done to a place, unless the error says so itself.
func because(what string, at place, err error) error {
	var in *fs.PathError
	var link *os.LinkError
	var known *failure
	reason := err
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, fs.ErrNotExist):
		return &failure{fmt.Sprintf("%s does not exist", at), err}
	case errors.Is(err, context.DeadlineExceeded):
		return &failure{fmt.Sprintf("%s: that took longer than %s", at, callTime), err}
	case errors.As(err, &in):
		reason = in.Err
	case errors.As(err, &link):
		reason = link.Err
	}
	return &failure{fmt.Sprintf("%s: the bot could not %s it: %v", at, what, reason), err}
}

// opened is a regular file that is open for reading.
type opened struct {
	*os.File
	info fs.FileInfo
}

// openText opens a regular file of text. What is no regular file is not opened: a
// pipe would wait, a device do something. Opening does not wait either, for the file
// may have become another since.
func openText(root *os.Root, p place) (opened, error) {
	info, err := root.Stat(p.name)
	if err == nil {
		err = regular(p, info)
	}
	if err != nil {
		return opened{}, because("read", p, err)
	}
	f, err := root.OpenFile(p.name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return opened{}, because("read", p, err)
	}
	if info, err = f.Stat(); err == nil {
		if err = regular(p, info); err == nil {
			err = text(f, p, info)
		}
	}
	if err != nil {
		f.Close()
		return opened{}, because("read", p, err)
	}
	return opened{f, info}, nil
}

func regular(p place, info fs.FileInfo) error {
	switch {
	case info.Mode().IsRegular():
		return nil
	case info.IsDir():
		return &failure{fmt.Sprintf("%s is a folder; files_list shows what is in it", p), errKind}
	}
	return &failure{fmt.Sprintf("%s is no regular file", p), errKind}
}

// head is how much of a file tells whether it is text.
const head = 8 << 10

// text refuses what is not.
func text(f io.ReaderAt, p place, info fs.FileInfo) error {
	start := make([]byte, head)
	n, err := f.ReadAt(start, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if kind := kindOf(start[:n]); kind != "" {
		return &failure{fmt.Sprintf("%s is no text but %s of %s", p, kind, size(info.Size())), errKind}
	}
	return nil
}

// kindOf names what is no text; empty: it is.
func kindOf(start []byte) string {
	kind, _, _ := strings.Cut(http.DetectContentType(start), ";")
	switch {
	case kind == "application/octet-stream", strings.HasPrefix(kind, "text/") && slices.Contains(start, 0):
		return "binary data"
	case strings.HasPrefix(kind, "text/"):
		return ""
	}
	return kind
}

func size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// shown is a name that cannot pass for another line or for more than a name.
func shown(name string) string {
	if utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return name
	}
	return strconv.Quote(name)
}
