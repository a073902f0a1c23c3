package files

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Opening a pipe waits for whoever writes to it.
func TestAPipeIsNotOpened(t *testing.T) {
	d := newDesk(t)
	if err := syscall.Mkfifo(filepath.Join(d.dir, "notes/pipe"), 0o600); err != nil {
		t.Skip("no pipe can be made here: ", err)
	}
	d.refuses("read", in{"path": "notes/pipe"}, "is not a regular file")
	d.refuses("write", in{"path": "notes/pipe", "text": "x"}, "is not a regular file")
	d.refuses("edit", in{"path": "notes/pipe", "old": "x", "new": "y"}, "is not a regular file")
	d.refuses("search", in{"path": "notes/pipe", "pattern": "x"}, "is not a regular file")
	d.says("search", in{"path": "notes", "pattern": "sleep"}, "1 line matches.\n\nnotes/todo.txt:2: sleep")
	if text := d.call("list", in{"path": "notes"}).Text; !strings.Contains(text, "notes/pipe (no regular file)") {
		t.Errorf("listed %q", text)
	}
}
