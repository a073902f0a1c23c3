package totals

import (
	"encoding/json"
	"fmt"
	"slices"

	"ravenbot/internal/ops/measure"
)

// recordVersion is the form of records that this version writes.
const recordVersion = 1

// record is what is stored of a day.
type record struct {
	counts Counts
	// writes are the newest of each of the processes that wrote last, oldest first: by them a process finds out whether
	// a write of its own took place whose outcome it was not told.
	writes []write
}

// write is the N-th write of a process.
type write struct {
	Writer string `json:"writer"` // drawn when the process begins
	N      int    `json:"n"`
}

const (
	writerBytes = 6
	// maxWriters is how many writes a record names. An outcome is looked for at the next write, a minute later.
	maxWriters = 20
)

// has reports whether a write is part of a record.
func (r record) has(w write) bool {
	return slices.ContainsFunc(r.writes, func(one write) bool { return one.Writer == w.Writer && one.N >= w.N })
}

// stored is the JSON of a record.
type stored struct {
	Version int                         `json:"v"`
	Counts  map[Kind]map[string]counted `json:"counts"`
	Writes  []write                     `json:"writes"`
}

// counted is the JSON of a measure.Total.
type counted struct {
	Count   uint64  `json:"count"`
	Failed  uint64  `json:"failed,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	Results uint64  `json:"results,omitempty"`
}

// decode returns a record; nil stands for one without counts. It fails for one of another version: what that holds
// beside would be lost when it is written.
func decode(raw json.RawMessage) (record, error) {
	r := record{counts: Counts{}}
	if raw == nil {
		return r, nil
	}
	var s stored
	if err := json.Unmarshal(raw, &s); err != nil {
		return r, err
	}
	if s.Version != recordVersion {
		return r, fmt.Errorf("they are of version %d, and this program knows %d", s.Version, recordVersion)
	}
	for kind, byName := range s.Counts {
		r.counts[kind] = map[string]measure.Total{}
		for name, one := range byName {
			r.counts[kind][name] = measure.Total(one)
		}
	}
	r.writes = s.Writes
	return r, nil
}

// encode returns the JSON of a record that a process writes.
func encode(r record, by write) (json.RawMessage, error) {
	s := stored{Version: recordVersion, Counts: map[Kind]map[string]counted{}}
	for kind, byName := range r.counts {
		s.Counts[kind] = map[string]counted{}
		for name, one := range byName {
			s.Counts[kind][name] = counted(one)
		}
	}
	others := slices.DeleteFunc(slices.Clone(r.writes), func(one write) bool { return one.Writer == by.Writer })
	s.Writes = append(others, by)
	s.Writes = s.Writes[max(0, len(s.Writes)-maxWriters):]
	return json.Marshal(s)
}
