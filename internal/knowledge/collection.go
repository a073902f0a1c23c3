package knowledge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/text"
)

// Limits of what is read.
const (
	MaxFile     = 10 << 20 // bytes of one file
	maxFiles    = 500      // of one agent
	readTimeout = 60 * time.Second
	// maxClockStep is how long after a change another one may leave size and time as they were.
	maxClockStep = 2 * time.Second
)

// File is a file that an agent knows, or should.
type File struct {
	Name     string
	Bytes    int64
	Hash     string // SHA-256
	Changed  time.Time
	Uploaded bool
	Passages int
	Err      error // why it is not known
}

// collection is what one agent knows.
type collection struct {
	mu    sync.Mutex
	files map[string]*file // by path
	index *passageIndex
	size  int // bytes of all passages
}

// file is a file as it was read last.
type file struct {
	File
	read     time.Time
	passages []passage
}

// location is where a file is, and under which name it is known.
type location struct {
	name, path string
	uploaded   bool
}

// refreshed gives the index of what an agent's files say now, and the bytes of it.
func (b *Repository) refreshed(ctx context.Context, agent string, named []string) (*passageIndex, int) {
	s := b.collection(agent)
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	b.refresh(ctx, s, b.findFiles(agent, named))
	return s.index, s.size
}

// refresh reads what has changed. s.mu is held.
func (b *Repository) refresh(ctx context.Context, s *collection, places []location) {
	changed := len(places) != len(s.files)
	now := map[string]*file{}
	for _, p := range places {
		before := s.files[p.path]
		now[p.path] = b.readFile(ctx, p, before)
		changed = changed || before == nil || now[p.path].Hash != before.Hash || now[p.path].Name != before.Name
	}
	if s.files = now; !changed {
		return
	}
	var all []passage
	s.size = 0
	for _, p := range places {
		all = append(all, now[p.path].passages...)
	}
	all = all[:min(len(all), maxPassages)]
	for _, p := range all {
		s.size += len(p.text)
	}
	s.index = newPassageIndex(all)
}

// readFile gives a file as it is now: as it was before, where nothing has changed.
func (b *Repository) readFile(ctx context.Context, p location, before *file) *file {
	if info, err := os.Stat(p.path); err == nil && before != nil && before.Hash != "" && before.Name == p.name &&
		before.Bytes == info.Size() && before.Changed.Equal(info.ModTime()) && before.read.Sub(before.Changed) > maxClockStep {
		return before
	}
	f := &file{File: File{Name: p.name, Uploaded: p.uploaded}, read: time.Now()}
	data, info, err := readRegularFile(p.path)
	if err == nil {
		sum := sha256.Sum256(data)
		f.Bytes, f.Changed, f.Hash = info.Size(), info.ModTime(), hex.EncodeToString(sum[:])
		if before != nil && before.Hash == f.Hash && before.Name == p.name {
			f.Passages, f.Err, f.passages = before.Passages, before.Err, before.passages
			return f
		}
		var parts []section
		if parts, err = splitSections(ctx, p.name, data, b.o.PDF); ctx.Err() != nil {
			f.Hash = "" // there was no time: it is tried again
		}
		f.passages = splitPassages(p.name, parts)
		f.Passages = len(f.passages)
	}
	if f.Err = err; err != nil && (before == nil || before.Err == nil) {
		b.o.Log.Warn("file of an agent not read", "file", p.name, "error", err)
	}
	return f
}

func readRegularFile(path string) ([]byte, fs.FileInfo, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, nil, withoutPath(err)
	case !info.Mode().IsRegular():
		return nil, nil, errors.New("it is no file")
	case info.Size() > MaxFile:
		return nil, nil, fmt.Errorf("it is larger than %d MiB", MaxFile>>20)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, withoutPath(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err == nil && len(data) > MaxFile {
		err = fmt.Errorf("it is larger than %d MiB", MaxFile>>20)
	}
	return data, info, err
}

// withoutPath takes the path out of an error.
func withoutPath(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("%s the file: %w", path.Op, path.Err)
	}
	return err
}

// findFiles finds the files of an agent: those uploaded, and those named, which may be
// folders.
func (b *Repository) findFiles(agent string, named []string) []location {
	var list []location
	entries, err := os.ReadDir(b.folder(agent))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.o.Log.Warn("files of an agent not listed", "agent", agent, "error", err)
	}
	for _, e := range entries {
		if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), ".") {
			list = append(list, location{e.Name(), filepath.Join(b.folder(agent), e.Name()), true})
		}
	}
	for _, root := range named {
		list = append(list, filesIn(root)...)
	}
	slices.SortStableFunc(list, func(x, y location) int { return cmp.Compare(x.name, y.name) })
	seen := map[string]bool{}
	list = slices.DeleteFunc(list, func(p location) bool {
		again := seen[p.path]
		seen[p.path] = true
		return again
	})
	return list[:min(len(list), maxFiles)]
}

// filesIn gives a file, or those of a folder that are of a kind that is read; hidden ones
// are left out.
func filesIn(root string) []location {
	info, err := os.Stat(root)
	if err != nil || !info.IsDir() {
		return []location{{filepath.Base(root), root, false}}
	}
	var list []location
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error { // what cannot be listed is left out
		switch {
		case err != nil:
			return nil
		case path != root && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.Type().IsRegular() && fileKind(path) != "":
			name, err := filepath.Rel(root, path)
			if err == nil {
				list = append(list, location{filepath.ToSlash(name), path, false})
			}
			if len(list) >= maxFiles {
				return fs.SkipAll
			}
		}
		return nil
	})
	return list
}

// HasFiles reports whether an agent has any file.
func (b *Repository) HasFiles(agent string, named []string) bool {
	return len(named) > 0 || len(b.findFiles(agent, nil)) > 0
}

// Files lists the files of an agent.
func (b *Repository) Files(ctx context.Context, agent string, named []string) []File {
	b.refreshed(ctx, agent, named)
	s := b.collection(agent)
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []File{}
	for _, path := range slices.Sorted(maps.Keys(s.files)) {
		list = append(list, s.files[path].File)
	}
	slices.SortStableFunc(list, func(x, y File) int { return cmp.Compare(x.Name, y.Name) })
	return list
}

// folder is where the files of an agent are. One whose name is none for a folder has
// one of a hash.
func (b *Repository) folder(agent string) string {
	if strings.ContainsAny(agent, "/\\:=") || strings.HasPrefix(agent, ".") || !filepath.IsLocal(agent) {
		sum := sha256.Sum256([]byte(agent))
		agent = "=" + hex.EncodeToString(sum[:12])
	}
	return filepath.Join(b.o.Folder, agent)
}

// BadFile says what is wrong with a file, or its name.
type BadFile struct{ reason string }

// Error tells it.
func (e BadFile) Error() string { return e.reason }

// BadInput says whose fault it is.
func (BadFile) BadInput() bool { return true }

// checkName lets pass names that stay in their folder on every system.
func checkName(name string) error {
	switch {
	case name == "" || len(name) > 200 || text.Clean(name) != name || strings.ContainsAny(name, "/\\:*?\"<>|\n\t") ||
		strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") || strings.TrimSpace(name) != name || !filepath.IsLocal(name):
		return BadFile{fmt.Sprintf("the name %.80q will not do: want one such as handbook.pdf", name)}
	case fileKind(name) == "":
		return BadFile{fmt.Sprintf("%.80s: %v", name, errKind)}
	}
	return nil
}

// Put keeps an uploaded file, in the place of one of that name. Readers see the old one
// or the new one whole. One that cannot be read is not kept: BadFile.
func (b *Repository) Put(ctx context.Context, agent, name string, data []byte) error {
	if err := checkName(name); err != nil {
		return err
	}
	if len(data) > MaxFile {
		return BadFile{fmt.Sprintf("%.80s is larger than %d MiB", name, MaxFile>>20)}
	}
	if err := b.checkReadable(ctx, name, data); err != nil {
		return err
	}
	folder := b.folder(agent)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("keep a file: %w", err)
	}
	f, err := os.CreateTemp(folder, ".new-*")
	if err != nil {
		return fmt.Errorf("keep a file: %w", err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(folder, name))
	}
	if err != nil {
		return fmt.Errorf("keep a file: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// checkReadable says why there is nothing to know from a file.
func (b *Repository) checkReadable(ctx context.Context, name string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	parts, err := splitSections(ctx, name, data, b.o.PDF)
	if err == nil && len(splitPassages(name, parts)) == 0 {
		err = errors.New("it holds no text")
	}
	if err != nil {
		return BadFile{fmt.Sprintf("%.80s is not kept: %v", name, err)}
	}
	return nil
}

// Open gives an uploaded file; fs.ErrNotExist: there is none.
func (b *Repository) Open(agent, name string) (*os.File, error) {
	if checkName(name) != nil {
		return nil, fs.ErrNotExist
	}
	return os.Open(filepath.Join(b.folder(agent), name))
}

// Delete removes an uploaded file; fs.ErrNotExist: there is none.
func (b *Repository) Delete(agent, name string) error {
	if checkName(name) != nil {
		return fs.ErrNotExist
	}
	return os.Remove(filepath.Join(b.folder(agent), name))
}

// DeleteAll removes all that was uploaded for an agent.
func (b *Repository) DeleteAll(agent string) error {
	b.mu.Lock()
	delete(b.collections, agent)
	b.mu.Unlock()
	return os.RemoveAll(b.folder(agent))
}
