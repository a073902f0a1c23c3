package web

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"ravenbot/internal/core/chat"
)

const (
	// maxPicture is the largest picture that is shown, in bytes.
	maxPicture = 3 << 20
	// pictureTimeout is how long one may take to come, maxPictureFetches how many are
	// fetched side by side.
	pictureTimeout    = 10 * time.Second
	maxPictureFetches = 4
	pictureCacheTime  = 24 * time.Hour
)

// Picture fetches a picture that a stranger named, up to so many bytes. It fails for a larger one, and has to keep such
// addresses away from private networks.
type Picture func(ctx context.Context, address string, limit int64) ([]byte, error)

// shownDraft is a draft with the place of its pictures on the page; empty: none is shown.
type shownDraft struct {
	chat.Draft
	Pictures string
}

// newShownDraft returns a draft for the template, with where the pictures of its cards are served.
func newShownDraft(room string, line uint64, d *chat.Draft) shownDraft {
	return shownDraft{*d, "/chat/" + room + "/pictures/" + strconv.FormatUint(line, 10) + "/"}
}

// servePicture serves the picture of a card of a post. The bot fetches it, so that the picture's
// host learns nothing of who reads, and so that only what a post names is fetched.
func (w *Web) servePicture(rw http.ResponseWriter, r *http.Request) {
	address := w.pictureURL(r)
	if address == "" || w.o.Picture == nil {
		http.NotFound(rw, r)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), pictureTimeout)
	defer cancel()
	select {
	case w.pictures <- struct{}{}:
		defer func() { <-w.pictures }()
	case <-ctx.Done():
		http.NotFound(rw, r)
		return
	}
	data, err := w.o.Picture(ctx, address, maxPicture)
	kind := http.DetectContentType(data)
	if err != nil || !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, kind) {
		w.o.Logger.Debug("picture not shown", "address", address, "kind", kind, "error", err)
		http.NotFound(rw, r)
		return
	}
	rw.Header().Set("Content-Type", kind)
	rw.Header().Set("Cache-Control", "private, max-age="+strconv.Itoa(int(pictureCacheTime.Seconds())))
	_, _ = rw.Write(data) // the reader is gone when this fails
}

// pictureURL returns the address that a card of a post has for its picture; empty if there is no
// such card, or if it has none.
func (w *Web) pictureURL(r *http.Request) string {
	seq, seqErr := strconv.ParseUint(r.PathValue("line"), 10, 64)
	n, err := strconv.Atoi(r.PathValue("card"))
	if seqErr != nil || err != nil || seq == 0 || CheckRoom(r.PathValue("room")) != nil {
		return ""
	}
	e, found, err := w.lineAt(r.Context(), r.PathValue("room"), seq)
	if err != nil || !found || e.Draft == nil {
		return ""
	}
	if cards := e.Draft.Cards; n >= 0 && n < len(cards) && isWebAddress(cards[n].Image) {
		return cards[n].Image
	}
	return ""
}
