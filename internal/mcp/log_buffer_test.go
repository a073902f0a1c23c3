package mcp

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/text"
)

// A log holds 500 lines of 2 KiB.
func TestLogBuffer_IsBounded(t *testing.T) {
	r := &logBuffer{now: time.Now}
	for n := range 501 {
		r.add("stderr", fmt.Appendf(nil, "%d", n))
	}
	r.add("stderr", []byte(strings.Repeat("x", 3<<10)))
	list := r.lines(text.OneLine)
	if len(list) != 500 || list[0].Text != "2" || len(list[499].Text) != 2<<10 {
		t.Errorf("%d lines from %q, the last of %d bytes", len(list), list[0].Text, len(list[len(list)-1].Text))
	}
	if lines := r.linesSince(time.Time{}, "stdout", text.OneLine); len(lines) > 0 {
		t.Errorf("the lines of a stream without any are %q", lines)
	}
}
