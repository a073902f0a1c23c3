package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// closing tells when a copy was closed.
type closing struct {
	io.Reader
	closed chan struct{}
}

func (c closing) Close() error { close(c.closed); return nil }

func TestABackupIsSentWhole(t *testing.T) {
	whole := bytes.Repeat([]byte("0123456789"), copyChunk/5)
	closed := make(chan struct{})
	_, _, server, client := start(t, func(o *Options) {
		o.Backup = func(context.Context) (Copy, error) {
			return Copy{closing{bytes.NewReader(whole), closed}, "raven.db", int64(len(whole))}, nil
		}
	})
	r := do(t, client, "POST", server.URL+"/api/v1/backup", nil, "Authorization", bearerHeader)
	if r.status != 200 || r.body != string(whole) {
		t.Errorf("status %d, %d bytes of %d", r.status, len(r.body), len(whole))
	}
	for name, want := range map[string]string{"Content-Type": "application/octet-stream",
		"Content-Length":      strconv.Itoa(len(whole)),
		"Content-Disposition": "attachment; filename=raven.db", "Cache-Control": "no-store"} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	within(t, closed)
	if r := do(t, client, "GET", server.URL+"/api/v1/status", nil, "Authorization", bearerHeader); r.status != 200 {
		t.Errorf("the next request on the connection got status %d", r.status)
	}
}

func within(t *testing.T, happened <-chan struct{}) {
	t.Helper()
	select {
	case <-happened:
	case <-time.After(10 * time.Second):
		t.Fatal("it did not happen")
	}
}

func TestABackupThatFailsIsNoFile(t *testing.T) {
	broken := errors.New("secret detail")
	for name, c := range map[string]struct {
		read io.Reader
		err  error
	}{"not made": {err: broken}, "cut short": {read: io.MultiReader(strings.NewReader("some"), failing{broken})}} {
		t.Run(name, func(t *testing.T) {
			_, _, server, client := start(t, func(o *Options) {
				o.Backup = func(context.Context) (Copy, error) {
					return Copy{io.NopCloser(c.read), "raven.db", 10}, c.err
				}
			})
			req, err := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/api/v1/backup", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", bearerHeader)
			res, err := client.Do(req)
			if err != nil {
				return // as good as an answer that breaks off
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err == nil && res.StatusCode == 200 || strings.Contains(string(body), "secret") {
				t.Errorf("status %d, %q, %v", res.StatusCode, body, err)
			}
		})
	}
}

// A store that makes no copies says what does.
func TestABackupThatIsNotMadeHereSaysWhy(t *testing.T) {
	_, _, server, client := start(t, func(o *Options) {
		o.Backup = func(context.Context) (Copy, error) { return Copy{}, badInput{} }
	})
	req, err := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/api/v1/backup", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", bearerHeader)
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), badInput{}.Error()) {
		t.Errorf("status %d, %q, %v, want 400 with the reason", res.StatusCode, body, err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestOneBackupIsSentAtATime(t *testing.T) {
	r, w := io.Pipe()
	began := make(chan struct{})
	_, _, server, client := start(t, func(o *Options) {
		o.Backup = func(context.Context) (Copy, error) {
			close(began)
			return Copy{r, "raven.db", 4}, nil
		}
	})
	first := make(chan reply, 1)
	go func() {
		first <- do(t, client, "POST", server.URL+"/api/v1/backup", nil, "Authorization", bearerHeader)
	}()
	within(t, began)
	if r := do(t, client, "POST", server.URL+"/api/v1/backup", nil, "Authorization", bearerHeader); r.status != 429 {
		t.Errorf("a second one got status %d", r.status)
	}
	if _, err := w.Write([]byte("copy")); err != nil {
		t.Error(err)
	}
	_ = w.Close()
	if r := <-first; r.status != 200 || r.body != "copy" {
		t.Errorf("the first got status %d and %q", r.status, r.body)
	}
}

// What the operator can do about the store is said where it is asked, not in the log alone.
func TestFailures_StoreInTrouble_SayWhatIsTheMatter(t *testing.T) {
	full := &store.SystemError{Path: "/secret/raven.db", What: "there is no space left on its disk", Remedy: "free some"}
	b, _, server, client := start(t, func(o *Options) {
		o.Backup = func(context.Context) (Copy, error) { return Copy{}, full }
	})
	b.ask = func(context.Context, string, chat.User, string) iter.Seq2[Event, error] {
		return func(yield func(Event, error) bool) { yield(Event{}, fmt.Errorf("take the message: %w", full)) }
	}
	for path, status := range map[string]int{"/backup": 500, "/conversations/web%3A%2Fgeneral/messages": 503} {
		r := do(t, client, "POST", server.URL+"/api/v1"+path, strings.NewReader(`{"text":"x"}`), "Authorization", bearerHeader)
		if r.status != status || !strings.Contains(r.body, "no space left on its disk; free some") ||
			strings.Contains(r.body, "secret") {
			t.Errorf("%s: status %d, %s", path, r.status, r.body)
		}
	}
	b.ask = func(context.Context, string, chat.User, string) iter.Seq2[Event, error] {
		return func(yield func(Event, error) bool) {
			yield(Event{}, errors.New("the file /secret/raven.db was removed"))
		}
	}
	b.problem = "the file of the store was removed"
	r := do(t, client, "POST", server.URL+"/api/v1/conversations/web%3A%2Fgeneral/messages", strings.NewReader(`{"text":"x"}`),
		"Authorization", bearerHeader)
	if !strings.Contains(r.body, b.problem) || strings.Contains(r.body, "secret") {
		t.Errorf("the file is gone: %s", r.body)
	}
}
