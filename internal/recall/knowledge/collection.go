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

	"ravenbot/internal/core/text"
	"ravenbot/internal/recall/document"
)

// Limits of files.
const (
	maxFile     = 10 << 20 // bytes of one file
	maxFiles    = 500      // of one agent
	readTimeout = 60 * time.Second
	// slowRead is from when on a file that could not be read in time counts as slow. A slow one is read again after
	// slowPause, or when it has changed: each question to its agent would else wait for it.
	slowRead  = 10 * time.Second
	slowPause = 10 * time.Minute
	// maxClockStep is how long after a change another one may leave the time of the file as it was: some file systems
	// count in steps of two seconds.
	maxClockStep = 2 * time.Second
)

// File describes a file of an agent.
type File struct {
	Name     string
	Bytes    int64
	Hash     string // SHA-256
	Changed  time.Time
	Uploaded bool
	Passages int
	Err      error // why it could not be read
}

// collection is the files of one agent. Its fields are guarded by mu; an index that was handed out is never changed.
type collection struct {
	mu    sync.Mutex       // held while files are read, so that concurrent questions read each file once
	files map[string]*file // by path
	index *passageIndex
	size  int // bytes of all passages
}

// file is a file with its passages when it was last read.
type file struct {
	File
	read     time.Time
	retry    time.Time // when a slow one is read again
	passages []passage
}

// location is the path of a file and the name under which it is shown.
type location struct {
	name, path string
	uploaded   bool
}

// refreshed returns the index of an agent's files after reading those that have changed, and the size of their text.
func (r *Repository) refreshed(ctx context.Context, agent string, named []string) (*passageIndex, int) {
	s := r.collection(agent)
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r.refresh(ctx, s, r.findFiles(agent, named))
	return s.index, s.size
}

// refresh reads the files that have changed. s.mu is held.
func (r *Repository) refresh(ctx context.Context, s *collection, places []location) {
	changed := len(places) != len(s.files)
	now := map[string]*file{}
	for _, p := range places {
		before := s.files[p.path]
		now[p.path] = r.readFile(ctx, p, before)
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

// readFile returns the current state of a file: before, where nothing has changed. A file that cannot be read is
// returned with its error, which is logged once.
func (r *Repository) readFile(ctx context.Context, p location, before *file) *file {
	if info, err := os.Stat(p.path); err == nil && before != nil && before.Name == p.name &&
		before.Bytes == info.Size() && before.Changed.Equal(info.ModTime()) &&
		(before.Hash != "" && before.read.Sub(before.Changed) > maxClockStep || time.Now().Before(before.retry)) {
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
		if parts, err = splitSections(ctx, p.name, data, r.o.Documents); ctx.Err() != nil {
			f.Hash = "" // the time was up: without a hash it is read again at the next question
			// Whoever comes behind a slow file has had no time of its own, and is read then.
			if time.Since(f.read) >= slowRead {
				f.retry, err = time.Now().Add(slowPause), errSlow
			}
		}
		f.passages = splitPassages(p.name, parts)
		f.Passages = len(f.passages)
	}
	if f.Err = err; err != nil && (before == nil || before.Err == nil) {
		r.o.Log.Warn("failed to read a file of an agent", "file", p.name, "error", err)
	}
	return f
}

var errSlow = fmt.Errorf("it takes too long to read; it is tried again in %.0f minutes, or when it has changed",
	slowPause.Minutes())

// readRegularFile returns the content of a regular file of at most MaxFile bytes.
func readRegularFile(path string) ([]byte, fs.FileInfo, error) {
	// Before the file is opened: opening a pipe would block, with the lock of the agent's files held.
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, nil, withoutPath(err)
	case !info.Mode().IsRegular():
		return nil, nil, errors.New("it is not a file")
	case info.Size() > maxFile:
		return nil, nil, fmt.Errorf("it is larger than %d MiB", maxFile>>20)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, withoutPath(err)
	}
	defer func() { _ = f.Close() }() // nothing was written, so closing loses nothing
	// The file may have grown since its size was read.
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("it is larger than %d MiB", maxFile>>20)
	}
	return data, info, err
}

// withoutPath removes the path from an error, which users must not see.
func withoutPath(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("%s the file: %w", path.Op, path.Err)
	}
	return err
}

// findFiles returns the locations of the files of an agent: those uploaded, and those named, which may be folders.
func (r *Repository) findFiles(agent string, named []string) []location {
	list := r.uploads(agent)
	for _, root := range named {
		list = append(list, filesIn(root)...)
	}
	// The sort is stable, so that of two files with one name the uploaded one comes first.
	slices.SortStableFunc(list, func(x, y location) int { return cmp.Compare(x.name, y.name) })
	// The operator may name a folder and a file in it, whose passages would be found twice.
	seen := map[string]bool{}
	list = slices.DeleteFunc(list, func(p location) bool {
		again := seen[p.path]
		seen[p.path] = true
		return again
	})
	return list[:min(len(list), maxFiles)]
}

// uploads returns the locations of the uploaded files of an agent.
func (r *Repository) uploads(agent string) []location {
	var list []location
	entries, err := os.ReadDir(r.folder(agent))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.o.Log.Warn("failed to list the files of an agent", "agent", agent, "error", err)
	}
	for _, e := range entries {
		if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), ".") {
			list = append(list, location{e.Name(), filepath.Join(r.folder(agent), e.Name()), true})
		}
	}
	return list
}

// filesIn returns the location of a file or, for a folder, those of all files in it that can be read. Hidden files and
// folders are skipped.
func filesIn(root string) []location {
	info, err := os.Stat(root)
	if err != nil || !info.IsDir() {
		return []location{{filepath.Base(root), root, false}}
	}
	var list []location
	// A folder that cannot be listed is skipped, so that no error is left to return.
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil
		case path != root && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.Type().IsRegular() && document.Reads(path, ""):
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
func (r *Repository) HasFiles(agent string, named []string) bool {
	return len(named) > 0 || len(r.uploads(agent)) > 0
}

// Files returns the files of an agent by name, those that could not be read with their error.
func (r *Repository) Files(ctx context.Context, agent string, named []string) []File {
	r.refreshed(ctx, agent, named)
	s := r.collection(agent)
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []File{}
	for _, path := range slices.Sorted(maps.Keys(s.files)) {
		list = append(list, s.files[path].File)
	}
	slices.SortStableFunc(list, func(x, y File) int { return cmp.Compare(x.Name, y.Name) })
	return list
}

// folder returns the folder of the uploaded files of an agent. Where the name of the agent cannot be the name of a
// folder, a hash of it is used.
func (r *Repository) folder(agent string) string {
	// Names with = are hashed as well, so that no agent is named like the folder of another one.
	if strings.ContainsAny(agent, "/\\:=") || strings.HasPrefix(agent, ".") || !filepath.IsLocal(agent) {
		sum := sha256.Sum256([]byte(agent))
		agent = "=" + hex.EncodeToString(sum[:12])
	}
	return filepath.Join(r.o.Folder, agent)
}

// BadFile is an error in the content or name of an uploaded file, in words for whoever uploaded it.
type BadFile struct{ reason string }

// Error returns the reason.
func (e BadFile) Error() string { return e.reason }

// BadInput marks the error as a mistake of the caller.
func (BadFile) BadInput() bool { return true }

// checkName returns a BadFile for names that are not allowed: those that would leave the folder, or that are not
// valid on every system, and kinds of files that are not read.
func checkName(name string) error {
	switch {
	case name == "" || len(name) > 200 || text.Clean(name) != name || strings.ContainsAny(name, "/\\:*?\"<>|\n\t") ||
		strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") || strings.TrimSpace(name) != name ||
		!filepath.IsLocal(name):
		return BadFile{fmt.Sprintf("the name %.80q will not do: want one such as handbook.pdf", name)}
	case !document.Reads(name, ""):
		return BadFile{fmt.Sprintf("%.80s: %v", name, document.ErrKind)}
	}
	return nil
}

// Put stores an uploaded file, and replaces one of the same name. Readers see the old or the new file, never a part of
// one. It returns BadFile, and stores nothing, when the file cannot be read; other errors are those of the disk or the
// store.
func (r *Repository) Put(ctx context.Context, agent, name string, data []byte) error {
	if err := checkName(name); err != nil {
		return err
	}
	if len(data) > maxFile {
		return BadFile{fmt.Sprintf("%.80s is larger than %d MiB", name, maxFile>>20)}
	}
	if err := r.checkReadable(ctx, name, data); err != nil {
		return err
	}
	r.copying.Lock()
	defer r.copying.Unlock()
	// The store first: after a crash in between, Restore would replace the new file here by the old one of the store.
	if r.o.Copies != nil {
		if err := r.o.Copies.save(ctx, agent, name, data); err != nil {
			return err
		}
	}
	return r.writeFile(agent, name, data)
}

// writeFile writes an uploaded file, whole or not at all. r.copying is held.
func (r *Repository) writeFile(agent, name string, data []byte) error {
	folder := r.folder(agent)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("keep a file: %w", err)
	}
	// The file is complete and on disk before it gets its name. Hidden names are not listed.
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

// checkReadable returns a BadFile when no text can be read from a file.
func (r *Repository) checkReadable(ctx context.Context, name string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	parts, err := splitSections(ctx, name, data, r.o.Documents)
	if err == nil && len(splitPassages(name, parts)) == 0 {
		err = errors.New("it holds no text")
	}
	if err != nil {
		return BadFile{fmt.Sprintf("%.80s is not kept: %v", name, err)}
	}
	return nil
}

// Open opens an uploaded file, which the caller closes. It returns fs.ErrNotExist when there is none.
func (r *Repository) Open(agent, name string) (*os.File, error) {
	if checkName(name) != nil {
		return nil, fs.ErrNotExist
	}
	return os.Open(filepath.Join(r.folder(agent), name))
}

// Delete removes an uploaded file. It returns fs.ErrNotExist when there is none.
func (r *Repository) Delete(ctx context.Context, agent, name string) error {
	if checkName(name) != nil {
		return fs.ErrNotExist
	}
	r.copying.Lock()
	defer r.copying.Unlock()
	// The store first, because Restore brings back what only this machine has deleted.
	if r.o.Copies != nil {
		if err := r.o.Copies.delete(ctx, agent, name); err != nil {
			return err
		}
	}
	err := os.Remove(filepath.Join(r.folder(agent), name))
	if err == nil {
		r.o.Meaning.Forget(ctx, meaningKind+"/"+agent)
	}
	return err
}

// DeleteAll removes all files that were uploaded for an agent.
func (r *Repository) DeleteAll(ctx context.Context, agent string) error {
	r.copying.Lock()
	defer r.copying.Unlock()
	if r.o.Copies != nil {
		// One by one: other machines delete theirs by the record of each deletion. The store first, as in Delete.
		for _, p := range r.uploads(agent) {
			if err := r.o.Copies.delete(ctx, agent, p.name); err != nil {
				return err
			}
		}
	}
	r.mu.Lock()
	delete(r.collections, agent)
	r.mu.Unlock()
	err := os.RemoveAll(r.folder(agent))
	if err == nil {
		r.o.Meaning.Forget(ctx, meaningKind+"/"+agent)
	}
	return err
}
