package slack

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
)

// An answer is not lost because Slack refuses the token for a while.
func TestPost_RefusedToken_IsHeld(t *testing.T) {
	for _, word := range []string{"token_revoked", "account_inactive", "invalid_auth"} {
		refusals := 2
		s := wired(func(string, url.Values) (int, http.Header, string) {
			if refusals--; refusals >= 0 {
				return http.StatusOK, nil, `{"ok":false,"error":"` + word + `"}`
			}
			return http.StatusOK, nil, `{"ok":true,"channel":"C1","ts":"1700000000.000001"}`
		})
		to, d := chat.Address{Platform: "slack", Workspace: "T1", Channel: "C1"}, chat.Draft{Key: "k", Text: "hello"}
		for range 2 {
			var held *chat.PostError
			if _, err := s.Post(t.Context(), to, d); !errors.As(err, &held) || held.Permanent || held.Maybe ||
				held.After < 10*time.Second {
				t.Errorf("%s: %+v", word, err)
			}
		}
		if ref, err := s.Post(t.Context(), to, d); err != nil || len(ref.IDs) != 1 {
			t.Errorf("%s: posted %v, %v", word, ref, err)
		}
	}
}

// What no retry changes is not tried again, and the operator is told why
// (https://docs.slack.dev/reference/methods/chat.postMessage, 2026-11).
func TestPost_FinalRefusal_SaysWhatHelps(t *testing.T) {
	for word, remedy := range map[string]string{
		"messages_tab_disabled":                    "App Home",
		"no_permission":                            "reinstall",
		"restricted_action_read_only_channel":      "nobody may post",
		"restricted_action_thread_only_channel":    "in threads only",
		"restricted_action_non_threadable_channel": "no replies",
		"restricted_action_thread_locked":          "locked",
	} {
		s := wired(func(string, url.Values) (int, http.Header, string) {
			return http.StatusOK, nil, `{"ok":false,"error":"` + word + `"}`
		})
		to := chat.Address{Platform: "slack", Workspace: "T1", Channel: "C1"}
		var failed *chat.PostError
		_, err := s.Post(t.Context(), to, chat.Draft{Key: "k", Text: "hello"})
		if !errors.As(err, &failed) || !failed.Permanent || !strings.Contains(err.Error(), remedy) {
			t.Errorf("%s: %+v", word, err)
		}
	}
}
