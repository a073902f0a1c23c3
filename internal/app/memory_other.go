//go:build !linux

package app

import "runtime/debug"

// release gives back the heap that only starting needed.
func release() { debug.FreeOSMemory() }
