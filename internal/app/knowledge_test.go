package app_test

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ravenbot/internal/ops/admin"
	simmodel "ravenbot/internal/testing/sim/model"
	"ravenbot/internal/turn/roster"
)

// upload sends files to an agent as a browser does.
func (b *bot) upload(agent string, files map[string]string) (int, string) {
	b.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, text := range files {
		part := must(form.CreateFormFile("file", name))
		must(io.WriteString(part, text))
	}
	if err := form.Close(); err != nil {
		b.t.Fatal(err)
	}
	req := must(http.NewRequest(http.MethodPost, "http://"+b.Addr()+agentsPath+"/"+agent+"/files", &body))
	req.Header.Set("Authorization", "Bearer admin-token")
	req.Header.Set("Content-Type", form.FormDataContentType())
	res := must(http.DefaultClient.Do(req))
	defer res.Body.Close()
	return res.StatusCode, string(must(io.ReadAll(res.Body)))
}

// known gives what the model was told of files.
func known(r simmodel.Request) simmodel.Reply {
	if len(r.Last().Results) > 0 {
		return simmodel.Say("found: " + r.Last().Results[0].Content)
	}
	_, files, ok := strings.Cut(r.System, "files")
	switch {
	case strings.Contains(r.Asked(), "search"):
		return simmodel.CallTool("knowledge_search", `{"query":"door code"}`)(r)
	case !ok || !r.Declares("knowledge_search"):
		return simmodel.Say("I know no files")
	}
	return simmodel.Say(files)
}

// An agent answers from its files: those sent over the API, also after a restart, and
// those that its entry names, as they are when it is asked.
func TestAnAgentKnowsItsFiles(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(known)
	handbook := filepath.Join(w.dir, "handbook.md")
	if err := os.WriteFile(handbook, []byte("# Doors\n\nThe door code is 1111."), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := w.base()
	b := w.run(settings)
	ask := func(question string) string { t.Helper(); return answerIn(t, b.ask("general", question)) }
	if text := ask("door?"); text != "I know no files" {
		t.Errorf("without files: %q", text)
	}
	if status, said := b.upload("default", map[string]string{"cats.txt": "The cat is Mons."}); status != http.StatusCreated || !strings.Contains(said, `"passages":1`) {
		t.Errorf("uploading gave %d %s", status, said)
	}
	for agent, files := range map[string]map[string]string{"default": {"run.exe": "x", "hurt.pdf": "%PDF-1.4"},
		"nobody": {"a.txt": "x"}} {
		if status, said := b.upload(agent, files); status/100 != 4 {
			t.Errorf("%s %v: %d %s", agent, files, status, said)
		}
	}
	if status, said := b.upload("default", map[string]string{"large.txt": strings.Repeat("x", admin.MaxFile+
		1)}); status != http.StatusBadRequest || !strings.Contains(said, "larger than 10 MiB") {
		t.Errorf("a large file: %d %s", status, said)
	}
	if text := ask("cat?"); !strings.Contains(text, "The cat is Mons.") || !strings.Contains(text, "[cats.txt]") {
		t.Errorf("after uploading: %q", text)
	}
	b.stop()
	settings["agents"] = map[string]any{"default": map[string]any{"systemPrompt": "You are a test.",
		"knowledge": []string{"handbook.md"}, "tools": []string{"web.*"}}}
	b = w.run(settings)
	if text := ask("door?"); !strings.Contains(text, "The cat is Mons.") || !strings.Contains(text, "code is 1111") {
		t.Errorf("after a restart: %q", text)
	}
	if err := os.WriteFile(handbook, []byte("# Doors\n\nThe door code is now 2222."), 0o600); err != nil {
		t.Fatal(err)
	}
	if text := ask("search"); !strings.Contains(text, `[handbook.md, Doors]\n# Doors\n\nThe door code is now 2222.`) {
		t.Errorf("searching: %q", text)
	}
	var list struct{ Items []roster.File }
	b.call(http.MethodGet, agentsPath+"/default/files", nil, &list)
	if got := fmt.Sprint(len(list.Items), list.Items[0].Name, list.Items[0].Source, list.Items[1].Name,
		list.Items[1].Source); got != "2cats.txtapihandbook.mdconfig" {
		t.Errorf("listed %s: %+v", got, list.Items)
	}
	var text string
	if status := b.call(http.MethodGet, agentsPath+"/default/files/cats.txt", nil, &text); status != 200 ||
		text != "The cat is Mons." {
		t.Errorf("the file is sent as %d %q", status, text)
	}
	for path, want := range map[string]int{"/handbook.md": 404, "/..%2f..%2fconfig.json": 404, "/cats.txt": 204} {
		if status := b.call(http.MethodDelete, agentsPath+"/default/files"+path, nil, nil); status != want {
			t.Errorf("removing %s: %d, want %d", path, status, want)
		}
	}
	if text := ask("cat?"); strings.Contains(text, "Mons") {
		t.Errorf("after removing: %q", text)
	}
	var pages string
	b.call(http.MethodGet, "/agents/default", nil, &pages)
	if !strings.Contains(pages, "handbook.md") || !strings.Contains(pages, "belongs to <code>config.json</code>") {
		t.Errorf("the page says %s", pages)
	}
	b.call(http.MethodGet, "/agents", nil, &pages)
	if !strings.Contains(pages, "every enabled one") {
		t.Errorf("the page says %s", pages)
	}
}
