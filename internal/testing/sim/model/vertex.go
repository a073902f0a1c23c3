package simmodel

import (
	"io"
	"net/http"
)

// The credentials of Vertex AI.
const (
	vertexRefresh = "vertex-refresh"
	vertexToken   = "vertex-token"
)

// addVertex adds Vertex AI, which takes the tokens that /token issues
// (https://cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1/projects.locations.publishers.models, seen
// 2026-11).
func (s *Server) addVertex(mux *http.ServeMux) {
	const models = "/v1/projects/{project}/locations/{location}/publishers/google/models/{action}"
	mux.HandleFunc("POST "+models, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+vertexToken {
			geminiError(w, http.StatusUnauthorized, "Request had invalid authentication credentials. Expected OAuth 2 access "+
				"token, login cookie or other valid authentication credential.")
			return
		}
		s.generate(w, r, Vertex)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.FormValue("grant_type") != "refresh_token" || r.FormValue("refresh_token") != vertexRefresh {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"invalid_grant"}`)
			return
		}
		_, _ = io.WriteString(w, mustJSON(map[string]any{"access_token": vertexToken, "expires_in": 3600,
			"token_type": "Bearer"}))
	})
}

// VertexURL returns the base for clients of Vertex AI.
func (s *Server) VertexURL() string { return s.URL() }

// VertexCredentials returns a file of application default credentials, of a person, that are valid for VertexURL.
func (s *Server) VertexCredentials() []byte {
	return []byte(mustJSON(map[string]any{"type": "authorized_user", "client_id": "sim", "client_secret": "sim",
		"refresh_token": vertexRefresh, "token_uri": s.URL() + "/token"}))
}
