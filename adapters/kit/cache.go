package kit

import (
	"context"
	"sync"
	"time"
)

// CacheOptions are what a Cache needs.
type CacheOptions[V any] struct {
	// Look asks the platform what belongs to a key. A refusal that will not change is no error,
	// but an empty value, so that it is not asked for again and again.
	Look    func(ctx context.Context, key string) (V, error)
	Life    time.Duration // how long a value counts as fresh
	Timeout time.Duration // of one look-up
	Now     func() time.Time
}

// Cache remembers what a platform says of the latest keys. Several that want the same key at the
// same time share one look-up, which ends neither with the first nor with the last of them.
// It is safe for concurrent use; Close ends it.
type Cache[V any] struct {
	o      CacheOptions[V]
	ctx    context.Context // of look-ups
	cancel context.CancelFunc
	wg     sync.WaitGroup
	values Memory[datedValue[V]]

	mu      sync.Mutex
	running map[string]*lookup[V]
	closed  bool
}

type datedValue[V any] struct {
	value V
	at    time.Time
}

// lookup is one question that is being asked. value and err are set when done is closed.
type lookup[V any] struct {
	done  chan struct{}
	value V
	err   error
}

// NewCache returns an empty cache.
func NewCache[V any](o CacheOptions[V]) *Cache[V] {
	ctx, cancel := context.WithCancel(context.Background())
	return &Cache[V]{o: o, ctx: ctx, cancel: cancel, running: map[string]*lookup[V]{}}
}

// Get returns the value of a key, and asks for it unless a fresh one is known. With an error, which
// is that of the look-up or of ctx, it returns the value that was known before, if there is one.
func (c *Cache[V]) Get(ctx context.Context, key string) (V, error) {
	known, l := c.start(key)
	if l == nil {
		return known, nil
	}
	select {
	case <-l.done:
		if l.err != nil {
			return known, l.err
		}
		return l.value, nil
	case <-ctx.Done():
		return known, ctx.Err()
	}
}

// Known returns the value of a key if there is one, however old, without asking.
func (c *Cache[V]) Known(key string) (V, bool) {
	known, ok := c.values.Get(key)
	return known.value, ok
}

// Fresh returns the value of a key if a fresh one is known, without asking.
func (c *Cache[V]) Fresh(key string) (V, bool) {
	known, ok := c.values.Get(key)
	return known.value, ok && c.o.Now().Sub(known.at) < c.o.Life
}

// Prefetch begins to look a key up unless a fresh value is known. It does not wait.
func (c *Cache[V]) Prefetch(key string) { c.start(key) }

// start returns the known value of a key, and the look-up of the key that runs, or begins one; nil where the known
// value is fresh or the cache is closed.
func (c *Cache[V]) start(key string) (V, *lookup[V]) {
	// The lock is held from the look at the values to the start: there is one look-up, and where there is none because
	// one has just ended, the value is what that has found.
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.values.Get(key)
	if ok && c.o.Now().Sub(known.at) < c.o.Life || c.closed {
		return known.value, nil
	}
	if l := c.running[key]; l != nil {
		return known.value, l
	}
	l := &lookup[V]{done: make(chan struct{})}
	c.running[key] = l
	c.wg.Go(func() { c.run(key, l) })
	return known.value, l
}

// run looks a value up and hands it to all who wait for it. An error is handed on and not kept: the
// next one who asks looks it up again.
func (c *Cache[V]) run(key string, l *lookup[V]) {
	ctx, cancel := context.WithTimeout(c.ctx, c.o.Timeout)
	defer cancel()
	l.value, l.err = c.o.Look(ctx, key)
	c.mu.Lock()
	if l.err == nil {
		c.values.Put(key, datedValue[V]{l.value, c.o.Now()})
	}
	delete(c.running, key)
	c.mu.Unlock()
	close(l.done)
}

// Close ends the look-ups that run and waits for them. Afterwards nothing is asked any more.
func (c *Cache[V]) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.wg.Wait()
}
