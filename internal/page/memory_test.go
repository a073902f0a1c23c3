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
	if words, n := cutTags("a<b>c</b>"); words != "a<b>c</b>" || n != 2 {
		t.Errorf("%q has %d tags", words, n)
	}
}

// Large pages are read one at a time, and others do not wait for them.
func TestRead_WhileALargePageIsRead_OthersDoNotWait(t *testing.T) {
	readsLarge.Lock()
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
	readsLarge.Unlock()
	<-done
}
