package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/tool"
)

func TestServerIsConnectedAndCalled(t *testing.T) {
	h := running(t, Options{Servers: []Config{fakeServer("a", "plain")}})
	st := settled(t, h, "a")
	if st.State != Connected || st.Error != "" || st.Transport != Stdio || st.Protocol != "2025-11-25" ||
		st.Version != "fake 7" || st.Source != "config" {
		t.Errorf("status %+v", st)
	}
	wantText(t, call(t, find1(t, h, "a", "echo"), `{"n":12345678901234567890,"s":"ab"}`),
		`{"n":12345678901234567890,"s":"ab"}`)
	wantText(t, call(t, find1(t, h, "a", "echo"), ``), `{}`)
	wantFailure(t, call(t, find1(t, h, "a", "echo"), `[1]`), "must be a JSON object")
	wantFailure(t, call(t, find1(t, h, "a", "fail"), `{}`), "it went wrong")
	wantFailure(t, call(t, find1(t, h, "a", "reject"), `{}`), "unknown argument zz")
}

func TestSchemaAndHintsAreKeptAsSent(t *testing.T) {
	h := running(t, Options{Servers: []Config{fakeServer("a", "plain")}})
	settled(t, h, "a")
	if got := string(find1(t, h, "a", "strict").Spec().Schema); got != allOf {
		t.Errorf("schema\n%s\nwant\n%s", got, allOf)
	}
	yes, no := true, false
	if diff := cmp.Diff(tool.Hints{ReadOnly: &yes, Destructive: &no}, find1(t, h, "a", "echo").Spec().Hints); diff != "" {
		t.Errorf("hints (-want +got):\n%s", diff)
	}
}

func TestStatusJSON(t *testing.T) {
	h := running(t, Options{Servers: []Config{{Name: "off", Disabled: true}, fakeServer("none", "none"),
		fakeServer("pages", "pages")}})
	settled(t, h, "none")
	settled(t, h, "pages")
	got := map[string]map[string]any{}
	data, err := json.Marshal(h.Servers())
	if err != nil {
		t.Fatal(err)
	}
	var list []map[string]any
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		got[s["name"].(string)] = map[string]any{"state": s["state"], "error": s["error"], "tools": s["tools"],
			"source": s["source"]}
	}
	of := func(name string) any {
		return map[string]any{"name": name, "description": "does " + name, "inputSchema": map[string]any{"type": "object"},
			"state": "offered", "hint": "unknown"}
	}
	want := map[string]map[string]any{
		"off":   {"state": "disabled", "error": "", "tools": []any{}, "source": "config"},
		"none":  {"state": "no_tools_found", "error": "", "tools": []any{}, "source": "config"},
		"pages": {"state": "connected", "error": "", "tools": []any{of("tool_"), of("tool_b"), of("tool_c")}, "source": "config"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestToolLists(t *testing.T) {
	tests := []struct {
		mode             string
		include, exclude []string
		want             string
	}{
		{mode: "no tools", want: ""},
		{mode: "odd tools", want: "odd twice"},
		{mode: "tasks", want: "also never"},
		{mode: "pages", include: []string{"tool_*"}, exclude: []string{"*b"}, want: "tool_ tool_c"},
		{mode: "pages", include: []string{"tool_b"}, want: "tool_b"},
	}
	var o Options
	for i, tt := range tests {
		c := fakeServer(fmt.Sprint("s", i), tt.mode)
		c.Include, c.Exclude = tt.include, tt.exclude
		o.Servers = append(o.Servers, c)
	}
	o.Servers = append(o.Servers, fakeServer("endless", "endless pages"))
	h := running(t, o)
	for i, tt := range tests {
		var got []string
		for _, tl := range settled(t, h, fmt.Sprint("s", i)).Tools {
			got = append(got, tl.Name)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %v, want %q", tt.mode, got, tt.want)
		}
	}
	if n := len(settled(t, h, "endless").Tools); n != maxPages {
		t.Errorf("of an endless list %d tools were taken, want %d", n, maxPages)
	}
	if got := names(h.Tools())[:3]; !cmp.Equal(got, []string{"endless/tool_", "endless/tool_x", "endless/tool_xx"}) {
		t.Errorf("the host's tools begin %v", got)
	}
}

func TestEnvironmentIsAllowListed(t *testing.T) {
	for _, name := range []string{"DISCORD_TOKEN", "SLACK_BOT_TOKEN", "SLACK_SIGNING_SECRET", "GEMINI_API_KEY",
		"OPENROUTER_API_KEY", "RAVENBOT_ADMIN_TOKEN", "RAVENBOT_CORPORA", "HTTP_PROXY", "SSH_AUTH_SOCK"} {
		t.Setenv(name, "the bot's own")
	}
	t.Setenv("LC_TIME", "C")
	dir := t.TempDir()
	c := fakeServer("a", "plain", "OWN=mine", "TERM=dumb")
	c.Dir = dir
	h := running(t, Options{Servers: []Config{c}})
	settled(t, h, "a")
	got := map[string]string{}
	for _, v := range strings.Split(call(t, find1(t, h, "a", "env"), `{}`).Text, "\n") {
		k, v, _ := strings.Cut(v, "=")
		got[k] = v
	}
	for k, v := range got {
		if v == "the bot's own" {
			t.Errorf("the server was given %s", k)
		}
		if _, own := c.Env[k]; !own && !isInherited(k) {
			t.Errorf("the server was given %s", k)
		}
	}
	if got["OWN"] != "mine" || got["TERM"] != "dumb" || got["LC_TIME"] != "C" || got["PATH"] != os.Getenv("PATH") {
		t.Errorf("the server's environment is %v", got)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, call(t, find1(t, h, "a", "cwd"), `{}`), real)
}

func TestCommandThatCannotStart(t *testing.T) {
	gone := fakeServer("folder", "plain")
	gone.Dir = filepath.Join(t.TempDir(), "none")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := running(t, Options{Servers: []Config{
		{Name: "npx", Command: "npx", Env: map[string]string{"PATH": t.TempDir()}},
		{Name: "odd", Command: "no-such-program", Env: map[string]string{}},
		{Name: "path", Command: "./none", Env: map[string]string{}},
		{Name: "plain", Command: file, Env: map[string]string{}},
		gone,
		fakeServer("crash", "crash", "API_TOKEN=sesame-open"),
		fakeServer("mute", "no list"),
	}})
	for name, want := range map[string]string{
		"npx":    "npx not found: install Node.js",
		"odd":    "no-such-program not found: install it",
		"path":   `start "./none": `,
		"plain":  "permission denied",
		"folder": "its working folder " + gone.Dir + " does not exist",
		"crash":  "the process ended (exit status 3); its last error output: cannot start: the token *** is bad",
		"mute":   "list tools: the answer contains no list of tools",
	} {
		settled(t, h, name)
		until(t, h, name, Failed)
		if st, _ := h.Get(name); !strings.Contains(st.Error, want) || strings.Contains(st.Error, "sesame") {
			t.Errorf("%s: error %q, want %q in it", name, st.Error, want)
		}
		if len(toolsOf(h, name)) > 0 {
			t.Errorf("%s offers tools", name)
		}
	}
	lines(t, h, "crash", "stderr: cannot start: the token *** is bad")
	lines(t, h, "crash", "bot: failed: the process ended (exit status 3)")
}

func TestAServerThatHangsAtStartDelaysNobody(t *testing.T) {
	waitBesideOthers(t)
	h := running(t, Options{Servers: []Config{fakeServer("hang", "hang"), fakeServer("good", "plain"),
		fakeServer("slow", "slow")}})
	settled(t, h, "good")
	wantText(t, call(t, find1(t, h, "good", "echo"), `{}`), `{}`)
	if st, _ := h.Get("hang"); st.State != Connecting {
		t.Errorf("the hanging server is %s when the good one answers", st.State)
	}
	if st := settled(t, h, "slow"); st.State != Connected {
		t.Errorf("the slow server is %+v", st)
	}
}

func TestAServerThatIsNotReadyInTimeHasFailed(t *testing.T) {
	h := running(t, Options{Servers: []Config{fakeServer("a", "hang")}, StartTimeout: 50 * time.Millisecond})
	if st := until(t, h, "a", Failed); st.Error != "it was not ready within 50ms" {
		t.Errorf("error %q", st.Error)
	}
}

func TestEras(t *testing.T) {
	waitBesideOthers(t)
	tests := []struct{ mode, version, want string }{
		{"plain", "2024-11-05", "2024-11-05"},
		{"plain", "2025-03-26", "2025-03-26"},
		{"plain", "2025-06-18", "2025-06-18"},
		{"plain", "", "2025-11-25"},
		{"silent", "", "2025-11-25"},
		{"empty", "", "2025-11-25"},
		{"old versions", "", "2025-11-25"},
		{"dies on the unknown", "", "2025-11-25"},
		{"modern", "", "2026-07-28"},
		{"slow modern", "", "2026-07-28"}, // slower than silence is waited for
	}
	var o Options
	for i, tt := range tests {
		o.Servers = append(o.Servers, fakeServer(fmt.Sprint("s", i), tt.mode, "FAKE_VERSION="+tt.version))
	}
	h := running(t, o)
	for i, tt := range tests {
		name := fmt.Sprint("s", i)
		if st := settled(t, h, name); st.State != Connected || st.Protocol != tt.want {
			t.Errorf("%s %s: %s with %q (%s), want %q", tt.mode, tt.version, st.State, st.Protocol, st.Error, tt.want)
			continue
		}
		wantText(t, call(t, find1(t, h, name, "echo"), `{"a":1}`), `{"a":1}`)
	}
}

// The era of the first start is used at the next: the pause in which the
// question for the newest protocol stays unanswered is paid once.
func TestASilentServerIsWaitedForOnce(t *testing.T) {
	h := running(t, Options{Servers: []Config{fakeServer("a", "silent")}})
	settled(t, h, "a")
	before := connectionOf(h, "a")
	if err := h.Restart("a"); err != nil {
		t.Fatal(err)
	}
	reconnected(t, h, "a", before)
	if err := h.Stop("a"); err != nil { // now the log is complete
		t.Fatal(err)
	}
	questions := 0
	for _, l := range logLines(h, "a") {
		if l.Text == "asked for versions" {
			questions++
		}
	}
	if questions != 1 {
		t.Errorf("over two starts it was asked %d times for the versions that it knows", questions)
	}
}

func TestAServerThatDiesIsRestarted(t *testing.T) {
	waitBesideOthers(t)
	h := running(t, Options{Servers: []Config{fakeServer("a", "plain"), fakeServer("other", "plain")},
		reconnectWait: soon})
	settled(t, h, "a")
	settled(t, h, "other")
	before := connectionOf(h, "a")
	wantFailure(t, call(t, find1(t, h, "a", "die"), `{}`),
		"was lost during the call. Whether it had an effect is not known")
	echo := remoteTool(h, "a", "echo")
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	s := must(h.server("a"))
	s.awaitState(ctx, func() bool { return s.conn != before })
	lines(t, h, "a", "bot: ended: exit status 5")
	wantText(t, call(t, echo, `{}`), `{}`) // it waits for the server, which is about to come back
	if len(toolsOf(h, "a")) == 0 {
		t.Error("a server that is being restarted lost its tools")
	}
	wantText(t, call(t, find1(t, h, "other", "echo"), `{}`), `{}`)
}

// remoteTool is a tool as a turn holds it that asked for the tools before.
func remoteTool(h *Host, server, name string) tool.Tool {
	return serverTool{s: must(h.server(server)), tool: inspect(toolSpec{Name: name})}
}

// What the operator asked for shows at once, and a call right after it waits for it.
func TestAStartedServerIsConnecting(t *testing.T) {
	h := running(t, Options{Servers: []Config{fakeServer("a", "plain")}, reconnectWait: soon})
	settled(t, h, "a")
	echo := remoteTool(h, "a", "echo")
	for name, do := range map[string]func() error{
		"stop and start": func() error { return errors.Join(h.Stop("a"), h.Start("a")) },
		"restart":        func() error { return h.Restart("a") },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if st := must(h.server("a")).status(); st.State != Connecting && st.State != Connected {
			t.Errorf("after %s the state is %s", name, st.State)
		}
		wantText(t, call(t, echo, `{}`), `{}`)
	}
}

func TestOnlyHarmlessCallsAreRepeated(t *testing.T) {
	waitBesideOthers(t)
	const lost = `The connection to the MCP server "a" was lost during the call. ` +
		`Whether it had an effect is not known; it is not tried again.`
	for name, want := range map[string]struct{ runs, text string }{
		"die_once":         {"xx", "alive"},
		"die_once_writing": {"x", lost},
		"die_always":       {"xx", lost},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "runs")
			h := running(t, Options{Servers: []Config{fakeServer("a", "plain", "FAKE_FILE="+file)}, reconnectWait: soon})
			settled(t, h, "a")
			if res := call(t, find1(t, h, "a", name), `{}`); res.Text != want.text {
				t.Errorf("result %q, want %q", res.Text, want.text)
			}
			if runs, err := os.ReadFile(file); err != nil || string(runs) != want.runs {
				t.Errorf("the tool ran %q times (%v), want %q", runs, err, want.runs)
			}
		})
	}
}

func TestACallThatIsNeverAnswered(t *testing.T) {
	waitBesideOthers(t)
	c := fakeServer("a", "plain")
	c.Timeout = 300 * time.Millisecond
	h := running(t, Options{Servers: []Config{c}})
	settled(t, h, "a")
	before := connectionOf(h, "a")
	wantFailure(t, call(t, find1(t, h, "a", "hang"), `{}`), "did not answer within")
	reconnected(t, h, "a", before)
}

// A server that does not read its input holds up nobody beyond their deadline,
// not even when neither the pipe nor our queue has room.
func TestAServerThatDoesNotRead(t *testing.T) {
	waitBesideOthers(t)
	c := fakeServer("a", "plain")
	c.Timeout = time.Second
	h := running(t, Options{Servers: []Config{c}, reconnectWait: soon})
	settled(t, h, "a")
	hang, before := find1(t, h, "a", "hang"), connectionOf(h, "a")
	var wg sync.WaitGroup
	for range 24 {
		wg.Go(func() {
			wantFailure(t, call(t, hang, `{"a":"`+strings.Repeat("x", 64<<10)+`"}`), "did not answer within")
		})
	}
	wg.Wait()
	reconnected(t, h, "a", before)
}

// watcherFunc is a function as a Watcher.
type watcherFunc func(group int) (done func())

func (f watcherFunc) Watch(group int) (done func()) { return f(group) }

// Each of these takes seconds to end. None is waited for before the others are ended, too.
func TestServersAreEndedSideBySide(t *testing.T) {
	waitBesideOthers(t)
	const n = 4
	var ended sync.WaitGroup
	ended.Add(n)
	o := Options{Watcher: watcherFunc(func(int) func() {
		return func() { // called when a process has ended, and before it is reaped
			ended.Done()
			ended.Wait()
		}
	})}
	for i := range n {
		o.Servers = append(o.Servers, fakeServer(fmt.Sprint("s", i), "stubborn"))
	}
	h, end := hosted(t, o)
	for _, c := range o.Servers {
		settled(t, h, c.Name)
	}
	end()
	if err := h.Start("s0"); !errors.Is(err, ErrNotRunning) {
		t.Errorf("Start after the end: %v", err)
	}
	if h.Run(t.Context()) == nil {
		t.Error("the host ran twice")
	}
}

func TestACallerThatLeaves(t *testing.T) {
	h := running(t, Options{Servers: []Config{fakeServer("a", "plain")}})
	settled(t, h, "a")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := find1(t, h, "a", "hang").Call(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
	}
}

func TestMessagesThatAreNone(t *testing.T) {
	h := running(t, Options{Servers: []Config{fakeServer("a", "noise")}})
	if st := settled(t, h, "a"); st.State != Connected {
		t.Fatalf("status %+v", st)
	}
	wantText(t, call(t, find1(t, h, "a", "garbage"), `{}`), "after garbage")
	for _, want := range []string{"stdout: npm warn something is old", `stdout: {"jsonrpc":"2.0"`,
		`stdout: {"Method":"notifications`, "stdout: [31mnot json[0m"} {
		lines(t, h, "a", want)
	}
}

func TestMixedUpMessages(t *testing.T) {
	h := running(t, Options{Servers: []Config{fakeServer("a", "plain")}})
	settled(t, h, "a")
	wantText(t, call(t, find1(t, h, "a", "twice"), `{}`), "first")
	wantText(t, call(t, find1(t, h, "a", "echo"), `{"n":1}`), `{"n":1}`)
	wantText(t, call(t, find1(t, h, "a", "impostor"), `{}`), "the answer")
	wantText(t, call(t, find1(t, h, "a", "sample"), `{}`), "asked")
	wantText(t, call(t, find1(t, h, "a", "ask"), `{"id":"p1","method":"ping","params":{}}`), "{}")
	wantText(t, call(t, find1(t, h, "a", "logs"), `{}`), "logged")
	lines(t, h, "a", "message: info: a log line")
}

func TestChangedToolsAreListedAgain(t *testing.T) {
	h := running(t, Options{Servers: []Config{fakeServer("a", "plain")}, HealthInterval: time.Hour})
	settled(t, h, "a")
	wantText(t, call(t, find1(t, h, "a", "grow"), `{}`), "grown")
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !slices.Contains(names(toolsOf(h, "a")), "a/grown") {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the new tool is not offered")
		}
	}
}

func TestFloodsAreBounded(t *testing.T) {
	c := fakeServer("a", "plain")
	c.Timeout = soon
	h := running(t, Options{Servers: []Config{c}})
	settled(t, h, "a")
	grown := growth(t, func() { wantText(t, call(t, find1(t, h, "a", "flood"), `{}`), "after flood") })
	before := connectionOf(h, "a")
	if grown > 20<<20 {
		t.Errorf("100 MB on stderr took %d MiB of memory", grown>>20)
	}
	if n := len(logLines(h, "a")); n > maxLogLines {
		t.Errorf("the log holds %d lines", n)
	}
	grown = growth(t, func() {
		wantFailure(t, call(t, find1(t, h, "a", "big"), `{}`), "was lost during the call")
	})
	if grown > 150<<20 {
		t.Errorf("a line of 100 MB took %d MiB of memory", grown>>20)
	}
	reconnected(t, h, "a", before)
	wantText(t, call(t, find1(t, h, "a", "echo"), `{}`), `{}`)
	if res := call(t, find1(t, h, "a", "huge"), `{}`); len(res.Text) > maxResultBytes+100 ||
		!strings.HasSuffix(res.Text, "bytes are shown]") {
		t.Errorf("a result of 8 MiB became %d bytes", len(res.Text))
	}
}

// growth is by how much the heap was larger at any time while do ran.
func growth(t *testing.T, do func()) int64 {
	t.Helper()
	read := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	runtime.GC()
	before, peak := read(), int64(0)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				peak = max(peak, read())
			}
		}
	})
	do()
	close(done)
	wg.Wait()
	return peak - before
}

// The server and its child ignore the signal that asks, and stay when their input
// closes. That nothing of them is left is checked by running.
func TestStubbornProcessesAreEnded(t *testing.T) {
	waitBesideOthers(t)
	h := running(t, Options{Servers: []Config{fakeServer("a", "stubborn"), fakeServer("b", "plain")}})
	settled(t, h, "a")
	settled(t, h, "b")
	mark := "FAKE_MARK=" + must(h.server("a")).c.Env["FAKE_MARK"]
	if n := len(processes(t, mark)); runtime.GOOS == "linux" && n != 3 {
		t.Errorf("%d processes run, want the server, its child and another server", n)
	}
	if err := h.Stop("a"); err != nil {
		t.Fatal(err)
	}
	if n := len(processes(t, mark)); runtime.GOOS == "linux" && n != 1 {
		t.Errorf("after Stop, %d processes run, want 1", n)
	}
	if st, _ := h.Get("a"); st.State != Stopped || len(toolsOf(h, "a")) != 0 {
		t.Errorf("after Stop: %+v", st)
	}
	if err := h.Start("a"); err != nil {
		t.Fatal(err)
	}
	until(t, h, "a", Connected)
}

func TestTheChildOfADeadServerIsEnded(t *testing.T) {
	waitBesideOthers(t)
	h := running(t, Options{Servers: []Config{fakeServer("a", "stubborn")}})
	settled(t, h, "a")
	mark := "FAKE_MARK=" + must(h.server("a")).c.Env["FAKE_MARK"]
	before := processes(t, mark)
	wantFailure(t, call(t, find1(t, h, "a", "die"), `{}`), "was lost")
	isOld := func(pid int) bool { return slices.Contains(before, pid) }
	deadline := time.Now().Add(soon)
	for slices.ContainsFunc(processes(t, mark), isOld) {
		if time.Now().After(deadline) {
			t.Fatalf("of %v, %v outlived the server that started them", before, processes(t, mark))
		}
		<-time.After(10 * time.Millisecond)
	}
}

// A host that is killed can end nobody: its servers end all the same.
func TestServersEndWithAKilledHost(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are looked up in /proc")
	}
	mark := fmt.Sprintf("FAKE_MARK=%d-killed", os.Getpid())
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "FAKE_MCP=host", mark)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if n := len(processes(t, mark)); n < 3 {
		t.Errorf("%d processes run before the host is killed", n)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	deadline := time.After(soon)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for len(processes(t, mark)) > 0 {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("processes outlived the host: %v", processes(t, mark))
		}
	}
}

// fakeHost hosts two servers, one of which does not look at its input, and says
// when they are there.
func fakeHost() {
	_, mark, _ := strings.Cut("FAKE_MARK="+os.Getenv("FAKE_MARK"), "=")
	servers := []Config{fakeServer("a", "plain", "FAKE_MARK="+mark), fakeServer("b", "hang", "FAKE_MARK="+mark)}
	// Long enough that neither server is given up and started again before the host is killed.
	h, err := NewHost(Options{Servers: servers, StartTimeout: 2 * time.Minute})
	if err != nil {
		os.Exit(9)
	}
	go h.Run(context.Background())
	_ = h.Wait(context.Background(), "a")
	for len(logLines(h, "b")) == 0 {
		<-time.After(time.Millisecond)
	}
	fmt.Println("ready")
	select {}
}

func TestControl(t *testing.T) {
	h, err := NewHost(Options{Servers: []Config{fakeServer("a", "plain"), {Name: "off", Disabled: true}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{"a": ErrNotRunning, "off": ErrDisabled, "x": ErrNotFound} {
		for _, do := range []func(string) error{h.Start, h.Stop, h.Restart} {
			if err := do(name); !errors.Is(err, want) {
				t.Errorf("%s: error %v, want %v", name, err, want)
			}
		}
	}
	if err := h.Wait(t.Context(), "off"); err != nil {
		t.Errorf("Wait for a disabled server: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Wait(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait with an ended context: %v", err)
	}
	if h.Wait(t.Context(), "x") == nil || logLines(h, "x") != nil || len(toolsOf(h, "x")) != 0 {
		t.Error("an unknown server is known")
	}
	if _, err := h.Get("x"); err == nil {
		t.Error("an unknown server has a status")
	}
	wantFailure(t, call(t, remoteTool(h, "a", "echo"), `{}`), "state: uninitialized")
}

func TestStopDuringStartAndRestart(t *testing.T) {
	waitBesideOthers(t)
	h := running(t, Options{Servers: []Config{fakeServer("hang", "hang"), fakeServer("a", "plain")}})
	until(t, h, "hang", Connecting)
	if err := h.Stop("hang"); err != nil {
		t.Fatal(err)
	}
	until(t, h, "hang", Stopped)
	settled(t, h, "a")
	before := connectionOf(h, "a")
	if err := h.Restart("a"); err != nil {
		t.Fatal(err)
	}
	reconnected(t, h, "a", before)
	if err := h.Stop("a"); err != nil {
		t.Fatal(err)
	}
	if err := h.Restart("a"); err != nil {
		t.Fatal(err)
	}
	until(t, h, "a", Connected)
}

// memoryStore is a store in memory.
type memoryStore struct {
	mu   sync.Mutex
	kept map[string][]byte
}

func (s *memoryStore) LoadBlob(ctx context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept[key], nil
}

func (s *memoryStore) SaveBlob(ctx context.Context, key string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		s.kept = map[string][]byte{}
	}
	s.kept[key] = data
	return nil
}

func TestAKnownServerStartsAtItsFirstCall(t *testing.T) {
	cache := &memoryStore{}
	entry := Config{
		Name:    "a",
		Command: os.Args[0],
		Args:    []string{"fake", "plain"},
	} // without a mark: the same in all hosts

	first := running(t, Options{Servers: []Config{entry}, Store: cache})
	if st := settled(t, first, "a"); st.State != Connected {
		t.Fatalf("a server that is not known yet: %+v", st)
	}

	lazy := running(t, Options{Servers: []Config{entry}, Store: cache})
	if st := settled(t, lazy, "a"); st.State != Uninitialized || len(st.Tools) == 0 {
		t.Fatalf("a server that is known: %+v", st)
	}
	if got := string(find1(t, lazy, "a", "strict").Spec().Schema); got != allOf {
		t.Errorf("the cached schema is %s", got)
	}
	wantText(t, call(t, find1(t, lazy, "a", "echo"), `{}`), `{}`)
	if st, _ := lazy.Get("a"); st.State != Connected {
		t.Errorf("after a call: %+v", st)
	}

	eager, changed := entry, entry
	eager.Eager = true
	changed.Dir = t.TempDir()
	for what, c := range map[string]Config{"eager": eager, "changed since": changed} {
		if st := settled(t, running(t, Options{Servers: []Config{c}, Store: cache}), "a"); st.State != Connected {
			t.Errorf("a server that is %s: %+v", what, st)
		}
	}
}

// TestAKnownServerIsUsableWhileItStarts calls a tool before the slow server that
// has it is there: the call waits for it.
func TestAKnownServerIsUsableWhileItStarts(t *testing.T) {
	waitBesideOthers(t)
	cache := &memoryStore{}
	entry := Config{Name: "a", Command: os.Args[0], Args: []string{"fake", "slow"}, Eager: true, Timeout: 20 * time.Second}
	if st := settled(t, running(t, Options{Servers: []Config{entry}, Store: cache}), "a"); st.State != Connected {
		t.Fatalf("the first start: %+v", st)
	}
	again := running(t, Options{Servers: []Config{entry}, Store: cache})
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	s := must(again.server("a"))
	s.awaitState(ctx, func() bool { return s.state != Uninitialized })
	wantText(t, call(t, find1(t, again, "a", "echo"), `{}`), `{}`)
}
