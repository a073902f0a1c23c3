package app_test

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// maxInitBytes is what our own packages may allocate before main. Every command and every child process pays for it:
// patterns and templates belong into text.Pattern and sync.OnceValue.
const maxInitBytes = 256 << 10

func TestStart_OurPackagesBuildLittleBeforeMain(t *testing.T) {
	cmd := exec.Command(daemonBinary(), "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace bytes.Buffer
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`^init (\S+) .* (\d+) bytes, \d+ allocs$`)
	all, ours := 0, 0
	for lines := bufio.NewScanner(&trace); lines.Scan(); {
		m := line.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		size := must(strconv.Atoi(m[2]))
		all += size
		if strings.HasPrefix(m[1], "ravenbot/") {
			if ours += size; size > maxInitBytes/4 {
				t.Errorf("%s allocates %d bytes before main", m[1], size)
			}
		}
	}
	t.Logf("before main our packages allocate %d bytes, all packages %d", ours, all)
	if all == 0 || ours > maxInitBytes {
		t.Errorf("before main our packages allocate %d bytes, want at most %d", ours, maxInitBytes)
	}
}
