package websearch_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/tools/websearch"
)

const key = "the-key-of-the-operator"

// fake is a search service that answers as its documentation says, if it is asked as that says.
type fake struct {
	method, path, header, value string
	asks                        func(q *http.Request, body string) bool
	answer                      string
}

var fakes = map[string]fake{
	"searxng": {"GET", "/search", "Authorization", "Bearer " + key,
		func(q *http.Request, _ string) bool {
			return q.FormValue("q") == "raven & food" && q.FormValue("format") == "json"
		},
		`{"query":"x","number_of_results":0,"results":[{"url":"https://a.example/1","title":"Ravens &amp; food","content":"They  cache\nit.","engine":"x","publishedDate":"2026-03-04T05:06:07"},
		 {"url":"https://a.example/2","title":"","content":"Second.","publishedDate":null},{"url":"javascript:alert(1)","title":"bad"},{"url":"https://a.example/1","title":"again"}]}`},
	"brave": {"GET", "/res/v1/web/search", "X-Subscription-Token", key,
		func(q *http.Request, _ string) bool {
			return q.FormValue("q") == "raven & food" && q.FormValue("count") == "8"
		},
		`{"type":"search","web":{"type":"search","results":[{"title":"Ravens &amp; <strong>food</strong>","url":"https://a.example/1","description":"They <strong>cache</strong> it.","age":"March 4, 2026","page_age":"2026-03-04T05:06:07"},
		 {"title":"","url":"https://a.example/2","description":"Second."}]}}`},
	"tavily": {"POST", "/search", "Authorization", "Bearer " + key,
		func(_ *http.Request, body string) bool {
			return body == `{"max_results":8,"query":"raven \u0026 food"}`
		},
		`{"query":"x","results":[{"title":"Ravens & food","url":"https://a.example/1","content":"They cache it.","score":0.9,"published_date":"2026-03-04T05:06:07"},
		 {"title":"","url":"https://a.example/2","content":"Second.","score":0.8}],"response_time":1.2}`},
	"gemini": {"POST", "/v1beta/models/gemini-x:generateContent", "X-Goog-Api-Key", key,
		func(_ *http.Request, body string) bool {
			return strings.Contains(body, `"tools":[{"google_search":{}}]`) && strings.Contains(body, `raven \u0026 food`)
		},
		`{"candidates":[{"content":{"parts":[{"text":"They cache it. Second."}]},"groundingMetadata":{"webSearchQueries":["x"],"groundingChunks":[{"web":{"uri":"https://a.example/1","title":"Ravens & food"}},{"web":{"uri":"https://a.example/2","title":""}}],
		 "groundingSupports":[{"segment":{"endIndex":14,"text":"They cache it."},"groundingChunkIndices":[0,7]},{"segment":{"text":"Second."},"groundingChunkIndices":[1]}]}}]}`},
}

func search(t *testing.T, provider, base string, caller tool.Caller) tool.Result {
	t.Helper()
	tools := websearch.Tools(websearch.Options{Provider: provider, BaseURL: base, APIKey: key, Model: "gemini-x"})
	if len(tools) != 1 {
		t.Fatal("there is no tool")
	}
	res, err := tools[0].Call(tool.WithCaller(t.Context(), caller), json.RawMessage(`{"query":" raven & food "}`))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(res.Text, key) {
		t.Errorf("the result holds the key: %s", res.Text)
	}
	return res
}

func TestSearch_EveryProvider(t *testing.T) {
	for name, f := range fakes {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				body, _ := io.ReadAll(q.Body)
				if q.Method != f.method || q.URL.Path != f.path || q.Header.Get(f.header) != f.value || !f.asks(q, string(body)) {
					t.Errorf("asked %s %s %v %s", q.Method, q.URL, q.Header, body)
				}
				fmt.Fprint(w, f.answer)
			}))
			defer server.Close()
			var numbered []chat.Link
			res := search(t, name, server.URL+"/", tool.Caller{NumberSources: func(l []chat.Link) int {
				numbered = l
				return 4
			}})
			date := "2026-03-04T05:06:07: "
			if name == "gemini" {
				date = ""
			}
			want := "[4] Ravens & food\nhttps://a.example/1\n" + date +
				"They cache it.\n\n[5] https://a.example/2\nhttps://a.example/2\nSecond.\n\n" +
				"Cite what you use by its number in brackets, such as [4]."
			if diff := cmp.Diff(want, res.Text); diff != "" || res.IsError {
				t.Errorf("(-want +got):\n%s", diff)
			}
			links := []chat.Link{{Title: "Ravens & food", URL: "https://a.example/1"},
				{Title: "https://a.example/2", URL: "https://a.example/2"}}
			if diff := cmp.Diff(links, res.Sources) + cmp.Diff(links, numbered); diff != "" {
				t.Errorf("sources (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSearch_Failures_AreSaidInWords(t *testing.T) {
	large := `{"results":"` + strings.Repeat("x", 3<<20) + `"}`
	for name, c := range map[string]struct {
		provider string
		answers  []func(w http.ResponseWriter)
		want     string
		fails    bool
	}{
		"nothing found":         {"brave", answers(200, `{"web":{"results":[]}}`), `The search for "raven & food" found nothing.`, false},
		"busy once":             {"brave", append(answers(429, ""), answers(200, `{}`)...), "found nothing", false},
		"broken once":           {"tavily", append(answers(503, ""), answers(200, `{}`)...), "found nothing", false},
		"broken":                {"tavily", append(answers(500, key), answers(502, key)...), "Tavily answered with status 502.", true},
		"busy for long":         {"brave", []func(http.ResponseWriter){func(w http.ResponseWriter) { w.Header().Set("Retry-After", "60"); w.WriteHeader(429) }}, "takes no more searches for now", true},
		"a wrong key":           {"brave", answers(401, key), "does not accept the key; the bot's operator can change tools.search.apiKey", true},
		"JSON is off":           {"searxng", answers(403, ""), "add json to search.formats in its settings.yml", true},
		"no JSON":               {"searxng", answers(200, "<html>"), "could not be read. Is tools.search.baseURL right?", true},
		"too large":             {"searxng", answers(200, large), "is larger than 2 MiB", true},
		"a redirect is refused": {"brave", []func(http.ResponseWriter){func(w http.ResponseWriter) { w.Header().Set("Location", "http://127.0.0.1:1/"); w.WriteHeader(302) }}, "status 302", true},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if n == len(c.answers) {
					t.Error("asked too often")
					return
				}
				n++
				c.answers[n-1](w)
			}))
			defer server.Close()
			res := search(t, c.provider, server.URL, tool.Caller{})
			if !strings.Contains(res.Text, c.want) || res.IsError != c.fails || n != len(c.answers) {
				t.Errorf("asked %d times: %+v", n, res)
			}
		})
	}
	if res := search(t, "brave", "http://127.0.0.1:1", tool.Caller{}); res.Text != "Brave Search could not be reached." {
		t.Errorf("nobody there: %q", res.Text)
	}
}

func answers(status int, body string) []func(http.ResponseWriter) {
	return []func(http.ResponseWriter){func(w http.ResponseWriter) { w.WriteHeader(status); fmt.Fprint(w, body) }}
}

func TestTools_OfIncompleteOptions_AreNone(t *testing.T) {
	for _, o := range []websearch.Options{{}, {Provider: "searxng"}, {Provider: "brave"},
		{Provider: "yahoo", APIKey: "x"}} {
		if list := websearch.Tools(o); len(list) != 0 {
			t.Errorf("%+v: there is a tool", o)
		}
	}
}
