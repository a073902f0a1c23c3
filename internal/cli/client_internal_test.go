package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A daemon that is not ready says why, and doctor says it on.
func TestCheckReady_DaemonIsNotReady_NamesTheReasons(t *testing.T) {
	for _, c := range []struct {
		status     int
		body, want string
	}{
		{200, `{"status":"ready"}`, ""},
		{503, `{"platforms":[{"name":"web","connected":true}],"store":"the disk is full"}`,
			"it is not ready: the disk is full"},
		{503, `{"platforms":[{"name":"slack","connected":false,"detail":"no network"},{"name":"discord"}]}`,
			"it is not ready: slack is not connected: no network; discord is not connected"},
		{503, `<html>`, "it is not ready (status 503)"},
	} {
		daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		}))
		got := errorText((&client{daemon.URL, "admin", daemon.Client()}).checkReady(t.Context(), ""))
		daemon.Close()
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.body, got, c.want)
		}
	}
}
