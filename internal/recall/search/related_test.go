package search

import (
	"slices"
	"strings"
	"testing"
)

func TestRelatedWordsAreRelatedBothWays(t *testing.T) {
	if !slices.Contains(related()[stem("photos")], stem("pictures")) || related()["xylophon"] != nil {
		t.Errorf("photos: %q, xylophone: %q", related()[stem("photos")], related()["xylophon"])
	}
	for stem, list := range related() {
		for _, other := range list {
			if other == stem || !slices.Contains(related()[other], stem) {
				t.Errorf("%s leads to %s, which leads to %q", stem, other, related()[other])
			}
		}
	}
	for line := range strings.Lines(relatedWords) {
		for _, w := range strings.Fields(line) {
			if isCommon(w) || !isLatin(w) {
				t.Errorf("%q is no word to search by", w)
			}
		}
	}
}
