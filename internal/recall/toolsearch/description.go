package toolsearch

import "unicode"

// maxHeadWords is how many words of a description say what its tool does. What follows are notes, examples and what
// every tool of a server repeats, which count little.
const maxHeadWords = 60

// cutDescription returns the beginning of a description and the rest.
func cutDescription(description string) (head, rest string) {
	words, inWord := 0, false
	for i, r := range description {
		space := unicode.IsSpace(r)
		if !space && !inWord {
			if words++; words > maxHeadWords {
				return description[:i], description[i:]
			}
		}
		inWord = !space
	}
	return description, ""
}
