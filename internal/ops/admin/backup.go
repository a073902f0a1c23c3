package admin

import (
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"
)

// Copy is a copy of the store for one reader, who closes it.
type Copy struct {
	io.ReadCloser
	Name  string // for the file that it becomes
	Bytes int64
}

const (
	// copyChunk is how many bytes of a copy are sent at once.
	copyChunk = 256 << 10
	// chunkTimeout is how long the client may take to receive a chunk.
	chunkTimeout = 30 * time.Second
)

// postBackup sends a copy of the store. Only one at a time: each takes as much disk space as the store until
// it was sent.
func (s *Server) postBackup(w http.ResponseWriter, r *http.Request) {
	if !s.backupMu.TryLock() {
		writeError(w, http.StatusTooManyRequests, "busy", "another backup is running", "try again when it has finished")
		return
	}
	defer s.backupMu.Unlock()
	c, err := s.o.Backup(r.Context())
	if isBadInput(err) {
		writeError(w, http.StatusBadRequest, "bad_request", err.Error(),
			"docs/backup.md says how a database is backed up")
		return
	}
	if err != nil {
		s.writeFailure(w, r, "the backup could not be made", err)
		return
	}
	defer c.Close()
	s.record(r, "store copied", c.Name)
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.FormatInt(c.Bytes, 10))
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": c.Name}))
	h.Set("Cache-Control", "no-store")
	if err := sendChunks(w, c); err != nil {
		s.o.Log.Warn("failed to send a backup completely", "error", err)
		panic(http.ErrAbortHandler) // ends the connection, so that nobody mistakes a part for the whole
	}
}

// sendChunks copies r to w. Each chunk has a deadline of its own.
func sendChunks(w http.ResponseWriter, r io.Reader) error {
	out := http.NewResponseController(w)
	for {
		// A large store over a slow line may take hours; only a stalled client is cut off.
		if err := out.SetWriteDeadline(time.Now().Add(chunkTimeout)); err != nil {
			return err
		}
		if _, err := io.CopyN(w, r, copyChunk); err == io.EOF {
			return out.Flush()
		} else if err != nil {
			return err
		}
	}
}
