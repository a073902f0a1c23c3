package simslack_test

import (
	"net/http"
	"net/url"
	"testing"

	simslack "ravenbot/internal/testing/sim/slack"
)

// FuzzPost wants an answer of the API, never a broken connection, to whatever
// is posted.
func FuzzPost(f *testing.F) {
	s, err := simslack.New(simslack.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Close)
	channel := s.AddChannel("general").ID
	f.Add("hi <!channel>", `[{"type":"section","text":{"type":"mrkdwn","text":"x"}}]`,
		`{"event_type":"a","event_payload":{}}`)
	f.Add("", `[{"type":"actions","elements":[{"type":"button","text":5}]}]`, `null`)
	f.Add("x", `[null]`, `[]`)
	f.Fuzz(func(t *testing.T, text, blocks, structure string) {
		resp, err := http.PostForm(s.APIURL()+"chat.postMessage", url.Values{"token": {"xoxb-token"}, "channel": {channel},
			"text": {text}, "blocks": {blocks}, "metadata": {structure}, "attachments": {structure}})
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("status %d", resp.StatusCode)
		}
	})
}
