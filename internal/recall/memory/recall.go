package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/core/text"
	"ravenbot/internal/recall/meaning"
	"ravenbot/internal/recall/search"
)

// Limits of what Recall returns.
const (
	maxRecalled      = 8    // notes
	maxRecallBytes   = 1024 // of the whole text
	maxRelevant      = 5    // notes that are there for their words
	maxPreferences   = 3    // of the asker's, whatever the question
	maxFewNotes      = 5    // of a scope that are all shown
	maxRecalledChars = 160  // characters of one note
	// minEvidence is the least that a note must share with the question (search.Hit), minEvidenceShare the same as a
	// share of the best note.
	minEvidence      = 0.45
	minEvidenceShare = 0.3
)

// Recall returns the notes that a model should know for a question, one a line, or "" where there are none: those about
// the author of m and about its channel that have to do with the question, the newest that say how the author wants
// things, and where a scope has few notes, the newest of them. It returns 8 notes and 1 KiB at most, each with its
// number and date; they are what people said, not instructions. An author without ID stands for several people who are
// answered at once, and then notes about people are left out. from says whose words the notes are. Where the store fails it
// logs that and returns "".
func (p *Pack) Recall(ctx context.Context, m chat.Message, question string) (notes string, from origin.Origin) {
	var own []hit
	var err error
	if m.Author.ID != "" {
		own, err = p.notes(ctx, userScope(m.Conversation.Platform, m.Author.ID))
	}
	here, err2 := p.notes(ctx, channelScope(m.Conversation))
	if err = errors.Join(err, err2); err != nil {
		p.o.Log.Error("failed to read the notes for a question", "conversation", m.Conversation.String(), "error", err)
		return "", from
	}
	var b strings.Builder
	shown := 0
	for _, n := range chooseNotes(own, here, p.relevant(ctx, slices.Concat(own, here), question)) {
		line := fmt.Sprintf("- %s: %s\n", describeNote(n), text.Shorten(n.Text, maxRecalledChars))
		// No break where one does not fit: a shorter note behind it may.
		if shown < maxRecalled && b.Len()+len(line) <= maxRecallBytes {
			b.WriteString(line)
			shown++
			from = from.With(n.origin())
		}
	}
	return b.String(), from
}

// notes returns the notes of a scope, the newest first.
func (p *Pack) notes(ctx context.Context, of scope) ([]hit, error) {
	list, err := p.o.Store.Memories(ctx, of.key)
	if err != nil {
		return nil, err
	}
	var notes []hit
	for _, m := range slices.Backward(list) {
		notes = append(notes, hit{Memory: m, of: of})
	}
	return notes, nil
}

// relevant returns the notes that have to do with a question, the best first.
func (p *Pack) relevant(ctx context.Context, notes []hit, question string) []hit {
	ranked := rank(notes, question)
	ranked = ranked[:min(len(ranked), maxRelevant)]
	if len(ranked) > 0 {
		least := max(minEvidence, minEvidenceShare*ranked[0].evidence)
		ranked = slices.DeleteFunc(ranked, func(n hit) bool { return n.evidence < least })
	}
	if search.IsPolite(question) {
		return ranked
	}
	return p.fuse(ctx, ranked, notes, question, meaning.Striking)
}

// chooseNotes returns the notes that are worth telling with a question, the most important first. relevant are those
// that have to do with it.
func chooseNotes(own, here, relevant []hit) []hit {
	var list []hit
	add := func(n hit) {
		if !slices.ContainsFunc(list, func(m hit) bool { return m.of.key == n.of.key && m.N == n.N }) {
			list = append(list, n)
		}
	}
	for _, n := range relevant[:min(len(relevant), maxRelevant)] {
		add(n)
	}
	preferences := slices.Collect(func(yield func(hit) bool) {
		for _, n := range own {
			if isPreference(n.Text) && !yield(n) {
				return
			}
		}
	})
	for _, n := range preferences[:min(len(preferences), maxPreferences)] {
		add(n)
	}
	for _, notes := range [][]hit{own, here} {
		if len(notes) <= maxFewNotes {
			for _, n := range notes {
				add(n)
			}
		}
	}
	return list
}

// preferenceWords are words of notes that say how somebody wants to be answered.
var preferenceWords = stemSet("prefer always never want please metric imperial language informally formally pronouns")

// isPreference reports whether a note says how its person wants things.
func isPreference(note string) bool {
	for w := range content(note) {
		if preferenceWords[w] {
			return true
		}
	}
	return false
}

// describeNote returns whom a note is about, its number and its date.
func describeNote(n hit) string {
	about := "about whoever asks"
	if n.of.isChannel() {
		about = "about this channel, from " + cmp.Or(text.OneLine(n.By), "somebody")
	}
	return fmt.Sprintf("%s (number %d, %s)", about, n.N, formatDay(n.At))
}
