package mcp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A stream that ends is opened again after growing delays, which start over after a long stream.
func TestReopenUntilRefused_DelaysGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gaps []time.Duration
		ended := time.Now()
		reopenUntilRefused(t.Context(), func(context.Context) bool {
			gaps = append(gaps, time.Since(ended))
			switch len(gaps) {
			case 4:
				time.Sleep(time.Minute) // no longer than what counts as a failure
			case 13:
				time.Sleep(time.Minute + time.Second)
			}
			ended = time.Now()
			return len(gaps) == 16
		})
		s, m := time.Second, time.Minute
		want := []time.Duration{0, s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 64 * s, 128 * s, 256 * s, 5 * m, 5 * m, 5 * m, s,
			2 * s, 4 * s}
		if !slices.Equal(gaps, want) {
			t.Errorf("delays %v, want %v", gaps, want)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		began := time.Now()
		reopenUntilRefused(ctx, func(context.Context) bool { return false })
		if took := time.Since(began); took != 90*time.Second {
			t.Errorf("ended after %v, want it with its context", took)
		}
	})
}

// asksOnStream is a server of the older protocol that asks on its GET stream.
type asksOnStream struct {
	answers chan string
	headers chan http.Header // of the GET request
	refuse  int              // the status with which it refuses the stream, or 0
}

func (a asksOnStream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		a.headers <- r.Header.Clone()
		if a.refuse != 0 {
			w.WriteHeader(a.refuse)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"p1\",\"method\":\"ping\"}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if jsonString(jsonObject(body)["id"]) == "p1" {
		a.answers <- string(body)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	withoutDiscover(scripted(answer)).ServeHTTP(w, r)
}

// What a server asks on its stream is answered by a message of its own, in the same session.
func TestListenStream_RequestsAreAnswered(t *testing.T) {
	a := asksOnStream{answers: make(chan string, 9), headers: make(chan http.Header, 9)}
	h := running(t, Options{Servers: []Config{{Name: "a", URL: serve(t, a).URL}}})
	settled(t, h, "a")
	for what, want := range map[string]string{"Accept": "text/event-stream", "Mcp-Session-Id": "s1",
		"Mcp-Protocol-Version": "2025-06-18"} {
		got := <-a.headers
		if got.Get(what) != want {
			t.Errorf("%s: %q, want %q", what, got.Get(what), want)
		}
		a.headers <- got
	}
	select {
	case got := <-a.answers:
		if got != `{"jsonrpc":"2.0","id":"p1","result":{}}` {
			t.Errorf("answered: %s", got)
		}
	case <-time.After(soon):
		t.Error("the request was not answered")
	}
}

// A server that has no stream is not asked for it again.
func TestListenStream_Refused_IsNotOpenedAgain(t *testing.T) {
	refusing := asksOnStream{headers: make(chan http.Header, 9), refuse: http.StatusMethodNotAllowed}
	poster := httpPoster{serve(t, refusing).URL, http.DefaultClient, func() http.Header { return http.Header{} }}
	c := unconnected(t, Options{})
	openListenStream(poster, c)
	c.cancel()
	c.work.Wait()
	if len(refusing.headers) != 1 {
		t.Errorf("it was asked %d times", len(refusing.headers))
	}
	stream, opened := newRPCConn(func([]byte) {}), 0
	open := func(ctx context.Context) bool { return readListenStream(ctx, poster, stream, func() { opened++ }) }
	if !open(t.Context()) || opened != 0 {
		t.Errorf("no refusal, or %d streams were opened", opened)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if open(ended) {
		t.Error("a stream that could not be opened was refused")
	}
}
