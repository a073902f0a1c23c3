package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/ops/audit"
	"ravenbot/internal/ops/transfer"
)

// Transfer exports and imports what is kept.
type Transfer interface {
	// Export writes all records as JSON lines or, with a conversation, those of that channel or thread.
	Export(ctx context.Context, w io.Writer, only chat.Address) error
	// Missing returns which records Export leaves out because they cannot be decrypted, each as its kind and name.
	Missing(ctx context.Context, only chat.Address) ([]string, error)
	// Import adds the records of JSON lines that are not there; the first line has the number first.
	Import(ctx context.Context, r io.Reader, first int) (transfer.Result, error)
}

// maxImport is the largest part of a file that one request may import, in bytes.
const maxImport = 8 << 20

// MissingHeader is set in an export that lacks records which cannot be decrypted: it names them, as a JSON list of kinds and
// names.
const MissingHeader = "Ravenbot-Missing"

// exportRecords sends the records as JSON lines.
func (s *Server) exportRecords(w http.ResponseWriter, r *http.Request) {
	var only chat.Address
	if written := r.URL.Query().Get("conversation"); written != "" {
		var err error
		if only, err = chat.ParseAddress(written); err != nil {
			writeError(w, http.StatusBadRequest, "bad_request", err.Error(), "leave it out to export everything")
			return
		}
	}
	missing, err := s.o.Transfer.Missing(r.Context(), only)
	if err != nil {
		s.writeFailure(w, r, "the records could not be read", err)
		return
	}
	if len(missing) > 0 {
		list, _ := json.Marshal(missing) // strings can always be encoded
		w.Header().Set(MissingHeader, string(list))
	}
	reader, writer := io.Pipe()
	ctx, cancel := context.WithCancel(r.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		// A line at a time would cost a write each.
		buffered := bufio.NewWriterSize(writer, copyChunk)
		err := s.o.Transfer.Export(ctx, buffered, only)
		if err == nil {
			err = buffered.Flush()
		}
		_ = writer.CloseWithError(err) // never fails
	}()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	err = sendChunks(w, reader)
	cancel()
	_ = reader.Close() // the export's next write fails
	<-done
	if err != nil {
		s.o.Log.Warn("failed to send an export completely", "error", err)
		panic(http.ErrAbortHandler) // ends the connection, so that nobody mistakes a part for the whole
	}
}

// importRecords adds the records that are sent as JSON lines.
func (s *Server) importRecords(w http.ResponseWriter, r *http.Request) {
	first, err := parseNumber(r.URL.Query().Get("line"), 1)
	if err != nil || first < 1 {
		writeError(w, http.StatusBadRequest, "bad_request", "line has to be a whole number above 0",
			"leave it out: it is the number of the first line that is sent")
		return
	}
	result, err := s.o.Transfer.Import(r.Context(), r.Body, first)
	added := []audit.Change{}
	for _, kind := range slices.Sorted(maps.Keys(result.Added)) {
		added = append(added, audit.Change{Field: kind, New: fmt.Sprintf("%d added", result.Added[kind])})
	}
	s.record(r, "records imported", "store", added...)
	if err != nil {
		s.writeFailure(w, r, "the records could not be imported to the end; importing them again adds the rest", err)
		return
	}
	writeJSON(w, http.StatusOK, result)
}
