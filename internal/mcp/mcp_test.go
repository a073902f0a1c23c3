package mcp

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/ops/config"
)

// These are documented, in ARCHITECTURE, in the configuration or for users of the package.
func TestOptions_Defaults(t *testing.T) {
	o := withDefaults(Options{})
	if o.HealthInterval != time.Minute || o.StatusTTL != 5*time.Minute || o.StartTimeout != 2*time.Minute ||
		o.silence != 3*time.Second || o.reconnectWait != 5*time.Second {
		t.Errorf("%+v", o)
	}
	o.Log.Info("nobody reads this")
	if o.Now().IsZero() {
		t.Error("the clock is missing")
	}
	own := Options{HealthInterval: 1, StatusTTL: 2, StartTimeout: 3, silence: 4, reconnectWait: 5}
	if o := withDefaults(own); o.HealthInterval != 1 || o.StatusTTL != 2 || o.StartTimeout != 3 || o.silence != 4 ||
		o.reconnectWait != 5 {
		t.Errorf("the options became %+v", o)
	}
	h := must(NewHost(Options{Servers: []Config{{Name: "a", Command: "x"}, {Name: "b", Command: "x", Timeout: 7}}}))
	if d := must(h.server("a")).callTimeout(); d != 30*time.Second {
		t.Errorf("a call may take %v", d)
	}
	if d := must(h.server("b")).callTimeout(); d != 7 {
		t.Errorf("a call that may take 7 ns may take %v", d)
	}
}

// What an operator wrote wrong is said in the words of the configuration.
func TestCheck(t *testing.T) {
	const long = "its name is longer than 100 bytes, or holds control characters"
	for _, tt := range []struct {
		c    Config
		want string // "": nothing is wrong
	}{
		{Config{}, "it has no name"},
		{Config{Name: strings.Repeat("x", 100), Command: "x"}, ""},
		{Config{Name: strings.Repeat("x", 101), Command: "x"}, long},
		{Config{Name: "a\n", Disabled: true}, long},
		{Config{Name: "a", Disabled: true, Transport: "x"}, ""},
		{Config{Name: "a", Command: "x", Transport: Stdio}, ""},
		{Config{Name: "a", Command: "x", Transport: HTTP},
			`transport "http" does not match: stdio needs a command, http and sse need a url`},
		{Config{Name: "a", URL: "http://x", Transport: Stdio},
			`transport "stdio" does not match: stdio needs a command, http and sse need a url`},
		{Config{Name: "a", URL: "http://x", Transport: SSE}, ""},
		{Config{Name: "a", URL: "https://x", PerUser: true}, ""},
		{Config{Name: "a", Command: "x", PerUser: true},
			"users cannot sign in to a process for themselves: perUser needs a url"},
		{Config{Name: "a", Command: "x", Protocol: "2025-06-18"}, ""},
		{Config{Name: "a", URL: "https:///x"}, "its url is not an http or https address"},
		{Config{Name: "a", URL: "ftp://x"}, "its url is not an http or https address"},
		{Config{Name: "a", URL: "https://x y"}, "its url is not an http or https address"},
	} {
		if err := check(tt.c); errText(err) != tt.want {
			t.Errorf("%+v: %v, want %q", tt.c, err, tt.want)
		}
	}
	for _, c := range []Config{{Name: "a", URL: "https://x", Protocol: "1999"}, {Name: "a", Command: "x",
		Protocol: "1999"}} {
		if err := check(c); err == nil || !strings.HasPrefix(err.Error(), `unknown protocol version "1999"; known are `) {
			t.Errorf("an unknown version: %v", err)
		}
	}
}

// Empty and missing lists in entries are the same.
func TestNormalize(t *testing.T) {
	list, table := []string{}, map[string]string{}
	of := func() Config {
		return Config{Name: "a", Args: list, Allow: list, Env: table, Headers: table, Include: list, Exclude: list,
			AllowPrivateHosts: list, SignIn: config.ServerOAuth{Scopes: list}}
	}
	if diff := cmp.Diff(Config{Name: "a"}, normalize(of())); diff != "" {
		t.Errorf("empty (-want +got):\n%s", diff)
	}
	list, table = []string{"x"}, map[string]string{"x": "y"}
	if diff := cmp.Diff(of(), normalize(of())); diff != "" {
		t.Errorf("with one element (-want +got):\n%s", diff)
	}
}

// These times are documented.
func TestTimes_AreAsDocumented(t *testing.T) {
	for what, times := range map[string][2]time.Duration{
		"Lease":              {maxLease, 30 * time.Minute},
		"Options.Ask":        {maxPersonWait, 15 * time.Minute},
		"Options.Sample":     {maxSamplingWait, 5 * time.Minute},
		"progress of a call": {maxProgressTime, 15 * time.Minute},
		"idle users":         {userIdleTimeout, 15 * time.Minute},
		"Close of a process": {exitWait + termWait + killWait, 7300 * time.Millisecond},
	} {
		if times[0] != times[1] {
			t.Errorf("%s: %v, want %v", what, times[0], times[1])
		}
	}
}
