package digest_test

import (
	"strings"
	"testing"

	"ravenbot/internal/digest"
)

// A template ends, whatever it says, and tells why; the configuration, the API and runs check it alike.
func TestCheckTemplate_PassesALimit_Fails(t *testing.T) {
	double := strings.Repeat(`{{$x = printf "%s%s" $x $x}}`, 60)
	for text, want := range map[string]string{
		`{{range 9000000000000000000}}{{end}}`:                                       "steps",
		`{{range 5000}}{{range 5000}}{{if false}}x{{end}}{{end}}{{end}}`:             "steps",
		`{{if true}}{{with 1}}{{range 9000000000}}{{continue}}{{end}}{{end}}{{end}}`: "steps",
		`{{range .LeftOut}}{{else}}{{range 9000000000}}{{end}}{{end}}`:               "steps",
		`{{define "a"}}{{template "a"}}{{end}}{{template "a"}}`:                      "steps",
		`{{define "a"}}{{range 9000000000}}{{end}}{{end}}{{template "a"}}`:           "steps",
		`{{$x := "x"}}` + double:                                                     "writes too much",
		`{{"\\" ` + strings.Repeat("| js ", 60) + `}}`:                               "writes too much",
		`{{range 5000}}0123456789{{end}}`:                                            "writes too much",
	} {
		if err := digest.CheckTemplate(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q in it", text, err, want)
		}
	}
	for _, text := range []string{
		`{{range .Topics}}{{.Name}}{{range .Items}}{{.Link}} {{.Time | clock}} {{join .Also ", "}}{{end}}{{else}}none{{end}}`,
		`{{range $n, $i := .Items}}{{if $n}}{{break}}{{end}}{{printf "%d %s" $n $i.Title | html}}{{end}}`,
	} {
		if err := digest.CheckTemplate(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
