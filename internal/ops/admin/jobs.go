package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"ravenbot/internal/feature/jobs"
)

// Jobs lists, adds and removes jobs. Errors are jobs.ErrUnknown, and those with a method BadInput that returns true,
// which are for the sender to correct.
type Jobs interface {
	List(ctx context.Context) ([]jobs.Info, error)
	AddRequest(ctx context.Context, r jobs.Request) (jobs.Info, error)
	Remove(ctx context.Context, id string) error
	// Webhooks returns those of the configuration, by name.
	Webhooks() []jobs.Webhook
}

const jobHint = `send {"at" or "schedule", "timezone", "post": [ADDRESS], "text" or "prompt", "tools": []}`

// listJobs serves GET /api/v1/jobs.
func (s *Server) listJobs(w http.ResponseWriter, r *http.Request) {
	list, err := s.o.Jobs.List(r.Context())
	if err != nil {
		s.writeFailure(w, r, "the jobs could not be listed", err)
		return
	}
	writeList(w, r, list, func(i jobs.Info) string { return i.ID })
}

// addJob serves POST /api/v1/jobs.
func (s *Server) addJob(w http.ResponseWriter, r *http.Request) {
	var in jobs.Request
	d := json.NewDecoder(r.Body)
	// A misspelt field would change when or where the job posts.
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		writeHints(w, http.StatusBadRequest, "bad_json", "the body is not a job: "+err.Error(), jobHint, "")
		return
	}
	info, err := s.o.Jobs.AddRequest(r.Context(), in)
	switch {
	case err == nil:
		w.Header().Set("Location", "/api/v1/jobs/"+info.ID)
		writeJSON(w, http.StatusCreated, info)
	case isBadInput(err):
		writeHints(w, http.StatusBadRequest, "bad_request", err.Error(), jobHint, "")
	default:
		s.writeFailure(w, r, "the job could not be stored", err)
	}
}

// deleteJob serves DELETE /api/v1/jobs/{id}.
func (s *Server) deleteJob(w http.ResponseWriter, r *http.Request) {
	err := s.o.Jobs.Remove(r.Context(), r.PathValue("id"))
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, jobs.ErrUnknown):
		writeHints(w, http.StatusNotFound, "not_found", fmt.Sprintf("there is no job %.100q", r.PathValue("id")),
			"GET /api/v1/jobs lists them", "")
	default:
		s.writeFailure(w, r, "the job could not be removed", err)
	}
}
