package websearch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// provider makes requests of one search service and reads its answers.
type provider struct {
	name      string
	request   func(ctx context.Context, query string) (*http.Request, error)
	parse     func(body []byte) ([]hit, error)
	forbidden string // what status 403 means, where it is not the key
}

// newProvider returns a provider; false: there is none, or it lacks an address or a key.
func newProvider(o Options) (provider, bool) {
	if o.Provider == "searxng" && o.BaseURL == "" || o.Provider != "searxng" && o.APIKey == "" {
		return provider{}, false
	}
	base := strings.TrimRight(o.BaseURL, "/")
	switch o.Provider {
	case "searxng":
		return searxng(base, o.APIKey), true
	case "brave":
		return brave(cmp.Or(base, "https://api.search.brave.com"), o.APIKey), true
	case "tavily":
		return tavily(cmp.Or(base, "https://api.tavily.com"), o.APIKey), true
	case "gemini":
		base = cmp.Or(base, "https://generativelanguage.googleapis.com")
		return gemini(base, o.APIKey, cmp.Or(o.Model, "gemini-3.8-flash")), true
	}
	return provider{}, false
}

// newGet returns a request for JSON with its parameters in the query.
func newGet(ctx context.Context, address string, query url.Values) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"?"+query.Encode(), nil)
	if err == nil {
		req.Header.Set("Accept", "application/json")
	}
	return req, err
}

// newPost returns a request for JSON with its parameters as JSON.
func newPost(ctx context.Context, address string, body any) (*http.Request, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(data))
	if err == nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json")
	}
	return req, err
}

// searxng asks an instance of SearXNG (https://docs.searxng.org/dev/search_api.html, seen 2026-11). A key, which
// SearXNG itself does not know, is for a proxy in front of it.
func searxng(base, key string) provider {
	return provider{
		name: "SearXNG",
		request: func(ctx context.Context, query string) (*http.Request, error) {
			req, err := newGet(ctx, base+"/search", url.Values{"q": {query}, "format": {"json"}})
			if err == nil && key != "" {
				req.Header.Set("Authorization", "Bearer "+key)
			}
			return req, err
		},
		parse: func(body []byte) ([]hit, error) {
			var answer struct {
				Results []struct{ URL, Title, Content, PublishedDate string }
			}
			if err := json.Unmarshal(body, &answer); err != nil {
				return nil, err
			}
			var list []hit
			for _, r := range answer.Results {
				list = append(list, hit{r.Title, r.URL, r.Content, r.PublishedDate})
			}
			return list, nil
		},
		forbidden: "The SearXNG instance does not give JSON; its operator can add json to search.formats " +
			"in its settings.yml.",
	}
}

// brave asks Brave's Web Search API (https://api-dashboard.search.brave.com/app/documentation, seen 2026-11).
func brave(base, key string) provider {
	return provider{
		name: "Brave Search",
		request: func(ctx context.Context, query string) (*http.Request, error) {
			values := url.Values{"q": {query}, "count": {strconv.Itoa(maxResults)}, "text_decorations": {"false"}}
			req, err := newGet(ctx, base+"/res/v1/web/search", values)
			if err == nil {
				req.Header.Set("X-Subscription-Token", key)
			}
			return req, err
		},
		parse: func(body []byte) ([]hit, error) {
			var answer struct {
				Web struct {
					Results []struct {
						Title, URL, Description, Age string
						PageAge                      string `json:"page_age"`
					}
				}
			}
			if err := json.Unmarshal(body, &answer); err != nil {
				return nil, err
			}
			var list []hit
			for _, r := range answer.Web.Results {
				list = append(list, hit{r.Title, r.URL, r.Description, cmp.Or(r.PageAge, r.Age)})
			}
			return list, nil
		},
	}
}

// tavily asks Tavily's search (https://docs.tavily.com/documentation/api-reference/endpoint/search, seen 2026-11).
func tavily(base, key string) provider {
	return provider{
		name: "Tavily",
		request: func(ctx context.Context, query string) (*http.Request, error) {
			req, err := newPost(ctx, base+"/search", map[string]any{"query": query, "max_results": maxResults})
			if err == nil {
				req.Header.Set("Authorization", "Bearer "+key)
			}
			return req, err
		},
		parse: func(body []byte) ([]hit, error) {
			var answer struct {
				Results []struct {
					Title, URL, Content string
					Published           string `json:"published_date"`
				}
			}
			if err := json.Unmarshal(body, &answer); err != nil {
				return nil, err
			}
			var list []hit
			for _, r := range answer.Results {
				list = append(list, hit{r.Title, r.URL, r.Content, r.Published})
			}
			return list, nil
		},
	}
}

// gemini has a Gemini model search with Google (https://ai.google.dev/gemini-api/docs/google-search, seen 2026-11). The
// snippets are sentences of the model that the page supports; the addresses lead to the pages over Google's.
func gemini(base, key, model string) provider {
	return provider{
		name: "Gemini",
		request: func(ctx context.Context, query string) (*http.Request, error) {
			ask := "Search the web for the following, and say briefly what each page found says about it: " + query
			req, err := newPost(ctx, base+"/v1beta/models/"+url.PathEscape(model)+":generateContent", map[string]any{
				"contents": []any{map[string]any{"role": "user", "parts": []any{map[string]string{"text": ask}}}},
				"tools":    []any{map[string]any{"google_search": struct{}{}}},
			})
			if err == nil {
				req.Header.Set("x-goog-api-key", key)
			}
			return req, err
		},
		parse: parseGrounding,
	}
}

// parseGrounding reads what a Gemini answer is grounded in.
func parseGrounding(body []byte) ([]hit, error) {
	var answer struct {
		Candidates []struct {
			GroundingMetadata struct {
				GroundingChunks   []struct{ Web struct{ URI, Title string } }
				GroundingSupports []struct {
					Segment               struct{ Text string }
					GroundingChunkIndices []int
				}
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	var list []hit
	for _, c := range answer.Candidates {
		found := make([]hit, len(c.GroundingMetadata.GroundingChunks))
		for i, chunk := range c.GroundingMetadata.GroundingChunks {
			found[i] = hit{title: chunk.Web.Title, url: chunk.Web.URI}
		}
		for _, s := range c.GroundingMetadata.GroundingSupports {
			for _, i := range s.GroundingChunkIndices {
				if i >= 0 && i < len(found) {
					found[i].snippet += s.Segment.Text + " "
				}
			}
		}
		list = append(list, found...)
	}
	return list, nil
}
