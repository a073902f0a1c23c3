package address_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/address"
)

func TestIn_WhateverCouldLeadSomewhereIsAnAddress(t *testing.T) {
	for text, want := range map[string][]string{
		"see https://a.example/x(1).":           {"https://a.example/x(1)"},
		"HTTPS://A.example/?q=a b":              {"HTTPS://A.example/?q=a"},
		"(https://evil.test/)":                  {"https://evil.test/"},
		`https://a.example\@evil.test/`:         {"https://a.example", "@evil.test/"},
		"evil.test/?q=SECRET":                   {"evil.test/?q=SECRET"},
		"//evil.test":                           {"//evil.test"},
		"ftp://evil.test and ws://evil.test":    {"ftp://evil.test", "ws://evil.test"},
		"mailto:bob@evil.test":                  {"mailto:bob@evil.test"},
		"secret@evil.test, please":              {"secret@evil.test"},
		"https:/evil.test":                      {"https:/evil.test"},
		"q=evil.test":                           {"q=evil.test"},
		"secret.evil.com":                       {"secret.evil.com"},
		"evil。com":                              {"evil。com"},
		"пример.рф":                             {"пример.рф"},
		"10.0.0.7:8080 or ::1 or LocalHost:80":  {"10.0.0.7:8080", "::1", "LocalHost:80"},
		`\\evil.test\share`:                     {"evil.test"},
		"user.github.io":                        {"user.github.io"},
		"report.pdf, config.json, main.go, a.b": nil,
		"/srv/docs/notes.md and docs/notes.md":  nil,
		"~/notes.md ./notes.md ../notes.md":     nil,
		"fmt.Println 1.2.3 e.g. 12:30 and so on. 2026-11-28T09:00:00Z": nil,
		"repo:golang/go is:open label:bug @anna":                       nil,
	} {
		if diff := cmp.Diff(want, address.In(text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestHosts_OfEveryKindOfAddress(t *testing.T) {
	for a, want := range map[string][]string{
		"https://A.example:8080/x": {"a.example"},
		"secret@Evil.test":         {"evil.test"},
		"ftp://evil.test/a.b":      {"evil.test"},
		"10.0.0.7:8080":            {"10.0.0.7"},
	} {
		if diff := cmp.Diff(want, address.Hosts(a)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", a, diff)
		}
	}
}

// A text names its addresses with and without trailing punctuation, and its hosts.
func TestNamed_HoldsAddressesAndTheirHosts(t *testing.T) {
	want := []string{"https://a.example/x", "bob@b.example", "https://a.example/x.", "a.example", "a.example", "a.example",
		"a.example"}
	if diff := cmp.Diff(want, address.Named("see https://a.example/x. or ask bob@b.example")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzIn(f *testing.F) {
	f.Add("see https://a.example/x(1) or bob@evil.test")
	f.Fuzz(func(t *testing.T, s string) {
		for _, a := range address.In(s) {
			if a == "" {
				t.Errorf("an empty address in %q", s)
			}
			address.Hosts(a)
		}
	})
}
