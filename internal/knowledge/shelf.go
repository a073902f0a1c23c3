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
	MaxFile   = 10 << 20 // bytes of one file
	mostFiles = 500      // of one agent
	readTime  = 60 * time.Second
	// young is how long after a change another one may leave size and time as they were.
	young = 2 * time.Second
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

// shelf is what one agent knows.
type shelf struct {
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

// place is where a file is, and under which name it is known.
type place struct {
	name, path string
	uploaded   bool
}

// current gives the index of what an agent's files say now, and the bytes of it.
func (b *Base) current(ctx context.Context, agent string, named []string) (*passageIndex, int) {
	s := b.shelf(agent)
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	b.refresh(ctx, s, b.places(agent, named))
	return s.index, s.size
}

// refresh reads what has changed. s.mu is held.
func (b *Base) refresh(ctx context.Context, s *shelf, places []place) {
	changed := len(places) != len(s.files)
	now := map[string]*file{}
	for _, p := range places {
		before := s.files[p.path]
		now[p.path] = b.look(ctx, p, before)
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
	all = all[:min(len(all), mostPassages)]
	for _, p := range all {
		s.size += len(p.text)
	}
	s.index = newPassageIndex(all)
}

// look gives a file as it is now: as it was before, where nothing has changed.
func (b *Base) look(ctx context.Context, p place, before *file) *file {
	if info, err := os.Stat(p.path); err == nil && before != nil && before.Hash != "" && before.Name == p.name &&
		before.Bytes == info.Size() && before.Changed.Equal(info.ModTime()) && before.read.Sub(before.Changed) > young {
		return before
	}
	f := &file{File: File{Name: p.name, Uploaded: p.uploaded}, read: time.Now()}
	data, info, err := load(p.path)
	if err == nil {
		sum := sha256.Sum256(data)
		f.Bytes, f.Changed, f.Hash = info.Size(), info.ModTime(), hex.EncodeToString(sum[:])
		if before != nil && before.Hash == f.Hash && before.Name == p.name {
			f.Passages, f.Err, f.passages = before.Passages, before.Err, before.passages
			return f
		}
		var parts []section
		if parts, err = sections(ctx, p.name, data, b.o.PDF); ctx.Err() != nil {
			f.Hash = "" // there was no time: it is tried again
		}
		f.passages = passages(p.name, parts)
		f.Passages = len(f.passages)
	}
	if f.Err = err; err != nil && (before == nil || before.Err == nil) {
		b.o.Log.Warn("file of an agent not read", "file", p.name, "error", err)
	}
	return f
}

func load(path string) ([]byte, fs.FileInfo, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, nil, plain(err)
	case !info.Mode().IsRegular():
		return nil, nil, errors.New("it is no file")
	case info.Size() > MaxFile:
		return nil, nil, fmt.Errorf("it is larger than %d MiB", MaxFile>>20)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, plain(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err == nil && len(data) > MaxFile {
		err = fmt.Errorf("it is larger than %d MiB", MaxFile>>20)
	}
	return data, info, err
}

// plain takes the path out of an error.
func plain(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("%s the file: %w", path.Op, path.Err)
	}
	return err
}

// places finds the files of an agent: those uploaded, and those named, which may be
// folders.
func (b *Base) places(agent string, named []string) []place {
	var list []place
	entries, err := os.ReadDir(b.folder(agent))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.o.Log.Warn("files of an agent not listed", "agent", agent, "error", err)
	}
	for _, e := range entries {
		if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), ".") {
			list = append(list, place{e.Name(), filepath.Join(b.folder(agent), e.Name()), true})
		}
	}
	for _, root := range named {
		list = append(list, below(root)...)
	}
	slices.SortStableFunc(list, func(x, y place) int { return cmp.Compare(x.name, y.name) })
	seen := map[string]bool{}
	list = slices.DeleteFunc(list, func(p place) bool {
		again := seen[p.path]
		seen[p.path] = true
		return again
	})
	return list[:min(len(list), mostFiles)]
}

// below gives a file, or those of a folder that are of a kind that is read; hidden ones
// are left out.
func below(root string) []place {
	info, err := os.Stat(root)
	if err != nil || !info.IsDir() {
		return []place{{filepath.Base(root), root, false}}
	}
	var list []place
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error { // what cannot be listed is left out
		switch {
		case err != nil:
			return nil
		case path != root && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.Type().IsRegular() && kindOf(path) != "":
			name, err := filepath.Rel(root, path)
			if err == nil {
				list = append(list, place{filepath.ToSlash(name), path, false})
			}
			if len(list) >= mostFiles {
				return fs.SkipAll
			}
		}
		return nil
	})
	return list
}

// Has reports whether an agent has any file.
func (b *Base) Has(agent string, named []string) bool {
	return len(named) > 0 || len(b.places(agent, nil)) > 0
}

// Files lists the files of an agent.
func (b *Base) Files(ctx context.Context, agent string, named []string) []File {
	b.current(ctx, agent, named)
	s := b.shelf(agent)
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
func (b *Base) folder(agent string) string {
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
	case kindOf(name) == "":
		return BadFile{fmt.Sprintf("%.80s: %v", name, errKind)}
	}
	return nil
}

// Put keeps an uploaded file, in the place of one of that name. Readers see the old one
// or the new one whole. One that cannot be read is not kept: BadFile.
func (b *Base) Put(ctx context.Context, agent, name string, data []byte) error {
	if err := checkName(name); err != nil {
		return err
	}
	if len(data) > MaxFile {
		return BadFile{fmt.Sprintf("%.80s is larger than %d MiB", name, MaxFile>>20)}
	}
	if err := b.readable(ctx, name, data); err != nil {
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

// readable says why there is nothing to know from a file.
func (b *Base) readable(ctx context.Context, name string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	parts, err := sections(ctx, name, data, b.o.PDF)
	if err == nil && len(passages(name, parts)) == 0 {
		err = errors.New("it holds no text")
	}
	if err != nil {
		return BadFile{fmt.Sprintf("%.80s is not kept: %v", name, err)}
	}
	return nil
}

// Open gives an uploaded file; fs.ErrNotExist: there is none.
func (b *Base) Open(agent, name string) (*os.File, error) {
	if checkName(name) != nil {
		return nil, fs.ErrNotExist
	}
	return os.Open(filepath.Join(b.folder(agent), name))
}

// Delete removes an uploaded file; fs.ErrNotExist: there is none.
func (b *Base) Delete(agent, name string) error {
	if checkName(name) != nil {
		return fs.ErrNotExist
	}
	return os.Remove(filepath.Join(b.folder(agent), name))
}

// Forget removes all that was uploaded for an agent.
func (b *Base) Forget(agent string) error {
	b.mu.Lock()
	delete(b.shelves, agent)
	b.mu.Unlock()
	return os.RemoveAll(b.folder(agent))
}
