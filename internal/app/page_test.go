package app_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ravenbot/internal/testing/browsertest"
	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

// TestTheChatPage plays a turn in a real browser: the one-time link, a question,
// the tool at work, its result folded, the answer, and the same after a reload.
func TestTheChatPage(t *testing.T) {
	browser := browsertest.Start(t)
	w := newWorld(t)
	release := make(chan struct{})
	tool := simmodel.CallTool("feeds_fetch", `{"url":"bundled:feeds-primer","limit":2}`)
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		reply := tool(r)
		if len(reply.Calls) == 0 {
			<-release
			reply = simmodel.Reply{Text: []string{"It names **RSS**, ", "`Atom` and more."}}
		}
		return reply
	})
	b := w.run(w.base())
	page := browser.Page()
	page.Go(b.LoginLink())
	page.Wait(`document.querySelector("#text")`)
	page.Type("#text", "what is in the primer?")
	page.Enter(false)
	page.Wait(`document.querySelector(".tool") && document.querySelector("#working .spinner, .tool .spinner")`)
	close(release)
	page.Wait(`document.querySelector("#log article.bot .prose strong")`)
	turn := func() string {
		return page.Text("#log article.person .said") + " | " + page.Text("#log article.bot .prose") + " | " +
			page.Text("#log article.bot details summary")
	}
	before := turn()
	for _, want := range []string{"what is in the primer?", "It names RSS", "feeds_fetch"} {
		if !strings.Contains(before, want) {
			t.Errorf("the page shows %q, want %q in it", before, want)
		}
	}
	if open := page.Eval(`document.querySelector("#log article.bot details").open`); open != false {
		t.Errorf("the tool's result is not folded: %v", open)
	}
	if result := page.Eval(`document.querySelector("#log article.bot details").textContent`); !strings.Contains(result.(string), "rssboard") {
		t.Errorf("the folded result lacks what the tool said: %v", result)
	}
	if dir := os.Getenv("RAVENBOT_SCREENSHOTS"); dir != "" {
		page.Screenshot(filepath.Join(dir, "chat.png"))
	}
	page.Reload()
	page.Wait(`document.querySelector("#log article.bot .prose strong")`)
	if after := turn(); after != before {
		t.Errorf("after a reload the page shows %q, before it %q", after, before)
	}
	for _, p := range page.Problems() {
		t.Errorf("the browser complains: %s", p)
	}
	other := browser.Page()
	other.Go(b.LoginLink() + "x")
	if text := other.Text("body"); strings.Contains(text, "primer") {
		t.Error("a wrong link opened the page")
	}
}

// Who answers in a room is chosen on the chat page, for that room alone.
func TestTheChatPageOffersAgents(t *testing.T) {
	browser := browsertest.Start(t)
	w := newWorld(t)
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		if strings.Contains(r.System, "You are a pirate.") {
			return simmodel.Say("arr")
		}
		return simmodel.Say("hello")
	})
	b := w.run(w.base())
	b.call(http.MethodPost, agentsPath, map[string]any{"name": "pirate", "systemPrompt": "You are a pirate."}, nil)
	page := browser.Page()
	page.Go(b.LoginLink())
	page.Wait(`document.querySelector("#agent")`)
	if got := page.Text("#agent"); got != "default, as configured\ndefault\npirate" {
		t.Errorf("the page offers %q", got)
	}
	page.Eval(`agent.value = "pirate"; agent.dispatchEvent(new Event("change", {bubbles: true}))`)
	within(t, "the choice is taken", func() bool { return answerIn(t, b.ask("general", "hi")) == "arr" })
	page.Reload()
	page.Wait(`document.querySelector("#agent")?.value === "pirate"`)
	if text := answerIn(t, b.ask("other", "hi")); text != "hello" {
		t.Errorf("in another room: %q", text)
	}
	b.call(http.MethodDelete, agentsPath+"/pirate", nil, nil)
	page.Eval(`agent.value = ""; agent.value = "pirate"; agent.dispatchEvent(new Event("change", {bubbles: true}))`)
	page.Wait(`document.querySelector("#problem .problem")?.innerText.includes('there is no agent "pirate" any more')`)
	page.Eval(`agent.value = ""; agent.dispatchEvent(new Event("change", {bubbles: true}))`)
	page.Wait(`!document.querySelector("#problem .problem")`)
	if text := answerIn(t, b.ask("general", "hi")); text != "hello" {
		t.Errorf("after the choice was taken back: %q", text)
	}
	page.Click(".answerer a")
	page.Wait(`location.pathname === "/settings" && document.querySelector("#language")`)
}

// Photos of phones have some megabytes.
func TestFilesOfAChatMessageMayBeLarge(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		return simmodel.Say("lines are there: " + strconv.FormatBool(strings.Contains(r.Asked(), "line line line")))
	})
	b := w.run(w.base())
	request := func(method, path, contentType string, body io.Reader) (int, string) {
		t.Helper()
		req := must(http.NewRequest(method, "http://"+b.Addr()+"/chat/general"+path, body))
		req.Header.Set("Authorization", "Bearer admin-token")
		req.Header.Set("Content-Type", contentType)
		client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		res := must(client.Do(req))
		defer res.Body.Close()
		return res.StatusCode, string(must(io.ReadAll(res.Body)))
	}
	send := func(size int) int {
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		must(io.WriteString(must(form.CreateFormField("text")), "look"))
		for _, name := range []string{"lines.txt", "more.txt"} {
			must(io.WriteString(must(form.CreateFormFile("files", name)), strings.Repeat("line ", size/2/len("line "))))
		}
		if err := form.Close(); err != nil {
			t.Fatal(err)
		}
		status, _ := request(http.MethodPost, "/messages", form.FormDataContentType(), &body)
		return status
	}
	if status := send(17 << 20); status != http.StatusRequestEntityTooLarge {
		t.Errorf("17 MiB were answered with %d", status)
	}
	if status := send(15 << 20); status != http.StatusSeeOther {
		t.Fatalf("15 MiB were answered with %d", status)
	}
	within(t, "the model has read the file", func() bool {
		_, page := request(http.MethodGet, "", "", nil)
		return strings.Contains(page, "lines are there: true")
	})
}

// What questions bring along and what is uploaded take their memory from the same pool: while a model is given pictures,
// a large upload waits.
func TestLargeFilesOfAllKinds_ShareTheMemory(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(64 << 20)) // of which files have half
	w := newWorld(t)
	asked, answer := make(chan bool, 2), make(chan bool)
	release := sync.OnceFunc(func() { close(answer) })
	defer release()
	w.model.SetScript(func(simmodel.Request) simmodel.Reply {
		asked <- true
		<-answer
		return simmodel.Say("seen")
	})
	b := w.run(w.base())
	picture := append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 3<<20)...)
	w.slack.Share(w.slack.AddDM(w.berit).ID, "", w.berit, "look",
		w.slack.Upload(simslack.File{Name: "cat.png", Type: "image/png", Body: picture}))
	<-asked
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	must(must(form.CreateFormFile("files", "a.bin")).Write(make([]byte, 5<<20)))
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	upload := must(http.NewRequest(http.MethodPost, "http://"+b.Addr()+"/chat/general/messages", &body))
	upload.Header.Set("Authorization", "Bearer admin-token")
	upload.Header.Set("Content-Type", form.FormDataContentType())
	done := make(chan int, 1)
	go func() {
		res, err := http.DefaultTransport.RoundTrip(upload)
		if err != nil {
			t.Error(err)
			done <- 0
			return
		}
		done <- res.StatusCode
		_ = res.Body.Close()
	}()
	select {
	case status := <-done:
		t.Fatalf("the upload was answered with %d although there is no memory for it", status)
	case <-time.After(500 * time.Millisecond):
	}
	release()
	if status := <-done; status != http.StatusSeeOther {
		t.Errorf("the upload was answered with %d", status)
	}
}
