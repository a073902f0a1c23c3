package history

import (
	"strings"
	"testing"
)

// A list shows the words of messages, not their marks.
func TestList_ShowsMessagesWithoutFormatting(t *testing.T) {
	got := list("tools", []Message{{Author: "ravenbot", Text: "**Tools**\n\n- [RSS](https://a.example/x) `channel_history`"}})
	if want := `: Tools RSS channel\_history`; !strings.HasSuffix(got, want) {
		t.Errorf("listed as %q, want it to end with %q", got, want)
	}
}
