package admin

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

// contentPolicy lets pages load from the bot alone and forbids inline scripts and styles.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// setHeaders sets the headers that every answer carries. The referrer policy is
// same-origin, not no-referrer: with the latter browsers send "Origin: null" with
// the page's own forms, which over plain HTTP is all that shows where they are from.
func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// guard refuses requests that another site or an unknown host name sent here.
type guard struct {
	hosts   map[string]bool // names and addresses under which the bot is reached
	anyIP   bool            // it listens on every address
	public  *url.URL
	origins *http.CrossOriginProtection
	logins  *limiter
	bearers *limiter // with the admin token
	clients *limiter // of /mcp, with tokens of its own
	proxies []netip.Prefix
}

// newGuard returns the checks of host, origin and failed logins. Accepted hosts are the one that is listened on and
// that of the public address; a wildcard address accepts every IP address.
func newGuard(o Options) *guard {
	g := &guard{hosts: map[string]bool{}, origins: http.NewCrossOriginProtection(),
		// A person mistypes a token a few times; scripts with a wrong token try again more often.
		logins: newLimiter(10), bearers: newLimiter(100), clients: newLimiter(100), proxies: o.TrustedProxies}
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil {
		host = o.Listen
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		g.anyIP = true
	} else {
		g.hosts[strings.ToLower(host)] = true
	}
	if u, err := url.Parse(o.PublicURL); err == nil && u.Host != "" {
		g.public = u
		g.hosts[strings.ToLower(u.Hostname())] = true
		if err := g.origins.AddTrustedOrigin(u.Scheme + "://" + u.Host); err != nil {
			o.Log.Warn("public address is not trusted as an origin", "error", err)
		}
	}
	return g
}

// checkForeign returns an error when a request is refused whoever sends it.
func (g *guard) checkForeign(r *http.Request) error {
	if !g.isOurHost(r.Host) {
		return fmt.Errorf("the bot does not serve the host name %.100q", r.Host)
	}
	if err := g.origins.Check(r); err != nil {
		return errors.New("the request comes from another site")
	}
	return nil
}

// isOurHost reports whether a Host header names the bot. An unknown name that leads here may belong to a page
// that rebinds it.
func (g *guard) isOurHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	// localhost always resolves to this machine in browsers.
	if g.hosts[host] || host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	// An IP address cannot be rebound, unlike a name.
	return ip != nil && (ip.IsLoopback() || g.anyIP)
}

// isSecure reports whether the browser is connected over HTTPS, so that cookies can be marked secure.
func (g *guard) isSecure(r *http.Request) bool {
	return r.TLS != nil || g.public != nil && g.public.Scheme == "https" && strings.EqualFold(r.Host, g.public.Host)
}

// checkOrigin returns an error for a change made with a session when the browser did not say where it comes
// from. What it said was checked before.
func checkOrigin(r *http.Request) error {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return nil
	}
	if r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == "" {
		return errors.New("a change made with a session must say where it comes from")
	}
	return nil
}

// limiter counts the failures of each address within a minute, for one kind of account.
type limiter struct {
	maxFailures int
	mu          sync.Mutex
	seen        map[string]failures
}

type failures struct {
	since time.Time
	n     int
}

// maxAddresses is how many addresses a limiter keeps.
const maxAddresses = 4096

func newLimiter(most int) *limiter { return &limiter{maxFailures: most, seen: map[string]failures{}} }

// countFailure counts a failure and reports whether it is within the limit of the current minute.
func (l *limiter) countFailure(from string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.seen[from]
	if now.Sub(f.since) >= time.Minute {
		f = failures{since: now}
	}
	f.n++
	if len(l.seen) >= maxAddresses {
		clear(l.seen) // bounds the memory; an attacker with thousands of addresses gains little
	}
	l.seen[from] = f
	return f.n <= l.maxFailures
}

// clientAddress returns the IP address of the client. Behind trusted proxies it is the last address of X-Forwarded-For
// that is not one of theirs: what stands before it, the client may have made up.
func (g *guard) clientAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for g.isTrustedProxy(host) && len(hops) > 0 {
		last := strings.TrimSpace(hops[len(hops)-1])
		hops = hops[:len(hops)-1]
		if _, err := netip.ParseAddr(last); err != nil {
			break
		}
		host = last
	}
	return host
}

// isTrustedProxy reports whether forwarded headers of a peer are believed.
func (g *guard) isTrustedProxy(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && slices.ContainsFunc(g.proxies, func(p netip.Prefix) bool { return p.Contains(addr.Unmap()) })
}

// writeTooManyAttempts answers a client that made too many attempts.
func writeTooManyAttempts(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "60")
	writeError(w, http.StatusTooManyRequests, "too_many_attempts", "too many attempts", "wait a minute")
}

// recoverPanic answers a request that panicked, with a reference to the log.
func (s *Server) recoverPanic(w http.ResponseWriter, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	// A handler ends the connection on purpose; net/http handles it.
	if p == http.ErrAbortHandler {
		panic(p)
	}
	ref := newReference()
	s.o.Log.Error("panic while serving", "reference", ref, "method", r.Method, "path", r.URL.Path,
		"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	writeError(w, http.StatusInternalServerError, "internal", "something went wrong inside the bot (reference "+ref+")",
		"the bot's log has the reason")
}

// newReference returns an id that is short enough to read out and long enough to find in a log.
func newReference() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
