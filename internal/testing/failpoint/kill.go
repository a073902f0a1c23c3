//go:build failpoint

package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// chosen returns the place and the count of RAVENBOT_FAILPOINT, written PLACE:N.
var chosen = sync.OnceValues(func() (string, int64) {
	place, count, _ := strings.Cut(os.Getenv("RAVENBOT_FAILPOINT"), ":")
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil {
		n = 1
	}
	return place, n
})

var passed atomic.Int64

// Here kills the process with SIGKILL when the chosen place is passed for the Nth time.
func Here(place string) {
	if at, n := chosen(); at == place && passed.Add(1) == n {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // SIGKILL may take a moment; nothing may happen until then
	}
}
