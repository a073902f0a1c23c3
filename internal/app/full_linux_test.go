package app_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	simdiscord "ravenbot/internal/testing/sim/discord"
	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

// TestAFullDiskDelaysAnswers fills the daemon's disk while it answers one message and
// is sent another. When there is room again both are answered, without a restart.
func TestAFullDiskDelaysAnswers(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "mode=0700,size=16m"); err != nil {
		t.Skip("skipped: a small disk cannot be mounted here: ", err)
	}
	w := newWorldWith(t, simslack.Options{RetryDelays: slices.Repeat([]time.Duration{200 * time.Millisecond}, 200)},
		simdiscord.Options{})
	t.Cleanup(func() { // after the daemon has ended
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	filler := filepath.Join(disk, "filler")
	long := strings.Repeat("many words ", 3000)
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		switch {
		case strings.Contains(r.Asked(), "the disk gets full"):
			fillDisk(filler)
			return simmodel.Say("the answer that had to wait; " + long)
		case strings.Contains(r.Asked(), "the disk is full"):
			return simmodel.Say("the answer to the message that had to wait")
		}
		return simmodel.Say("the first answer")
	})
	settings := w.base()
	settings["store"] = filepath.Join(disk, "ravenbot.db")
	d := w.daemon(settings).start()
	arrives := func(text string) {
		t.Helper()
		if _, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack(text)); err != nil {
			t.Fatalf("%q did not arrive: %v\n%s", text, err, d.out)
		}
	}
	logged := func(text string) {
		t.Helper()
		within(t, "the log says "+text, func() bool { return strings.Contains(d.out.String(), text) })
	}
	w.slack.Mention(w.channel.ID, w.berit, "hello")
	arrives("the first answer")
	w.slack.Mention(w.channel.ID, w.berit, "the disk gets full")
	logged("failed to store an answer")
	w.slack.Mention(w.channel.ID, w.berit, "the disk is full "+long)
	logged("failed to store a slack message; not acknowledged")
	logged("there is no space left on its disk")
	within(t, "/readyz says that the disk is full", func() bool {
		status, text := d.readiness()
		return status == 503 && strings.Contains(text, "there is no space left on its disk")
	})
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	arrives("the answer that had to wait")
	arrives("the answer to the message that had to wait")
	d.idle()
	within(t, "/readyz says that the bot is ready", func() bool { status, _ := d.readiness(); return status == 200 })
	if log := d.out.String(); strings.Contains(log, "panic") {
		t.Errorf("there was a panic:\n%s", log)
	}
}

// readiness returns what /readyz answers.
func (d *daemon) readiness() (status int, text string) {
	_, rest, _ := strings.Cut(d.out.String(), "http=http://")
	address, _, _ := strings.Cut(rest, " ")
	res, err := http.Get("http://" + address + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	return res.StatusCode, string(must(io.ReadAll(res.Body)))
}

// TestAStoreThatIsTakenAway_IsNoticed: what is written to a file without a name is lost at the next
// start, so nothing is acknowledged any more.
func TestAStoreThatIsTakenAway_IsNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.daemon(w.base()).start()
	path := w.path("data/ravenbot.db")
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	within(t, "/readyz says that the file is gone", func() bool {
		status, text := d.readiness()
		return status == 503 && strings.Contains(text, "the file of the store was removed, replaced or overwritten")
	})
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	within(t, "/readyz says that the bot is ready", func() bool { status, _ := d.readiness(); return status == 200 })
}

// fillDisk fills the disk of a path to its last byte.
func fillDisk(path string) {
	f := must(os.Create(path))
	defer f.Close()
	for block := make([]byte, 64<<10); len(block) > 0; {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			panic(err)
		}
	}
}
