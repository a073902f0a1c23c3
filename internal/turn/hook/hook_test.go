package hook_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/turn/hook"
)

// command is a hook that runs a shell script, which is the test's, not ours.
func command(when, script string, lenient bool) hook.Command {
	return hook.Command{When: when, Matches: func(n tool.Named) bool {
		return n.Name == "s_do"
	}, Command: []string{"sh", "-c", script},
		Timeout: 5 * time.Second, AllowOnError: lenient, Log: slog.New(slog.DiscardHandler)}
}

func intent(name string) tool.Intent {
	return tool.Intent{Args: json.RawMessage(`{"x":1}`), Tool: tool.Named{Name: name,
		Tool: tool.Func{Described: tool.Spec{Server: "s", Name: "do"}}},
		Caller: tool.Caller{Conversation: chat.Address{Platform: "web", Channel: "general"},
			User: chat.User{ID: "U1", Name: "anna"}, Turn: "web/1", Call: "c1"}}
}

func TestACommandDecides(t *testing.T) {
	for name, c := range map[string]struct {
		script  string
		lenient bool
		want    tool.Ruling
		fails   string
	}{
		"nothing":      {script: "cat >/dev/null", want: tool.Ruling{Decision: tool.Allow}},
		"deny":         {script: `echo '{"decision":"deny","reason":"not on Sundays"}'`, want: tool.Ruling{Decision: tool.Deny, Reason: "not on Sundays"}},
		"ask":          {script: `echo '{"decision":"ask"}'`, want: tool.Ruling{Decision: tool.Ask}},
		"change":       {script: `echo '{"args":{"x":2}}'`, want: tool.Ruling{Decision: tool.Allow, Args: json.RawMessage(`{"x":2}`)}},
		"status 2":     {script: `echo no way >&2; exit 2`, want: tool.Ruling{Decision: tool.Deny, Reason: "no way"}},
		"status 1":     {script: `echo broken >&2; exit 1`, want: tool.Ruling{Decision: tool.Allow}, fails: "broken"},
		"lenient":      {script: `exit 1`, lenient: true, want: tool.Ruling{Decision: tool.Allow}},
		"no JSON":      {script: `echo hello`, want: tool.Ruling{Decision: tool.Allow}, fails: "invalid character"},
		"unknown word": {script: `echo '{"decision":"maybe"}'`, want: tool.Ruling{Decision: tool.Allow}, fails: "not allow, ask or deny"},
		"too much":     {script: `head -c 3000000 /dev/zero`, want: tool.Ruling{Decision: tool.Allow}, fails: "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := command(hook.Before, c.script, c.lenient).Before(t.Context(), intent("s_do"))
			if diff := cmp.Diff(c.want, got); diff != "" || (err != nil) != (c.fails != "") || err != nil &&
				!strings.Contains(err.Error(), c.fails) {
				t.Errorf("%v, want %q in it (-want +got):\n%s", err, c.fails, diff)
			}
		})
	}
}

func TestACommandSeesTheCallAndNothingOfOurs(t *testing.T) {
	t.Setenv("RAVENBOT_ADMIN_TOKEN", "very-secret")
	dir := t.TempDir()
	c := command(hook.After, `cat > call.json; env > env.txt; echo '{"result":"changed"}'`, false)
	c.Dir = dir
	got, err := c.After(t.Context(), intent("s_do"), tool.Result{Text: "as it was",
		Structured: json.RawMessage(`{"secret":1}`)})
	if err != nil || got.Text != "changed" || got.Structured != nil {
		t.Errorf("the result is %+v (%v)", got, err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "call.json"))
	if err != nil {
		t.Fatal(err)
	}
	var in hook.Input
	if err := json.Unmarshal(raw, &in); err != nil {
		t.Fatal(err)
	}
	want := hook.Input{When: "after", Tool: "s_do", Server: "s", Name: "do", Args: json.RawMessage(`{"x":1}`),
		Result: &hook.Result{Text: "as it was"},
		Caller: hook.Caller{Channel: "web:/general", User: "U1", Name: "anna", Turn: "web/1", Call: "c1"}}
	if diff := cmp.Diff(want, in); diff != "" {
		t.Errorf("the command read (-want +got):\n%s", diff)
	}
	if env, _ := os.ReadFile(filepath.Join(dir, "env.txt")); strings.Contains(string(env), "very-secret") ||
		!strings.Contains(string(env), "PATH=") {
		t.Errorf("its environment is %s", env)
	}
	if r, err := command(hook.After, "exit 1", false).After(t.Context(), intent("another"), tool.Text("x")); err != nil ||
		r.Text != "x" {
		t.Errorf("a tool that it is not about: %v, %v", r, err)
	}
}

func TestACommandThatHangsEndsWithAllItStarted(t *testing.T) {
	dir := t.TempDir()
	c := command(hook.Before, `sleep 60 & echo $! > child; wait`, false)
	c.Dir, c.Timeout = dir, 500*time.Millisecond
	_, err := c.Before(t.Context(), intent("s_do"))
	if err == nil || !strings.Contains(err.Error(), "took longer") {
		t.Fatalf("the error is %v", err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "child"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for syscall.Kill(pid, 0) == nil {
		if stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil &&
			strings.Contains(string(stat), ") Z ") {
			return // ended; whoever inherited it reaps it
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			t.Fatal("the process that the command started still runs")
		}
	}
}
