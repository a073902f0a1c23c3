package bolt

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
)

// killedPath names the store of the process that TestCompactOpen_ProcessKilled_KeepsWhatWasAccepted
// kills.
const killedPath = "RAVENBOT_TEST_KILLED"

// TestCompactOpen_ProcessKilled_KeepsWhatWasAccepted kills a process that accepts messages and
// compacts its store all the time, again and again, with the same store.
func TestCompactOpen_ProcessKilled_KeepsWhatWasAccepted(t *testing.T) {
	if path := os.Getenv(killedPath); path != "" {
		acceptAndCompact(t, path)
		return
	}
	path := filepath.Join(t.TempDir(), "raven.db")
	var accepted []string
	compacted := 0
	for range 6 {
		ids, n := runUntilKilled(t, path, 20+rand.IntN(200))
		accepted, compacted = append(accepted, ids...), compacted+n
		db, err := Open(path, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		waiting, err := db.Unanswered(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		kept := map[string]bool{}
		for _, r := range waiting {
			kept[r.Message.ID] = true
		}
		for _, id := range accepted {
			if !kept[id] {
				t.Errorf("message %s was accepted and is gone", id)
			}
		}
		checkWhole(t, db)
	}
	t.Logf("%d messages were accepted beside %d compactions", len(accepted), compacted)
}

// acceptAndCompact prints the id of each message that was accepted, and a line for each compaction.
func acceptAndCompact(t *testing.T, path string) {
	db, err := Open(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for n := 0; ; n++ {
			id := fmt.Sprint(os.Getpid(), "-", n)
			m := chat.Message{ID: id, Conversation: general, Text: string(repeatX(rand.IntN(3000)))}
			if _, err := db.Accept(t.Context(), store.Received{Message: m}); err != nil {
				fmt.Println("failed", err)
				return
			}
			fmt.Println("accepted", id)
		}
	}()
	for {
		if _, _, err := db.CompactOpen(t.Context()); err != nil {
			fmt.Println("failed", err)
			return
		}
		fmt.Println("compacted -")
	}
}

// runUntilKilled kills such a process after some lines, and returns what it has accepted and how
// often it has compacted.
func runUntilKilled(t *testing.T, path string, lines int) (accepted []string, compacted int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCompactOpen_ProcessKilled_KeepsWhatWasAccepted$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), killedPath+"="+path)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for scanner := bufio.NewScanner(out); scanner.Scan(); {
		var what, id string
		_, _ = fmt.Sscan(scanner.Text(), &what, &id)
		switch what {
		case "accepted":
			accepted = append(accepted, id)
		case "compacted":
			compacted++
		default:
			t.Errorf("the process says %q", scanner.Text())
		}
		if lines--; lines == 0 {
			_ = cmd.Process.Kill() // what it prints until then is read, too
		}
	}
	_ = cmd.Wait() // it was killed
	return accepted, compacted
}
