package text

import (
	"regexp"
	"sync"
)

// Pattern returns a function that returns a regular expression, which is compiled when it is first needed: compiling
// all of them at start took a third of the time of every command. An expression that is wrong makes it panic.
func Pattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
