package knowledge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"ravenbot/internal/store"
)

// Kinds of items: what is known of each uploaded file, and its content.
const (
	FileKind    = "uploaded file"
	contentKind = "content of an uploaded file"
)

// Copies keeps uploaded files in the store too, for processes on other machines that share it.
type Copies struct{ Items store.Items }

// copyRecord is what is known of an uploaded file.
type copyRecord struct {
	Agent   string    `json:"agent"`
	Name    string    `json:"name"`
	SHA256  string    `json:"sha256,omitempty"` // of its content
	Deleted time.Time `json:"deleted,omitzero"` // kept, so that other machines delete theirs
}

// content is the file itself.
type content struct {
	Data []byte `json:"data"`
}

// key is the name of both items of a file.
func (c copyRecord) key() string { return c.Agent + "/" + c.Name }

// save keeps a file, in the place of one of that name.
func (c Copies) save(ctx context.Context, agent, name string, data []byte) error {
	sum := sha256.Sum256(data)
	record := copyRecord{Agent: agent, Name: name, SHA256: hex.EncodeToString(sum[:])}
	// The content first: who reads a record finds what it names.
	if err := c.put(ctx, contentKind, record.key(), content{data}); err != nil {
		return err
	}
	return c.put(ctx, FileKind, record.key(), record)
}

// delete removes a file and leaves a record of it. A file that is not there is no error.
func (c Copies) delete(ctx context.Context, agent, name string) error {
	record := copyRecord{Agent: agent, Name: name, Deleted: time.Now()}
	// The record first: a crash in between must not leave one whose content is gone, at which every Restore would fail.
	if err := c.put(ctx, FileKind, record.key(), record); err != nil {
		return err
	}
	err := c.Items.DeleteItem(ctx, contentKind, record.key())
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("delete the copy of a file: %w", err)
	}
	return nil
}

// put stores an item.
func (c Copies) put(ctx context.Context, kind, name string, v any) error {
	raw, err := json.Marshal(v)
	if err == nil {
		err = c.Items.SaveItem(ctx, kind, name, raw, true)
	}
	if err != nil {
		return fmt.Errorf("keep a copy of a file: %w", err)
	}
	return nil
}

// list returns the records of all files, by agent and name.
func (c Copies) list(ctx context.Context) (map[string]copyRecord, error) {
	items, err := c.Items.Items(ctx, FileKind)
	if err != nil {
		return nil, fmt.Errorf("read the list of uploaded files: %w", err)
	}
	list := map[string]copyRecord{}
	for name, raw := range items {
		var record copyRecord
		if err := json.Unmarshal(raw, &record); err != nil {
			return nil, fmt.Errorf("read the record of the file %q: %w", name, err)
		}
		list[name] = record
	}
	return list, nil
}

// load returns the content of a file.
func (c Copies) load(ctx context.Context, record copyRecord) ([]byte, error) {
	raw, err := c.Items.Item(ctx, contentKind, record.key())
	var kept content
	if err == nil {
		err = json.Unmarshal(raw, &kept)
	}
	if err != nil {
		return nil, fmt.Errorf("read the copy of the file %q: %w", record.Name, err)
	}
	return kept.Data, nil
}

// Restore makes the uploaded files on this machine those of the store: it writes those that others have uploaded,
// deletes those that others have deleted, and stores those of agents, which it is given, that the store does not know.
// Without Copies it does nothing. It stops at the first error; what is done is done, and the next call does the rest.
func (r *Repository) Restore(ctx context.Context, agents []string) error {
	if r.o.Copies == nil {
		return nil
	}
	r.copying.Lock()
	defer r.copying.Unlock()
	list, err := r.o.Copies.list(ctx)
	if err != nil {
		return err
	}
	for _, record := range list {
		if err := r.restoreFile(ctx, *r.o.Copies, record); err != nil {
			return err
		}
	}
	for _, agent := range agents {
		for _, p := range r.uploads(agent) {
			record := copyRecord{Agent: agent, Name: p.name}
			if _, known := list[record.key()]; known {
				continue
			}
			data, err := os.ReadFile(p.path)
			if err == nil {
				err = r.o.Copies.save(ctx, agent, record.Name, data)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Unpack makes the uploaded files on this machine those of a store that was shared once, and deletes the copies in it:
// from then on the files alone count. Most stores have no copies. With Options.Copies it does nothing.
func (r *Repository) Unpack(ctx context.Context, c Copies) error {
	if r.o.Copies != nil {
		return nil
	}
	r.copying.Lock()
	defer r.copying.Unlock()
	list, err := c.list(ctx)
	if err != nil {
		return err
	}
	for name, record := range list {
		if err := r.restoreFile(ctx, c, record); err != nil {
			return err
		}
		// The record first: a crash in between must not leave one whose content is gone.
		for _, kind := range []string{FileKind, contentKind} {
			if err := c.Items.DeleteItem(ctx, kind, name); err != nil && !errors.Is(err, store.ErrNotFound) {
				return fmt.Errorf("delete the copy of the file %q: %w", record.Name, err)
			}
		}
	}
	return nil
}

// restoreFile makes one file on this machine that of the store.
func (r *Repository) restoreFile(ctx context.Context, c Copies, record copyRecord) error {
	if checkName(record.Name) != nil {
		return nil // a later version allows more
	}
	path := filepath.Join(r.folder(record.Agent), record.Name)
	if !record.Deleted.IsZero() {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("delete a file that was deleted on another machine: %w", err)
		}
		return nil
	}
	if here, err := os.ReadFile(path); err == nil {
		if sum := sha256.Sum256(here); hex.EncodeToString(sum[:]) == record.SHA256 {
			return nil
		}
	}
	data, err := c.load(ctx, record)
	if err != nil {
		return err
	}
	return r.writeFile(record.Agent, record.Name, data)
}
