package replica

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// configuration compares the configuration of this replica with those of the others, and tells the operator in the log
// which keys differ. It is a Counter.
type configuration struct {
	n    *Node
	sums func() map[string]string

	mu      sync.Mutex
	differs []string // sorted
	logged  string   // what the operator was told last
}

// Box encrypts what replicas tell one another with the key that all of them have.
type Box interface {
	// Seal encrypts a text under a name; Open returns an error for what was not sealed under it.
	Seal(name string, plain []byte) []byte
	Open(name string, sealed []byte) ([]byte, error)
}

// sealedConfiguration is the name that the sums are encrypted under: they are those of secrets, too.
const sealedConfiguration = "configuration of a replica"

// CompareConfiguration has ShareCounts compare the configurations of the replicas. sums returns a hash of the value of each
// key, as it is now.
func (n *Node) CompareConfiguration(sums func() map[string]string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.configuration = &configuration{n: n, sums: sums}
}

// ConfigurationDiffers returns the keys whose values are different in another replica, as they were compared last.
func (n *Node) ConfigurationDiffers() []string {
	if n == nil {
		return []string{}
	}
	n.mu.Lock()
	c := n.configuration
	n.mu.Unlock()
	if c == nil {
		return []string{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string{}, c.differs...)
}

// Topic returns the name under which replicas tell their sums.
func (*configuration) Topic() string { return "configuration" }

// Told returns the sums of this replica, encrypted.
func (c *configuration) Told() (json.RawMessage, error) {
	plain, err := json.Marshal(c.sums())
	if err != nil {
		return nil, err
	}
	return json.Marshal(c.n.box.Seal(sealedConfiguration, plain))
}

// Hear compares the sums of the others with those of this replica. It logs a difference once, and its end.
func (c *configuration) Hear(others map[int64]json.RawMessage) error {
	mine, differ, with := c.sums(), map[string]bool{}, []string{}
	for _, id := range slices.Sorted(maps.Keys(others)) {
		theirs, err := c.open(others[id])
		if err != nil {
			return fmt.Errorf("read the configuration of replica %d: %w", id, err)
		}
		before := len(with)
		for key, sum := range mine {
			// A key that the other one does not know is one of another version.
			if got, ok := theirs[key]; ok && got != sum {
				differ[key] = true
				if len(with) == before {
					with = append(with, fmt.Sprint(id))
				}
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.differs = slices.Sorted(maps.Keys(differ))
	keys, replicas := strings.Join(c.differs, ","), strings.Join(with, ",")
	said := keys + " " + replicas
	switch {
	case said == c.logged || len(with) == 0 && c.logged == "":
		return nil
	case len(with) == 0:
		c.n.o.Log.Info("configuration is the same on all replicas again")
		c.logged = ""
		return nil
	}
	c.n.o.Log.Warn("configuration differs from other replicas; deploy the same config everywhere",
		"keys", keys, "replicas", replicas, "replica", c.n.self.ID)
	c.logged = said
	return nil
}

// open returns the sums that another replica tells.
func (c *configuration) open(told json.RawMessage) (sums map[string]string, err error) {
	var sealed []byte
	if err = json.Unmarshal(told, &sealed); err != nil {
		return nil, err
	}
	plain, err := c.n.box.Open(sealedConfiguration, sealed)
	if err != nil {
		return nil, err
	}
	return sums, json.Unmarshal(plain, &sums)
}
