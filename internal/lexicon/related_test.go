package lexicon

import (
	"slices"
	"strings"
	"testing"
)

func TestRelatedWordsAreRelatedBothWays(t *testing.T) {
	if !slices.Contains(Related(Stem("photos")), Stem("pictures")) || Related("xylophon") != nil {
		t.Errorf("photos: %q, xylophone: %q", Related(Stem("photos")), Related("xylophon"))
	}
	for stem, list := range related {
		for _, other := range list {
			if other == stem || !slices.Contains(Related(other), stem) {
				t.Errorf("%s leads to %s, which leads to %q", stem, other, Related(other))
			}
		}
	}
	for line := range strings.Lines(groups) {
		for _, w := range strings.Fields(line) {
			if Common(w) || !Latin(w) {
				t.Errorf("%q is no word to search by", w)
			}
		}
	}
}
