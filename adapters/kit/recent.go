package kit

import (
	"container/list"
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// Recent remembers the newest messages of places, as events bring them and as they were read from
// the platform, so that what was said before a message need not be asked for each time. Of each place
// it knows since which message nothing is missing. It returns nothing where it cannot be sure.
//
// A place is complete since the first message that an event brought, for as long as no event can have
// been missed; SetLive, Pause and Drop say when one can. EndReading moves that back to what was read.
//
// Places are keys that the adapter chooses. IDs of messages come later the later they were said, the
// shorter before the longer. Values are shared with whoever gets them and must not be changed.
// It is safe for concurrent use. Nothing is remembered before SetLive(true).
type Recent[V any] struct {
	// MaxMessages bounds the messages of one place, MaxBytes the sizes of all messages: the place that
	// was used least recently is forgotten first.
	MaxMessages int
	MaxBytes    int
	// Life is how long a place is trusted without reading it again; 0: for ever.
	Life time.Duration
	Now  func() time.Time

	mu       sync.Mutex
	live     bool
	resumeAt time.Time // until when events may be missing
	places   map[string]*list.Element
	used     list.List // of *recentPlace[V], the most recently used first
	bytes    int
	readings map[*Reading]bool
	newest   string        // ID of the newest message that an event brought
	floor    string        // of newest when something was forgotten last
	added    chan struct{} // closed when an event brings a message; nil: nobody waits
}

// recentPlace is what is known of one place.
type recentPlace[V any] struct {
	key   string
	since string             // ID from which on no message is missing; "": from the first of the place
	until time.Time          // when it is forgotten; zero: not decided
	list  []RecentMessage[V] // by ID
}

// RecentMessage is a message of a place.
type RecentMessage[V any] struct {
	ID    string
	Value V
	Size  int // in bytes, about
}

// placeSize is what a place counts as, in bytes, beside its messages.
const placeSize = 256

// Window is what is known of a place before a message of it.
type Window[V any] struct {
	Since  string // ID from which on no message is missing; "": from the first of the place
	Values []V    // oldest first
}

// SetLive says whether events bring every message from now on. What was known is forgotten in either case, for
// something may have been missed.
func (r *Recent[V]) SetLive(live bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live = live
	r.dropIf(func(string) bool { return true })
}

// Pause forgets everything, and remembers nothing for a time in which events may be missing.
func (r *Recent[V]) Pause(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resumeAt = r.Now().Add(d)
	r.dropIf(func(string) bool { return true })
}

// Drop forgets the places whose keys match.
func (r *Recent[V]) Drop(match func(place string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropIf(match)
}

// dropIf forgets the places that match. They are begun again with their next message.
func (r *Recent[V]) dropIf(match func(place string) bool) {
	// What arrived already may be newer than what the next event brings: a place that is begun again
	// is complete behind it at the earliest.
	r.floor = r.newest
	for key, e := range r.places {
		if match(key) {
			r.remove(e)
		}
	}
}

// remove forgets a place and gives back the bytes that its messages count for.
func (r *Recent[V]) remove(e *list.Element) {
	p := r.used.Remove(e).(*recentPlace[V])
	delete(r.places, p.key)
	r.bytes -= placeSize
	for _, m := range p.list {
		r.bytes -= m.Size
	}
	r.floor = r.newest
}

// find returns a place that may be trusted; nil: there is none.
func (r *Recent[V]) find(key string) *recentPlace[V] {
	e := r.places[key]
	if e == nil {
		return nil
	}
	p := e.Value.(*recentPlace[V])
	if !p.until.IsZero() && r.Now().After(p.until) {
		r.remove(e)
		return nil
	}
	r.used.MoveToFront(e)
	return p
}

// isLive reports whether events tell of every message now, so that what is kept is complete.
func (r *Recent[V]) isLive() bool {
	return r.live && (r.resumeAt.IsZero() || !r.Now().Before(r.resumeAt))
}

// Add remembers a new message that an event brought.
func (r *Recent[V]) Add(place string, m RecentMessage[V]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isLive() {
		return
	}
	p := r.find(place)
	if p == nil {
		p = r.begin(place, m.ID)
	}
	if compareIDs(m.ID, r.newest) > 0 {
		r.newest = m.ID
	}
	// One that comes late is from before since, and other messages between the two may be missing.
	if compareIDs(m.ID, p.since) >= 0 {
		r.put(p, m)
	}
	r.trim(p)
	if r.added != nil {
		close(r.added)
		r.added = nil
	}
}

// begin remembers a place from a message on, or from the newest that came before something was forgotten.
func (r *Recent[V]) begin(place, since string) *recentPlace[V] {
	if compareIDs(r.floor, since) > 0 {
		since = r.floor
	}
	p := &recentPlace[V]{key: place, since: since}
	if r.Life > 0 {
		p.until = r.Now().Add(r.Life)
	}
	if r.places == nil {
		r.places = map[string]*list.Element{}
	}
	r.places[place] = r.used.PushFront(p)
	r.bytes += placeSize
	return p
}

// put inserts a message in its order, or replaces it.
func (r *Recent[V]) put(p *recentPlace[V], m RecentMessage[V]) {
	i, found := p.search(m.ID)
	r.bytes += m.Size
	if found {
		r.bytes -= p.list[i].Size
		p.list[i] = m
		return
	}
	p.list = slices.Insert(p.list, i, m)
}

// search returns where a message is in the list, or would have to be put, and whether it is there.
func (p *recentPlace[V]) search(id string) (int, bool) {
	return slices.BinarySearchFunc(p.list, id, func(m RecentMessage[V], id string) int { return compareIDs(m.ID, id) })
}

// trim keeps the bounds. The messages that are left are complete from the oldest of them on.
func (r *Recent[V]) trim(p *recentPlace[V]) {
	if over := len(p.list) - r.MaxMessages; over > 0 {
		for _, m := range p.list[:over] {
			r.bytes -= m.Size
		}
		p.list = slices.Delete(p.list, 0, over)
		p.since = p.list[0].ID
	}
	// This may forget p itself, so that no caller may use it afterwards.
	for r.bytes > r.MaxBytes {
		r.remove(r.used.Back())
	}
}

// Replace remembers the edit of a message.
func (r *Recent[V]) Replace(place string, m RecentMessage[V]) {
	r.change(place, m.ID, func(p *recentPlace[V], i int, found bool) bool {
		if found {
			r.put(p, m)
			r.trim(p)
		}
		// That the message is not there although nothing is missing is a contradiction.
		return found
	})
}

// Delete forgets a message that was deleted, and those for which isPart reports true.
func (r *Recent[V]) Delete(place, id string, isPart func(V) bool) {
	r.change(place, id, func(p *recentPlace[V], _ int, found bool) bool {
		p.list = slices.DeleteFunc(p.list, func(m RecentMessage[V]) bool {
			gone := m.ID == id || isPart != nil && isPart(m.Value)
			if gone {
				r.bytes -= m.Size
			}
			return gone
		})
		return found || compareIDs(id, p.since) < 0
	})
}

// change alters a place for a message that is no new one. What is being read of the place meanwhile may show it as it
// was before. The place is forgotten where alter returns false for a message that it should have.
func (r *Recent[V]) change(place, id string, alter func(p *recentPlace[V], i int, found bool) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for reading := range r.readings {
		reading.isStale = reading.isStale || reading.place == place
	}
	p := r.find(place)
	if p == nil {
		return
	}
	i, found := p.search(id)
	if !alter(p, i, found) && compareIDs(id, p.since) >= 0 {
		if e := r.places[place]; e != nil {
			r.remove(e)
		}
	}
}

// Window returns what was said in a place before a message; false: that is not known. The message itself must have come
// as an event: that shows that events of this place do come, and that all before it have come, because they come in the
// order in which things were said.
func (r *Recent[V]) Window(place, before string) (Window[V], bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.find(place)
	if p == nil || !r.isLive() {
		return Window[V]{}, false
	}
	end, found := p.search(before)
	if !found {
		return Window[V]{}, false
	}
	w := Window[V]{Since: p.since, Values: make([]V, 0, end)}
	for _, m := range p.list[:end] {
		w.Values = append(w.Values, m.Value)
	}
	return w, true
}

// Get returns one message of a place; false: it is not known.
func (r *Recent[V]) Get(place, id string) (v V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.find(place)
	if p == nil || !r.isLive() {
		return v, false
	}
	if i, found := p.search(id); found {
		return p.list[i].Value, true
	}
	return v, false
}

// Await waits until an event has brought a message of a place that is known, or ctx ends.
func (r *Recent[V]) Await(ctx context.Context, place, id string) {
	for {
		r.mu.Lock()
		p := r.find(place)
		found := false
		if p != nil {
			_, found = p.search(id)
		}
		if p == nil || found || compareIDs(id, p.since) < 0 {
			r.mu.Unlock()
			return
		}
		if r.added == nil {
			r.added = make(chan struct{})
		}
		// Under the lock: an event that comes before the select closes this very channel.
		added := r.added
		r.mu.Unlock()
		select {
		case <-added:
		case <-ctx.Done():
			return
		}
	}
}

// Reading is the reading of a place from the platform.
type Reading struct {
	place   string
	isStale bool // there was an edit or a deletion meanwhile, which the answer may not show yet
}

// BeginReading is called before the platform is asked for messages of a place, and EndReading afterwards.
func (r *Recent[V]) BeginReading(place string) *Reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	reading := &Reading{place: place}
	if r.readings == nil {
		r.readings = map[*Reading]bool{}
	}
	r.readings[reading] = true
	return reading
}

// EndReading ends a reading. messages are what was read: all of the place from the ID since ("": from its first) to the
// ID before, which an event must have brought; before is empty where nothing could be read. They are remembered
// unless the place changed meanwhile.
func (r *Recent[V]) EndReading(reading *Reading, since, before string, messages []RecentMessage[V]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.readings, reading)
	p := r.find(reading.place)
	if p == nil || reading.isStale || !r.isLive() {
		return
	}
	// The place may have been forgotten and begun again while it was read, with messages missing in between.
	if _, found := p.search(before); !found {
		return
	}
	for _, m := range messages {
		r.put(p, m)
	}
	if compareIDs(since, p.since) < 0 {
		p.since = since
	}
	if r.Life > 0 {
		p.until = r.Now().Add(r.Life)
	}
	r.trim(p)
}

// compareIDs returns a negative number where a message was said before another one, and 0 where it is the same.
func compareIDs(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}
