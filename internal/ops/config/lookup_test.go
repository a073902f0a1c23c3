package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChannelFor(t *testing.T) {
	c := mustLoad(t, `{
		"agents": {"default": {}, "support": {}, "team": {}, "mine": {}, "web": {}},
		"channels": [
			{"match": "slack:T1/C1/1700.1", "agent": "mine"},
			{"match": "slack:T1/C1", "agent": "support", "respondTo": "all"},
			{"match": "slack:T1/C*", "agent": "team"},
			{"match": "web:/*", "agent": "web"},
		],
	}`, nil, nil)
	tests := []struct{ address, agent string }{
		{"slack:T1/C1", "support"},
		{"slack:T1/C1/1700.1", "mine"},
		{"slack:T1/C1/1700.2", "support"},
		{"slack:T1/C2/1700.2", "team"},
		{"slack:T1/D2", "default"},
		{"slack:T2/C1", "default"},
		{"slack:T1/C1/1/2", "default"},
		{"web:/general", "web"},
		{"discord:@me/5", "default"},
		{"nonsense", "default"},
	}
	for _, tt := range tests {
		if got := c.ChannelFor(tt.address).Agent; got != tt.agent {
			t.Errorf("%s is answered by %s, want %s", tt.address, got, tt.agent)
		}
	}
	if ch := c.ChannelFor("slack:T9/C9"); ch.RespondTo != "mentions" || !ch.AllowsUser("U1", "", nil) {
		t.Errorf("without a rule: %+v", ch)
	}
}

func TestGlob(t *testing.T) {
	tests := []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "a", true}, {"a", "a", true}, {"a", "ab", false},
		{"a*", "ab", true}, {"*b", "ab", true}, {"a*b", "ab", true}, {"a*b", "axxb", true}, {"a*b", "a", false},
		{"a*a", "a", false}, {"*x*", "axb", true}, {"*x*y*", "yx", false}, {"a*b*c", "abbc", true}, {"**", "z", true},
	}
	for _, tt := range tests {
		if got := Glob(tt.pattern, tt.s); got != tt.want {
			t.Errorf("Glob(%q, %q) = %v", tt.pattern, tt.s, got)
		}
	}
}

func TestAllowsUser(t *testing.T) {
	tests := []struct {
		name                string
		allowed             []string
		id, who             string
		want                bool
		allowedRoles, roles []string
	}{
		{"everyone", []string{"*"}, "U1", "ann", true, nil, nil},
		{"by id", []string{"U1"}, "U1", "ann", true, nil, nil},
		{"by name, any case, with @", []string{"@Ann"}, "U1", "ann", true, nil, nil},
		{"pattern", []string{"ann*"}, "U1", "anna", true, nil, nil},
		{"another", []string{"U1", "ann"}, "U2", "bob", false, nil, nil},
		{"nobody", []string{}, "U1", "ann", false, nil, nil},
		{"no name given", []string{""}, "U1", "", false, nil, nil},
		{"id keeps its case", []string{"u1"}, "U1", "", false, nil, nil},
		{"by role", []string{"*"}, "U1", "ann", true, []string{"Mods"}, []string{"R1", "Mods"}},
		{"without the role", []string{"*"}, "U1", "ann", false, []string{"Mods"}, []string{"R1"}},
		{"with a role, and not by id", []string{"U2"}, "U1", "ann", true, []string{"R1"}, []string{"R1"}},
		{"by id, and without a role", []string{"U1"}, "U1", "ann", true, []string{"R1"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := (Channel{AllowUsers: tt.allowed, AllowRoles: tt.allowedRoles}).AllowsUser(tt.id, tt.who, tt.roles); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestModelChain(t *testing.T) {
	c := mustLoad(t, `{"models": {
		"default": {"provider": "gemini", "model": "m", "apiKey": "", "fallback": ["router", "local", "offline"]},
		"router": {"provider": "openai", "model": "m", "apiKey": "${NONE:-}", "fallback": ["keyed"]},
		"keyed": {"provider": "openai", "model": "m", "apiKey": "k", "fallback": ["offline"]},
		"local": {"provider": "openai", "model": "m", "baseURL": "http://127.0.0.1:11434/v1"},
		"alone": {"provider": "gemini", "model": "m", "fallback": []},
	}}`, nil, nil)
	tests := map[string][]string{
		"":        {"keyed", "offline", "local"},
		"default": {"keyed", "offline", "local"},
		"router":  {"keyed", "offline"},
		"local":   {"local"},
		"alone":   {"offline"},
		"offline": {"offline"},
		"nothing": {"offline"},
	}
	for name, want := range tests {
		if diff := cmp.Diff(want, c.ModelChain(name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := c.Models["keyed"].BaseURL.Reveal(); got != "https://api.openai.com/v1" {
		t.Errorf("the provider's own address is %q", got)
	}
}
