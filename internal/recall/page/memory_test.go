package page

import (
	"strings"
	"testing"
	"time"
)

func pageOf(tags int) []byte {
	return []byte("<html><body><article><p>begin</p>" + strings.Repeat("<br>words ", tags) + "end</article></body></html>")
}

// A page of 4 MB may have a million tags, each of which takes some hundred bytes of memory.
func TestRead_MoreTagsThanAreRead_ReturnsTheBeginning(t *testing.T) {
	for tags, isWhole := range map[int]bool{maxTags / 2: true, maxTags * 2: false} {
		words := Read(pageOf(tags), "text/html", "").Text
		if !strings.Contains(words, "begin") || strings.Contains(words, "end") != isWhole ||
			strings.Count(words, "words") < min(tags, maxTags)-10 {
			t.Errorf("of %d tags the page has %d words", tags, strings.Count(words, "words"))
		}
	}
	if words, n := cutTags("a<b>c</b>", maxTags); words != "a<b>c</b>" || n != 2 {
		t.Errorf("%q has %d tags", words, n)
	}
}

// Large pages are read one at a time, and others do not wait for them.
func TestRead_WhileALargePageIsRead_OthersDoNotWait(t *testing.T) {
	readsLarge <- struct{}{}
	if words := Read(pageOf(100), "text/html", "").Text; !strings.Contains(words, "end") {
		t.Errorf("a small page is read as %q", words)
	}
	done := make(chan bool)
	go func() {
		Read(pageOf(manyTags), "text/html", "")
		close(done)
	}()
	select {
	case <-done:
		t.Error("two large pages are read at the same time")
	case <-time.After(200 * time.Millisecond):
	}
	<-readsLarge
	<-done
}

// A large page whose turn does not come is read without one, as far as that takes no more memory than a small page.
func TestRead_TurnOfALargePageDoesNotCome_ReturnsTheBeginning(t *testing.T) {
	readsLarge <- struct{}{}
	defer func() { <-readsLarge }()
	words := readWithin(time.Millisecond, pageOf(2*manyTags), "text/html", "").Text
	if n := strings.Count(words, "words"); !strings.Contains(words, "begin") || n < manyTags-10 || n > manyTags {
		t.Errorf("the page has %d words", n)
	}
	if maxTurnWait < time.Second || maxTurnWait > time.Minute {
		t.Errorf("a large page waits for %v", maxTurnWait)
	}
}
