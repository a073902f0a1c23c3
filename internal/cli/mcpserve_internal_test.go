package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// endpoint is the daemon's part of the API that a relay uses. It takes the newest token alone, and answers a request
// of the method "wait" once that is cancelled, others at once.
type endpoint struct {
	mu      sync.Mutex
	tokens  int
	waiting chan struct{} // one for each request that waits
	// gather is nil, or waited for by each request with the first token.
	gather *sync.WaitGroup
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodDelete:
		return
	case r.URL.Path == "/api/v1/auth/mcp-tokens":
		e.mu.Lock()
		e.tokens++
		fmt.Fprintf(w, `{"token":"t%d"}`, e.tokens)
		e.mu.Unlock()
		return
	}
	// The body is read first: only then does the server notice that the client has gone.
	var m rpcMessage
	if json.NewDecoder(r.Body).Decode(&m) != nil {
		http.Error(w, "no JSON", http.StatusBadRequest)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if e.gather != nil && token == "t1" {
		e.gather.Done()
		e.gather.Wait()
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	e.mu.Lock()
	current := fmt.Sprintf("t%d", e.tokens)
	e.mu.Unlock()
	if token != current {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if m.Method == "wait" {
		e.waiting <- struct{}{}
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
}

// startRelay runs a relay to a daemon. What is written to host is read by it; answers has its output by line, and ends
// when it has returned.
func startRelay(t *testing.T, e *endpoint) (host io.WriteCloser, answers *bufio.Scanner) {
	t.Helper()
	daemon := httptest.NewServer(e)
	t.Cleanup(daemon.Close)
	in, host := io.Pipe()
	out, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		err := relayMCP(ctx, &invocation{World: World{In: in, Out: w}}, &client{daemon.URL, "admin", daemon.Client()})
		if err != nil {
			t.Errorf("the relay ended with %v", err)
		}
		w.Close()
	})
	t.Cleanup(func() {
		cancel()
		host.Close()
		_, _ = io.Copy(io.Discard, out)
		done.Wait()
	})
	return host, bufio.NewScanner(out)
}

// However many requests are under way, the next line of the host is read: it may cancel one of them.
func TestRelay_AllSlotsTaken_CancellationIsRead(t *testing.T) {
	e := &endpoint{waiting: make(chan struct{}, 2*maxConcurrent)}
	host, answers := startRelay(t, e)
	for n := range maxConcurrent {
		fmt.Fprintf(host, `{"jsonrpc":"2.0","id":%d,"method":"wait"}`+"\n", n)
	}
	for range maxConcurrent {
		<-e.waiting
	}
	// Two more wait for a slot. One of them is cancelled there, and a running one, which makes room for the other.
	fmt.Fprintln(host, `{"jsonrpc":"2.0","id":"never","method":"wait"}`)
	fmt.Fprintln(host, `{"jsonrpc":"2.0","id":"last","method":"ping"}`)
	fmt.Fprintln(host, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"never"}}`)
	fmt.Fprintln(host, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
	for answers.Scan() {
		if strings.Contains(answers.Text(), `"last"`) {
			break
		}
		if strings.Contains(answers.Text(), `"never"`) {
			t.Errorf("a request that was cancelled is answered %s", answers.Text())
		}
	}
	if !strings.Contains(answers.Text(), `"result"`) {
		t.Errorf("the last answer is %q", answers.Text())
	}
	if len(e.waiting) > 0 {
		t.Error("a request that was cancelled while it waited was sent")
	}
}

// More messages than may wait are refused, and those that wait are answered all the same.
func TestRelay_TooManyMessages_AreRefused(t *testing.T) {
	e := &endpoint{waiting: make(chan struct{}, maxPending)}
	host, answers := startRelay(t, e)
	for n := range maxPending + 1 {
		fmt.Fprintf(host, `{"jsonrpc":"2.0","id":%d,"method":"wait"}`+"\n", n)
	}
	want := fmt.Sprintf(`{"error":{"code":-32603,"message":"too many requests are waiting for an answer, `+
		`send it again later"},"id":%d,"jsonrpc":"2.0"}`, maxPending)
	if !answers.Scan() || answers.Text() != want {
		t.Errorf("the one too many is answered %s", answers.Text())
	}
}

// Requests whose token is refused at once share one new token: a second one would end the first.
func TestRelay_TokenRefusedForSeveralAtOnce_IsRenewedOnce(t *testing.T) {
	const many = 8
	e := &endpoint{gather: &sync.WaitGroup{}}
	e.gather.Add(many)
	host, answers := startRelay(t, e)
	for n := range many {
		fmt.Fprintf(host, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", n)
	}
	for range many {
		if !answers.Scan() || !strings.Contains(answers.Text(), `"result"`) {
			t.Errorf("answered %s", answers.Text())
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.tokens != 2 {
		t.Errorf("%d tokens were made, want the first and one more", e.tokens)
	}
}
