package postgres

import (
	"fmt"
	"strings"
	"testing"
)

// TestServersOf: with sslmode=prefer, as by default, pgx knows two ways to each server.
func TestServersOf(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"postgres://bot@one/raven":                         "",
		"postgres://bot@one/raven?sslmode=disable":         "",
		"postgres://bot@one,two/raven?sslmode=disable":     "one:5432/0 two:5432/0",
		"postgres://bot@one,two:6000/raven?sslmode=prefer": "one:5432/1 two:6000/1",
		"postgres://bot@one:1,one:2/raven?sslmode=require": "one:1/0 one:2/0",
	} {
		config, err := parseURL(address, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range serversOf(&config.ConnConfig.Config) {
			got = append(got, fmt.Sprintf("%s:%d/%d", s.Host, s.Port, len(s.Fallbacks)))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}
