package pgtest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// poolerInput is what pgbouncer ends with. It is kept here, for a file that nobody refers to is closed.
var poolerInput io.Closer

// pooler is pgbouncer before the shared server, in transaction mode: a connection is lent for one transaction, after
// which another client may get it. It has fewer connections than the clients of a test together.
var pooler = sync.OnceValues(func() (port int, err error) {
	c, err := shared()
	if err != nil {
		return 0, err
	}
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		// Where only root has it on the PATH.
		if program, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			return 0, errNoPooler
		}
	}
	if port, err = freePort(); err != nil {
		return 0, err
	}
	file := filepath.Join(c.dir, "pgbouncer.ini")
	settings := fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%d user=%s\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"+
		"listen_port = %d\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 4\n"+
		"server_idle_timeout = 5\n"+
		"max_client_conn = 500\n", c.port, userName, port)
	if err := os.WriteFile(file, []byte(settings), 0o644); err != nil {
		return 0, err
	}
	// It ends with the test process, also where that is killed: then read meets the end of its input.
	cmd := c.command("sh", "-c", `"$0" --quiet "$1" & read -r _; kill $!; wait`, program, file)
	if poolerInput, err = cmd.StdinPipe(); err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	if err := waitForPort(port); err != nil {
		return 0, errors.Join(err, poolerInput.Close())
	}
	return port, nil
})

// errNoPooler is returned where pgbouncer is not installed.
var errNoPooler = errors.New("pgbouncer is not installed")

func waitForPort(port int) error {
	var err error
	for range 300 {
		var conn net.Conn
		if conn, err = net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return conn.Close()
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("pgbouncer does not listen: %w", err)
}

// StartPooled returns the URL of a new, empty database behind pgbouncer in transaction mode. Where there is no
// PostgreSQL or no pgbouncer the test is skipped.
func StartPooled(tb testing.TB) string {
	tb.Helper()
	direct := Start(tb)
	port, err := pooler()
	skipOrFail(tb, err)
	u, err := url.Parse(direct)
	if err != nil {
		tb.Fatal(err)
	}
	u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return u.String()
}
