// Package startup keeps a start free of garbage collection. The libraries of the program allocate 5 MB when it starts,
// most of which stay in use, and by Go's default of GOGC the collector runs twice over them: a third of the processor
// time of a short command. The package promises that the collector runs first when the heap has reached 16 MB, in every
// process of the program, and that a GOGC in the environment counts instead.
//
// It works by being imported and has nothing to call. Go initialises packages in the order of their import paths as soon
// as what they import is initialised (https://go.dev/ref/spec#Program_initialization), so a package that imports nothing
// but os and runtime/debug is initialised before the libraries, which need strings. Import nothing else here.
package startup

import (
	"os"
	"runtime/debug"
)

// gcPercent is GOGC until a command sets another: the collector starts at 4 MB for each 100.
const gcPercent = 400

var _ = setGCPercent()

// setGCPercent returns what GOGC was before.
func setGCPercent() (before int) {
	if _, set := os.LookupEnv("GOGC"); set {
		return 0
	}
	return debug.SetGCPercent(gcPercent)
}
