package slack

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLookUps_Refused_SayWhatHelps(t *testing.T) {
	for _, c := range []struct{ refusal, want, not string }{
		{`"missing_scope","needed":"channels:read"`, "add the scope channels:read", ""},
		{`"token_revoked"`, "check SLACK_BOT_TOKEN", "add the scope"},
		{`"missing_scope","needed":"mpim:read"`, "", "add the scope"}, // nothing is lost without it
	} {
		var log bytes.Buffer
		s := wired(func(string, url.Values) (int, http.Header, string) {
			return http.StatusOK, nil, `{"ok":false,"error":` + c.refusal + `}`
		})
		s.o.Log = slog.New(slog.NewTextHandler(&log, nil))
		if info, err := s.channels.Get(t.Context(), "C1"); err != nil || info != (channelInfo{}) {
			t.Errorf("%s: %+v, %v", c.refusal, info, err)
		}
		s.channels.Close()
		if said := log.String(); !strings.Contains(said, c.want) || c.not != "" && strings.Contains(said, c.not) {
			t.Errorf("%s: the log says %s", c.refusal, said)
		}
	}
}

func TestIdentify_WaitsAsSlackAsks_AndTakesNoEmptyAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, asked := time.Now(), []time.Duration{}
		s := wired(func(string, url.Values) (int, http.Header, string) {
			asked = append(asked, time.Since(began))
			switch len(asked) {
			case 1:
				return http.StatusTooManyRequests, http.Header{"Retry-After": {"30"}}, ""
			case 2:
				return http.StatusOK, nil, `{"ok":true}`
			}
			return http.StatusOK, nil, `{"ok":true,"team_id":"T7","user_id":"U7","bot_id":"B7"}`
		})
		if err := s.identify(t.Context()); err != nil || s.self.team != "T7" || s.self.user != "U7" {
			t.Errorf("the bot is %+v, %v", s.self, err)
		}
		if len(asked) != 3 || asked[1] < 30*time.Second {
			t.Errorf("asked after %v", asked)
		}
	})
}

func TestHealth_SaysWhyThereIsNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := wired(func(string, url.Values) (int, http.Header, string) {
			return http.StatusOK, nil, `{"ok":false,"error":"forbidden_team"}`
		})
		ended := make(chan error, 1)
		go func() { ended <- s.listen(ctx) }()
		synctest.Wait()
		if h := s.Health(); h.Connected || !strings.Contains(h.Detail, "forbidden_team") {
			t.Errorf("health %+v", h)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
