package jobs_test

import (
	"strings"
	"testing"

	"ravenbot/internal/feature/jobs"
)

func TestCheckStored_RefusesWhatWouldBeSkipped(t *testing.T) {
	for _, c := range []struct {
		job  string
		want string // in the error; empty: none
	}{
		{`{"id":"j1","at":"2027-01-01T10:00:00Z","post":["web:/a"],"text":"t"}`, ""},
		{`{"id":"j1","schedule":"0 9 * * 1","timezone":"Europe/Oslo","post":["slack:T1/C1"],"prompt":"p"}`, ""},
		{`{"at":"2027-01-01T10:00:00Z","post":["web:/a"],"text":"t"}`, `its value has the id ""`},
		{`{"id":7}`, "cannot unmarshal"},
		{`{"id":"j1","schedule":"nonsense","post":["web:/a"],"text":"t"}`, "nonsense"},
		{`{"id":"j1","schedule":"0 9 * * 1","timezone":"Mars/Base","post":["web:/a"],"text":"t"}`, "Mars/Base"},
		{`{"id":"j1","post":["web:/a"],"text":"t"}`, "either at or schedule"},
		{`{"id":"j1","at":"2027-01-01T10:00:00Z","text":"t"}`, "want addresses"},
		{`{"id":"j1","at":"2027-01-01T10:00:00Z","post":["web:/a","nowhere"],"text":"t"}`, "want addresses"},
	} {
		err := (*jobs.Service)(nil).CheckStored("j1", []byte(c.job))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.job, err, c.want)
		}
	}
}
