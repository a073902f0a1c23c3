package web

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// dot is a picture.
const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func picture(t *testing.T) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(dot)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// send sends a message with files as the form of the page does, and returns the status and the answer.
func send(t *testing.T, base, text string, files ...chat.File) (int, string) {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	if err := form.WriteField("text", text); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		head := textproto.MIMEHeader{"Content-Disposition": {fmt.Sprintf(`form-data; name="files"; filename="%s"`, f.Name)},
			"Content-Type": {f.Type}}
		part, err := form.CreatePart(head)
		if err == nil {
			_, err = part.Write(f.Data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest("POST", base+"/chat/general/messages", &body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	req.Header.Set("HX-Request", "true")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(answer)
}

func TestMessages_WithFiles_AreTakenShownAndFetched(t *testing.T) {
	asked := make(chan chat.Message, 1)
	w, db := begin(t, func(_ *Web, m chat.Message) error { asked <- m; return nil })
	server := httptest.NewServer(w.Handler())
	t.Cleanup(server.Close)
	sent := []chat.File{
		{Name: `C:\fake/<b>a "dot"`, Type: "image/png", Data: picture(t)},
		{Name: "page.html", Type: "text/html", Data: []byte("<script>steal()</script>")},
		{Name: "report.pdf", Type: "application/octet-stream", Data: []byte("%PDF-1.4 x")},
	}
	sent[0].Name = "a dot.png"
	if status, body := send(t, server.URL, "look", sent...); status != http.StatusNoContent {
		t.Fatalf("status %d: %s", status, body)
	}
	m := <-asked
	if m.Text != "look" || len(m.Files) != 3 || m.Files[2].Type != "application/pdf" {
		t.Fatalf("the message is %+v", m)
	}
	for i, f := range m.Files {
		if len(f.Data) > 0 || f.Size != int64(len(sent[i].Data)) {
			t.Errorf("file %d is %+v", i, f)
		}
		if data, err := w.Fetch(t.Context(), f, 100); err != nil || !bytes.Equal(data, sent[i].Data) {
			t.Errorf("file %d holds %q, %v", i, data, err)
		}
		if _, err := w.Fetch(t.Context(), f, 3); err == nil {
			t.Error("more than the limit is fetched")
		}
	}
	entries, err := db.Entries(t.Context(), "general", 0, 10)
	if err != nil || len(entries) != 1 || slices.ContainsFunc(entries[0].Files, func(f chat.File) bool {
		return f.Data != nil
	}) {
		t.Errorf("the lines are %+v, %v", entries, err)
	}
	_, _, page := request(t, server.Client(), "GET", server.URL+"/chat/general", nil)
	for _, want := range []string{`<img src="/chat/general/files/1" alt="a dot.png"`,
		`<a href="/chat/general/files/2" download>page.html</a>`, "24 bytes"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for n, want := range map[string]struct{ kind, disposition string }{
		"1": {"image/png", `inline; filename="a dot.png"`}, "2": {"application/octet-stream", "attachment; filename=page.html"}} {
		status, h, body := request(t, server.Client(), "GET", server.URL+"/chat/general/files/"+n, nil)
		if status != 200 || h.Get("Content-Type") != want.kind || h.Get("Content-Disposition") != want.disposition ||
			h.Get("Content-Security-Policy") == "" || body == "" {
			t.Errorf("file %s is served as %d %v", n, status, h)
		}
	}
	for _, none := range []string{"/chat/general/files/9", "/chat/other/files/1", "/chat/general/files/x",
		"/chat/..%2f/files/1"} {
		if status, _, _ := request(t, server.Client(), "GET", server.URL+none, nil); status != http.StatusNotFound {
			t.Errorf("%s: status %d", none, status)
		}
	}
}

// A large file is read from the store in parts, and a browser may ask for one of them, to go to a place in a recording.
func TestServeFile_LargeFile_IsReadInParts(t *testing.T) {
	w, db := begin(t, func(*Web, chat.Message) error { return nil })
	server := httptest.NewServer(w.Handler())
	t.Cleanup(server.Close)
	data := make([]byte, 2*filePart+1000)
	for i := range data {
		data[i] = byte(i % 251)
	}
	n, err := db.SaveRoomFile(t.Context(), "general", chat.File{Name: "a.ogg", Type: "audio/ogg", Data: data})
	if err != nil {
		t.Fatal(err)
	}
	for asked, want := range map[string]struct {
		status   int
		from, to int
	}{
		"":                    {200, 0, len(data)},
		"bytes=0-99":          {206, 0, 100},
		"bytes=262100-262200": {206, 262100, 262201}, // of two parts
		"bytes=524288-":       {206, 2 * filePart, len(data)},
		"bytes=-10":           {206, len(data) - 10, len(data)},
	} {
		r, err := http.NewRequest(http.MethodGet, fmt.Sprintf("%s/chat/general/files/%d", server.URL, n), nil)
		if err != nil {
			t.Fatal(err)
		}
		if asked != "" {
			r.Header.Set("Range", asked)
		}
		res, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != want.status || !bytes.Equal(body, data[want.from:want.to]) {
			t.Errorf("%q: status %d, %d bytes, %v", asked, res.StatusCode, len(body), err)
		}
	}
}

// Who reads a large file slowly holds a part of it in memory, not all.
func TestStoredFile_HoldsOnePart(t *testing.T) {
	asked := 0
	f := &storedFile{ctx: t.Context(), room: "general", n: 1, log: parts(func(from int64, most int) (chat.File, error) {
		asked++
		if most != filePart || from != int64(asked-1)*filePart {
			t.Errorf("%d bytes were read from %d", most, from)
		}
		if asked == 3 {
			return chat.File{}, store.ErrNotFound // deleted meanwhile
		}
		return chat.File{Size: 3 * filePart, Data: make([]byte, most)}, nil
	})}
	buffer := make([]byte, 1000)
	read, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{io.NewSectionReader(f, 0, 3*filePart)}, buffer)
	if read != 2*filePart || !errors.Is(err, store.ErrNotFound) || asked != 3 {
		t.Errorf("%d bytes in %d parts, %v", read, asked, err)
	}
}

// parts is a Log of files alone.
type parts func(from int64, most int) (chat.File, error)

func (p parts) RoomFilePart(_ context.Context, _ string, _ uint64, from int64, most int) (chat.File, error) {
	return p(from, most)
}

func TestMessages_WithFilesThatAreTooMany_AreRefusedInWords(t *testing.T) {
	w, _ := begin(t, func(*Web, chat.Message) error { t.Error("a message was taken"); return nil })
	server := httptest.NewServer(w.Handler())
	t.Cleanup(server.Close)
	small := chat.File{Name: "a.txt", Type: "text/plain", Data: []byte("x")}
	large := chat.File{Name: "b.bin", Type: "text/plain", Data: make([]byte, maxFilesBytes/2+1)}
	for want, files := range map[string][]chat.File{
		"at most 10 files":        slices.Repeat([]chat.File{small}, 11),
		"at most 16 MiB":          {large, large},
		"the file e.txt is empty": {{Name: "e.txt", Type: "text/plain"}},
		"the message is empty":    nil,
	} {
		if status, body := send(t, server.URL, "", files...); status != http.StatusBadRequest ||
			!strings.Contains(body, want) {
			t.Errorf("status %d: %s, want %q", status, body, want)
		}
	}
}

// A form that breaks off is refused as a whole.
func TestMessages_FormThatBreaksOff_IsRefusedInWords(t *testing.T) {
	w, _ := begin(t, func(*Web, chat.Message) error { t.Error("a message was taken"); return nil })
	file := "--b\r\nContent-Disposition: form-data; name=\"files\"; filename=\"a.txt\"\r\n\r\nwords\r\n"
	for name, body := range map[string]string{
		"it is no form":         "words",
		"in a part":             file[:len(file)-4],
		"between parts":         file + "--b\r\nContent-Disp",
		"a file is without end": file[:20],
	} {
		r := httptest.NewRequest("POST", "/chat/general/messages", strings.NewReader(body))
		r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		got := httptest.NewRecorder()
		w.Handler().ServeHTTP(got, r)
		if got.Code != http.StatusBadRequest || !strings.Contains(got.Body.String(), "could not be read") {
			t.Errorf("%s: %d %s", name, got.Code, got.Body)
		}
	}
}

// What tools return is seen in the room as elsewhere.
func TestPost_Files_AreShown(t *testing.T) {
	w, db := begin(t, nil)
	server := httptest.NewServer(w.Handler())
	t.Cleanup(server.Close)
	to := chat.Address{Platform: "web", Channel: "general"}
	d := chat.Draft{Key: "k", Text: "drawn", Files: []chat.File{{Name: "cat.png", Type: "image/png", Data: picture(t)},
		{Name: "meow.mp3", Type: "audio/mpeg", Data: []byte("ID3")}, {Name: "cat.csv", Type: "text/csv", Data: []byte("a,b")}}}
	if _, err := w.Post(t.Context(), to, d); err != nil {
		t.Fatal(err)
	}
	_, _, page := request(t, server.Client(), "GET", server.URL+"/chat/general", nil)
	for _, want := range []string{`<img src="/chat/general/files/1" alt="cat.png"`,
		`<audio controls preload="none" src="/chat/general/files/2">`,
		`<a href="/chat/general/files/3" download>cat.csv</a>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	var entries []store.Entry
	entries, err := db.Entries(t.Context(), "general", 0, 1)
	if err != nil || len(entries) != 1 || len(entries[0].Draft.Files) != 3 || entries[0].Draft.Files[0].Data != nil ||
		d.Files[0].Data == nil {
		t.Errorf("the line is %+v, %v", entries, err)
	}
}

func TestFilesInTheBrowser(t *testing.T) {
	asked := make(chan chat.Message, 1)
	w, _, p, _ := dashboard(t, func(_ *Web, m chat.Message) error { asked <- m; return nil })
	p.Wait("document.querySelector('#files')")
	// Dropped and pasted, as browsers tell of it.
	p.Eval(`(() => {
		const list = (...files) => { const d = new DataTransfer(); for (const f of files) d.items.add(f); return d }
		const png = Uint8Array.from(atob('` + dot + `'), c => c.charCodeAt(0))
		document.body.dispatchEvent(new DragEvent('drop', { bubbles: true, cancelable: true, dataTransfer: list(new File([png], 'cat.png', { type: 'image/png' }), new File(['x'], 'no.txt')) }))
		document.getElementById('text').dispatchEvent(new ClipboardEvent('paste', { bubbles: true, cancelable: true, clipboardData: list(new File(['%PDF-1.4'], 'report.pdf', { type: 'application/pdf' })) }))
	})()`)
	p.Wait("document.querySelectorAll('#chosen li').length === 3")
	p.Click("#chosen li:nth-child(2) button")
	p.Type("#text", "what is this?")
	shoot(p, "files-chosen")
	p.Enter(false)
	m := <-asked
	if m.Text != "what is this?" || len(m.Files) != 2 || m.Files[0].Name != "cat.png" || m.Files[1].Name != "report.pdf" {
		t.Errorf("asked %+v", m)
	}
	p.Wait("document.querySelector('.person .file img')?.naturalWidth === 1 && document.querySelectorAll('#chosen " +
		"li').length === 0 && files.files.length === 0")
	d := chat.Draft{Key: m.Key(), Reply: m.Reply, Text: "A **dot**, and the table that it is made of.",
		Files: []chat.File{{Name: "again.png", Type: "image/png", Data: picture(t)},
			{Name: "table.csv", Type: "text/csv", Data: []byte("a,b")}, {Name: "sound.mp3", Type: "audio/mpeg", Data: []byte("ID3")}}}
	if _, err := w.Post(t.Context(), m.Conversation, d); err != nil {
		t.Fatal(err)
	}
	p.Wait("document.querySelectorAll('.bot .file').length === 3")
	shoot(p, "files-shown")
	if list := p.Problems(); len(list) > 0 {
		t.Errorf("problems: %q", list)
	}
}
