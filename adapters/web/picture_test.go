package web

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"ravenbot/internal/core/chat"
)

const png = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"

// Only pictures that a post names are fetched, and only what is a picture is shown.
func TestThePicturesOfAPost(t *testing.T) {
	asked := map[string]int{}
	w, _ := begin(t, ignore)
	w.o.Picture = func(_ context.Context, address string, limit int64) ([]byte, error) {
		asked[address]++
		if limit != maxPicture {
			t.Errorf("up to %d bytes are asked for", limit)
		}
		switch {
		case strings.HasSuffix(address, "/gone"):
			return nil, errors.New("gone")
		case strings.HasSuffix(address, "/active"):
			return []byte(`<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`), nil
		}
		return []byte(png), nil
	}
	d := chat.Draft{Key: "pictures", Text: "news", Cards: []chat.Card{{Title: "a", URL: "https://x.example/a",
		Image: "https://x.example/picture"},
		{Title: "b", Image: "https://x.example/gone"}, {Title: "c", Image: "https://x.example/active"}, {Title: "d"}, {Title: "e", Image: "javascript:alert(1)"}}}
	if _, err := w.Post(t.Context(), general, d); err != nil {
		t.Fatal(err)
	}
	entries, err := w.o.Log.Entries(t.Context(), "general", 0, 1)
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	line := "/chat/general/pictures/" + strconv.FormatUint(entries[0].Seq, 10) + "/"
	page := httptest.NewRecorder()
	w.Handler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/chat/general", nil))
	if !strings.Contains(page.Body.String(), `src="`+line+`0"`) ||
		strings.Contains(page.Body.String(), `src="https://x.example`) {
		t.Errorf("the page does not ask the bot for the picture:\n%s", page.Body)
	}
	for path, want := range map[string]int{line + "0": 200, line + "1": 404, line + "2": 404, line + "3": 404,
		line + "4": 404, line + "5": 404, line + "-1": 404, line + "x": 404,
		"/chat/general/pictures/99/0": 404, "/chat/other/pictures/1/0": 404, "/chat/general/pictures/0/0": 404} {
		r := httptest.NewRecorder()
		w.Handler().ServeHTTP(r, httptest.NewRequest(http.MethodGet, path, nil))
		if r.Code != want || want == 200 && (r.Body.String() != png || r.Header().Get("Content-Type") != "image/png") {
			t.Errorf("%s: %d %q", path, r.Code, r.Header())
		}
	}
	if len(asked) != 3 || asked["javascript:alert(1)"] != 0 {
		t.Errorf("asked for %v", asked)
	}
	if strings.Contains(string(Draft(d)), "<img") {
		t.Error("a preview shows pictures that nobody can fetch")
	}
}
