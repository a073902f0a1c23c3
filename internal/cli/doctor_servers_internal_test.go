package cli

import (
	"strings"
	"testing"

	"ravenbot/internal/mcp"
)

// Of a server that waits for a sign-in nothing has to be corrected, also where it was connected before.
func TestDiagnoseServer_SaysWhatToDo(t *testing.T) {
	const link = "http://127.0.0.1/oauth/callback?open=x"
	for name, c := range map[string]struct {
		status mcp.Status
		want   string // in the fix; empty: nothing is wrong
	}{
		"connected":           {mcp.Status{State: mcp.Connected}, ""},
		"down":                {mcp.Status{State: mcp.Failed, Error: "refused"}, "correct its entry"},
		"sign-in open":        {mcp.Status{State: mcp.Connected, ConsentURL: link}, "page Servers has the link"},
		"grant was withdrawn": {mcp.Status{State: mcp.Failed, Error: "refused", ConsentURL: link}, "page Servers has the link"},
		"changed tools":       {mcp.Status{State: mcp.Quarantined, Pending: 2}, "mcp approve"},
	} {
		f := diagnoseServer(c.status)
		if f.OK != (c.want == "") || !strings.Contains(f.Fix, c.want) || f.OK && f.Fix != "" {
			t.Errorf("%s: %+v, want a fix with %q", name, f, c.want)
		}
	}
}
