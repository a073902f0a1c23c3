package bundled

import (
	"io/fs"
	"net/url"
	"strings"
	"testing"

	"github.com/mmcdole/gofeed"
)

func TestEveryFeedIsWholeAndUseful(t *testing.T) {
	names, err := fs.Glob(Feeds(), "*.xml")
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != 3 {
		t.Errorf("got %v", names)
	}
	ids := make(map[string]string)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			text, err := fs.ReadFile(Feeds(), name)
			if err != nil {
				t.Fatal(err)
			}
			feed, err := gofeed.NewParser().ParseString(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if feed.Title == "" || feed.Description == "" || len(feed.Items) < 5 || len(feed.Items) > 8 {
				t.Errorf("%q, %q with %d items", feed.Title, feed.Description, len(feed.Items))
			}
			for _, item := range feed.Items {
				checkItem(t, item)
				if other := ids[item.GUID]; other != "" {
					t.Errorf("%q and %q share an id", item.Title, other)
				}
				ids[item.GUID] = item.Title
			}
		})
	}
}

func checkItem(t *testing.T, item *gofeed.Item) {
	t.Helper()
	link, err := url.Parse(item.Link)
	if err != nil || link.Scheme != "https" || link.Host == "" {
		t.Errorf("%q links to %q", item.Title, item.Link)
	}
	if item.Title == "" || len(strings.Fields(item.Description)) < 20 {
		t.Errorf("%q says too little", item.Title)
	}
	date := item.PublishedParsed
	if date == nil {
		date = item.UpdatedParsed
	}
	if date == nil || date.Year() != 2026 {
		t.Errorf("%q is dated %v", item.Title, date)
	}
	if item.GUID == "" {
		t.Errorf("%q has no id", item.Title)
	}
}
