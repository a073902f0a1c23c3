package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"ravenbot/internal/mcp/mcpserve"
)

// Owner is whose tokens the API creates and shows: it has one user.
const Owner = "admin"

// Tokens creates and revokes the tokens of the MCP endpoint.
type Tokens interface {
	Create(
		ctx context.Context,
		owner, name string,
		tools []string,
		life time.Duration,
		overwrite bool,
	) (mcpserve.Token, string, error)
	List(owner string) []mcpserve.Token
	Get(Owner, name string) (mcpserve.Token, error)
	Revoke(ctx context.Context, Owner, name string) error
	RevokeAll(ctx context.Context, owner string) (int, error)
}

// Logouts stores when all sessions were ended, which ones were logged out, and which login links were used.
type Logouts interface {
	SaveLogout(ctx context.Context, at time.Time) error
	LastLogout(ctx context.Context) (time.Time, error)
	// EndSession stores that a session was logged out, whose cookie ends at an instant.
	EndSession(ctx context.Context, id string, until, now time.Time) error
	// EndedSessions returns the sessions that were logged out, each with the end of its cookie.
	EndedSessions(ctx context.Context) (map[string]time.Time, error)
	// UseLink stores that a login link was used, which is good until an instant. It returns false where it was used
	// before.
	UseLink(ctx context.Context, id string, until, now time.Time) (bool, error)
}

func (s *Server) listTokens(w http.ResponseWriter, r *http.Request) {
	writeList(w, r, s.o.Tokens.List(Owner), func(t mcpserve.Token) string { return t.Name })
}

// getToken serves GET /api/v1/auth/mcp-tokens/{name}; the token itself is not stored and not shown.
func (s *Server) getToken(w http.ResponseWriter, r *http.Request) {
	t, err := s.o.Tokens.Get(Owner, r.PathValue("name"))
	if err != nil {
		s.writeTokenError(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, t)
}

// writeTokenError writes the error of a request about a token.
func (s *Server) writeTokenError(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, mcpserve.ErrNoToken):
		writeHints(w, http.StatusNotFound, "not_found", fmt.Sprintf("there is no token %.100q", r.PathValue("name")),
			"GET /api/v1/auth/mcp-tokens lists them", "ravenbot tokens list lists them")
	case errors.Is(err, mcpserve.ErrTokenExists):
		writeHints(w, http.StatusConflict, "exists", err.Error(),
			`send "overwrite": true to replace it, or choose another name`, "--overwrite replaces it, or choose another name")
	case errors.Is(err, mcpserve.ErrTokenName), errors.Is(err, mcpserve.ErrTokenTools):
		writeHints(w, http.StatusBadRequest, "bad_request", err.Error(),
			`send {"name":"laptop","overwrite":false,"tools":["*"]}`, "")
	default:
		s.writeFailure(w, r, "the token could not be changed", err)
	}
}

// createToken creates a token and writes its secret, this once.
func (s *Server) createToken(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Name      string   `json:"name"`
		Overwrite bool     `json:"overwrite"`
		Tools     []string `json:"tools"`
		ExpiresIn string   `json:"expiresIn"` // such as 24h; empty: valid until it is revoked
	}
	d := json.NewDecoder(r.Body)
	// A misspelled "tools" would create a token for all tools.
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		writeHints(w, http.StatusBadRequest, "bad_json", err.Error(),
			`send {"name":"laptop","overwrite":false,"tools":["*"]}`, "")
		return
	}
	var life time.Duration
	if in.ExpiresIn != "" {
		var err error
		if life, err = time.ParseDuration(in.ExpiresIn); err != nil || life <= 0 {
			writeError(w, http.StatusBadRequest, "bad_request",
				fmt.Sprintf("expiresIn is %.40q, want a length of time", in.ExpiresIn), `write number and unit: "24h"`)
			return
		}
	}
	t, secret, err := s.o.Tokens.Create(r.Context(), Owner, in.Name, in.Tools, life, in.Overwrite)
	if err != nil {
		s.writeTokenError(w, r, err)
		return
	}
	w.Header().Set("Location", "/api/v1/auth/mcp-tokens/"+url.PathEscape(t.Name))
	writeJSON(w, http.StatusCreated, struct {
		mcpserve.Token
		Secret string `json:"token"`
	}{t, secret})
}

// revokeToken serves DELETE /api/v1/auth/mcp-tokens/{name}.
func (s *Server) revokeToken(w http.ResponseWriter, r *http.Request) {
	if err := s.o.Tokens.Revoke(r.Context(), Owner, r.PathValue("name")); err != nil {
		s.writeTokenError(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// logoutAll ends all sessions and revokes all tokens. The admin token itself belongs to the configuration and
// stays.
func (s *Server) logoutAll(w http.ResponseWriter, r *http.Request) {
	now := s.o.Now()
	// Stored first: after a crash the sessions must not come back.
	err := s.o.Logouts.SaveLogout(r.Context(), now)
	if err != nil {
		s.writeFailure(w, r, "the sessions could not be ended", err)
		return
	}
	s.sessions.endAll(now)
	s.record(r, "sessions ended", "web pages")
	n, err := s.o.Tokens.RevokeAll(r.Context(), Owner)
	if err != nil {
		s.writeFailure(w, r, "the sessions are ended, but not all tokens were revoked", err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"sessions": "ended", "tokensRevoked": n})
}

// mcpEndpoint serves /mcp, which accepts only its own tokens.
func (s *Server) mcpEndpoint(w http.ResponseWriter, r *http.Request) {
	s.mcp.ServeHTTP(w, r)
}

// refuseWithoutToken answers a request to /mcp without a valid token.
func (s *Server) refuseWithoutToken(w http.ResponseWriter, r *http.Request) {
	// Clients first ask without a token to learn how to log in; that is no guess.
	if r.Header.Get("Authorization") != "" && !s.guard.clients.countFailure(s.guard.clientAddress(r), s.o.Now()) {
		writeTooManyAttempts(w)
		return
	}
	challenge := `Bearer realm="ravenbot"`
	if s.o.HostAccess != nil {
		challenge += fmt.Sprintf(", resource_metadata=%q", s.baseURL(r)+mcpserve.ResourceMetadataPath)
	}
	w.Header().Set("WWW-Authenticate", challenge)
	writeHints(w, http.StatusUnauthorized, "unauthorized", "this needs an MCP token; the admin token does not work here",
		"create one: ravenbot tokens create NAME, or POST /api/v1/auth/mcp-tokens", "ravenbot tokens create NAME creates one")
}
