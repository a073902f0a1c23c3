package oauth

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChallenges(t *testing.T) {
	tests := []struct {
		status int
		header []string
		want   *challenge
	}{
		{200, []string{`Bearer scope="a"`}, nil},
		{403, []string{`Bearer scope="a"`}, nil},
		{401, nil, &challenge{}},
		{401, []string{"Basic realm=x"}, &challenge{}},
		{401, []string{"Bearer"}, &challenge{bearer: true}},
		{401, []string{`bearer Resource_Metadata="https://x/y,z", scope="a b"`}, &challenge{bearer: true, metadata: "https://x/y,z", scopes: []string{"a", "b"}}},
		{401, []string{`Negotiate abc==, Basic realm="q\"=, Bearer scope=z", Bearer resource_metadata=https://x/`}, &challenge{bearer: true, metadata: "https://x/"}},
		{401, []string{"Digest a=b", `Bearer scope="a"`, `Bearer scope="b a"`}, &challenge{bearer: true, scopes: []string{"a", "b"}}},
		{401, []string{`Bearer resource_metadata="https://x/`}, &challenge{bearer: true}},
		{401, []string{`Bearer scope="a" scope="b"`}, &challenge{bearer: true, scopes: []string{"a"}}},
		{403, []string{`Bearer error=insufficient_scope, scope="a"`}, &challenge{bearer: true, insufficientScope: true, scopes: []string{"a"}}},
		{403, []string{`Basic error=insufficient_scope`}, nil},
	}
	for _, tt := range tests {
		got := readChallenge(&http.Response{StatusCode: tt.status, Header: http.Header{"Www-Authenticate": tt.header}})
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(challenge{})); diff != "" {
			t.Errorf("%d %q: %s", tt.status, tt.header, diff)
		}
	}
}

func FuzzChallenges(f *testing.F) {
	for _, s := range []string{`Bearer a="b\"c", d=e`, `Basic x==, Bearer`, `a="`, `=`, `a=b`,
		`Bearer scope="a b" , , x`, "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		for _, c := range parseChallenges(header) {
			if c.scheme == "" {
				t.Error("a challenge without a scheme")
			}
			for key, value := range c.params {
				if key == "" || key != strings.ToLower(key) || len(value) > len(header) {
					t.Errorf("parameter %q=%q", key, value)
				}
			}
		}
		for _, s := range scopesOf(header) {
			if strings.ContainsAny(s, " \"\\") {
				t.Errorf("scope %q", s)
			}
		}
	})
}
