package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// Kinds of what Options.Store keeps of a server.
const (
	kindTools = "tools"
	kindPins  = "pins"
)

// loadSaved returns what the store keeps of a kind, or nil.
func (s *server) loadSaved(what string) (json.RawMessage, error) {
	if s.o.Store == nil {
		return nil, nil
	}
	data, err := s.o.Store.LoadBlob(context.Background(), what+"/"+s.c.Name)
	if string(data) == "null" {
		data = nil
	}
	return data, err
}

// restoreSaved takes over what the store keeps of the server, once, when it is first needed: the start of the program does
// not wait for it. No lock is held, as the store may be slow.
func (s *server) restoreSaved() {
	s.restoreOnce.Do(func() {
		if s.c.Disabled {
			return
		}
		// The pins come before the tools, which are compared with them.
		s.restorePins()
		s.restored = s.restoreListing(s.loadSaved(kindTools))
	})
}

// save saves what is to be known after a restart. A replaced server saves nothing: its name belongs to its successor.
func (s *server) save(what string, value any) error {
	if s.o.Store == nil || s.retired.Load() {
		return nil
	}
	data, err := json.Marshal(value)
	if err == nil {
		err = s.o.Store.SaveBlob(context.Background(), what+"/"+s.c.Name, data)
	}
	if err != nil {
		return fmt.Errorf("save the %s of MCP server %q: %w", what, s.c.Name, err)
	}
	return nil
}

// saveOrLog saves what the server can list again; a failure is only logged.
func (s *server) saveOrLog(what string, value any) {
	if err := s.save(what, value); err != nil {
		s.log.Warn("failed to save the state of an mcp server", "what", what, "error", err)
	}
}

// deleteSaved deletes everything that the store keeps of the server, and the log that versions up to 2026-11 kept.
func (s *server) deleteSaved() error {
	if s.o.Store == nil {
		return nil
	}
	var faults []error
	for _, what := range []string{kindTools, kindPins, "log"} {
		faults = append(faults, s.o.Store.SaveBlob(context.Background(), what+"/"+s.c.Name, []byte("null")))
	}
	return errors.Join(faults...)
}

// savedListing is the stored form of a listing. Entry is the fingerprint of the entry that
// it belongs to: after a change of the entry it is not used.
type savedListing struct {
	Entry string `json:"entry"`
	listing
}

// restoreListing takes over what the server offered, and reports whether there was anything.
func (s *server) restoreListing(data json.RawMessage, err error) (restored bool) {
	if err != nil {
		s.log.Warn("failed to read the saved tools of an mcp server", "error", err)
	}
	var r savedListing
	if err != nil || data == nil || json.Unmarshal(data, &r) != nil || r.Entry != s.fingerprint() {
		return false
	}
	s.setListing(r.listing)
	return len(r.Tools) > 0 || r.Offers != serverFeatures{}
}

// fingerprint returns a hash of the fields that decide which tools the server has. It
// covers secrets, but they cannot be recovered from it.
func (s *server) fingerprint() string {
	c := normalize(s.c)
	return hashJSON(c.Command, c.Args, c.Env, c.Dir, c.URL, c.Headers, c.Transport)
}

// hashJSON returns a hash, in hex, of the JSON form of values: texts, lists and tables of them, and decoded JSON.
// Stored records hold such hashes: another order or form of the values makes every entry and tool look changed.
func hashJSON(values ...any) string {
	sum := sha256.Sum256(encodeJSON(values))
	return hex.EncodeToString(sum[:])
}
