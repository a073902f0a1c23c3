package admin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// getPage returns the addresses of a page of conversations and the cursor of the next one.
func getPage(t *testing.T, client *http.Client, url string) (addresses []string, next string) {
	t.Helper()
	r := do(t, client, "GET", url, nil, "Authorization", bearerHeader)
	var page struct {
		Items []struct{ Address string }
		Next  string
	}
	if err := json.Unmarshal([]byte(r.body), &page); err != nil || r.status != 200 {
		t.Fatalf("%s: %d %s", url, r.status, r.body)
	}
	for _, i := range page.Items {
		addresses = append(addresses, i.Address)
	}
	return addresses, page.Next
}

func TestConversations_AreListedPageByPage(t *testing.T) {
	for name, c := range map[string]struct {
		query string
		pages []int
	}{
		"by default":        {"", []int{100, 100, 52}},
		"as many as fit":    {"limit=251", []int{251, 1}}, // the rooms with posts alone come last
		"exactly all":       {"limit=252", []int{252}},
		"no more than that": {"limit=100000", []int{252}},
	} {
		t.Run(name, func(t *testing.T) {
			b, _, server, client := start(t, nil)
			b.threads = 250
			seen := map[string]bool{}
			cursor := ""
			for i, want := range c.pages {
				got, next := getPage(t, client, server.URL+"/api/v1/conversations?"+c.query+"&cursor="+cursor)
				if len(got) != want || (next == "") != (i == len(c.pages)-1) {
					t.Fatalf("page %d has %d conversations and goes on with %q", i, len(got), next)
				}
				for _, a := range got {
					seen[a] = true
				}
				cursor = next
			}
			if len(seen) != 252 || !seen["web:/general"] || !seen["web:/news"] || !seen["slack:/C1/249"] {
				t.Errorf("%d different conversations", len(seen))
			}
		})
	}
}

func TestLists_RefuseWhatIsNoPage(t *testing.T) {
	_, _, server, client := start(t, nil)
	for _, path := range []string{"conversations", "mcp/servers", "digests", "audit", "tool-usage", "approvals"} {
		for _, query := range []string{"limit=0", "limit=x", "limit=-1", "cursor=!", "cursor=bogus", "cursor=3.!"} {
			r := do(t, client, "GET", server.URL+"/api/v1/"+path+"?"+query, nil, "Authorization", bearerHeader)
			if r.status != 400 || !strings.Contains(r.body, `"hint":"leave it out`) {
				t.Errorf("%s?%s: %d %s", path, query, r.status, r.body)
			}
		}
	}
}

// Items that come or go between two pages move no others: none is shown twice, and none is left out.
func TestWriteList_ItemsComeAndGoBetweenPages_OthersAreShownOnce(t *testing.T) {
	for name, c := range map[string]struct {
		then []string
		want string
	}{
		"nothing changes":          {[]string{"b", "d", "f", "h"}, "b d f h"},
		"one is added before":      {[]string{"a", "b", "d", "f", "h"}, "b d f h"},
		"one is added behind":      {[]string{"b", "d", "e", "f", "h"}, "b d e f h"},
		"one is removed before":    {[]string{"d", "f", "h"}, "b d f h"},
		"the last one is removed":  {[]string{"b", "f", "h"}, "b d f h"},
		"all of them are removed":  {nil, "b d"},
		"those behind are removed": {[]string{"b", "d"}, "b d"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			list, next := []string{"b", "d", "f", "h"}, ""
			for range 5 {
				w := httptest.NewRecorder()
				r := httptest.NewRequest(http.MethodGet, "/?limit=2&cursor="+next, nil)
				writeList(w, r, list, func(s string) string { return s })
				var page struct {
					Items []string
					Next  string
				}
				if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != http.StatusOK {
					t.Fatalf("%d %s", w.Code, w.Body)
				}
				got, list, next = append(got, page.Items...), c.then, page.Next
				if next == "" {
					break
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("listed %q, want %s", got, c.want)
			}
		})
	}
}
