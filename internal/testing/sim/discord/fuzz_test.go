package simdiscord_test

import (
	"net/http"
	"strings"
	"testing"

	simdiscord "ravenbot/internal/testing/sim/discord"
)

// FuzzMessageBody wants an answer of the API, never a broken connection, to
// whatever is posted.
func FuzzMessageBody(f *testing.F) {
	s, err := simdiscord.New(simdiscord.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Close)
	url := s.URL() + "/api/v10/channels/" + s.AddChannel(s.AddGuild("home"), "general").ID + "/messages"
	for _, seed := range []string{`{"content":"x"}`, `{"content":null,"embeds":[{"fields":[{"name":"a","value":"b"}]}]}`,
		`{"flags":32768,"components":[{"type":10,"content":"x"},{"type":"1","components":5}]}`,
		`{"nonce":5,"allowed_mentions":{"parse":["users"]}}`, `null`, `[`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bot token")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode >= 500 {
			t.Errorf("status %d", resp.StatusCode)
		}
	})
}
