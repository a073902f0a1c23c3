package replica

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"time"
)

// Limits of handing on a request.
const (
	dialTimeout = 3 * time.Second
	// headerTimeout bounds how long the replica that acts may take to begin its answer. A turn that is
	// asked for over HTTP answers when it is done.
	headerTimeout = 10 * time.Minute
)

// towardsActive carries requests to the replica that acts. No proxy of the environment is meant for them.
var towardsActive = &http.Transport{
	DialContext:           (&net.Dialer{Timeout: dialTimeout}).DialContext,
	ResponseHeaderTimeout: headerTimeout,
	IdleConnTimeout:       time.Minute,
	MaxIdleConnsPerHost:   16,
}

// ServeHTTP answers for itself whether it is alive and ready, and hands on everything else.
func (s *standby) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	holder := s.holder.Load()
	switch r.URL.Path {
	case "/healthz":
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
		return
	case "/readyz":
		if holder == nil {
			writeJSON(w, http.StatusServiceUnavailable,
				map[string]string{"status": "not ready", "store": "the database does not answer"})
			return
		}
		writeJSON(w, http.StatusOK, map[string]string{"status": "standby", "active": holder.Name})
		return
	case "/metrics":
		// The counts are those of the replica that acts; each replica is asked for its own.
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		fmt.Fprint(w, "# HELP ravenbot_replica_active Whether this replica acts; the others stand by.\n"+
			"# TYPE ravenbot_replica_active gauge\nravenbot_replica_active 0\n")
		return
	}
	if holder == nil || holder.Address == "" {
		unavailable(w, "the database does not answer")
		return
	}
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = "http", holder.Address
			p.Out.Host = p.In.Host // links and cookies are made for the host that was asked
			p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"]
			p.SetXForwarded()
			// What an outer proxy has said of the scheme stands.
			if proto := p.In.Header.Get("X-Forwarded-Proto"); proto != "" {
				p.Out.Header.Set("X-Forwarded-Proto", proto)
			}
		},
		Transport:     towardsActive,
		FlushInterval: -1, // server-sent events
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			s.o.Log.Debug("request not handed on", "active", holder.Address, "error", err)
			unavailable(w, "the replica that acts does not answer; another one takes over within seconds")
		},
	}
	proxy.ServeHTTP(w, r)
}

// unavailable answers a request that no replica can take now.
func unavailable(w http.ResponseWriter, why string) {
	w.Header().Set("Retry-After", "5")
	writeJSON(w, http.StatusServiceUnavailable, map[string]any{"error": map[string]string{
		"code": "unavailable", "message": why, "hint": "try again in a few seconds",
	}})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the reader is gone when this fails
}
