//go:build !linux

package mcp

import (
	"errors"
	"runtime"
)

// isolateThread does nothing: isolation needs Linux. It returns an error if isolation is required.
func isolateThread(g guarded, withoutNetwork bool) ([]string, error) {
	if g.isStrict {
		return nil, errors.New("mcp.isolation strict works only on Linux")
	}
	if withoutNetwork {
		return nil, errors.New("network none works only on Linux")
	}
	return []string{"can open every file that the bot can: there is no isolation on " + runtime.GOOS}, nil
}

// makeHomeCaches does nothing: a server can make the folders itself.
func makeHomeCaches() {}

func isMainThread() bool { return false }

func limitProcess(int, int64) string { return "has no limits of its resources" }

// awaitExit returns false: this system cannot wait without reaping.
func awaitExit(int) bool { return false }

func usageOf(int) groupUsage { return groupUsage{} }
