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

// callTimeout is the longest that a call may look at files.
const callTimeout = 10 * time.Second

// newTool makes a tool of a function that answers in text; its error is what the
// model is told.
func newTool[In any](name, does, schema string, hints tool.Hints, do func(context.Context, In) (string, error)) tool.Tool {
	return tool.Func{
		Described: tool.Spec{Server: "files", Name: name, Native: true, Description: does, Schema: json.RawMessage(schema), Hints: hints},
		Do: func(ctx context.Context, args json.RawMessage) (tool.Result, error) {
			var in In
			if err := json.Unmarshal(args, &in); err != nil {
				return tool.Failure(err.Error()), nil
			}
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
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
		names = append(names, quoteName(r.Name))
	}
	return strings.Join(names, ", ")
}

// location is a path within a root.
type location struct {
	root Root
	name string // as io/fs has it; "." is the root itself
}

// String is the path as people write it.
func (p location) String() string { return quoteName(path.Join(p.root.Name, p.name)) }

// maxPathBytes is how long a path or pattern may be, in bytes.
const maxPathBytes = 1024

// find reads a path. It goes up nowhere: os.Root would refuse that too, but not in
// words that help.
func (p *pack) find(written string) (location, error) {
	if len(written) > maxPathBytes {
		return location{}, fmt.Errorf("the path is longer than %d bytes", maxPathBytes)
	}
	if strings.ContainsRune(written, 0) {
		return location{}, errors.New("the path holds a NUL")
	}
	if err := rejectDotDot(written); err != nil {
		return location{}, err
	}
	first, rest, _ := strings.Cut(path.Clean(written), "/")
	for _, r := range p.roots {
		if r.Name == first {
			return location{r, cmp.Or(rest, ".")}, nil
		}
	}
	return location{}, fmt.Errorf("%s is outside of what may be reached: paths begin with one of %s", quoteName(written), p.rootNames())
}

func rejectDotDot(written string) error {
	if slices.Contains(strings.Split(strings.ReplaceAll(written, `\`, "/"), "/"), "..") {
		return fmt.Errorf("%s goes up with .., which no path may", quoteName(written))
	}
	return nil
}

// open opens the folder that a root is.
func (r Root) open() (*os.Root, error) {
	root, err := os.OpenRoot(r.Path)
	if err != nil {
		return nil, describeError("open", location{r, "."}, err)
	}
	return root, nil
}

// modelError is what the model is told. The chain of causes names places on this
// machine and stays behind.
type modelError struct {
	text  string
	cause error
}

func (f *modelError) Error() string { return f.text }
func (f *modelError) Unwrap() error { return f.cause }

// errKind is the cause where something is not of the kind that is wanted.
var errKind = errors.New("of another kind")

// describeError says what could not be done to a place, unless the error says so itself.
func describeError(what string, at location, err error) error {
	var in *fs.PathError
	var link *os.LinkError
	var known *modelError
	reason := err
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, fs.ErrNotExist):
		return &modelError{fmt.Sprintf("%s does not exist", at), err}
	case errors.Is(err, context.DeadlineExceeded):
		return &modelError{fmt.Sprintf("%s: that took longer than %s", at, callTimeout), err}
	case errors.As(err, &in):
		reason = in.Err
	case errors.As(err, &link):
		reason = link.Err
	}
	return &modelError{fmt.Sprintf("%s: the bot could not %s it: %v", at, what, reason), err}
}

// openFile is a regular file that is open for reading.
type openFile struct {
	*os.File
	info fs.FileInfo
}

// openText opens a regular file of text. What is no regular file is not opened: a
// pipe would wait, a device do something. Opening does not wait either, for the file
// may have become another since.
func openText(root *os.Root, p location) (openFile, error) {
	info, err := root.Stat(p.name)
	if err == nil {
		err = requireRegular(p, info)
	}
	if err != nil {
		return openFile{}, describeError("read", p, err)
	}
	f, err := root.OpenFile(p.name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return openFile{}, describeError("read", p, err)
	}
	if info, err = f.Stat(); err == nil {
		if err = requireRegular(p, info); err == nil {
			err = requireText(f, p, info)
		}
	}
	if err != nil {
		f.Close()
		return openFile{}, describeError("read", p, err)
	}
	return openFile{f, info}, nil
}

func requireRegular(p location, info fs.FileInfo) error {
	switch {
	case info.Mode().IsRegular():
		return nil
	case info.IsDir():
		return &modelError{fmt.Sprintf("%s is a folder; files_list shows what is in it", p), errKind}
	}
	return &modelError{fmt.Sprintf("%s is no regular file", p), errKind}
}

// maxSniffBytes is how much of a file tells whether it is text.
const maxSniffBytes = 8 << 10

// requireText refuses what is not.
func requireText(f io.ReaderAt, p location, info fs.FileInfo) error {
	start := make([]byte, maxSniffBytes)
	n, err := f.ReadAt(start, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if kind := binaryKind(start[:n]); kind != "" {
		return &modelError{fmt.Sprintf("%s is no text but %s of %s", p, kind, formatSize(info.Size())), errKind}
	}
	return nil
}

// binaryKind names what is no text; empty: it is.
func binaryKind(start []byte) string {
	kind, _, _ := strings.Cut(http.DetectContentType(start), ";")
	switch {
	case kind == "application/octet-stream", strings.HasPrefix(kind, "text/") && slices.Contains(start, 0):
		return "binary data"
	case strings.HasPrefix(kind, "text/"):
		return ""
	}
	return kind
}

func formatSize(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// quoteName is a name that cannot pass for another line or for more than a name.
func quoteName(name string) string {
	if utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return name
	}
	return strconv.Quote(name)
}
