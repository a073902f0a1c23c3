package cli

import (
	"errors"
	"log/slog"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// gcPercent lets the heap grow to two and a half times what is in use. With 64 messages at a time the process then takes
// 90 MiB at most and answers 660 of them a second; at 100 it is 77 MiB and 580, at 75 73 MiB and 540 (measured 2026-11-25).
const gcPercent = 150

// programPages is the room for what is not Go's memory, in bytes: pages of the program and of the store's file. The
// system drops these first where memory is short, and reads them from the disk again and again when too few are left: with
// 80 MiB in all and no limit for the heap the bot answered 10 messages a second instead of 480 (measured 2026-11-27).
const programPages = 36 << 20

// tuneCollector sets how far the heap may grow: to gcPercent, and within the memory that the process may use. GOGC and
// GOMEMLIMIT of the environment count instead: an operator who sets them knows the machine better.
func (c *invocation) tuneCollector(lg *slog.Logger) {
	if _, set := c.Env("GOGC"); !set {
		debug.SetGCPercent(gcPercent)
	}
	if _, set := c.Env("GOMEMLIMIT"); set {
		return
	}
	allowed, err := memlimit.FromCgroup()
	switch {
	case errors.Is(err, memlimit.ErrNoLimit), errors.Is(err, memlimit.ErrNoCgroup),
		errors.Is(err, memlimit.ErrCgroupsNotSupported):
	case err != nil:
		lg.Info("memory limit not known", "remedy", "set GOMEMLIMIT where there is one", "error", err)
	default:
		limit := goMemory(allowed)
		debug.SetMemoryLimit(limit)
		lg.Info("memory limit", "allowedMiB", allowed>>20, "goMiB", limit>>20)
	}
}

// goMemory returns how many bytes Go may use where the process and the MCP servers that it starts may use some bytes
// together: a fifth is left to the servers, and programPages at least.
func goMemory(allowed uint64) int64 {
	return int64(min(allowed/5*4, allowed-min(allowed, programPages)))
}
