package digest_test

import (
	"os"
	"strings"
	"testing"
)

func TestTheDocumentsHaveAllKeys(t *testing.T) {
	page, err := os.ReadFile("../../../docs/digests.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"schedule", "timezone", "feeds", "post", "maxItems", "maxAge", "style", "language",
		"prompt", "filters", "articles", "maxTokens", "catchUp", "whenEmpty", "agent"} {
		if !strings.Contains(string(page), "| `"+key+"` |") {
			t.Errorf("docs/digests.md does not tell of %s", key)
		}
	}
}
