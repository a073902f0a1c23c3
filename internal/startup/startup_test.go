package startup_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestStart_NoGarbageCollection starts the program, which would collect garbage twice without the package.
func TestStart_NoGarbageCollection(t *testing.T) {
	t.Parallel()
	program := t.TempDir() + "/ravenbot"
	if out, err := exec.Command("go", "build", "-o", program, "ravenbot/cmd/ravenbot").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	collections := func(env ...string) int {
		t.Helper()
		cmd := exec.Command(program, "version")
		cmd.Env = append(env, "GODEBUG=gctrace=1")
		var trace strings.Builder
		cmd.Stderr = &trace
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s", err, trace.String())
		}
		return strings.Count(trace.String(), "gc ")
	}
	if n := collections(); n != 0 {
		t.Errorf("%d collections", n)
	}
	if n := collections("GOGC=100"); n == 0 {
		t.Error("no collection with GOGC=100: the variable does not count, or the package is not needed any more")
	}
}
