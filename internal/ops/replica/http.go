package replica

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"ravenbot/internal/store"
)

// Limits of what replicas send to one another.
const (
	dialTimeout = 3 * time.Second
	// headerTimeout bounds how long the leader may take to begin its answer. A turn that is asked for over HTTP
	// answers when it is done.
	headerTimeout = 10 * time.Minute
	// retryPause is the pause between two attempts to reach the leader.
	retryPause = 100 * time.Millisecond
	// leaderWait bounds how long an HTTP request waits for another leader: longer than the others wait for one that was
	// killed.
	leaderWait = 15 * time.Second
	// maxKept is how long the body of such a request may be, in bytes. It is kept meanwhile.
	maxKept = 1 << 20
)

// notTakenHeader is set where a replica was taken for the leader, and is not: nothing was done.
const notTakenHeader = "Ravenbot-Not-Taken"

// viaHeader names the replica that has handed an HTTP request on, so that it is handed on once.
const viaHeader = "Ravenbot-Replica"

// newTransport returns what carries requests to other replicas. No proxy of the environment is meant for them.
func newTransport() *http.Transport {
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: dialTimeout}).DialContext,
		ResponseHeaderTimeout: headerTimeout,
		IdleConnTimeout:       time.Minute,
		MaxIdleConnsPerHost:   64,
	}
}

// isLocal reports whether each replica answers a path for itself: whether it is alive and ready, its counts, and what
// Slack sends.
func isLocal(path string) bool {
	return path == "/healthz" || path == "/readyz" || path == "/metrics" || strings.HasPrefix(path, "/slack/")
}

// Handler returns a handler that has next answer the requests that each replica answers for itself, those for which it
// finds a replica (Held), and all others while it is the leader. It hands on the rest to the leader.
func (n *Node) Handler(next http.Handler) http.Handler {
	if n == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case isLocal(r.URL.Path), n.isHeld(r.URL.Path), n.IsLeader():
			next.ServeHTTP(w, r)
		default:
			n.serveByLeader(w, r, next)
		}
	})
}

// serveByLeader hands an HTTP request on to the leader. While the leader changes the request waits for the next one,
// which may be this replica: whoever sends webhooks mostly sends them once, and a person would see an error for nothing.
func (n *Node) serveByLeader(w http.ResponseWriter, r *http.Request, next http.Handler) {
	// While the leader changes, two replicas may each take the other one for it: the request would go back and forth.
	if r.Header.Get(viaHeader) != "" {
		w.Header().Set(notTakenHeader, "true")
		unavailable(w, takesOver)
		return
	}
	body, isWhole, err := readSmallBody(r)
	if err != nil {
		unavailable(w, "the request was cut off")
		return
	}
	if !isWhole {
		// How long it may take the leader decides, which knows how large it may be and from whom it comes.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
	for until := time.Now().Add(leaderWait); ; {
		if isWhole {
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		n.mu.Lock()
		leader := n.leader
		n.mu.Unlock()
		why := takesOver
		switch {
		case n.IsLeader():
			next.ServeHTTP(w, r)
			return
		case leader.Address == "":
			unavailable(w, "the database does not answer")
			return
		case leader.ID != n.self.ID:
			var again bool
			if again, why = n.proxy(w, r, leader); why == "" {
				return
			} else if !again || !isWhole {
				until = time.Time{}
			}
		}
		if time.Now().After(until) {
			unavailable(w, why)
			return
		}
		select {
		case <-time.After(retryPause):
		case <-n.leads:
		case <-r.Context().Done():
			return
		}
	}
}

// takesOver is what somebody is told who asks while the leader changes.
const takesOver = "another replica takes over within seconds"

// readSmallBody reads the body of a request, so that it can be sent more than once. isWhole is false for one of more than
// maxKept bytes, which stays in the request.
func readSmallBody(r *http.Request) (body []byte, isWhole bool, err error) {
	body, err = io.ReadAll(io.LimitReader(r.Body, maxKept+1))
	if err != nil || len(body) <= maxKept {
		return body, true, err
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
	return nil, false, nil
}

// Held returns a handler for requests to a path that are about something which one replica alone keeps in memory. has
// reports whether this one does. Otherwise the other replicas are asked, one after another.
func (n *Node) Held(path string, has func(*http.Request) bool, next http.Handler) http.Handler {
	if n == nil {
		return next
	}
	n.mu.Lock()
	n.held[path] = true
	n.mu.Unlock()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if has(r) {
			next.ServeHTTP(w, r)
			return
		}
		if r.Header.Get(viaHeader) != "" {
			w.Header().Set(notTakenHeader, "true")
			return
		}
		for _, other := range n.others(r.Context()) {
			if _, why := n.proxy(w, r, other); why == "" {
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// isHeld reports whether Held serves a path.
func (n *Node) isHeld(path string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.held[path]
}

// others returns the replicas besides this one.
func (n *Node) others(ctx context.Context) []store.Replica {
	living, err := n.members.Replicas(ctx)
	if err != nil {
		n.o.Log.Warn("failed to list the other replicas", "error", err)
	}
	return slices.DeleteFunc(living, func(r store.Replica) bool { return r.ID == n.self.ID })
}

// proxy hands an HTTP request on to another replica. why says why that one has not answered; then nothing was written to w,
// and again reports whether the request may be made again: the replica has not taken it, or to make it twice is harmless.
// proxy gives up when the other replica has ended: one that is paused, and a machine without power, leave the connection
// open and answer nothing.
func (n *Node) proxy(w http.ResponseWriter, r *http.Request, to store.Replica) (again bool, why string) {
	var isConnected atomic.Bool // nothing was sent before
	ctx, cancel := context.WithCancel(httptrace.WithClientTrace(r.Context(),
		&httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { isConnected.Store(true) }}))
	defer cancel()
	ended := n.endOf(to.ID)
	go func() {
		select {
		case <-ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = "http", to.Address
			p.Out.Host = p.In.Host // links and cookies are made for the host that was asked
			// ReverseProxy has taken it out, and SetXForwarded adds to what is there.
			p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"]
			p.SetXForwarded()
			// What an outer proxy has said of the scheme stands.
			if proto := p.In.Header.Get("X-Forwarded-Proto"); proto != "" {
				p.Out.Header.Set("X-Forwarded-Proto", proto)
			}
			p.Out.Header.Set(viaHeader, n.self.Name)
		},
		Transport:     n.transport,
		FlushInterval: -1, // server-sent events
		ModifyResponse: func(res *http.Response) error {
			if res.Header.Get(notTakenHeader) != "" {
				return errNotTaken
			}
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			n.o.Log.Debug("request not handed on", "replica", to.Address, "error", err)
			again = !isConnected.Load() || isRepeatable(r, err)
			why = "the replica that has to answer does not answer; " + takesOver
		},
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
	return again, why
}

// errNotTaken is returned for a request that another replica has answered by notTakenHeader.
var errNotTaken = errors.New("the replica is not the leader")

// isRepeatable reports whether a request that may have reached another replica may be made again.
func isRepeatable(r *http.Request, err error) bool {
	// Webhooks and the messages of the chat page are known again by their key, and nothing else is.
	hasKey := r.Header.Get("Idempotency-Key") != "" && (strings.HasPrefix(r.URL.Path, "/hooks/") ||
		strings.HasPrefix(r.URL.Path, "/chat/") && strings.HasSuffix(r.URL.Path, "/messages"))
	return errors.Is(err, errNotTaken) || r.Method == http.MethodGet || r.Method == http.MethodHead || hasKey
}

// unavailable answers a request that no replica can take now.
func unavailable(w http.ResponseWriter, why string) {
	w.Header().Set("Retry-After", "5")
	writeJSON(w, http.StatusServiceUnavailable, map[string]any{"error": map[string]string{
		"code": "unavailable", "message": why, "hint": "try again in a few seconds",
	}})
}

// writeJSON answers a request of another replica. Nothing keeps such an answer.
func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the reader is gone when this fails
}
