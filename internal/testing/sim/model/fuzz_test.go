package simmodel_test

import (
	"net/http"
	"strings"
	"testing"

	simmodel "ravenbot/internal/testing/sim/model"
)

// FuzzBodies wants an answer of the protocol, never a broken connection, to
// whatever a client sends.
func FuzzBodies(f *testing.F) {
	s, err := simmodel.New(simmodel.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Close)
	f.Add(`{"contents":[{"parts":[{"text":"x"}]}],"tools":[{"functionDeclarations":[{"name":"f",` +
		`"parameters":{"type":"OBJECT","properties":{"a":{"anyOf":[{}]}}}}]}]}`)
	f.Add(`{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f"}}]}],"toolConfig":{}}`)
	f.Add(`{"model":"gpt-sim","messages":[{"role":"assistant","tool_calls":[{"id":"1","type":"function",` +
		`"function":{"name":"f","arguments":"{}"}}]}]}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, body string) {
		for path, key := range map[string]string{"/v1beta/models/" + gemini + ":generateContent": "x-goog-api-key",
			"/v1beta/openai/chat/completions": "Authorization"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set(key, map[string]string{"x-goog-api-key": "key", "Authorization": "Bearer key"}[key])
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode >= 500 {
				t.Errorf("status %d", resp.StatusCode)
			}
		}
	})
}
