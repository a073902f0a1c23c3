package terminal

import (
	"testing"

	"ravenbot/internal/core/chat"
)

func TestText_ShowsNoEscapes(t *testing.T) {
	in := "- **Anna**: \\*\\*Tools\\*\\* \\- `C:\\_tmp\\*` \\<https://a.example>\n```\na\\_b\n```"
	want := "- **Anna**: **Tools** \\- `C:\\_tmp\\*` <https://a.example>\n```\na\\_b\n```"
	if got := Text(chat.Draft{Text: in}); got != want {
		t.Errorf("shown as %q, want %q", got, want)
	}
}
