package config

import (
	"maps"
	"slices"
	"testing"
)

// differing returns the keys with other sums.
func differing(a, b *Config) []string {
	var keys []string
	theirs := b.Sums()
	for key, sum := range a.Sums() {
		if theirs[key] != sum {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func TestSums_DifferWhereValuesDo(t *testing.T) {
	base := `"models": {"default": {"provider": "gemini", "model": "m", "apiKey": "${KEY}", "temperature": 0.5}},
		"mcpServers": {"a": {"command": "x", "env": {"A": "1", "B": "2"}}}, "agents": {"default": {"knowledge": ["a.md"]}},
		"budget": {"userDailyUSD": 1}`
	load := func(text, key string) *Config {
		return mustLoad(t, "{"+base+text+"}", map[string]string{"KEY": key}, map[string]string{"a.md": "text"})
	}
	first := load("", "secret key 1")
	for _, c := range []struct {
		what, text, key string
		want            []string
	}{
		{"the same, from another folder", "", "secret key 1", nil},
		{"another secret", "", "secret key 2", []string{"models"}},
		{"what is each replica's own", `, "http": {"listen": "127.0.0.1:9999"}, "log": {"level": "debug"},
			"store": "data/other.db"`, "secret key 1", nil},
		{"a platform", `, "platforms": {"discord": {"token": "discord token"}}`, "secret key 1", []string{"platforms"}},
		{"a rule of a channel", `, "channels": [{"match": "slack:*/*", "agent": "default"}]`, "secret key 1",
			[]string{"channels"}},
		{"the admin token", `, "http": {"adminToken": "0123456789abcdef0123456789abcdef"}`, "secret key 1", []string{"http"}},
	} {
		if got := differing(first, load(c.text, c.key)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q differ, want %q", c.what, got, c.want)
		}
	}
	if sums := first.Sums(); !maps.Equal(sums, first.Sums()) {
		t.Error("sums change by themselves")
	}
}
