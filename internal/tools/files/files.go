// Package files is the native tool pack for the operator's files: files_read, files_list and files_search and, in
// writable roots, files_write and files_edit. It promises that nothing outside the roots is read or written, for any
// path or link (os.Root); that the bot's own files are left out; that only regular files are opened; that every call
// is limited in files, bytes and time; that a file is replaced completely or not at all; and that paths begin with the
// name of the root and hide its location on the machine. Package policy decides who can call the tools.
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

	"ravenbot/internal/core/tool"
)

// Root is a folder that the tools may use. Paths begin with its Name.
type Root struct {
	Name  string // one path element, unique among the roots
	Path  string
	Write bool // files in it may be changed

	own *ownFiles
}

// Tools returns the tools of the pack: none without a root, only those that read where no root may be written to. A
// root is opened at each call, so that it need not exist yet. own are paths of the bot itself: they, what is below them
// and what is named after them is neither given out nor changed.
func Tools(roots []Root, own []string) []tool.Tool {
	if len(roots) == 0 {
		return nil
	}
	p := &pack{roots: slices.Clone(roots)}
	for i := range p.roots {
		p.roots[i].own = newOwnFiles(own)
	}
	list := []tool.Tool{p.readTool(), p.listTool(), p.searchTool()}
	if slices.ContainsFunc(roots, func(r Root) bool { return r.Write }) {
		list = append(list, p.writeTool(), p.editTool())
	}
	return list
}

type pack struct {
	roots []Root
	edits sync.Mutex // held from reading a file to replacing it, so that no edit is lost
}

// callTimeout is how long a call may take.
const callTimeout = 10 * time.Second

// newTool returns a tool of a function that returns text. The model sees the text of its error.
func newTool[In any](
	name, does, schema string,
	hints tool.Hints,
	do func(context.Context, In) (string, error),
) tool.Tool {
	return tool.Func{
		Described: tool.Spec{
			Server:      "files",
			Name:        name,
			Native:      true,
			Description: does,
			Schema:      json.RawMessage(schema),
			Hints:       hints,
		},
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

// readOnly returns the hints of tools that change nothing and reach nothing outside of the folders.
func readOnly() tool.Hints {
	yes, no := true, false
	return tool.Hints{ReadOnly: &yes, OpenWorld: &no}
}

// rootNames returns the names of all roots.
func (p *pack) rootNames() string {
	var names []string
	for _, r := range p.roots {
		names = append(names, quoteName(r.Name))
	}
	return strings.Join(names, ", ")
}

// location is a file or folder in a root.
type location struct {
	root Root
	name string // in the form of io/fs; "." is the root itself
}

// String returns the path as people write it.
func (p location) String() string { return quoteName(path.Join(p.root.Name, p.name)) }

// maxPathBytes limits a path or pattern.
const maxPathBytes = 1024

// find returns the location of a path. It refuses paths with "..": os.Root would too, but with an error that does not
// help.
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
	// Cleaned before it is cut, so that "./docs/a" and "docs//a" mean the same file as "docs/a".
	first, rest, _ := strings.Cut(path.Clean(written), "/")
	for _, r := range p.roots {
		if r.Name == first {
			at := location{r, cmp.Or(rest, ".")}
			return at, r.own.refuse(at)
		}
	}
	return location{}, fmt.Errorf("%s is outside of what may be reached: paths begin with one of %s",
		quoteName(written), p.rootNames())
}

// rejectDotDot returns an error for paths with ".." in them, also where they are written with backslashes.
func rejectDotDot(written string) error {
	if slices.Contains(strings.Split(strings.ReplaceAll(written, `\`, "/"), "/"), "..") {
		return fmt.Errorf("%s goes up with .., which no path may", quoteName(written))
	}
	return nil
}

// open opens the folder of a root.
func (r Root) open() (*os.Root, error) {
	root, err := os.OpenRoot(r.Path)
	if err != nil {
		return nil, describeError("open", location{r, "."}, err)
	}
	return root, nil
}

// modelError is an error with a text for the model. The text of its cause may name paths of this machine, so it is not
// shown.
type modelError struct {
	text  string
	cause error
}

func (f *modelError) Error() string { return f.text }
func (f *modelError) Unwrap() error { return f.cause }

// errKind is the cause of errors about files of the wrong kind.
var errKind = errors.New("of another kind")

// describeError returns an error for the model that says what could not be done. Errors that are for the model already
// are returned as they are.
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
	// The cause alone: the whole text may name paths of this machine.
	case errors.As(err, &in):
		reason = in.Err
	case errors.As(err, &link):
		reason = link.Err
	}
	return &modelError{fmt.Sprintf("%s: the bot could not %s it: %v", at, what, reason), err}
}

// openFile is an open regular file.
type openFile struct {
	*os.File
	info fs.FileInfo
}

// openText opens a regular file of text. Others are not opened: a pipe would block, and opening a device may have an
// effect. O_NONBLOCK, since the file may be replaced by a pipe between the check and the opening.
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
	// Checked again on what is open now, which may be another file than the one that was looked at before.
	if info, err = f.Stat(); err == nil {
		if err = requireRegular(p, info); err == nil && p.root.own.isOwn(info) {
			err = describeOwn(p)
		}
		if err == nil {
			err = requireText(f, p, info)
		}
	}
	if err != nil {
		f.Close()
		return openFile{}, describeError("read", p, err)
	}
	return openFile{f, info}, nil
}

// requireRegular returns an error unless info is that of a regular file.
func requireRegular(p location, info fs.FileInfo) error {
	switch {
	case info.Mode().IsRegular():
		return nil
	case info.IsDir():
		return &modelError{fmt.Sprintf("%s is a folder; files_list shows what is in it", p), errKind}
	}
	return &modelError{fmt.Sprintf("%s is not a regular file", p), errKind}
}

// maxSniffBytes is how much of a file is read to decide whether it is text.
const maxSniffBytes = 8 << 10

// requireText returns an error when the file is not text.
func requireText(f io.ReaderAt, p location, info fs.FileInfo) error {
	start := make([]byte, maxSniffBytes)
	n, err := f.ReadAt(start, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if kind := binaryKind(start[:n]); kind != "" {
		return &modelError{fmt.Sprintf("%s is not text but %s of %s", p, kind, formatSize(info.Size())), errKind}
	}
	return nil
}

// binaryKind returns the kind of a file that is not text, or "" for text.
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

// formatSize returns a number of bytes as people write it.
func formatSize(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// quoteName returns a name, quoted where it has characters that could make it look like something else.
func quoteName(name string) string {
	if utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return name
	}
	return strconv.Quote(name)
}
