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

// CatalogKind is the kind of the store's items that hold the entries of added servers, which may hold secrets.
const CatalogKind = "mcp server"

// serverName is what an added server may be called: its tools are named after it.
var serverName = text.Pattern(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)

// Catalog lists and controls the servers of its Host, and keeps the entries of those that are
// added beside the configured ones. It is safe for concurrent use. An entry is stored before the
// host is told of it, so that no server runs that the next start would not bring back.
type Catalog struct {
	*Host
	items store.Items
	// parse reads an entry as config.json has it.
	parse func(name string, entry json.RawMessage) (Config, error)
	// isReserved reports the names that no server may be given.
	isReserved func(name string) bool
	log        *slog.Logger
	// changes is held while a server is added, changed or removed, in the store and in the host, and while the entries are
	// read again: what is read is no older than what runs.
	changes sync.Mutex
}

// NewCatalog returns a Catalog over a host. parse reads an entry as config.json has it; isReserved reports the names
// that no server may be given.
func NewCatalog(
	h *Host,
	items store.Items,
	parse func(string, json.RawMessage) (Config, error),
	isReserved func(name string) bool,
	log *slog.Logger,
) *Catalog {
	return &Catalog{Host: h, items: items, parse: parse, isReserved: isReserved, log: log}
}

// InputError is a mistake of whoever sent a request.
type InputError struct{ Err error }

func (e InputError) Error() string { return e.Err.Error() }
func (e InputError) Unwrap() error { return e.Err }

// BadInput marks the error as the sender's to correct.
func (InputError) BadInput() bool { return true }

// Restore adds the kept servers whose names are free. It is called at start, and after a
// new configuration may have given a name back. An entry that cannot be used is logged and
// skipped, so that one bad entry does not keep the bot from starting.
func (c *Catalog) Restore(ctx context.Context) error {
	for _, s := range c.Servers() {
		if c.isReserved(s.Name) {
			c.log.Warn("mcp server has the name of a native tool pack", "server", s.Name,
				"remedy", "give it another name: what names the pack in rules, agents and tokens counts for the server, too")
		}
	}
	return c.reloadEntries(ctx)
}

// SharedKinds returns the kinds whose changes Reload takes up.
func (*Catalog) SharedKinds() []string { return []string{CatalogKind, store.BlobChanges + kindPins} }

// Reload adds, changes and ends servers as other processes have done, and takes up which tools they have approved.
func (c *Catalog) Reload(ctx context.Context) error {
	if err := c.reloadEntries(ctx); err != nil {
		return err
	}
	c.reloadPins()
	return nil
}

// reloadEntries takes over the servers that another replica has added, changed or removed. An entry that cannot be used
// is logged and left as it was.
func (c *Catalog) reloadEntries(ctx context.Context) error {
	c.changes.Lock()
	defer c.changes.Unlock()
	entries, err := c.items.Items(ctx, CatalogKind)
	if err != nil {
		return fmt.Errorf("read the MCP servers added through the API: %w", err)
	}
	// First those that are gone, so that the names of their tools are free for the others.
	for _, s := range c.Servers() {
		if _, kept := entries[s.Name]; s.Source == FromAPI && !kept {
			c.drop(s.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		entry, err := c.parse(name, entries[name])
		if err == nil {
			err = c.Put(entry, FromAPI) // which leaves one alone that is the same
		}
		if err != nil && !errors.Is(err, ErrConfigured) {
			c.log.Error("skipped an MCP server that was added through the API", "server", name, "error", err)
		}
	}
	return nil
}

// List returns the status of every server, sorted by name.
func (c *Catalog) List() []Status { return c.Servers() }

// Tools returns every tool of a server, also those that are not offered. The error wraps ErrNotFound.
func (c *Catalog) Tools(name string) ([]ToolInfo, error) {
	_, err := c.server(name)
	return c.ToolsOf(name), err
}

// Add keeps the entry of a server and starts it in the background. The status returned is that of a
// server which may not be connected yet. The error is an InputError where the name or the entry is
// invalid, or wraps ErrExists, or is the store's; nothing is kept then.
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
	// The entry is kept before the server starts: a crash in between must not lose it.
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

// CheckEntry returns why a server could not be added with a name and an entry, or nil. That there is one of that name is no
// reason.
func (c *Catalog) CheckEntry(name string, raw json.RawMessage) error {
	_, err := c.read(name, raw)
	return err
}

// read returns the entry of a new server. The errors are those of what was sent.
func (c *Catalog) read(name string, raw json.RawMessage) (Config, error) {
	if !serverName().MatchString(name) {
		return Config{}, fmt.Errorf("the name %.80q is not allowed: "+
			"use a letter, digit or _, then up to 63 of them, dots and hyphens", name)
	}
	if c.isReserved(name) {
		return Config{}, fmt.Errorf("the name %q belongs to tools of the bot itself: "+
			"rules and tokens that name those would count for the server's, too; choose another", name)
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
		err = check(entry) // an invalid one must not be kept
	}
	if err != nil {
		return s, InputError{err}
	}
	// Stored before it runs: the next start would bring back the old entry.
	if err := c.items.SaveItem(ctx, CatalogKind, name, raw, true); err != nil {
		return s, err
	}
	if err := c.Put(entry, FromAPI); err != nil {
		return s, err
	}
	return c.Get(name)
}

// getAdded returns the status of a server that was added; the error wraps ErrNotFound or ErrConfigured.
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
	// Deleted before it ends: what is no longer there cannot be removed again, and the next start would bring it back.
	if err := c.items.DeleteItem(ctx, CatalogKind, name); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return c.Host.Remove(name)
}

// Control starts, stops or restarts a server, as verb says: "start", "stop" or "restart". The error
// wraps ErrNotFound, ErrDisabled or ErrNotRunning, or is an InputError for any other verb.
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
