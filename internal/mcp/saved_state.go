package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// Kinds of stored state.
const (
	kindTools = "tools"
	kindPins  = "pins"
)

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

// restoreSaved loads the stored state once, at the first use, so that the start does not wait for it. It holds no lock,
// because the store may be slow.
func (s *server) restoreSaved() {
	s.restoreOnce.Do(func() {
		if s.c.Disabled {
			return
		}
		// Pins first: the tools are compared with them.
		s.restorePins()
		s.restored = s.restoreListing(s.loadSaved(kindTools))
	})
}

// save stores a value. A replaced server stores nothing, because its name belongs to its successor.
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

func (s *server) saveOrLog(what string, value any) {
	if err := s.save(what, value); err != nil {
		s.log.Warn("failed to save the state of an mcp server", "what", what, "error", err)
	}
}

// deleteSaved deletes the stored state, and the log that versions before 2026-12 stored.
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

// savedListing is the stored form of a listing. It is used only while Entry is the fingerprint of the entry.
type savedListing struct {
	Entry string `json:"entry"`
	listing
}

// restoreListing restores the offers of the server. It returns false if there are none.
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

// fingerprint returns a hash of the fields that decide which tools the server has, including secrets.
func (s *server) fingerprint() string {
	c := normalize(s.c)
	return hashJSON(c.Command, c.Args, c.Env, c.Dir, c.URL, c.Headers, c.Transport)
}

// hashJSON returns a hash of the JSON form of values, in hex. Hashes are stored: another order or form of the values
// would make every entry and tool look changed.
func hashJSON(values ...any) string {
	sum := sha256.Sum256(encodeJSON(values))
	return hex.EncodeToString(sum[:])
}
