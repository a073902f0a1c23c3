package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"ravenbot/internal/ops/config"
	"ravenbot/internal/store"
)

// overwriteFlag adds --overwrite, for commands that write a file.
func overwriteFlag(c *invocation) {
	c.flags.Bool("overwrite", false, "take the place of a FILE that is there")
}

// checkOverwrite returns the configuration, unless a file is there already and --overwrite was not given, or the file
// is the store.
func (c *invocation) checkOverwrite(file string) (*config.Config, error) {
	_, err := os.Lstat(file)
	there := !errors.Is(err, fs.ErrNotExist)
	if there && !c.flagOn("overwrite") {
		return nil, errors.Join(err, fmt.Errorf("%s exists already: name another file, or use --overwrite", file))
	}
	cfg, err := c.loadConfig()
	if err == nil && there && isSameFile(file, cfg.Store.Reveal()) {
		err = usageErrorf("%s is the store itself: name another file", file)
	}
	return cfg, err
}

// isSameFile reports whether two paths lead to the same file.
func isSameFile(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

// checkOutput returns the configuration, unless writeOutput could not write the file: its folder is missing, or see
// checkOverwrite.
func (c *invocation) checkOutput(file string) (*config.Config, error) {
	if isStandardOutput(file) {
		return c.loadConfig()
	}
	if _, err := os.Stat(filepath.Dir(file)); err != nil {
		return nil, fmt.Errorf("write %s: %w", file, err)
	}
	return c.checkOverwrite(file)
}

// isStandardOutput reports whether the name of a file, which may be missing, stands for standard output.
func isStandardOutput(file string) bool { return file == "" || file == "-" }

// writeOutput writes a stream to standard output, or to a file, which gets its name only when all of it is there. Until
// then it is in a file of its own beside it, which is removed after an error. The file may hold secrets, so others may
// not read it. A file that has come to be there since checkOutput is replaced with --overwrite alone.
func (c *invocation) writeOutput(file string, r io.Reader) error {
	if isStandardOutput(file) {
		_, err := io.Copy(c.Out, r)
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*") // mode 0600
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("write %s: %w", file, path.Err) // the name that was tried says nothing
	}
	if err != nil {
		return err
	}
	size, err := io.Copy(f, r)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = renameFile(f.Name(), file, c.flagOn("overwrite"))
	}
	if err != nil {
		_ = os.Remove(f.Name()) // or it is gone
		return err
	}
	if err := store.SyncFolder(filepath.Dir(file)); err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "%s is written, %d bytes.\n", file, size)
	return nil
}

// renameFile is os.Rename, but returns an error that wraps fs.ErrExist where it may not overwrite a file that is there.
func renameFile(from, to string, overwrite bool) error {
	if !overwrite {
		// Unlike a rename, a link fails where the name is taken.
		err := os.Link(from, to)
		if err == nil || errors.Is(err, fs.ErrExist) {
			return errors.Join(err, os.Remove(from))
		}
		// A file system without hard links.
	}
	return os.Rename(from, to)
}
