package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// Limits of the files of one message.
const (
	maxFiles      = 10
	maxFilesBytes = 16 << 20
	maxFileName   = 120 // characters
)

// fileHandle is the handle of a file of a room.
type fileHandle struct {
	Room string `json:"room"`
	N    uint64 `json:"n"`
}

// keepFiles stores the data of files, and returns them with handles in its place. A file without data stays as it is.
func (w *Web) keepFiles(ctx context.Context, room string, files []chat.File) ([]chat.File, error) {
	kept := slices.Clone(files)
	for i, f := range kept {
		if len(f.Data) == 0 {
			continue
		}
		n, err := w.o.Log.SaveRoomFile(ctx, room, f)
		if err != nil {
			return nil, err
		}
		handle, err := json.Marshal(fileHandle{room, n})
		if err != nil {
			return nil, fmt.Errorf("keep a file: %w", err)
		}
		kept[i].Size, kept[i].Handle, kept[i].Data = int64(len(f.Data)), handle, nil
	}
	return kept, nil
}

// Fetch returns a file of a message. It fails with store.ErrNotFound once newer files have pushed it out, and where it
// has more than limit bytes.
func (w *Web) Fetch(ctx context.Context, f chat.File, limit int64) ([]byte, error) {
	var at fileHandle
	if err := json.Unmarshal(f.Handle, &at); err != nil {
		return nil, fmt.Errorf("fetch file %s: it is of no room: %w", f.Name, err)
	}
	kept, err := w.o.Log.RoomFile(ctx, at.Room, at.N)
	if err != nil {
		return nil, fmt.Errorf("fetch file %s: %w", f.Name, err)
	}
	if int64(len(kept.Data)) > limit {
		return nil, fmt.Errorf("fetch file %s: it has %d bytes, %d are allowed", f.Name, len(kept.Data), limit)
	}
	return kept.Data, nil
}

// readFiles reads the files of a form, which share one piece of memory, and puts its other fields into r.PostForm.
func readFiles(r *http.Request) ([]chat.File, error) {
	form, err := r.MultipartReader()
	if err != nil {
		return nil, err
	}
	var list []chat.File
	r.PostForm = url.Values{}
	data := bytes.NewBuffer(make([]byte, 0, min(max(r.ContentLength, 0), MaxBody)+bytes.MinRead))
	for {
		part, err := form.NextPart()
		if err == io.EOF { // where it is wrapped in another error the form breaks off
			return list, nil
		}
		before := data.Len()
		if err == nil {
			_, err = data.ReadFrom(part)
		}
		if err != nil {
			return nil, err
		}
		content := data.Bytes()[before:data.Len():data.Len()]
		switch {
		case part.FileName() == "" && part.FormName() != "files":
			r.PostForm.Add(part.FormName(), string(content))
			data.Truncate(before)
		case part.FileName() == "" && len(content) == 0: // no file was chosen
		case len(list) == maxFiles:
			return nil, &InputError{fmt.Sprintf("at most %d files can be sent at once", maxFiles)}
		default:
			f, err := parseFile(part, content)
			if err != nil {
				return nil, err
			}
			list = append(list, f)
		}
		if data.Len() > maxFilesBytes {
			return nil, &InputError{fmt.Sprintf("the files are too large; at most %d MiB can be sent at once", maxFilesBytes>>20)}
		}
	}
}

// parseFile returns a file of a form, under its last path element as a name. The type that the browser names counts,
// unless it names none in particular.
func parseFile(part *multipart.Part, data []byte) (chat.File, error) {
	name := shorten(strings.Join(strings.Fields(path.Base(part.FileName())), " "), maxFileName)
	if len(data) == 0 {
		return chat.File{}, &InputError{fmt.Sprintf("the file %s is empty", name)}
	}
	kind, _, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
	if err != nil || kind == "application/octet-stream" {
		kind = http.DetectContentType(data)
	}
	return chat.File{Name: name, Type: kind, Data: data}, nil
}

// shownFile is a file as the page shows it.
type shownFile struct {
	Name, Kind, Size string // Kind is image, sound or other
	URL              string // empty: it is only named
}

var (
	imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}
	soundTypes = []string{
		"audio/ogg", "audio/mpeg", "audio/mp3", "audio/wav", "audio/x-wav", "audio/flac", "audio/aac",
		"audio/mp4", "audio/webm",
	}
)

// fileKind returns how the page shows files of a media type.
func fileKind(mediaType string) string {
	media, _, _ := strings.Cut(mediaType, ";")
	switch {
	case slices.Contains(imageTypes, media):
		return "image"
	case slices.Contains(soundTypes, media):
		return "sound"
	}
	return "other"
}

// showFiles returns files as the page shows them.
func showFiles(files []chat.File) []shownFile {
	var list []shownFile
	for _, f := range files {
		s := shownFile{Name: f.Name, Kind: fileKind(f.Type), Size: formatSize(max(f.Size, int64(len(f.Data))))}
		var at fileHandle
		if json.Unmarshal(f.Handle, &at) == nil && CheckRoom(at.Room) == nil && at.N > 0 {
			s.URL = "/chat/" + at.Room + "/files/" + strconv.FormatUint(at.N, 10)
		}
		list = append(list, s)
	}
	return list
}

// formatSize returns a number of bytes in words; empty where it is not known.
func formatSize(n int64) string {
	switch {
	case n <= 0:
		return ""
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%d KB", (n+1<<9)>>10)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
}

// serveFile serves a file of a room. Images and sounds are shown by the page; all else is saved by the browser, and
// nothing in it can run.
func (w *Web) serveFile(rw http.ResponseWriter, r *http.Request) {
	n, err := strconv.ParseUint(r.PathValue("n"), 10, 64)
	if err != nil || CheckRoom(r.PathValue("room")) != nil {
		http.NotFound(rw, r)
		return
	}
	file := &storedFile{ctx: r.Context(), log: w.o.Log, room: r.PathValue("room"), n: n}
	f, err := file.part(0)
	switch {
	case errors.Is(err, store.ErrNotFound):
		http.NotFound(rw, r)
		return
	case err != nil:
		w.writeError(rw, r, err)
		return
	}
	h := rw.Header()
	disposition, kind := "inline", f.Type
	if fileKind(f.Type) == "other" {
		disposition, kind = "attachment", "application/octet-stream"
	}
	h.Set("Content-Disposition", mime.FormatMediaType(disposition, map[string]string{"filename": f.Name}))
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Cache-Control", "private, max-age=86400")
	http.ServeContent(rw, r, "", time.Time{}, io.NewSectionReader(file, 0, f.Size))
}

// filePart is how many bytes of a file are in memory at a time, for each of its readers: some are slow.
const filePart = 256 << 10

// fileParts is the part of Log that storedFile reads.
type fileParts interface {
	RoomFilePart(ctx context.Context, room string, n uint64, from int64, most int) (chat.File, error)
}

// storedFile reads a file of a room from the store, a part at a time.
type storedFile struct {
	ctx  context.Context
	log  fileParts
	room string
	n    uint64
	from int64 // of the part that was read last
	read chat.File
}

// part returns the file with the part of its data that has the byte with an index.
func (f *storedFile) part(with int64) (chat.File, error) {
	from := with / filePart * filePart
	if f.from != from || f.read.Data == nil {
		part, err := f.log.RoomFilePart(f.ctx, f.room, f.n, from, filePart)
		if err != nil {
			return chat.File{}, err
		}
		f.from, f.read = from, part
	}
	return f.read, nil
}

// ReadAt is that of io.ReaderAt. It is not safe for concurrent use.
func (f *storedFile) ReadAt(p []byte, at int64) (n int, err error) {
	for n < len(p) {
		part, err := f.part(at)
		if err != nil {
			return n, err
		}
		if at-f.from >= int64(len(part.Data)) {
			return n, io.EOF
		}
		copied := copy(p[n:], part.Data[at-f.from:])
		n, at = n+copied, at+int64(copied)
	}
	return n, nil
}
