package app_test

import (
	"net/http"
	"strings"
	"testing"
)

// A digest whose place is a forum is a post with a title and tags; what it has too many is in the same thread. Tags
// that the forum does not have are refused when the digest is made.
func TestDigest_InAForum(t *testing.T) {
	w := newWorld(t)
	forum := w.discord.AddForum(w.guild, "digests")
	w.discord.SetTags(forum.ID, true, "News", "Go")
	b := w.run(w.base())
	entry := map[string]any{"name": "primer", "schedule": "0 8 * * *", "feeds": []string{"bundled:feeds-primer"},
		"style": "titles", "maxItems": 30,
		"post": []string{"discord:" + w.guild.ID + "/" + forum.ID}}
	for want, tags := range map[string][]string{"needs a tag": nil, `has no tag "sport"`: {"sport"}} {
		entry["tags"] = tags
		var fault struct{ Error struct{ Message string } }
		if status := b.call(http.MethodPost, "/api/v1/digests", entry, &fault); status != http.StatusBadRequest ||
			!strings.Contains(fault.Error.Message, want) {
			t.Errorf("tags %q are answered %d: %s", tags, status, fault.Error.Message)
		}
	}
	entry["tags"] = []string{"news"}
	if status := b.call(http.MethodPost, "/api/v1/digests", entry, nil); status != http.StatusCreated {
		t.Fatalf("the digest is answered %d", status)
	}
	if posted, note := b.digestRun("primer"); posted == 0 || strings.Contains(note, "not posted") {
		t.Errorf("%d entries are posted: %s", posted, note)
	}
	posts := w.discord.Threads(forum.ID)
	if len(posts) != 1 || !strings.HasPrefix(posts[0].Name, "primer, ") || len(posts[0].Tags) != 1 ||
		posts[0].Tags[0] != "News" {
		t.Fatalf("the forum has %+v", posts)
	}
	must(w.discord.WaitPost(deadline(t), posts[0].ID, inDiscord("**primer**")))
}
