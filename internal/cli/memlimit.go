package cli

import (
	"errors"
	"log/slog"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// The heap may grow by minHeadroom bytes, at least, until the collector runs again, and by minPercent of what is in use.
// That is 3 MB with nothing to do and 20 MB with 64 messages at a time. With 20 MB and 100 % the process took 65 MiB with
// these instead of 60, for the same processor time; with 12 MB and 50 % it took 55, for 8 % more (measured 2026-11-28).
const (
	minHeadroom = 16 << 20
	minPercent  = 75
)

// programPages is the room for what is not Go's memory, in bytes: pages of the program and of the store's file. The
// system drops these first where memory is short, and reads them from the disk again and again when too few are left: with
// 80 MiB in all and no limit for the heap the bot answered 10 messages a second instead of 480 (measured 2026-11-27).
const programPages = 36 << 20

// tuneCollector sets how far the heap may grow: as far as paceCollector says, and within the memory that the process may
// use. GOGC and GOMEMLIMIT of the environment count instead: an operator who sets them knows the machine better.
func (c *invocation) tuneCollector(lg *slog.Logger) {
	if _, set := c.Env("GOGC"); !set {
		paceCollector()
	}
	if _, set := c.Env("GOMEMLIMIT"); set {
		lg.Info("memory limit", "from", "GOMEMLIMIT", "goMiB", debug.SetMemoryLimit(-1)>>20)
		return
	}
	allowed, err := memlimit.FromCgroup()
	switch {
	case errors.Is(err, memlimit.ErrNoLimit), errors.Is(err, memlimit.ErrNoCgroup),
		errors.Is(err, memlimit.ErrCgroupsNotSupported):
	case err != nil:
		lg.Info("memory limit not known", "remedy", "set GOMEMLIMIT if there is a limit", "error", err)
	default:
		limit := goMemory(allowed)
		debug.SetMemoryLimit(limit)
		lg.Info("memory limit", "allowedMiB", allowed>>20, "goMiB", limit>>20)
	}
}

// paceCollector sets the percentage by which the heap may grow from what is in use now, and again after each collection.
func paceCollector() {
	// What the percentage is of: https://go.dev/doc/gc-guide#GOGC.
	inUse := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(inUse)
	var sum uint64
	for _, s := range inUse {
		sum += s.Value.Uint64()
	}
	debug.SetGCPercent(gcPercent(sum))
	unused := new(*int) // a pointer, since what has none may be kept by its neighbours in memory
	runtime.AddCleanup(unused, func(struct{}) { paceCollector() }, struct{}{})
}

// gcPercent returns by how many percent the heap may grow where some bytes are in use. Go takes 4 MB for what is less.
func gcPercent(inUse uint64) int { return int(max(minPercent, minHeadroom*100/max(inUse, 4<<20))) }

// goMemory returns how many bytes Go may use where the process and the MCP servers that it starts may use some bytes
// together: a fifth is left to the servers, and programPages at least.
func goMemory(allowed uint64) int64 {
	return int64(min(allowed/5*4, allowed-min(allowed, programPages)))
}
