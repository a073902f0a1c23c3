package postgres

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"
)

// A machine that has vanished is noticed within half a minute of silence.
func TestParseURL_SilentConnection_IsProbed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	config, err := parseURL("postgres://db/raven", Options{})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := config.ConnConfig.DialFunc(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	option := func(level, name int) (value int) {
		t.Helper()
		var failed error
		err := raw.Control(func(fd uintptr) { value, failed = syscall.GetsockoptInt(int(fd), level, name) })
		if err := errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		return value
	}
	if option(syscall.SOL_SOCKET, syscall.SO_KEEPALIVE) == 0 {
		t.Error("it is never probed")
	}
	idle, interval := option(syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE), option(syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL)
	probes := option(syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT)
	if after := time.Duration(idle+interval*probes) * time.Second; after > 30*time.Second {
		t.Errorf("it is given up after %v", after)
	}
	if after := time.Duration(option(syscall.IPPROTO_TCP, tcpUserTimeout)) * time.Millisecond; after != goneAfter {
		t.Errorf("what is not acknowledged is given up after %v, want %v", after, goneAfter)
	}
}
