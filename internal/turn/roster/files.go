package roster

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
	"time"

	"ravenbot/internal/recall/knowledge"
)

// ErrNoFile says that an agent has no such file.
var ErrNoFile = errors.New("there is no such file")

// File is a file that an agent knows, as the API and the dashboard show it.
type File struct {
	Name     string    `json:"name"`
	Bytes    int64     `json:"bytes"`
	Hash     string    `json:"sha256,omitempty"`
	Changed  time.Time `json:"changed,omitzero"`
	Source   string    `json:"source"`          // FromAPI: uploaded; FromConfig: named by the agent
	Passages int       `json:"passages"`        // that it was cut into
	Error    string    `json:"error,omitempty"` // why it is not known
}

// Files are the files that agents know. Errors are ErrNotFound, ErrNoFile, and those of
// knowledge.Repository.
type Files struct{ *Roster }

// List returns the files of an agent, sorted by name, including the files named in its entry.
func (f Files) List(agent string) ([]File, error) {
	if !f.Exists(agent) {
		return nil, ErrNotFound
	}
	list := []File{}
	for _, file := range f.o.Knowledge.Files(context.Background(), agent, f.Knowledge(agent)) {
		list = append(list, describeFile(file))
	}
	return list, nil
}

// Search returns up to k passages of an agent's files that fit a query, the best first.
func (f Files) Search(ctx context.Context, agent, query string, k int) ([]knowledge.Passage, error) {
	if !f.Exists(agent) {
		return nil, ErrNotFound
	}
	return f.o.Knowledge.Search(ctx, agent, f.Knowledge(agent), query, k), nil
}

// describeFile returns a file as the API and the page show it.
func describeFile(f knowledge.File) File {
	v := File{Name: f.Name, Bytes: f.Bytes, Hash: f.Hash, Changed: f.Changed, Source: FromConfig, Passages: f.Passages}
	if f.Uploaded {
		v.Source = FromAPI
	}
	if f.Err != nil {
		v.Error = f.Err.Error()
	}
	return v
}

// find returns a file that was uploaded.
func (f Files) find(agent, name string) (File, error) {
	list, err := f.List(agent)
	if err != nil {
		return File{}, err
	}
	for _, v := range list {
		if v.Name == name && v.Source == FromAPI {
			return v, nil
		}
	}
	return File{}, ErrNoFile
}

// Put stores a file of an agent, even a configured one, replaces a file of that name, and returns it. File.Error is
// the reason why it cannot be used.
func (f Files) Put(ctx context.Context, agent, name string, data []byte) (File, error) {
	if !f.Exists(agent) {
		return File{}, ErrNotFound
	}
	if err := f.o.Knowledge.Put(ctx, agent, name, data); err != nil {
		return File{}, err
	}
	return f.find(agent, name)
}

// Open returns an uploaded file and its description. The caller closes it. Files named in the configuration are
// ErrNoFile, because they are not stored here.
func (f Files) Open(agent, name string) (io.ReadCloser, File, error) {
	v, err := f.find(agent, name)
	if err != nil {
		return nil, v, err
	}
	file, err := f.o.Knowledge.Open(agent, name)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNoFile
	}
	if err != nil {
		return nil, v, err
	}
	return file, v, nil
}

// RestoreFiles synchronizes the uploaded files of this machine with the store, if the store keeps them for several
// machines.
func (r *Roster) RestoreFiles(ctx context.Context) error {
	return r.o.Knowledge.Restore(ctx, slices.Collect(maps.Keys(r.state.Load().members)))
}

// SharedKinds returns the kinds whose changes Reload takes up.
func (Files) SharedKinds() []string { return []string{knowledge.FileKind} }

// Reload takes up the files that other processes have uploaded and deleted.
func (f Files) Reload(ctx context.Context) error { return f.RestoreFiles(ctx) }

// Delete removes a file that was uploaded.
func (f Files) Delete(ctx context.Context, agent, name string) error {
	if !f.Exists(agent) {
		return ErrNotFound
	}
	err := f.o.Knowledge.Delete(ctx, agent, name)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNoFile
	}
	return err
}
