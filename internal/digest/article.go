package digest

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	// teaserLength is how many characters of text make an item more than one.
	teaserLength = 280
	// pageTimeout is for one page, pagesTimeout for all of a run, hostsAtOnce how many
	// hosts are asked side by side; each is asked for one page at a time.
	pageTimeout  = 10 * time.Second
	pagesTimeout = 40 * time.Second
	hostsAtOnce  = 4
	maxPageBytes = 20_000 // bytes of a page's text
)

// readPages reads the pages of the items of which feeds give only a teaser. What
// cannot be read stays as it is.
func (s *Service) readPages(ctx context.Context, d spec, chosen []story) {
	if s.o.Pages == nil || d.Teasers || d.Style == Titles {
		return
	}
	byHost := map[string][]*item{}
	for _, st := range chosen {
		if utf8.RuneCountInString(st.Item.Text()) < teaserLength {
			byHost[host(st.Link)] = append(byHost[host(st.Link)], st.item)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, pagesTimeout)
	defer cancel()
	slots := make(chan struct{}, hostsAtOnce)
	var wg sync.WaitGroup
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

func (s *Service) readPage(ctx context.Context, d spec, i *item) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	text, err := s.o.Pages.Article(ctx, i.Link)
	if err != nil {
		s.o.Log.Debug("page of an item not read", "digest", d.Name, "link", i.Link, "error", err)
		return
	}
	if utf8.RuneCountInString(text) > teaserLength && mentionsTitle(i.Heading(), text) {
		i.pageText = strings.ToValidUTF8(text[:min(len(text), maxPageBytes)], "")
	}
}

// mentionsTitle reports whether a text holds at least half of the longer words of a title: a
// page that asks for consent or a password does not.
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
