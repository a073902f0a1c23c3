package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ravenbot/internal/store"
	"ravenbot/internal/store/storage"
)

// daemon is the program as a process of its own, which can be killed and started
// again on the same store.
type daemon struct {
	w        *world
	dir      string // with the configuration
	settings map[string]any
	tools    bool // with the tool server
	binary   string
	place    string // where it kills itself
	runs     int
	cmd      *exec.Cmd
	gone     chan struct{} // closed when the process has ended, with err
	err      error
	out      *readyLog
	logs     []*readyLog    // of all runs
	left     sync.WaitGroup // looks for processes that outlived a kill
}

// readyLog keeps what a daemon writes and notices its line "ready".
type readyLog struct {
	logBuffer
	once  sync.Once
	ready chan struct{}
}

func (l *readyLog) Write(p []byte) (int, error) {
	n, err := l.logBuffer.Write(p)
	select {
	case <-l.ready: // what is long need not be looked through again
		return n, err
	default:
	}
	if strings.Contains(l.String(), "msg=ready") {
		l.once.Do(func() { close(l.ready) })
	}
	return n, err
}

func (w *world) daemon(settings map[string]any) *daemon {
	d := &daemon{w: w, dir: w.dir, settings: settings, binary: daemonBinary()}
	w.t.Cleanup(func() {
		if d.cmd != nil {
			_ = d.cmd.Process.Kill()
			<-d.gone
		}
		d.left.Wait()
	})
	return d
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

// withTools gives the bot the tool server of this test binary.
func (d *daemon) withTools() *daemon {
	d.tools = true
	return d
}

// mark is in the environment of every process that this run of the daemon starts.
func (d *daemon) mark(run int) string { return fmt.Sprintf("KILL_TEST_RUN=%s#%d", d.dir, run) }

// write writes the configuration.
func (d *daemon) write() {
	d.w.t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, "config.json"),
		must(json.Marshal(withOpenTools(d.settings))), 0o600); err != nil {
		d.w.t.Fatal(err)
	}
}

// launch starts the process without waiting for anything.
func (d *daemon) launch() {
	d.w.t.Helper()
	d.runs++
	if d.tools {
		name, value, _ := strings.Cut(d.mark(d.runs), "=")
		d.settings["mcpServers"] = map[string]any{"kit": map[string]any{"command": os.Args[0],
			"env": map[string]string{"RAVENBOT_TOOL_SERVER": d.w.tools, name: value, "GORACE": "atexit_sleep_ms=0"}}}
	}
	d.write()
	d.out = &readyLog{ready: make(chan struct{})}
	d.logs = append(d.logs, d.out)
	d.cmd = exec.Command(d.binary, "run", "--config", filepath.Join(d.dir, "config.json"))
	d.cmd.Env = append(os.Environ(), "RAVENBOT_FAILPOINT="+d.place)
	d.cmd.Stderr = d.out
	d.cmd.WaitDelay = 5 * time.Second
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := d.cmd.Start(); err != nil {
		d.w.t.Fatal(err)
	}
	d.gone = make(chan struct{})
	go func(cmd *exec.Cmd, gone chan struct{}) {
		d.err = cmd.Wait()
		close(gone)
	}(d.cmd, d.gone)
}

// logged returns the lines of all runs with a text, each behind the number of its run.
func (d *daemon) logged(text string) (lines []string) {
	for n, run := range d.logs {
		for line := range strings.Lines(run.String()) {
			if strings.Contains(line, text) {
				lines = append(lines, fmt.Sprintf("run %d: %s", n+1, line))
			}
		}
	}
	return lines
}

// dead reports that the process has ended.
func (d *daemon) dead() bool {
	select {
	case <-d.gone:
		return true
	default:
		return false
	}
}

// start starts the process and waits until its platforms are connected.
func (d *daemon) start() *daemon {
	d.w.t.Helper()
	d.launch()
	select {
	case <-d.out.ready:
	case <-time.After(30 * time.Second):
		d.w.t.Fatalf("the daemon is not ready:\n%s", d.out)
	}
	return d
}

// toolsReady waits until the tool server is connected.
func (d *daemon) toolsReady() *daemon {
	d.w.t.Helper()
	within(d.w.t, "the tool server is connected", func() bool {
		return strings.Contains(d.out.String(), "mcp server connected")
	})
	return d
}

// kill is SIGKILL. That nothing is left of what the daemon had started is seen
// to beside the test.
func (d *daemon) kill() {
	d.w.t.Helper()
	if err := d.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		d.w.t.Fatal(err)
	}
	<-d.gone
	d.cmd = nil
	d.left.Add(1)
	go func(mark string) {
		defer d.left.Done()
		end := time.Now().Add(5 * time.Second)
		for len(marked(mark)) > 0 {
			if time.Now().After(end) {
				d.w.t.Errorf("processes %v outlived the daemon that started them by 5 s", marked(mark))
				return
			}
			<-time.After(50 * time.Millisecond)
		}
	}(d.mark(d.runs))
}

// marked lists the processes with a variable in their environment.
func marked(variable string) []int {
	var found []int
	for _, path := range must(filepath.Glob("/proc/[0-9]*/environ")) {
		env, err := os.ReadFile(path)
		if err == nil && slices.Contains(strings.Split(string(env), "\x00"), variable) {
			found = append(found, must(strconv.Atoi(strings.Split(path, "/")[2])))
		}
	}
	return found
}

// end stops the daemon in good order and checks that its store is whole and owes
// nothing.
func (d *daemon) end() {
	d.w.t.Helper()
	d.terminate()
	db, err := storage.OpenFile(d.w.path("data/ravenbot.db"), time.Now)
	if err != nil {
		d.w.t.Fatalf("the store cannot be opened: %v", err)
	}
	defer db.Close()
	owesNothing(d.w.t, db)
}

// terminate stops the daemon in good order.
func (d *daemon) terminate() {
	d.w.t.Helper()
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	if <-d.gone; d.err != nil {
		d.w.t.Errorf("the daemon ended with %v:\n%s", d.err, d.out)
	}
	d.cmd = nil
	d.left.Wait()
}

// owesNothing checks that every message in a store has an outcome.
func owesNothing(t *testing.T, db store.Store) {
	t.Helper()
	for _, r := range must(db.Unanswered(t.Context())) {
		t.Errorf("left without an outcome: %q", r.Message.Text)
	}
	for _, p := range must(db.PendingPosts(t.Context())) {
		t.Errorf("left without being sent: post %s to %s", p.Key, p.To)
	}
	for _, p := range must(db.Undelivered(t.Context())) {
		t.Errorf("given up: post %s to %s: %s", p.Key, p.To, p.Error)
	}
}

// api makes a request to the daemon; an error is what a killed daemon gives.
func (d *daemon) api(method, path string, out any) error {
	_, rest, _ := strings.Cut(d.out.String(), "http=http://")
	address, _, _ := strings.Cut(rest, " ")
	req := must(http.NewRequest(method, "http://"+address+path, nil))
	req.Header.Set("Authorization", "Bearer admin-token")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return json.NewDecoder(res.Body).Decode(out)
}

// idle waits until the daemon has nothing to do.
func (d *daemon) idle() {
	d.w.t.Helper()
	within(d.w.t, "the daemon has nothing to do", func() bool {
		var status struct {
			Load struct{ Conversations, Waiting int }
		}
		return d.api(http.MethodGet, "/api/v1/status", &status) == nil && status.Load.Conversations+status.Load.Waiting == 0
	})
}

// hold stands between the daemon and a platform. An answer to a request that
// match picks is kept back: the platform has done what it was asked and the
// daemon does not hear of it, until it is killed.
func hold(t *testing.T, platform string, match func(path, body string) bool) (base string, taken <-chan struct{}) {
	t.Helper()
	done := make(chan struct{}, 16)
	proxy := &httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(must(url.Parse(platform))) },
		ErrorLog: nil,
		ModifyResponse: func(res *http.Response) error {
			if held, _ := res.Request.Context().Value(heldKey{}).(bool); held {
				done <- struct{}{}
				<-res.Request.Context().Done()
			}
			return nil
		},
	}
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	s := &http.Server{ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body := must(io.ReadAll(r.Body))
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			ctx := context.WithValue(r.Context(), heldKey{}, match(r.URL.Path, string(body)))
			proxy.ServeHTTP(w, r.WithContext(ctx))
		})}
	served := make(chan struct{})
	go func() { _ = s.Serve(l); close(served) }()
	t.Cleanup(func() { _ = s.Close(); <-served })
	return "http://" + l.Addr().String(), done
}

type heldKey struct{}
