package agent

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
)

// maxNamedSources is how many sources are named below an answer.
const maxNamedSources = 10

// numberSources keeps sources that a tool names, and returns the number of the first. The
// numbers go on over all calls of a turn, so that each means one source.
func (r *run) numberSources(links []chat.Link) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := len(r.sources) + 1
	r.sources = append(r.sources, links...)
	return first
}

var (
	// code matches code, in which an index is no citation.
	code = text.Pattern("(?s)```.*?(```|$)|`[^`\n]*`")
	// citation matches [1] and [1, 2].
	citation = text.Pattern(`\[\d{1,3}(?:, ?\d{1,3})*\]`)
	number   = text.Pattern(`\d+`)
)

// withSources returns an answer with a line that names the sources that it cites by number.
func (r *run) withSources(answer string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.sources) == 0 {
		return answer
	}
	var cited []int
	prose := code().ReplaceAllString(answer, " ")
	for _, at := range citation().FindAllStringIndex(prose, -1) {
		if rest := prose[at[1]:]; strings.HasPrefix(rest, "(") || strings.HasPrefix(rest, ":") {
			continue // a link, or the definition of one
		}
		for _, digits := range number().FindAllString(prose[at[0]:at[1]], -1) {
			n, err := strconv.Atoi(digits)
			if err == nil && n >= 1 && n <= len(r.sources) && !slices.Contains(cited, n) {
				cited = append(cited, n)
			}
		}
	}
	if len(cited) == 0 {
		return answer
	}
	slices.Sort(cited)
	var names []string
	for _, n := range cited[:min(len(cited), maxNamedSources)] {
		s := r.sources[n-1]
		title := strings.NewReplacer("[", "(", "]", ")", "\n", " ").Replace(s.Title)
		names = append(names, fmt.Sprintf("\\[%d\\] [%s](%s)", n, title, s.URL))
	}
	return answer + "\n\nSources: " + strings.Join(names, " · ")
}
