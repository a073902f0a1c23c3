package replica

import (
	"context"
	"encoding/json"
	"slices"
	"time"
)

// Counter is a part of the bot that tells the other replicas what it has counted, because its limits hold for all together,
// or what else they have to know.
type Counter interface {
	// Topic names what is counted, the same in each replica.
	Topic() string
	// Told returns what this replica has counted.
	Told() (json.RawMessage, error)
	// Hear takes what each of the other replicas tells, by its ID. One that is missing tells nothing.
	Hear(others map[int64]json.RawMessage) error
}

const (
	// tellEvery is how often replicas tell one another: a limit may be exceeded by what comes in that time.
	tellEvery = 2 * time.Second
	maxTell   = 5 * time.Second
)

// ShareCounts has parts count what the other replicas have counted, until ctx ends, and compares configurations where
// CompareConfiguration was called before.
func (n *Node) ShareCounts(ctx context.Context, parts ...Counter) {
	if n == nil {
		return
	}
	n.mu.Lock()
	if n.configuration != nil {
		parts = append(slices.Clone(parts), n.configuration)
	}
	n.mu.Unlock()
	failing := false // the operator knows
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		var err error
		for _, p := range parts {
			if err = n.shareCount(ctx, p); err != nil {
				break
			}
		}
		if err != nil && !failing && ctx.Err() == nil {
			n.o.Log.Warn("failed to share limits with other replicas; retrying", "error", err)
		}
		failing = err != nil
	}
}

// shareCount tells what a part has counted, and has it hear the others.
func (n *Node) shareCount(ctx context.Context, p Counter) error {
	ctx, cancel := context.WithTimeout(ctx, maxTell)
	defer cancel()
	mine, err := p.Told()
	if err != nil {
		return err
	}
	others, err := n.members.Tell(ctx, p.Topic(), mine)
	if err != nil {
		return err
	}
	return p.Hear(others)
}
