package postgres

import (
	"syscall"
	"time"
)

// tcpUserTimeout is the option of a connection that ends it when data were not acknowledged for so many milliseconds
// (https://man7.org/linux/man-pages/man7/tcp.7.html).
const tcpUserTimeout = 18

// endUnacknowledged has a connection end when the other side acknowledges nothing for a time: else a statement that was
// sent to a machine that is gone waits until its own deadline.
func endUnacknowledged(after time.Duration) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		// Without the option the connection works as well, for as long as the machine is there.
		return c.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(after.Milliseconds()))
		})
	}
}
