package meaning

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"ravenbot/internal/core/text"
)

// Limits of making vectors.
const (
	maxBatch      = 64 // texts of one request
	batchTimeout  = time.Minute
	retryDelay    = time.Minute // after a failure
	maxWaiting    = 100_000     // texts
	maxBytes      = 64 << 20    // of the vectors in memory; groups that were unused for longest go first
	maxGroupBytes = maxBytes / 2
)

// embed returns the vectors of texts, or an error if they do not come in time.
func embed(ctx context.Context, e Embedder, texts []string, timeout time.Duration) ([]vector, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for i, t := range texts {
		texts[i] = text.Cut(t, maxTextBytes)
	}
	list, err := e.Embed(ctx, texts)
	if err == nil && len(list) != len(texts) {
		err = fmt.Errorf("the model returned %d vectors for %d texts", len(list), len(texts))
	}
	if err != nil {
		return nil, err
	}
	vectors := make([]vector, len(list))
	for i, values := range list {
		vectors[i] = newVector(values)
	}
	return vectors, nil
}

// Run loads and makes the missing vectors until ctx ends. After a failure it goes on with other texts in a minute;
// meanwhile the texts are found by their words.
func (x *Index) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.added:
		}
		for x.fill(ctx) {
			if ctx.Err() != nil {
				return
			}
		}
	}
}

// fill loads or makes the vectors of the next texts. It returns false if none is missing.
func (x *Index) fill(ctx context.Context) bool {
	e, on := x.embedder()
	if !on {
		return false
	}
	items := x.nextBatch(e.Name)
	if len(items) == 0 {
		return false
	}
	err := x.load(ctx, items)
	var missing []int
	var texts []string
	for i, it := range items {
		if it.vector == nil {
			missing, texts = append(missing, i), append(texts, it.text)
		}
	}
	if err == nil && len(texts) > 0 {
		var made []vector
		made, err = embed(ctx, e, texts, batchTimeout)
		for n, v := range made {
			items[missing[n]].vector, items[missing[n]].isMade = v, true
		}
	}
	if err != nil {
		if ctx.Err() == nil {
			x.log.Warn("failed to embed texts; retrying later", "model", e.Name, "texts", len(items), "error", err)
		}
		x.postponed = append(x.postponed, items...)
		select {
		case <-ctx.Done():
		case <-time.After(retryDelay):
		}
		return true
	}
	if err := x.save(ctx, items); err != nil && ctx.Err() == nil {
		x.log.Warn("failed to store vectors; they are made again after a restart", "texts", len(texts), "error", err)
	}
	// A model that was down for long must not be asked for its texts one by one.
	x.batchSize = min(2*x.batchSize, maxBatch)
	x.keep(items)
	return true
}

// nextBatch takes the next texts that still need a vector by a model.
func (x *Index) nextBatch(model string) (batch []item) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for len(batch) < x.batchSize {
		if len(x.waiting) == 0 && len(batch) == 0 && len(x.postponed) > 0 {
			x.waiting, x.postponed = x.postponed, nil
			x.batchSize = max(1, x.batchSize/2)
		}
		if len(x.waiting) == 0 {
			break
		}
		last := len(x.waiting) - 1
		it := x.waiting[last]
		x.waiting[last] = item{}
		x.waiting = x.waiting[:last]
		// The model may have changed. What is too much for memory is found by words only.
		if x.lacks(it) && it.group.bytes < maxGroupBytes && identify(model, it.text) == it.id {
			batch = append(batch, it)
		}
	}
	return batch
}

// lacks reports whether a text is still there and has no vector in memory. x.mu is held.
func (x *Index) lacks(it item) bool {
	v, known := it.group.vectors[it.id]
	return known && v == nil && x.groups[it.group.name] == it.group // the group may have been dropped from memory
}

// keep keeps vectors in memory, and drops the groups that were unused for longest if there are too many.
func (x *Index) keep(items []item) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, it := range items {
		// The text may have been deleted while the lock was free.
		if x.lacks(it) {
			it.group.vectors[it.id] = it.vector
			it.group.bytes, x.bytes = it.group.bytes+len(it.vector), x.bytes+len(it.vector)
		}
	}
	for x.bytes > maxBytes {
		groups := slices.Collect(maps.Values(x.groups))
		oldest := slices.MinFunc(groups, func(a, b *group) int { return a.used.Compare(b.used) })
		x.bytes -= oldest.bytes
		delete(x.groups, oldest.name)
	}
}
