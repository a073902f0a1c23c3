package markdown

import (
	"slices"
	"testing"
)

func TestHiddenLinks_ReturnsWhatWordsDoNotShow(t *testing.T) {
	const src = "[here](https://a.example/x?y=1) ![p](https://b.example/p.png) [there][1] https://shown.example " +
		"<https://auto.example>\n" +
		"`[code](https://code.example)` [here " +
		"again](https://a.example/x?y=1)\n\n```\n[code](https://fence.example)\n```\n\n[1]: https://c.example \"title\"\n"
	want := []string{"https://a.example/x?y=1", "https://b.example/p.png", "https://c.example"}
	if got := HiddenLinks(src); !slices.Equal(got, want) {
		t.Errorf("links %q, want %q", got, want)
	}
}
