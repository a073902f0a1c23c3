package text

import "strings"

// Nearest returns the known name that name most likely misspells, or "".
func Nearest(name string, known []string) string {
	// A third of the name may be wrong; beyond that a suggestion would only puzzle.
	best, limit := "", len(name)/3+2
	for _, k := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(k)); d < limit {
			best, limit = k, d
		}
	}
	return best
}

// distance returns the number of single-character edits between a and b (Levenshtein). Long names count as different,
// which bounds the work.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	// One row of the usual matrix is enough.
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
