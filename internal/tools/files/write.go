package files

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"ravenbot/internal/core/tool"
)

// maxWrittenBytes is the largest file that is written or edited.
const maxWrittenBytes = 1 << 20

type writeArgs struct{ Path, Text string }

// writeTool returns the tool that writes a file whole.
func (p *pack) writeTool() tool.Tool {
	yes, no := true, false
	return newTool(
		"write",
		"Writes a text file, in the place of one with that name. "+
			"Files may be written below: "+p.writable()+".",
		`{"type":"object","properties":{"path":{"type":"string","description":"the file, beginning with the name of `+
			`a root"},`+
			`"text":{"type":"string","description":"all of what it is to hold"}},"required":["path","text"]}`,
		tool.Hints{ReadOnly: &no, Destructive: &yes, Idempotent: &yes, OpenWorld: &no},
		p.write,
	)
}

type editArgs struct{ Path, Old, New string }

// editTool returns the tool that replaces a piece of a file.
func (p *pack) editTool() tool.Tool {
	yes, no := true, false
	return newTool(
		"edit",
		"Replaces a piece of a text file, which must stand in it exactly once. "+
			"Files may be edited below: "+p.writable()+".",
		`{"type":"object","properties":{"path":{"type":"string","description":"the file, beginning with the name of `+
			`a root"},`+
			`"old":{"type":"string","minLength":1,"description":"the piece as it stands in the file, with its blanks and `+
			`line breaks"},`+
			`"new":{"type":"string","description":"what takes its place"}},"required":["path","old","new"]}`,
		tool.Hints{ReadOnly: &no, Destructive: &yes, OpenWorld: &no},
		p.edit,
	)
}

// writable returns the names of the roots in which files may be written.
func (p *pack) writable() string {
	var names []string
	for _, r := range p.roots {
		if r.Write {
			names = append(names, quoteName(r.Name))
		}
	}
	return strings.Join(names, ", ")
}

// findWritable returns the location of a file that may be written.
func (p *pack) findWritable(written string) (location, error) {
	at, err := p.find(written)
	switch {
	case err != nil:
		return at, err
	case !at.root.Write:
		return at, fmt.Errorf("%s may only be read; files may be written below: %s", quoteName(at.root.Name), p.writable())
	case at.name == "." || strings.HasSuffix(written, "/"):
		return at, fmt.Errorf("%s is a folder, want a file", at)
	}
	return at, nil
}

// write writes a text file in one step: readers see the old one or the new one.
func (p *pack) write(_ context.Context, in writeArgs) (string, error) {
	at, err := p.findWritable(in.Path)
	if err != nil {
		return "", err
	}
	if len(in.Text) > maxWrittenBytes {
		return "", fmt.Errorf("the text has %s, and files of at most %s are written",
			formatSize(int64(len(in.Text))), formatSize(maxWrittenBytes))
	}
	root, err := at.root.open()
	if err != nil {
		return "", err
	}
	defer root.Close()
	// An edit that has read the old file must not replace it after this write.
	p.edits.Lock()
	defer p.edits.Unlock()
	// Lstat, so that replaceFile sees a link and refuses it.
	was, err := root.Lstat(at.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		was = nil
		if err := root.MkdirAll(path.Dir(at.name), 0o755); err != nil {
			return "", describeError("make a folder for", at, err)
		}
	case err != nil:
		return "", describeError("write", at, err)
	}
	if err := replaceFile(root, at, was, in.Text); err != nil {
		return "", err
	}
	if was != nil {
		return fmt.Sprintf("Written: %s, %s in the place of %s.", at, formatSize(int64(len(in.Text))),
			formatSize(was.Size())), nil
	}
	return fmt.Sprintf("Written: %s, a new file of %s.", at, formatSize(int64(len(in.Text)))), nil
}

// edit replaces a piece that stands in a file exactly once. Edits run one at a time, so that none is lost between
// reading and writing.
func (p *pack) edit(_ context.Context, in editArgs) (string, error) {
	at, err := p.findWritable(in.Path)
	if err != nil {
		return "", err
	}
	root, err := at.root.open()
	if err != nil {
		return "", err
	}
	defer root.Close()
	p.edits.Lock()
	defer p.edits.Unlock()
	was, err := root.Lstat(at.name)
	if err != nil {
		return "", describeError("edit", at, err)
	}
	// Read under the lock: what is replaced is what was read.
	now, err := readWhole(root, at)
	if err != nil {
		return "", err
	}
	next, line, err := replacePiece(at, now, in.Old, in.New)
	if err != nil {
		return "", err
	}
	if err := replaceFile(root, at, was, next); err != nil {
		return "", err
	}
	return fmt.Sprintf("Edited: %s at line %d.", at, line), nil
}

// replacePiece returns a text with a piece replaced, and the line where the piece was. The model sees results without
// carriage returns, so a piece may lack those of the file.
func replacePiece(at location, now, piece, with string) (next string, line int, err error) {
	if piece == "" {
		return "", 0, errors.New("the piece to replace is empty")
	}
	if !strings.Contains(now, piece) && strings.Contains(now, "\r\n") {
		// The first pair keeps a line end that is complete already from getting a second carriage return.
		crlf := strings.NewReplacer("\r\n", "\r\n", "\n", "\r\n")
		piece, with = crlf.Replace(piece), crlf.Replace(with)
	}
	before, after, found := strings.Cut(now, piece)
	switch {
	case !found:
		return "", 0, fmt.Errorf("%s does not hold this piece; files_read shows what it holds", at)
	// From the second byte of the piece on: occurrences that overlap leave open, too, which one is meant.
	case strings.Contains(now[len(before)+1:], piece):
		return "", 0, fmt.Errorf("%s holds this piece more than once; take in more of what stands around it", at)
	case len(now)-len(piece)+len(with) > maxWrittenBytes:
		return "", 0, fmt.Errorf("%s would be larger than %s", at, formatSize(maxWrittenBytes))
	}
	return before + with + after, 1 + strings.Count(before, "\n"), nil
}

// readWhole returns the content of a text file.
func readWhole(root *os.Root, at location) (string, error) {
	f, err := openText(root, at)
	if err != nil {
		return "", err
	}
	defer f.Close()
	all, err := io.ReadAll(io.LimitReader(f, maxWrittenBytes+1))
	if err != nil {
		return "", describeError("read", at, err)
	}
	if len(all) > maxWrittenBytes {
		return "", fmt.Errorf("%s is larger than %s", at, formatSize(maxWrittenBytes))
	}
	return string(all), nil
}

// replaceFile replaces the file was (nil: there is none) by one with this text. Readers see the old or the new file,
// never a part of one.
func replaceFile(root *os.Root, at location, was fs.FileInfo, text string) error {
	if was != nil {
		// The rename would replace the link itself by a file, and leave what it leads to as it was.
		if was.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s is a link; name the file that it leads to", at)
		}
		if err := requireRegular(at, was); err != nil {
			return err
		}
	}
	// In the same folder: a rename works only within one file system.
	beside := path.Join(path.Dir(at.name), ".ravenbot-"+rand.Text()+".tmp")
	err := createFile(root, beside, was, text)
	if err == nil {
		err = root.Rename(beside, at.name)
	}
	if err != nil {
		_ = root.Remove(beside) // it does not exist where it could not be created
		return describeError("write", at, err)
	}
	return nil
}

// createFile creates a file with the mode of was, and returns when its content is on disk.
func createFile(root *os.Root, name string, was fs.FileInfo, text string) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err = io.WriteString(f, text); err == nil && was != nil {
		// Not by OpenFile, whose mode the umask reduces.
		err = f.Chmod(was.Mode().Perm())
	}
	// Without Sync a crash after the rename could leave an empty file in the place of the old one.
	return errors.Join(err, f.Sync(), f.Close())
}
