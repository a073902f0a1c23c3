package schema

import (
	"maps"
	"slices"
	"strings"

	"ravenbot/internal/core/text"
)

// closestName returns the name that was probably meant by a wrong one, or "".
func closestName(name string, names []string) string {
	plain := normalizeName(name)
	best, least := "", 3
	for _, n := range names {
		other := normalizeName(n)
		d := distance(plain, other)
		switch short := min(len(plain), len(other)); {
		case plain == other:
			return n
		case short >= 4 && (strings.Contains(plain, other) || strings.Contains(other, plain)):
			d = min(d, 2)
		case d > short/3:
			continue
		}
		if d < least {
			best, least = n, d
		}
	}
	return best
}

// normalizeName returns a name without case and separators.
func normalizeName(name string) string {
	return strings.Map(func(c rune) rune {
		if c == '_' || c == '-' || c == '.' || c == ' ' {
			return -1
		}
		return c
	}, strings.ToLower(text.Cut(name, 2*maxValue)))
}

// distance returns how many letters must be added, removed, changed or swapped with a neighbour to turn a into b.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := [3][]int{make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)}
	for j := range y {
		rows[1][j+1] = j + 1
	}
	for i := range x {
		older, last, now := rows[i%3], rows[(i+1)%3], rows[(i+2)%3]
		now[0] = i + 1
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			now[j+1] = min(last[j+1]+1, now[j]+1, last[j]+cost)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				now[j+1] = min(now[j+1], older[j-1]+1)
			}
		}
	}
	return rows[(len(x)+1)%3][len(y)]
}

// propertiesAt returns the properties that the schema at a location names.
func (c *compiled) propertiesAt(at string) []string {
	if s := c.at[at]; s != nil {
		return slices.Sorted(maps.Keys(s.Properties))
	}
	return nil
}
