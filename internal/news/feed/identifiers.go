package feed

import (
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/text"
)

// Two texts that name the same vulnerability, paper, version or result tell of the same, whatever their words.
var (
	// namePattern matches identifiers that stand for one thing in the world.
	namePattern = text.Pattern(`(?i)\bCVE-\d{4}-\d{4,7}\b|\bGHSA(?:-[23456789cfghjmpqrvwx]{4}){3}\b` +
		`|\barXiv:? ?\d{4}\.\d{4,5}|\barxiv\.org/abs/\d{4}\.\d{4,5}|\bRFC ?\d{3,5}\b|\bISBN[: ]*[\d-]{10,17}`)
	// versionPattern matches a name followed by a version of three parts.
	versionPattern = text.Pattern(`\b(\pL[\pL\d+#._-]{2,30}) (?:version |v)?(\d+\.\d+\.\d+)\b`)
	// resultPattern matches two numbers that were counted against each other: "86 votes to 83", "86-83", "86 mot 83".
	resultPattern = text.Pattern(`(?i)\b(\d{2,4})(?: (?:votes?|stemmer|stimmen|voix|votos|voti|röster))? ?` +
		`(?:-|–|:|to|mot|gegen|zu|contre|contra|a favor y|in favou?r and|for og|against)(?: the)? ?(\d{2,4})\b`)
	namePrefix = text.Pattern(`(?i)^(?:arxiv\.org/abs/|arxiv:? ?)`)
)

const (
	// maxLeadIDs is how many identifiers of one form the beginning of a text may have: more are a list.
	maxLeadIDs = 3
	leadLength = 600 // bytes of a text in which identifiers are looked for
	// minSentence is how long a sentence of a feed is that shows that one item is another, edited. editDelay is how long
	// after it.
	minSentence = 60
	editDelay   = 48 * time.Hour
)

// identifiers are what a text names. Those in names stand for one thing alone; those in more need something else in
// common.
type identifiers struct{ names, more []string }

// findIdentifiers reads the title and the beginning of a text.
func findIdentifiers(title, lead string) (ids identifiers) {
	if lead = text.Cut(lead, leadLength); !strings.ContainsAny(title+lead, "0123456789") {
		return ids // few texts have a number in it, and the patterns take long
	}
	add := func(list *[]string, found []string) {
		slices.Sort(found)
		if found = slices.Compact(found); len(found) <= maxLeadIDs {
			*list = append(*list, found...)
		}
	}
	for _, part := range []string{title, lead} {
		var names, versions, results []string
		for _, name := range namePattern().FindAllString(part, maxLeadIDs+1) {
			name = namePrefix().ReplaceAllString(name, "arxiv ")
			names = append(names, strings.ToLower(strings.ReplaceAll(name, " ", "")))
		}
		for _, m := range versionPattern().FindAllStringSubmatch(part, maxLeadIDs+1) {
			versions = append(versions, strings.ToLower(m[1]+" "+m[2]))
		}
		for _, m := range resultPattern().FindAllStringSubmatch(part, maxLeadIDs+1) {
			if len(m[1]) == len(m[2]) && !isYear(m[1]) && m[1] != m[2] {
				results = append(results, max(m[1], m[2])+"-"+min(m[1], m[2]))
			}
		}
		add(&ids.names, names)
		add(&ids.names, versions)
		add(&ids.more, results)
	}
	for _, list := range []*[]string{&ids.names, &ids.more} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return ids
}

// isYear reports whether a number looks like a year: "2024-25" is a season.
func isYear(number string) bool {
	return len(number) == 4 && (number[:2] == "19" || number[:2] == "20")
}

// agreesWith reports whether two entries have a name or another number in common, or a word of both titles.
func agreesWith(a, b *groupEntry) bool {
	if countShared(a.anchors.names, b.anchors.names) > 0 || countShared(a.anchors.numbers, b.anchors.numbers) > 2 {
		return true
	}
	return slices.ContainsFunc(a.titleTerms, func(w weighted) bool {
		return (w.Term[0] < '0' || w.Term[0] > '9') && hasTerm(b.titleTerms, w.Term)
	})
}

// longSentences returns the first sentences of a text that are long enough to be of one item alone.
func longSentences(lead string) (list []string) {
	for _, one := range strings.FieldsFunc(lead, func(r rune) bool { return strings.ContainsRune(".!?\n。", r) }) {
		if one = text.OneLine(one); len(one) >= minSentence {
			list = append(list, one)
		}
		if len(list) == maxLeadIDs {
			break
		}
	}
	return list
}

// isEdited reports whether one of two items of a feed is the other one, edited: they have a long sentence in common, and
// one came soon after the other.
func isEdited(a, b *groupEntry) bool {
	if a.at.IsZero() || b.at.IsZero() || b.at.Sub(a.at).Abs() > editDelay {
		return false
	}
	return slices.ContainsFunc(a.sentences, func(s string) bool { return slices.Contains(b.sentences, s) })
}
