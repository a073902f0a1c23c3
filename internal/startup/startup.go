// Package startup keeps a start free of garbage collection. The libraries of the program allocate 5 MB when it starts, and
// by Go's default the collector runs twice meanwhile: a third of the processor time of a short command (measured
// 2026-11-26). The package promises that the collector runs first when the heap has reached 16 MB, in every process of the
// program, and from then on as by default; and that a GOGC in the environment counts instead, and a percentage that a
// command has set.
//
// It works by being imported and has nothing to call. Go initialises packages in the order of their import paths as soon
// as what they import is initialised (https://go.dev/ref/spec#Program_initialization), so a package that imports nothing
// but os and runtime is initialised before the libraries, which need strings. Import nothing else here.
package startup

import (
	"os"
	"runtime"
	"runtime/debug"
)

// Percentages as GOGC has them: the collector runs first at 4 MB for each 100, and then when the heap has grown by so
// much.
const (
	gcPercent      = 400
	defaultPercent = 100
)

var _ = delayGC()

// delayGC sets gcPercent for the first collection, and reports whether it has.
func delayGC() bool {
	if _, set := os.LookupEnv("GOGC"); set {
		return false
	}
	debug.SetGCPercent(gcPercent)
	// A pointer, since what has none may be kept by its neighbours in memory.
	unused := new(*int)
	runtime.AddCleanup(unused, func(struct{}) {
		if set := debug.SetGCPercent(defaultPercent); set != gcPercent {
			debug.SetGCPercent(set) // by a command
		}
	}, struct{}{})
	return true
}
