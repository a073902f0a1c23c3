package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"ravenbot/internal/core/text"
)

// Fault is one mistake in a configuration.
type Fault struct {
	// File is the file that the fault is in, as it was named to Load.
	File string `json:"file"`
	// Line and Column count from 1; 0 stands for the whole file.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Key is the path to the value, such as digests.morning.schedule or channels[0].match.
	Key string `json:"key"`
	// Reason says what is wrong, Remedy what to do.
	Reason string `json:"reason"`
	Remedy string `json:"remedy"`
}

// String returns the fault on one line: file:line: key: reason — remedy.
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
	}
	b.WriteString(": ")
	if f.Key != "" {
		b.WriteString(f.Key + ": ")
	}
	b.WriteString(f.Reason)
	if f.Remedy != "" {
		b.WriteString(" — " + f.Remedy)
	}
	return b.String()
}

// Faults is the error of Load for files that could be read and are wrong: all of their faults, sorted by line.
type Faults struct{ List []Fault }

// Error returns one line a fault.
func (f *Faults) Error() string {
	lines := make([]string, len(f.List))
	for i, fault := range f.List {
		lines[i] = fault.String()
	}
	return strings.Join(lines, "\n")
}

// sortFaults sorts faults by file, line and column, so that they read from top to bottom.
func sortFaults(list []Fault) {
	slices.SortStableFunc(list, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// joinKey appends a member's name to a key path, in quotes where it would make the path ambiguous.
func joinKey(path, name string) string {
	plain := name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !(unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-$*/:@", r))
	})
	switch {
	case !plain:
		return path + "[" + strconv.Quote(clip(name)) + "]"
	case path == "":
		return name
	}
	return path + "." + name
}

// quote returns a value of the file for a reason, shortened and on one line.
func quote(s string) string { return strconv.Quote(clip(s)) }

// clip cuts s to 60 characters.
func clip(s string) string {
	const maxRunes = 60
	if r := []rune(s); len(r) > maxRunes {
		return string(r[:maxRunes]) + "…"
	}
	return s
}

// suggest returns the remedy for an unknown name.
func suggest(name string, known []string) string {
	if near := text.Nearest(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(known) == 0 {
		return "there is none yet"
	}
	sorted := slices.Sorted(slices.Values(known))
	return "known here: " + clipList(strings.Join(sorted, ", "))
}

// suggestOneOf returns the remedy for a value that is not one of the allowed ones, which the reason lists.
func suggestOneOf(value string, allowed []string) string {
	if near := text.Nearest(value, allowed); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return fmt.Sprintf("write one of these, such as %q", allowed[0])
}

// clipList cuts a list of names to 240 characters.
func clipList(s string) string {
	const maxRunes = 240
	if r := []rune(s); len(r) > maxRunes {
		return string(r[:maxRunes]) + "…"
	}
	return s
}
