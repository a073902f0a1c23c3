package digest

import (
	"slices"
	"testing"
)

// A feed is known by its address however people write it.
func TestSetFeed_AddressWrittenInAnotherWay_IsTheSameFeed(t *testing.T) {
	const first, second = "https://example.org/feed", "https://example.org/other"
	for _, tt := range []struct {
		value string
		want  []string
		fails bool
	}{
		{value: "+https://EXAMPLE.org/feed/", want: []string{first}},
		{value: "-https://example.org/feed/", want: nil},
		{value: "+" + second, want: []string{first, second}},
		{value: "-" + second, want: []string{first}, fails: true},
		{value: "+", want: []string{first}, fails: true},
	} {
		p := Plan{Feeds: []Feed{{URL: first}}}
		err := p.setFeed(tt.value)
		var have []string
		for _, f := range p.Feeds {
			have = append(have, f.URL)
		}
		if !slices.Equal(have, tt.want) || (err != nil) != tt.fails {
			t.Errorf("%s: the plan reads %q, %v, want %q", tt.value, have, err, tt.want)
		}
	}
}
