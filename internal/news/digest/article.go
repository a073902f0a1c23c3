package digest

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	// teaserLength is how many characters a text needs to count as more than a teaser.
	teaserLength = 280
	// pageTimeout bounds one page, pagesTimeout all pages of a run. hostsAtOnce hosts are asked
	// in parallel, each for one page at a time.
	pageTimeout  = 10 * time.Second
	pagesTimeout = 40 * time.Second
	hostsAtOnce  = 4
	maxPageBytes = 20_000 // bytes of a page's text
)

// readPages reads the pages of items whose feed has only a teaser. An item whose page cannot be read keeps its teaser.
func (s *Service) readPages(ctx context.Context, d spec, chosen []story) {
	if s.o.Pages == nil || d.Teasers || d.Style == Titles {
		return
	}
	byHost := map[string][]*item{}
	for _, st := range chosen {
		// A page that was read for a candidate, or could not be read, is not asked for again.
		if !st.pageAsked && utf8.RuneCountInString(st.Item.Text()) < teaserLength {
			byHost[host(st.Link)] = append(byHost[host(st.Link)], st.item)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, pagesTimeout)
	defer cancel()
	slots := make(chan struct{}, hostsAtOnce)
	var wg sync.WaitGroup
	// Pages of one host are read one after another: a run must not look like an attack.
	for _, items := range byHost {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			for _, i := range items {
				s.readPage(ctx, d, i)
			}
		})
	}
	wg.Wait()
}

// readPage reads the page of one item. Whatever goes wrong, the item keeps what its feed says.
func (s *Service) readPage(ctx context.Context, d spec, i *item) {
	i.pageAsked = true
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	text, err := s.o.Pages.Article(ctx, i.Link)
	if err != nil {
		s.o.Log.Debug("page of item not read", "digest", d.Name, "link", i.Link, "error", err)
		return
	}
	// A page that says nothing of the title asks for consent or a password.
	if utf8.RuneCountInString(text) > teaserLength && mentionsTitle(i.Heading(), text) {
		i.pageText = strings.ToValidUTF8(text[:min(len(text), maxPageBytes)], "")
	}
}

// mentionsTitle reports whether a text contains at least half of the longer words of a title. A
// title without a word of four letters is mentioned by every text.
func mentionsTitle(title, text string) bool {
	text = strings.ToLower(text)
	words, found := 0, 0
	for _, w := range strings.Fields(strings.ToLower(title)) {
		if w = strings.Trim(w, ".,:;!?\"'()«»“”"); utf8.RuneCountInString(w) < 4 {
			continue
		}
		if words++; strings.Contains(text, w) {
			found++
		}
	}
	return 2*found >= words
}
