package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// A flood of flags, or of a path, is cut, so that the page and the log stay readable.
func TestInspect_BoundsWhatIsSaid(t *testing.T) {
	var parts []string
	for n := range 40 {
		parts = append(parts, fmt.Sprintf(`"k%02d":"a\u202eb"`, n))
	}
	tool := inspect(toolSpec{Name: "x", Schema: json.RawMessage(`{` + strings.Join(parts, ",") + `}`)})
	if len(tool.flags) != 20 {
		t.Errorf("%d flags, want 20", len(tool.flags))
	}
	deep := strings.Repeat("k", 300)
	tool = inspect(toolSpec{Name: "x", Schema: json.RawMessage(`{"` + deep + `":{"a":"a\u202eb"}}`)})
	if len(tool.flags) != 1 || len(tool.flags[0]) != 150+len(": hidden characters U+202E") {
		t.Errorf("flags %q", tool.flags)
	}
	for levels, isRefused := range map[int]bool{64: false, 65: true} {
		nested := strings.Repeat(`{"a":`, levels-1) + `{}` + strings.Repeat("}", levels-1)
		if got := inspect(toolSpec{Name: "x", Schema: json.RawMessage(nested)}).refusal; (got != "") != isRefused {
			t.Errorf("%d levels: refused %q", levels, got)
		}
	}
}

// Invisible characters are allowed if a script or an emoji needs them.
func TestIsHidden(t *testing.T) {
	for _, tt := range []struct {
		before, c rune
		want      bool
	}{
		{'a', '\n', false}, {'a', '\t', false}, {'a', '\r', false}, {'a', 0x1B, true}, {'a', 0x7F, true}, {'a', 0x9F, true},
		{'a', 'b', false}, {'a', 0x200B, true}, {0x058F, 0x200C, true}, {0x0590, 0x200C, false}, {0x0590, 0x200D, false},
		{'a', 0x200D, true}, {'*', 0xFE0F, false}, {0x1F, 0xFE00, true}, {0x20, 0xFE00, false}, {0xFE0F, 0xFE00, true},
		{0xE01EF, 0xFE00, true}, {0xE0100, 0xE0101, true}, {0xE01F0, 0xFE00, false}, {'a', 0xFDFF, false},
		{'a', 0x034F, true}, {'a', 0x115F, true}, {'a', 0x1160, true}, {'a', 0x3164, true}, {'a', 0xFFA0, true},
		{'a', 0xE0041, true}, {'a', 'ü', false},
	} {
		if got := isHidden(tt.before, tt.c); got != tt.want {
			t.Errorf("%U behind %U: hidden %v", tt.c, tt.before, got)
		}
	}
	if got := describeHidden("\u200b\u200e\u200f\u202a\u200b\u202b\u202c"); got !=
		"hidden characters U+200B U+200E U+200F U+202A U+202B" {
		t.Errorf("many are named as %q", got)
	}
}
