package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// A text of 4 MiB is kept whole; of a longer one the model reads how much it does not see.
func TestTruncateResult(t *testing.T) {
	whole := strings.Repeat("x", 4<<20)
	if got := truncateResult(whole); got != whole {
		t.Errorf("a text of 4 MiB became %d bytes", len(got))
	}
	if got, want := truncateResult(whole+"y"), whole+"\n[cut: 4194304 of 4194305 bytes are shown]"; got != want {
		t.Errorf("a longer one became %d bytes that end %q", len(got), got[len(got)-60:])
	}
}

// Structured data that is too large is left out, also as text.
func TestParseResult_StructuredDataIsBounded(t *testing.T) {
	for size, isKept := range map[int]bool{4 << 20: true, 4<<20 + 1: false} {
		data := `"` + strings.Repeat("x", size-2) + `"`
		r := parseResult(json.RawMessage(`{"structuredContent":` + data + `}`))
		if isKept != (string(r.Structured) == data) || isKept != (r.Text == data) {
			t.Errorf("of %d bytes %d are kept as data, %d as text", size, len(r.Structured), len(r.Text))
		}
	}
}

// Data of 8 MiB in one result is kept, to the byte.
func TestParseFile_TakesWhatThereIsRoomFor(t *testing.T) {
	part := func(encoded string) map[string]json.RawMessage {
		return jsonObject(json.RawMessage(fmt.Sprintf(`{"type":"image","mimeType":"image/png","data":%q}`, encoded)))
	}
	for _, tt := range []struct {
		encoded    string
		room, left int
		isKept     bool
	}{
		{"AAAA", 3, 0, true}, {"AAAA", 4, 1, true}, {"AAAA", 2, 2, false}, {"AA==", 1, 0, true}, {"AA==", 0, 0, false},
		{"", 9, 9, false}, {"AAA", 9, 9, false},
	} {
		room := tt.room
		f, ok, _ := parseFile(part(tt.encoded), 1, &room)
		if ok != tt.isKept || room != tt.left || ok && int(f.Size) != len(f.Data) {
			t.Errorf("%q with room for %d: %v, room for %d is left", tt.encoded, tt.room, ok, room)
		}
	}
	if maxFileBytes != 8<<20 {
		t.Errorf("%d bytes of one result are kept", maxFileBytes)
	}
}

// Sizes count the data, not its encoding.
func TestDataSize(t *testing.T) {
	for encoded, want := range map[string]string{
		``: "0 bytes", `""`: "0 bytes", `"AA=="`: "1 bytes", `"AAA="`: "2 bytes", `"AAAA"`: "3 bytes", `"===="`: "0 bytes",
		`"` + strings.Repeat("AAAA", 341) + `"`:     "1023 bytes",
		`"` + strings.Repeat("AAAA", 341) + `AA=="`: "1.0 KiB",
	} {
		if got := dataSize(json.RawMessage(encoded)); got != want {
			t.Errorf("%.20s: %s, want %s", encoded, got, want)
		}
	}
}

// A file is called what its address ends with, as far as that is a name on every system.
func TestBaseName(t *testing.T) {
	for uri, want := range map[string]string{
		"file:///a/b.png": "b.png", "https://x/b.png?size=7": "b.png", "": "", "/": "", "..": "", "a/..": "", ".": "",
		"x/a:b": "", `x/a\b`: "", "x/a\u202eb": "ab", "x/" + strings.Repeat("y", 101): strings.Repeat("y", 100),
	} {
		if got := baseName(uri); len(got) > 100 || got != want && len(uri) < 100 {
			t.Errorf("%.40q: %q, want %q", uri, got, want)
		}
	}
}

func TestMediaType(t *testing.T) {
	const other = "application/octet-stream"
	for s, want := range map[string]string{
		"text/plain; charset=utf-8": "text/plain", "IMAGE/PNG": "image/png", "": other, "text": other, "a b/c": other,
		"x/" + strings.Repeat("y", 98): "x/" + strings.Repeat("y", 98), "x/" + strings.Repeat("y", 99): other,
	} {
		if got := mediaType(s); got != want {
			t.Errorf("%.40q: %q, want %q", s, got, want)
		}
	}
	for media, want := range map[string]string{
		"image/png": ".png", "image/jpeg": ".jpg", "audio/mpeg": ".mp3", "application/pdf": ".pdf", other: ".bin",
	} {
		if got := fileExtension(media); got != want {
			t.Errorf("%s: %s, want %s", media, got, want)
		}
	}
}

// A text contains the data only if it contains each value.
func TestContainsValues(t *testing.T) {
	for _, tt := range []struct {
		said, data string
		want       bool
	}{
		{"5 of 7 items.", `{"done":5,"all":7}`, true},
		{"It is 1.5.", `[1.5]`, true},
		{"-3 degrees", `{"t":-3}`, true},
		{"Ada and Grace", `["Ada","Grace"]`, true},
		{"Ada", `["Ada","Grace"]`, false},
		{"Ada", `["Grace","Ada"]`, false},
		{"Ada is true", `{"who":"Ada","ok":false}`, false},
		{"3 degrees", `{"t":-3}`, false},
		{"15", `[5]`, false},
		{"Ada, 7", `{"a":{"who":[{"name":"Ada"},{}]},"b":[[7]],"c":{"d":null}}`, true},
		{"Ada, 7", `{"a":{"who":[{"name":"Ada"},{}],"last":8},"b":[[7]]}`, false},
		{"a who name", `{"a":{"who":[{"name":"Ada"}]}}`, false},
		{"nothing", `{"a":{"b":[null]}}`, false},
		{`see {"a":[]} there`, `{"a":[]}`, true},
		{"", `{"a":""}`, false},
		{"broken", `{"a"`, false},
	} {
		if got := containsValues(tt.said, json.RawMessage(tt.data)); got != tt.want {
			t.Errorf("%q of %s: %v", tt.said, tt.data, got)
		}
	}
}
