package client

import (
	"context"
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// A provider that a firewall keeps from being reached is distinguished from a slow one: connecting is given up
// before the first token is overdue.
func TestHTTPClient_ProviderIsNotReached_GivesUpBeforeTheFirstTokenIsDue(t *testing.T) {
	t.Parallel()
	address := listenWithoutRoom(t)
	// firstTokenTimeout, unless the configuration sets it.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	answer, err := newHTTPClient().Get("http://" + address)
	if err == nil {
		answer.Body.Close()
	}
	if err == nil || ctx.Err() != nil {
		t.Errorf("the error is %v, and of the time for the first token %v", err, ctx.Err())
	}
}

// listenWithoutRoom returns an address of this machine at which connections are dropped without a word: its listener
// accepts none, and as many wait as may.
func listenWithoutRoom(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(name.(*syscall.SockaddrInet4).Port))
	for range 16 {
		conn, err := net.DialTimeout("tcp", address, 300*time.Millisecond)
		if err != nil {
			return address
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Fatal("the listener always has room")
	return ""
}
