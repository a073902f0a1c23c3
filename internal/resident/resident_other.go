//go:build !linux

// Package resident keeps the process's resident memory, as the system counts it, to what the work needs.
package resident

import "runtime/debug"

// Release gives back the free memory of the heap, such as what only starting took.
func Release() { debug.FreeOSMemory() }
