package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"ravenbot/internal/ops/audit"
	"ravenbot/internal/recall/knowledge"
	"ravenbot/internal/turn/roster"
)

// MaxFile is the largest file of an agent, in bytes.
const MaxFile = 10 << 20

// Files stores the files of agents. Errors are roster.ErrNotFound, roster.ErrNoFile, and those with a method
// BadInput that returns true, which are for the sender to correct.
type Files interface {
	// List returns the files of an agent by name, including those that its configuration names.
	List(agent string) ([]roster.File, error)
	// Put stores a file and replaces one of the same name.
	Put(ctx context.Context, agent, name string, data []byte) (roster.File, error)
	// Open returns the file as it was uploaded. The caller closes it.
	Open(agent, name string) (io.ReadCloser, roster.File, error)
	Delete(ctx context.Context, agent, name string) error
	// Search returns up to k passages of an agent's files that fit a query, the best first.
	Search(ctx context.Context, agent, query string, k int) ([]knowledge.Passage, error)
}

// listFiles serves GET /api/v1/agents/{name}/files.
func (s *Server) listFiles(w http.ResponseWriter, r *http.Request) {
	list, err := s.o.Files.List(r.PathValue("name"))
	if err != nil {
		s.writeFileError(w, r, err)
		return
	}
	writeList(w, r, list, func(f roster.File) string { return f.Name })
}

// searchFiles writes the passages of an agent's files that fit ?q.
func (s *Server) searchFiles(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit, err := parseNumber(q.Get("limit"), defaultFound)
	if err != nil || limit < 1 || limit > maxPageSize || strings.TrimSpace(q.Get("q")) == "" {
		writeHints(w, http.StatusBadRequest, "bad_request",
			fmt.Sprintf("want q, which is what to look for, and limit, a number from 1 to %d", maxPageSize),
			"add ?q=…&limit=10", "")
		return
	}
	list, err := s.o.Files.Search(r.Context(), r.PathValue("name"), q.Get("q"), limit)
	if err != nil {
		s.writeFileError(w, r, err)
		return
	}
	writePage(w, list, "")
}

// writeFileError writes the error of a request about a file.
func (s *Server) writeFileError(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, roster.ErrNoFile):
		writeHints(w, http.StatusNotFound, "not_found", fmt.Sprintf("the agent has no file %.100q", r.PathValue("file")),
			"GET /api/v1/agents/{name}/files lists them", "")
	case isBadInput(err):
		writeHints(w, http.StatusBadRequest, "bad_request", err.Error(),
			`send the file as multipart/form-data, in a part named "file" with a filename`, "")
	default:
		s.writeAgentError(w, r, err)
	}
}

// upload stores the files of a multipart form.
func (s *Server) upload(r *http.Request) ([]roster.File, error) {
	form, err := r.MultipartReader()
	if err != nil {
		return nil, formError{fmt.Errorf("this is not a multipart form: %w", err)}
	}
	var kept []roster.File
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return kept, formError{fmt.Errorf("read the form: %w", err)}
		}
		// Other fields of the form are allowed and ignored.
		if part.FileName() == "" {
			continue
		}
		// One byte more than allowed shows that the file is too large.
		data, err := io.ReadAll(io.LimitReader(part, MaxFile+1))
		if err != nil {
			return kept, formError{fmt.Errorf("read the file %.100q: %w", part.FileName(), err)}
		}
		if len(data) > MaxFile {
			return kept, formError{fmt.Errorf("the file %.100q is larger than %d MiB", part.FileName(), MaxFile>>20)}
		}
		v, err := s.o.Files.Put(r.Context(), r.PathValue("name"), part.FileName(), data)
		if err != nil {
			return kept, err
		}
		s.record(r, "file of agent saved", r.PathValue("name"),
			audit.Change{Field: v.Name, New: fmt.Sprintf("%d bytes", v.Bytes)})
		kept = append(kept, v)
	}
	if len(kept) == 0 {
		return nil, formError{errors.New("the form has no file")}
	}
	return kept, nil
}

// addFiles serves POST /api/v1/agents/{name}/files. The first file stands in the answer itself too, for those who send
// one.
func (s *Server) addFiles(w http.ResponseWriter, r *http.Request) {
	kept, err := s.upload(r)
	if err != nil {
		s.writeFileError(w, r, err)
		return
	}
	writeJSON(w, http.StatusCreated, struct {
		roster.File
		Items []roster.File `json:"items"`
	}{kept[0], kept})
}

// getFile sends a file as it was uploaded, never as something that a browser runs.
func (s *Server) getFile(w http.ResponseWriter, r *http.Request) {
	f, v, err := s.o.Files.Open(r.PathValue("name"), r.PathValue("file"))
	if err != nil {
		s.writeFileError(w, r, err)
		return
	}
	defer func() { _ = f.Close() }() // it was only read
	h := w.Header()
	// An uploaded HTML file would otherwise run with the session of the operator.
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": v.Name}))
	h.Set("Content-Length", fmt.Sprint(v.Bytes))
	h.Set("Cache-Control", "no-store")
	_, _ = io.Copy(w, f) // the reader is gone when this fails
}

// deleteFile serves DELETE /api/v1/agents/{name}/files/{file}.
func (s *Server) deleteFile(w http.ResponseWriter, r *http.Request) {
	if err := s.removeFile(r); err != nil {
		s.writeFileError(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// uploadFilesOnPage adds files from the page's form. Where one is refused, those before it stay saved, and the page
// says both.
func (s *Server) uploadFilesOnPage(w http.ResponseWriter, r *http.Request) {
	kept, err := s.upload(r)
	done := ""
	for _, v := range kept {
		passages := "1 passage"
		if v.Passages != 1 {
			passages = fmt.Sprintf("%d passages", v.Passages)
		}
		done += fmt.Sprintf("%s is saved in %s. ", v.Name, passages)
	}
	if err != nil && done != "" {
		err = fmt.Errorf("%w. %s", err, strings.TrimSuffix(done, ". "))
	}
	s.showResult(w, r, err, strings.TrimSpace(done))
}

// deleteFileOnPage removes a file from the page's button.
func (s *Server) deleteFileOnPage(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	s.showResult(w, r, s.removeFile(r), name+" is removed.")
}

// removeFile deletes the file that a request names.
func (s *Server) removeFile(r *http.Request) error {
	agent, file := r.PathValue("name"), r.PathValue("file")
	err := s.o.Files.Delete(r.Context(), agent, file)
	if err == nil {
		s.record(r, "file of agent deleted", agent, audit.Change{Field: file, Old: "a file"})
	}
	return err
}
