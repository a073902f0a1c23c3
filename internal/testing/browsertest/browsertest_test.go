package browsertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAPageIsDriven(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "seen", Value: "yes"})
		_, err := r.Cookie("seen")
		fmt.Fprintf(w, `<title>a page</title><p id="cookie">%v</p><textarea id="words"></textarea><button id="b">0</button>
<script>b.onclick = () => setTimeout(() => { b.textContent++ }, 50)</script><img src="/missing">`, err == nil)
	}))
	t.Cleanup(server.Close)
	b := Start(t)
	p := b.Page()
	p.Look(View{Width: 300, Height: 200, Dark: true})
	p.Go(server.URL)
	if got := p.Eval("matchMedia('(prefers-color-scheme: dark)').matches && innerWidth"); got != 300.0 {
		t.Errorf("dark and 300 wide: %v", got)
	}
	p.Type("#words", "one")
	p.Enter(true)
	p.Type("#words", "two")
	if got := p.Eval("words.value"); got != "one\ntwo" {
		t.Errorf("typed %q", got)
	}
	p.Click("#b")
	p.Wait("b.textContent === '1'")
	p.Reload()
	if got := p.Text("#cookie"); got != "true" {
		t.Errorf("cookie after a reload: %s", got)
	}
	other := b.Page()
	other.Go(server.URL)
	if got := other.Text("#cookie"); got != "false" {
		t.Errorf("cookie in another page: %s", got)
	}
	if got := strings.Join(p.Problems(), "\n"); !strings.Contains(got, "/missing") {
		t.Errorf("problems %q lack the missing image", got)
	}
	if got := strings.Join(p.Requests(), "\n"); !strings.Contains(got, server.URL+"/missing") {
		t.Errorf("requests %q lack the missing image", got)
	}
	file := filepath.Join(t.TempDir(), "shot.png")
	p.Screenshot(file)
	if png, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(png), "\x89PNG") {
		t.Errorf("screenshot: %v", err)
	}
}
