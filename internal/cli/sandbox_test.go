package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestTalkingInTheSandbox says what README says a newcomer can say there.
func TestTalkingInTheSandbox(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "ravenbot", "sandbox", "--listen", freeAddress(t))
	tmp := t.TempDir()
	cmd.Env = []string{"TMPDIR=" + tmp}
	said, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	shown := &transcript{}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for s := bufio.NewScanner(out); s.Scan(); {
			shown.add(s.Text())
		}
	}()
	defer func() {
		if t.Failed() {
			t.Logf("it wrote:\n%s", shown)
		}
	}()
	for _, c := range []struct{ say, want string }{
		{"hello", "[discord #general] raven: (simulated model) You said: hello\n"},
		{"/raven digest list", "[discord #general, to you alone] raven: **Digests**"},
		{"slack> hello, too", "[slack #general] raven: (simulated model) You said: hello, too\n"},
		{"/raven tools", "[slack #general, to you alone] raven: *Tools I can use here*"},
		{"please feeds_fetch bundled:mcp-primer", "[slack #general] raven: (simulated model) The tool feeds_fetch answered:"},
		{"discord> /raven digest run morning", "(simulated model) The ferry to the lighthouse runs again. [["},
		{"/raven digest create weekdays at 9 bundled:mcp-primer", "[Make it] [No]"},
		{"press make it", "The digest `a-short-primer-on-mcp` is created."},
		{"press make it", "there is no button make it there"},
		{"/raven settings", "[discord #general] raven: (opened a form, which this window does not show: Your settings)"},
		{"slack> /raven settings", "[slack #general] raven: (opened a form, which this window does not show: "},
		{`digest_create {"schedule":"sundays at 9","feeds":["bundled:feeds-primer"]}`, "[slack #general] raven: *May I run `digest_create`?*"},
		{"press Approve", "[slack #general] raven: *May I make the digest `a-short-primer-on-feeds`?*"},
		{"press Make it", "The digest `a-short-primer-on-feeds` is created."},
	} {
		if _, err := fmt.Fprintln(said, c.say); err != nil {
			t.Fatal(err)
		}
		await(t, func() bool { return strings.Contains(shown.String(), c.want) })
	}
	if err := said.Close(); err != nil { // the end of the input is not the end of the world
		t.Error(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	_ = in.Close()
	<-read
	if err != nil {
		t.Errorf("it ended with %v", err)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
