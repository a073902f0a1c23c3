package schema

import (
	"maps"
	"slices"
	"strings"

	"ravenbot/internal/text"
)

// closestName gives the one of several names that was probably meant by another, or "".
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

// normalizeName is a name without what writers of names differ in.
func normalizeName(name string) string {
	return strings.Map(func(c rune) rune {
		if c == '_' || c == '-' || c == '.' || c == ' ' {
			return -1
		}
		return c
	}, strings.ToLower(text.Cut(name, 2*maxValue)))
}

// distance counts the letters to add, take away, change or swap with their
// neighbour to come from a to b.
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

// propertiesAt are the properties that the schema at an address names.
func (c *compiled) propertiesAt(at string) []string {
	if s := c.at[at]; s != nil {
		return slices.Sorted(maps.Keys(s.Properties))
	}
	return nil
}
