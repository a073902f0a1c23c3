package replica

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"slices"
	"strconv"
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
	// sendTimeout bounds how long another replica may take for a request of a chat platform, which stores it.
	sendTimeout = 10 * time.Second
	// maxRequest is the most that is read of such a request or its answer, in bytes: a frame of Slack, in base64.
	maxRequest = 8 << 20
	// leaderWait bounds how long an HTTP request waits for another leader: longer than the others wait for one that was
	// killed.
	leaderWait = 15 * time.Second
	// maxKept is how long the body of such a request may be, in bytes. It is kept meanwhile.
	maxKept = 1 << 20
)

// requestPath is where a replica takes what others hand on.
const requestPath = "/replica/request"

// notTakenHeader is set where a replica was taken for the leader, and is not: nothing was done.
const notTakenHeader = "Ravenbot-Not-Taken"

// viaHeader names the replica that has handed an HTTP request on, so that it is handed on once.
const viaHeader = "Ravenbot-Replica"

// newTransport returns what carries requests to other replicas. No proxy of the environment is meant for them.
func newTransport(r *reach) *http.Transport {
	return &http.Transport{
		DialContext:           r.dial,
		ResponseHeaderTimeout: headerTimeout,
		IdleConnTimeout:       time.Minute,
		MaxIdleConnsPerHost:   64,
	}
}

// Box encrypts what replicas send to one another with the key that all of them have.
type Box interface {
	// Seal encrypts a text under a name; Open returns an error for what was not sealed under it.
	Seal(name string, plain []byte) []byte
	Open(name string, sealed []byte) ([]byte, error)
}

// envelope is a request for the owner of a channel, a post that the sender cannot send itself, or a question: whether an
// HTTP request is about something that a replica alone has, or whether a platform is switched on.
type envelope struct {
	Channel      string       `json:"channel,omitempty"` // its key
	Request      []byte       `json:"request,omitempty"`
	Post         *postRequest `json:"post,omitempty"`
	URL          string       `json:"url,omitempty"` // path and query of the HTTP request
	PlatformName string       `json:"platform,omitempty"`
}

// sealedFor returns the name that requests to a replica are encrypted under, and answeredBy that of its answers: what
// somebody has recorded on the way is of no use with another replica, nor with this one after a restart.
func sealedFor(replica int64) string { return "request to replica " + strconv.FormatInt(replica, 10) }

// answeredBy is sealedFor for the answers of a replica.
func answeredBy(replica int64) string { return "answer of replica " + strconv.FormatInt(replica, 10) }

// send has another replica take a request, and returns its answer. It returns a *refusedError where the right replica
// could not take it; after any other error the owner has to be asked for again.
func (n *Node) send(ctx context.Context, to store.Replica, e envelope) ([]byte, error) {
	return n.sendWithin(ctx, sendTimeout, to, e)
}

// sendWithin is send for what may take another time.
func (n *Node) sendWithin(ctx context.Context, limit time.Duration, to store.Replica, e envelope) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	plain, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	url := "http://" + to.Address + requestPath
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(n.box.Seal(sealedFor(to.ID), plain)))
	if err != nil {
		return nil, err
	}
	res, err := n.transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	// A longer answer is cut off here, and Open refuses it.
	body, err := io.ReadAll(io.LimitReader(res.Body, maxRequest))
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode == http.StatusUnprocessableEntity:
		return nil, &refusedError{"see its log"}
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it answered %s", res.Status)
	}
	return n.box.Open(answeredBy(to.ID), body)
}

// serveRequest takes what another replica hands on.
func (n *Node) serveRequest(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err == nil {
		body, err = n.box.Open(sealedFor(n.self.ID), body)
	}
	var e envelope
	if err == nil {
		err = json.Unmarshal(body, &e)
	}
	if err != nil {
		// Also what was meant for a replica that had this address before.
		w.WriteHeader(http.StatusForbidden)
		return
	}
	var answer []byte
	switch {
	case e.URL != "":
		answer = []byte(strconv.FormatBool(n.has(e.URL)))
	case e.PlatformName != "":
		answer = []byte(strconv.FormatBool(n.platformHere(e.PlatformName) != nil))
	case e.Post != nil:
		answer, err = n.servePost(r.Context(), *e.Post)
	default:
		answer, err = n.takeFrom(r.Context(), e)
	}
	switch {
	case err == nil:
		_, _ = w.Write(n.box.Seal(answeredBy(n.self.ID), answer))
	case isRefused(err):
		w.WriteHeader(http.StatusUnprocessableEntity)
	default:
		w.WriteHeader(http.StatusMisdirectedRequest)
	}
}

// isLocal reports whether each replica answers a path for itself: whether it is alive and ready, its counts, and what
// Slack sends.
func isLocal(path string) bool {
	return path == "/healthz" || path == "/readyz" || path == "/metrics" || strings.HasPrefix(path, "/slack/")
}

// Handler returns a handler that takes what other replicas hand on, has next answer what this one answers for itself,
// or finds somebody for (Held), and all else while it is the leader, and hands on the rest to the leader.
func (n *Node) Handler(next http.Handler) http.Handler {
	if n == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == requestPath && r.Method == http.MethodPost:
			n.serveRequest(w, r)
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
		case <-time.After(handOnPause):
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
// reports whether this one does. Where it does not, the request goes to the replica that does, if there is one.
func (n *Node) Held(path string, has func(*http.Request) bool, next http.Handler) http.Handler {
	if n == nil {
		return next
	}
	n.mu.Lock()
	n.held[path] = has
	n.mu.Unlock()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !has(r) && r.Header.Get(viaHeader) == "" {
			if other, ok := n.findHolder(r.Context(), envelope{URL: r.URL.String()}); ok {
				if _, why := n.proxy(w, r, other); why != "" {
					unavailable(w, why)
				}
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// isHeld reports whether Held serves a path: its requests go to the replica that keeps what they are
// about, and not to the leader.
func (n *Node) isHeld(path string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.held[path] != nil
}

// has reports whether an HTTP request, by its path and query, is about something that this replica keeps in memory.
func (n *Node) has(address string) bool {
	r, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		return false
	}
	n.mu.Lock()
	has := n.held[r.URL.Path]
	n.mu.Unlock()
	return has != nil && has(r)
}

// findHolder returns a replica that answers a question with yes: it keeps in memory what an HTTP request is about, or has a
// platform; false: none does.
func (n *Node) findHolder(ctx context.Context, question envelope) (store.Replica, bool) {
	living, err := n.members.Replicas(ctx)
	if err != nil {
		n.o.Log.Warn("other replicas not asked", "error", err)
	}
	living = slices.DeleteFunc(living, func(r store.Replica) bool { return r.ID == n.self.ID })
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // who is still asked when one has it
	type reply struct {
		from store.Replica
		has  bool
	}
	// All at once: one that is paused answers nothing, and the person at the browser waits.
	replies := make(chan reply, len(living)) // senders never block
	for _, r := range living {
		go func() {
			answer, err := n.send(ctx, r, question)
			replies <- reply{r, err == nil && string(answer) == "true"}
		}()
	}
	for range living {
		if r := <-replies; r.has {
			return r.from, true
		}
	}
	return store.Replica{}, false
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
