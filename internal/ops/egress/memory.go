package egress

import (
	"context"
	"errors"

	"ravenbot/internal/core/resident"
)

const (
	// smallBody is how many bytes of a body are read without waiting for memory.
	smallBody = 256 << 10
	// workFactor is how many times its size the work on a body takes at most: JSON feeds and pages full of tags.
	workFactor = 12
)

// memory bounds what the large answers to all requests of a client take together. There are two pools, so that answers
// which arrive slowly do not keep others from being worked on. Who works on one never waits for the memory of bodies.
type memory struct {
	bodies *resident.Pool
	work   *resident.Pool
}

// shareMemory returns pools of an eighth and a quarter of Go's memory limit, and of 64 and 128 MiB at most.
func shareMemory() *memory {
	return &memory{resident.SharePool(8, 64<<20), resident.SharePool(4, 128<<20)}
}

// take waits for n bytes of a pool. It returns ErrBusy where none are free at the deadline of ctx.
func take(ctx context.Context, p *resident.Pool, n int64) (release func(), err error) {
	release, err = p.Take(ctx, n)
	if errors.Is(err, context.DeadlineExceeded) {
		err = ErrBusy
	}
	return release, err
}
