package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"ravenbot/internal/core/text"
	"ravenbot/internal/store"
)

// FromAPI is the Source of servers that were added through the API or the dashboard.
const FromAPI = "api"

// CatalogKind is the kind of the store's items for entries of added servers, which may contain secrets.
const CatalogKind = "mcp server"

// serverName matches the names that added servers may have. Names of tools begin with them.
var serverName = text.Pattern(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)

// Catalog lists and controls the servers of its Host, and stores the entries of servers that were added at run time. It
// is safe for concurrent use. It stores an entry before it changes the host, so that a restart brings back the same
// servers.
type Catalog struct {
	*Host
	items      store.Items
	parse      func(name string, entry json.RawMessage) (Config, error)
	isReserved func(name string) bool
	log        *slog.Logger
	// changes is held while a server changes in the store and in the host, and while the entries are read.
	changes sync.Mutex
}

// NewCatalog returns a Catalog of a host. parse reads an entry in the form of config.json. isReserved reports whether a
// name must not be given to a server.
func NewCatalog(
	h *Host,
	items store.Items,
	parse func(string, json.RawMessage) (Config, error),
	isReserved func(name string) bool,
	log *slog.Logger,
) *Catalog {
	return &Catalog{Host: h, items: items, parse: parse, isReserved: isReserved, log: log}
}

// InputError is a mistake in a request.
type InputError struct{ Err error }

func (e InputError) Error() string { return e.Err.Error() }
func (e InputError) Unwrap() error { return e.Err }

// BadInput marks the error as a mistake of the sender.
func (InputError) BadInput() bool { return true }

// Restore adds the stored servers whose names are free. It is called at the start and after a change of the
// configuration. It logs and skips an entry that cannot be used.
func (c *Catalog) Restore(ctx context.Context) error {
	for _, s := range c.Servers() {
		if c.isReserved(s.Name) {
			c.log.Warn("mcp server has the name of a native tool pack", "server", s.Name,
				"remedy", "give it another name: what names the pack in rules, agents and tokens counts for the server, too")
		}
	}
	return c.reloadEntries(ctx)
}

// SharedKinds returns the kinds of stored data that Reload reads.
func (*Catalog) SharedKinds() []string { return []string{CatalogKind, store.BlobChanges + kindPins} }

// Reload applies the changes that other processes have made to servers and to approved tools.
func (c *Catalog) Reload(ctx context.Context) error {
	if err := c.reloadEntries(ctx); err != nil {
		return err
	}
	c.reloadPins()
	return nil
}

// reloadEntries applies the stored entries. It logs an entry that cannot be used, and leaves its server unchanged.
func (c *Catalog) reloadEntries(ctx context.Context) error {
	c.changes.Lock()
	defer c.changes.Unlock()
	entries, err := c.items.Items(ctx, CatalogKind)
	if err != nil {
		return fmt.Errorf("read the MCP servers added through the API: %w", err)
	}
	// Removed servers come first, so that the names of their tools are free.
	for _, s := range c.Servers() {
		if _, kept := entries[s.Name]; s.Source == FromAPI && !kept {
			c.drop(s.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		entry, err := c.parse(name, entries[name])
		if err == nil {
			err = c.Put(entry, FromAPI) // changes nothing if the entry is the same
		}
		if err != nil && !errors.Is(err, ErrConfigured) {
			c.log.Error("skipped an MCP server that was added through the API", "server", name, "error", err)
		}
	}
	return nil
}

// List returns the status of every server, sorted by name.
func (c *Catalog) List() []Status { return c.Servers() }

// Tools returns all tools of a server, including those that are not offered. The error wraps ErrNotFound.
func (c *Catalog) Tools(name string) ([]ToolInfo, error) {
	_, err := c.server(name)
	return c.ToolsOf(name), err
}

// Add stores the entry of a server and starts the server in the background. The error is an InputError if the name or
// the entry is invalid, wraps ErrExists, or comes from the store. After an error nothing is stored.
func (c *Catalog) Add(ctx context.Context, name string, raw json.RawMessage) (Status, error) {
	entry, err := c.read(name, raw)
	if err != nil {
		return Status{}, InputError{err}
	}
	c.changes.Lock()
	defer c.changes.Unlock()
	if _, err := c.server(name); err == nil {
		return Status{}, fmt.Errorf("MCP server %q: %w", name, ErrExists)
	}
	// Stored before the server starts, so that a crash does not lose the entry.
	err = c.items.SaveItem(ctx, CatalogKind, name, raw, false)
	if errors.Is(err, store.ErrExists) {
		return Status{}, fmt.Errorf("MCP server %q: %w", name, ErrExists)
	}
	if err != nil {
		return Status{}, err
	}
	if err := c.Put(entry, FromAPI); err != nil {
		return Status{}, errors.Join(err, c.items.DeleteItem(ctx, CatalogKind, name))
	}
	return c.Get(name)
}

// CheckEntry returns an error if a name or an entry is invalid. It does not check whether the name is taken.
func (c *Catalog) CheckEntry(name string, raw json.RawMessage) error {
	_, err := c.read(name, raw)
	return err
}

func (c *Catalog) read(name string, raw json.RawMessage) (Config, error) {
	if !serverName().MatchString(name) {
		return Config{}, fmt.Errorf("the name %.80q is not allowed: "+
			"use a letter, digit or _, then up to 63 of them, dots and hyphens", name)
	}
	if c.isReserved(name) {
		return Config{}, fmt.Errorf("the name %q belongs to tools of the bot itself: "+
			"rules and tokens for those would also apply to the server; choose another", name)
	}
	return c.parse(name, raw)
}

// Replace changes a server that was added. The error is an InputError, or wraps ErrNotFound or ErrConfigured.
func (c *Catalog) Replace(ctx context.Context, name string, raw json.RawMessage) (Status, error) {
	c.changes.Lock()
	defer c.changes.Unlock()
	s, err := c.getAdded(name)
	if err != nil {
		return s, err
	}
	entry, err := c.parse(name, raw)
	if err == nil {
		err = check(entry) // before the entry is stored
	}
	if err != nil {
		return s, InputError{err}
	}
	// Stored before it runs: a restart would bring back the old entry.
	if err := c.items.SaveItem(ctx, CatalogKind, name, raw, true); err != nil {
		return s, err
	}
	if err := c.Put(entry, FromAPI); err != nil {
		return s, err
	}
	return c.Get(name)
}

func (c *Catalog) getAdded(name string) (Status, error) {
	s, err := c.Get(name)
	if err == nil && s.Source != FromAPI {
		err = fmt.Errorf("MCP server %q: %w", name, ErrConfigured)
	}
	return s, err
}

// Remove stops a server that was added and deletes its entry. The error wraps ErrNotFound or ErrConfigured.
func (c *Catalog) Remove(ctx context.Context, name string) error {
	c.changes.Lock()
	defer c.changes.Unlock()
	if _, err := c.getAdded(name); err != nil {
		return err
	}
	// Deleted before the server ends: if deleting fails, the server can be removed again.
	if err := c.items.DeleteItem(ctx, CatalogKind, name); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return c.Host.Remove(name)
}

// Control starts, stops or restarts a server; verb is "start", "stop" or "restart". The error wraps ErrNotFound,
// ErrDisabled or ErrNotRunning, or is an InputError for another verb.
func (c *Catalog) Control(name, verb string) (Status, error) {
	do := map[string]func(string) error{"start": c.Start, "stop": c.Stop, "restart": c.Restart}[verb]
	if do == nil {
		return Status{}, InputError{fmt.Errorf("unknown verb %q; known are start, stop and restart", verb)}
	}
	if err := do(name); err != nil {
		return Status{}, err
	}
	return c.Get(name)
}
