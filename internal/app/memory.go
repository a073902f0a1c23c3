package app

import "runtime/debug"

// releaseMemory gives the heap that only starting needed back to the system.
func releaseMemory() { debug.FreeOSMemory() }
