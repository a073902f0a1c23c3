package cli

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestShippedConfiguration starts the daemon as make run does, in a folder that
// holds the shipped config.json, with no variable set, and does what README says
// a newcomer can do. Only the port is another one, by a line in .env.
func TestShippedConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "config.json"), readText(t, "config.json"))
	address := freeAddress(t)
	write(t, filepath.Join(dir, ".env"), "RAVENBOT_LISTEN="+address+"\n")

	d := startDaemon(t, dir)
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, text := request(t, http.DefaultClient, http.MethodGet,
			"http://"+address+path, "", ""); status != http.StatusOK {
			t.Errorf("%s: status %d: %s", path, status, text)
		}
	}
	page := logIn(t, d.link)
	if status, text := page("/"); status != http.StatusOK || !strings.Contains(text, "<form") {
		t.Errorf("the chat page: status %d: %.300s", status, text)
	}
	if status, text := request(t, newBrowser(t), http.MethodGet, d.link, "", ""); status != http.StatusUnauthorized ||
		!strings.Contains(text, "used before") {
		t.Errorf("the link a second time: status %d: %.300s", status, text)
	}

	token := strings.TrimSpace(read(t, filepath.Join(dir, "data", "ravenbot.db.token")))
	general := "http://" + address + "/api/v1/conversations/web%3A%2Fgeneral/messages"
	if status, text := request(t, http.DefaultClient, http.MethodPost, general, token,
		`{"text":"What can you do, raven?"}`); status != http.StatusOK ||
		!strings.Contains(text, "event: answer\n") || !strings.Contains(text, "offline model") {
		t.Errorf("a question: status %d: %s", status, text)
	}
	if status, text := request(t, http.DefaultClient, http.MethodPost, general, token,
		`{"text":"/digest run morning"}`); status != http.StatusOK ||
		!strings.Contains(text, "on its way to `web:/general`") {
		t.Errorf("the digest: status %d: %s", status, text)
	}
	story := "https://modelcontextprotocol.io/docs/getting-started/intro"
	await(t, func() bool { _, text := page("/chat/general"); return strings.Contains(text, story) })
	d.stop()

	d = startDaemon(t, dir)
	page = logIn(t, d.link)
	_, text := page("/chat/general")
	for _, said := range []string{"What can you do, raven?", "offline model", story} {
		if !strings.Contains(text, said) {
			t.Errorf("after a restart the room does not show %q", said)
		}
	}
	if _, text := request(t, http.DefaultClient, http.MethodPost, general, token,
		`{"text":"/digest run morning"}`); !strings.Contains(text, "nothing new") {
		t.Errorf("the digest after a restart: %s", text)
	}
	d.stop()
}

type daemonProcess struct {
	link string
	stop func() // ends it as an init system does
}

// startDaemon starts ravenbot run in a folder and waits for the link and for the
// line "ready".
func startDaemon(t *testing.T, dir string) daemonProcess {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // not the test's own: that ends before clean-ups
	cmd := exec.CommandContext(ctx, "ravenbot", "run", "--config", "config.json")
	cmd.Dir, cmd.Env = dir, []string{}
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	log := &transcript{}
	lines := make(chan string)
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			log.add(s.Text())
			lines <- s.Text()
		}
	}()
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		_ = in.Close()
	}()
	end := sync.OnceFunc(func() {
		began := time.Now()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("end the daemon: %v", err)
		}
		for range lines { // so that it can write
		}
		<-read
		if err := <-ended; err != nil || time.Since(began) > 30*time.Second {
			t.Errorf("the daemon ended after %v with %v; it wrote:\n%s", time.Since(began), err, log)
		}
		cancel()
	})
	t.Cleanup(end)
	waitForReady(t, lines, log)
	go func() {
		for range lines {
		}
	}()
	login := exec.CommandContext(ctx, "ravenbot", "login", "--config", "config.json")
	login.Dir, login.Env = dir, []string{}
	link, err := login.Output()
	if err != nil {
		t.Fatalf("ravenbot login: %v", err)
	}
	return daemonProcess{strings.TrimSpace(string(link)), end}
}

// waitForReady returns once the daemon is ready.
func waitForReady(t *testing.T, lines <-chan string, log *transcript) {
	t.Helper()
	late := time.After(time.Minute)
	for ready := false; !ready; {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatalf("the daemon ended; it wrote:\n%s", log)
			}
			ready = strings.Contains(line, "msg=ready")
			if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
				t.Errorf("the daemon complains: %s", line)
			}
		case <-late:
			t.Fatalf("the daemon is not ready; it wrote:\n%s", log)
		}
	}
}

// transcript is what a daemon wrote, for failures.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *transcript) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(&l.text, line)
}

func (l *transcript) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newBrowser(t *testing.T) *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar, Timeout: 20 * time.Second}
}

// logIn opens the link and gives a function that reads pages with the session.
func logIn(t *testing.T, link string) func(path string) (int, string) {
	t.Helper()
	browser := newBrowser(t)
	if status, text := request(t, browser, http.MethodGet, link, "", ""); status != http.StatusOK {
		t.Fatalf("the login link: status %d: %.300s", status, text)
	}
	base, _, _ := strings.Cut(link, "/login")
	return func(path string) (int, string) { return request(t, browser, http.MethodGet, base+path, "", "") }
}

func request(t *testing.T, client *http.Client, method, url, token, body string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// await waits for something that becomes true within 10 seconds.
func await(t *testing.T, is func() bool) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	late := time.After(10 * time.Second)
	for !is() {
		select {
		case <-again.C:
		case <-late:
			t.Fatal("it did not happen within 10 seconds")
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The script that installs a release says in one sentence which file of it is missing.
func TestInstall_ReleaseIsIncomplete_NamesTheFile(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "../../deploy/install.sh", t.TempDir())
	release := t.TempDir()
	cmd.Env = append(os.Environ(), "RAVENBOT_RELEASES="+release)
	out, err := cmd.CombinedOutput()
	if want := "could not get SHA256SUMS of the release at " + release; err == nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("it ended with %v and said %q, want %q", err, out, want)
	}
}
