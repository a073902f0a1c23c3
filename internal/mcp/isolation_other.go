//go:build !linux

package mcp

import "runtime"

// isolateThread does nothing: what it needs exists on Linux alone.
func isolateThread([]string) []string {
	return []string{"can open every file that the bot can: there is no isolation on " + runtime.GOOS}
}

// isMainThread returns false: nothing is isolated.
func isMainThread() bool { return false }

// limitProcess does nothing.
func limitProcess(int) string { return "has no limits of its resources" }
