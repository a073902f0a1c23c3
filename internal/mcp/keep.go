package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// What is kept of a server.
const (
	keptTools = "tools"
	keptPins  = "pins"
	keptLog   = "log"
)

// load gives what is kept, or nil.
func (s *server) load(what string) (json.RawMessage, error) {
	if s.o.Store == nil {
		return nil, nil
	}
	data, err := s.o.Store.Load(what, s.c.Name)
	if string(data) == "null" {
		data = nil
	}
	return data, err
}

// save saves what is to be known after a restart. One that was replaced keeps
// nothing: its name is another's now.
func (s *server) save(what string, value any) error {
	if s.o.Store == nil || s.retired.Load() {
		return nil
	}
	data, err := json.Marshal(value)
	if err == nil {
		err = s.o.Store.Save(what, s.c.Name, data)
	}
	if err != nil {
		return fmt.Errorf("keep the %s of MCP server %q: %w", what, s.c.Name, err)
	}
	return nil
}

// keep is save for what can be learnt anew.
func (s *server) keep(what string, value any) {
	if err := s.save(what, value); err != nil {
		s.log.Warn("not kept of mcp server", "what", what, "error", err)
	}
}

// forgetKept forgets everything that is kept of the server.
func (s *server) forgetKept() error {
	if s.o.Store == nil {
		return nil
	}
	var faults []error
	for _, what := range []string{keptTools, keptPins, keptLog} {
		faults = append(faults, s.o.Store.Save(what, s.c.Name, []byte("null")))
	}
	return errors.Join(faults...)
}

// remembered is what a server offers, as it is kept. Entry tells whether it is of
// the entry as it is configured now.
type remembered struct {
	Entry string `json:"entry"`
	listed
}

// restore takes what the server offers from Keep and reports whether it was there.
func (s *server) restore() bool {
	data, err := s.load(keptTools)
	if err != nil {
		s.log.Warn("kept tools of mcp server not read", "error", err)
	}
	var r remembered
	if err != nil || data == nil || json.Unmarshal(data, &r) != nil || r.Entry != s.fingerprint() {
		return false
	}
	s.adopt(r.listed)
	return len(r.Tools) > 0 || r.Offers != offers{}
}

func (s *server) remember(now listed) { s.keep(keptTools, remembered{s.fingerprint(), now}) }

// fingerprint of what decides which tools the server has. Secrets go in, but
// cannot be read from it.
func (s *server) fingerprint() string {
	c := normal(s.c)
	return digest(c.Command, c.Args, c.Env, c.Dir, c.URL, c.Headers, c.Transport)
}

// digest is a hash of values that can be written as JSON.
func digest(values ...any) string {
	data, err := json.Marshal(values)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
