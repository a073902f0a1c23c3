// Package pgtest provides tests with databases of a private PostgreSQL server. The server keeps its files in a
// temporary folder and ends with the test process, even if that is killed. Tests are skipped if PostgreSQL 15 or newer
// is not installed, and tests with a pooler if pgbouncer is not installed.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// minVersion is the oldest PostgreSQL that is used.
const minVersion = 15

// shared is the server of all tests that need none of their own.
var shared = sync.OnceValues(func() (*Cluster, error) { return newCluster(Options{}, nil) })

// databases counts the databases of this process, for their names.
var databases atomic.Int64

// Start returns the URL of a new, empty database on a server that all tests of the process share. Where there
// is no PostgreSQL the test is skipped.
func Start(tb testing.TB) string {
	tb.Helper()
	c, err := shared()
	skipOrFail(tb, err)
	return c.Database(tb)
}

// errMissing is returned where PostgreSQL is not installed.
var errMissing = fmt.Errorf("PostgreSQL %d or newer is not installed: initdb, postgres and pg_ctl are neither "+
	"on the PATH nor in /usr/lib/postgresql/*/bin", minVersion)

// skipOrFail skips a test where PostgreSQL is not installed, and fails it for any other error.
func skipOrFail(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, errMissing) || errors.Is(err, errNoPooler) {
		tb.Skip("skipped: ", err)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// Options configure a Cluster.
type Options struct {
	// Durable has the server write to the disk as in production; else it does not wait for the disk.
	Durable bool
	// Password is what the server asks its users for; empty: it trusts everybody.
	Password string
	// Settings are further settings of the server.
	Settings map[string]string
	// Files are written into the server's folder before it starts, by name. They are closed to other users.
	Files map[string][]byte
}

// Cluster is a server with its files.
type Cluster struct {
	bin, dir string
	user     string // the operating system's user that the server runs as, "" for the one of the test
	port     int
	o        Options
	primary  *Cluster  // nil: this is none's standby
	guardian io.Closer // closing it ends the server and removes its files
	ended    <-chan struct{}
}

// NewCluster starts a server for one test, which may stop and kill it. It ends with the test.
func NewCluster(tb testing.TB, o Options) *Cluster {
	tb.Helper()
	return clusterOf(tb, o, nil)
}

// NewStandby starts a standby of a server for one test, which may promote it.
func (c *Cluster) NewStandby(tb testing.TB) *Cluster {
	tb.Helper()
	return clusterOf(tb, c.o, c)
}

func clusterOf(tb testing.TB, o Options, primary *Cluster) *Cluster {
	tb.Helper()
	c, err := newCluster(o, primary)
	skipOrFail(tb, err)
	tb.Cleanup(func() {
		_ = c.guardian.Close()
		<-c.ended
	})
	return c
}

// newCluster makes and starts a server in a temporary folder, which is removed where that fails.
func newCluster(o Options, primary *Cluster) (*Cluster, error) {
	bin, err := findPrograms()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ravenbot-postgres-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin, dir: dir, o: o, primary: primary}
	if err := c.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("start PostgreSQL: %w", err), os.RemoveAll(dir))
	}
	return c, nil
}

// prepare makes the database files and starts the server. Nothing is synced to the disk: the data
// live as long as the tests.
func (c *Cluster) prepare() error {
	if err := c.chooseUser(); err != nil {
		return err
	}
	if err := c.makeFiles(); err != nil {
		return err
	}
	if err := c.guard(); err != nil {
		return err
	}
	if err := c.writeFiles(); err != nil {
		return errors.Join(err, c.guardian.Close())
	}
	var err error
	for range 5 { // another process may take the port first
		if c.port, err = freePort(); err != nil {
			return err
		}
		if err = c.Start(); err == nil {
			return nil
		}
	}
	return errors.Join(err, c.guardian.Close())
}

// makeFiles makes the database files: new ones, or a copy of those of the primary.
func (c *Cluster) makeFiles() error {
	if c.primary != nil {
		return c.run("pg_basebackup", "--pgdata="+c.data(), "--dbname="+c.primary.URL("postgres"), "--write-recovery-conf",
			"--checkpoint=fast", "--no-sync")
	}
	args := []string{"--pgdata=" + c.data(), "--username=" + userName, "--encoding=UTF8", "--no-locale", "--no-sync"}
	if c.o.Password == "" {
		args = append(args, "--auth=trust")
	} else {
		file := filepath.Join(c.dir, "password")
		if err := os.WriteFile(file, []byte(c.o.Password), 0o644); err != nil {
			return err
		}
		args = append(args, "--auth=scram-sha-256", "--pwfile="+file)
	}
	return c.run("initdb", args...)
}

// writeFiles writes Options.Files for the user that the server runs as.
func (c *Cluster) writeFiles() error {
	folder, err := os.Stat(c.data())
	if err != nil {
		return err
	}
	for name, content := range c.o.Files {
		path := filepath.Join(c.data(), name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
		if err := giveToOwnerOf(path, folder); err != nil {
			return err
		}
	}
	return nil
}

// data returns the folder of the database files.
func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

// guard starts a process that waits for the end of this one, or of the test, and then ends the server and
// removes its files.
func (c *Cluster) guard() error {
	cmd := c.command("sh", "-c", `read -r _; "$0" --pgdata="$1/data" --mode=immediate stop; rm -rf "$1"`,
		filepath.Join(c.bin, "pg_ctl"), c.dir)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	c.guardian, c.ended = stdin, ended
	return nil
}

// run runs a program of PostgreSQL to its end.
func (c *Cluster) run(program string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := c.commandContext(ctx, filepath.Join(c.bin, program), args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		log, _ := os.ReadFile(filepath.Join(c.dir, "log"))
		return fmt.Errorf("%s: %w\n%s%s", program, err, out, log)
	}
	return nil
}

// freePort returns a port of the loopback address that nobody listened on a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Start starts the server where it is stopped.
func (c *Cluster) Start() error {
	settings := []string{"-p", strconv.Itoa(c.port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "max_connections=150", "-c", "shared_buffers=32MB"}
	if !c.o.Durable {
		settings = append(settings, "-c", "fsync=off", "-c", "full_page_writes=off")
	}
	for name, value := range c.o.Settings {
		settings = append(settings, "-c", name+"="+value)
	}
	return c.run("pg_ctl", "--pgdata="+c.data(), "--log="+filepath.Join(c.dir, "log"), "--wait", "--timeout=60",
		"--options="+strings.Join(settings, " "), "start")
}

// Stop ends the server in order; transactions under way are rolled back.
func (c *Cluster) Stop() error {
	return c.run("pg_ctl", "--pgdata="+c.data(), "--mode=fast", "--wait", "--timeout=60", "stop")
}

// Kill ends the server at once, as a crash does.
func (c *Cluster) Kill() error {
	return c.run("pg_ctl", "--pgdata="+c.data(), "--mode=immediate", "--wait", "--timeout=60", "stop")
}

// Promote makes a standby a server that takes changes. Its primary goes on, where it runs.
func (c *Cluster) Promote() error {
	return c.run("pg_ctl", "--pgdata="+c.data(), "--wait", "--timeout=60", "promote")
}

// Address returns host and port of the server.
func (c *Cluster) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)) }

// userName is the superuser of the server.
const userName = "ravenbot"

// URL returns the address of a database on the server.
func (c *Cluster) URL(database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.User(userName),
		Host:     c.Address(),
		Path:     database,
		RawQuery: "sslmode=disable",
	}
	if c.o.Password != "" {
		u.User = url.UserPassword(userName, c.o.Password)
	}
	return u.String()
}

// Exec runs SQL in a database.
func (c *Cluster) Exec(ctx context.Context, database, sql string) error {
	conn, err := pgx.Connect(ctx, c.URL(database))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}

// Database returns the URL of a new, empty database. It goes with the server: dropping it would take longer
// than a test, since the server writes everything to the disk before.
func (c *Cluster) Database(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("test%d", databases.Add(1))
	if err := c.Exec(tb.Context(), "postgres", "create database "+name); err != nil {
		tb.Fatal("create a database: ", err)
	}
	return c.URL(name)
}

// findPrograms returns the folder of the newest PostgreSQL that is installed.
func findPrograms() (string, error) {
	var folders []string
	if path, err := exec.LookPath("postgres"); err == nil {
		// The programs look for their files beside the real one.
		if real, err := filepath.EvalSymlinks(path); err == nil {
			folders = append(folders, filepath.Dir(real))
		}
	}
	installed, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // fails for bad patterns only
	slices.Reverse(installed)
	for _, folder := range append(folders, installed...) {
		if versionOf(folder) >= minVersion {
			return folder, nil
		}
	}
	return "", errMissing
}

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// versionOf returns the major version of the PostgreSQL in a folder; 0: it is not complete.
func versionOf(folder string) int {
	for _, program := range []string{"initdb", "pg_ctl"} {
		if _, err := os.Stat(filepath.Join(folder, program)); err != nil {
			return 0
		}
	}
	out, err := exec.Command(filepath.Join(folder, "postgres"), "--version").Output()
	if err != nil {
		return 0
	}
	match := versionPattern.FindSubmatch(out)
	if match == nil {
		return 0
	}
	n, _ := strconv.Atoi(string(match[1])) // digits alone
	return n
}
