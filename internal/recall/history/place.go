package history

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/recall/search"
)

// place is the messages of a channel and the threads in it, indexed.
type place struct {
	corpus
	known   map[string]*entry                  // by key
	sources map[string]map[string]bool         // keys of the messages of a turn, an import or a platform
	folds   map[string][]string                // keys of the messages that begin with the same words
	turns   map[chat.Address]map[uint64]uint64 // versions of the turns that were read
	stored  map[chat.Address]uint64            // version of the messages outside of turns that were read
	read    map[chat.Address]time.Time         // when a platform's history was read
	unread  map[chat.Address][]string          // messages behind which it was not read on, those read last at the end
	used    time.Time

	threads      []chat.Address // open ones with messages after threadsAfter, as of threadsAt
	threadsAt    time.Time
	threadsAfter time.Time

	// removed and added are what commit has to bring into the index.
	removed []string
	added   []search.Doc[string]
}

// entry is a message and the number of its sources.
type entry struct {
	Message
	sources int
}

// newPlace returns a place in which nothing was read.
func newPlace() *place {
	return &place{
		corpus:  corpus{places: map[string]int{}, words: newIndex()},
		known:   map[string]*entry{},
		sources: map[string]map[string]bool{},
		folds:   map[string][]string{},
		turns:   map[chat.Address]map[uint64]uint64{},
		stored:  map[chat.Address]uint64{},
		read:    map[chat.Address]time.Time{},
		unread:  map[chat.Address][]string{},
	}
}

// key returns the identity of a message within its place.
func key(m Message) string { return m.Conversation.Thread + "\x00" + m.ID }

// inThread returns the message of a channel as it is known in the thread that it begins, and false where it is known in
// the channel alone. Such a thread is named like its first message.
func (p *place) inThread(m Message) (Message, bool) {
	if m.Conversation.Thread != "" {
		return Message{}, false
	}
	m.Conversation.Thread = m.ID[strings.LastIndexByte(m.ID, '/')+1:]
	e := p.known[key(m)]
	if e == nil {
		return Message{}, false
	}
	return e.Message, true
}

// add notes a message of a source, which commit adds. A message that another source has as well is the same.
func (p *place) add(source string, m Message) {
	if m.Text == "" {
		return
	}
	k := key(m)
	e := p.known[k]
	if e == nil {
		e = &entry{}
		p.known[k] = e
	}
	if link := e.Link; e.Text != m.Text {
		p.unfold(k, e.Text)
		p.folds[fold(m.Text)] = append(p.folds[fold(m.Text)], k)
		e.Message = m
		e.Link = cmp.Or(m.Link, link)
		p.added = append(p.added, search.Doc[string]{Key: k, Texts: []string{m.Text}})
	} else {
		e.Link = cmp.Or(link, m.Link)
	}
	if p.sources[source] == nil {
		p.sources[source] = map[string]bool{}
	}
	if !p.sources[source][k] {
		p.sources[source][k] = true
		e.sources++
	}
}

// drop notes that a source is gone, and with it the messages that no other source has.
func (p *place) drop(source string) {
	for k := range p.sources[source] {
		p.dropFrom(source, k)
	}
	delete(p.sources, source)
}

// dropFrom notes that a message is gone from one source.
func (p *place) dropFrom(source, k string) {
	delete(p.sources[source], k)
	if p.known[k].sources--; p.known[k].sources == 0 {
		p.forget(k)
	}
}

// dropMessage removes a message and the answer to it, whatever their sources. It returns false if there is none.
func (p *place) dropMessage(id string) (found bool) {
	for k, e := range p.known {
		if e.ID == id || e.ID == id+AnswerSuffix {
			for _, keys := range p.sources {
				delete(keys, k)
			}
			p.forget(k)
			found = true
		}
	}
	return found
}

// forget takes out a message that no source has any more; commit takes it out of the index.
func (p *place) forget(k string) {
	p.unfold(k, p.known[k].Text)
	delete(p.known, k)
	p.removed = append(p.removed, k)
}

// unfold takes a message out of those that begin with the same words.
func (p *place) unfold(k, text string) {
	words := fold(text)
	p.folds[words] = slices.DeleteFunc(p.folds[words], func(other string) bool { return other == k })
	if len(p.folds[words]) == 0 {
		delete(p.folds, words)
	}
}

// commit brings the index up to date with what add and drop noted. Its cost beside the order of messages is that of
// the change.
func (p *place) commit() {
	if len(p.added)+len(p.removed) == 0 {
		return
	}
	// What was added and removed again before a commit must not stay.
	p.added = slices.DeleteFunc(p.added, func(d search.Doc[string]) bool { return p.known[d.Key] == nil })
	p.words.Update(p.removed, p.added)
	p.removed, p.added = nil, nil
	p.messages = p.messages[:0:0]
	for _, e := range p.known {
		p.messages = append(p.messages, e.Message)
	}
	slices.SortFunc(p.messages, func(a, b Message) int {
		return cmp.Or(
			strings.Compare(a.Conversation.Thread, b.Conversation.Thread),
			a.At.Compare(b.At),
			compareIDs(a.ID, b.ID))
	})
	clear(p.places)
	for n, m := range p.messages {
		p.places[key(m)] = n
	}
}

// compareIDs orders IDs of messages of one time: numbers by their value.
func compareIDs(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// authors returns the names of everybody who said something.
func (p *place) authors() []string {
	seen := map[string]bool{}
	var list []string
	for _, m := range p.messages {
		if !seen[m.Author] {
			seen[m.Author] = true
			list = append(list, m.Author)
		}
	}
	slices.Sort(list)
	return list
}

// hasWords reports whether a message with the same words, said at about the same time, is known under another ID: a
// platform names the bot's posts otherwise than the turns do.
func (p *place) hasWords(m Message) bool {
	return slices.ContainsFunc(p.folds[fold(m.Text)], func(k string) bool {
		other := p.known[k]
		return other.ID != m.ID && other.Conversation == m.Conversation && other.At.Sub(m.At).Abs() < sameWithin
	})
}

const (
	// sameWithin is how far apart the times of one message may be in a turn and on its platform: a turn knows when its
	// question came, not when its answer was posted.
	sameWithin = 10 * time.Minute
	// foldBytes is how much of the words two messages are compared by.
	foldBytes = 120
)

// fold returns the beginning of a text as letters and digits alone, in lower case.
func fold(text string) string {
	var b strings.Builder
	for w := range search.Words(text[:min(len(text), 4*foldBytes)]) {
		if b.Len() >= foldBytes {
			break
		}
		b.WriteString(w)
	}
	folded := b.String()
	for len(folded) > foldBytes || !utf8.ValidString(folded) {
		folded = folded[:len(folded)-1]
	}
	return folded
}
