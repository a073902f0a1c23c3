package config

import (
	"strings"
	"testing"
)

func TestEditLeavesTheRestAsItIs(t *testing.T) {
	const text = "{\n  // why\n  \"a\": { \"b\": 1, /* c */ \"d\": [ 2 ], },\n  \"x/y\": \"z\", // end\n}\n"
	for name, c := range map[string]struct {
		changes []Change
		want    string
	}{
		"nothing":         {nil, text},
		"what is there":   {[]Change{{[]string{"a", "d"}, []int{2}}, {[]string{"x/y"}, "z"}}, text},
		"not there":       {[]Change{{[]string{"nowhere"}, nil}}, text},
		"a value":         {[]Change{{[]string{"a", "b"}, "<&>"}}, strings.Replace(text, `"b": 1`, `"b": "<&>"`, 1)},
		"an object":       {[]Change{{[]string{"a", "b"}, map[string]int{"n": 1}}}, strings.Replace(text, `"b": 1`, "\"b\": {\n      \"n\": 1\n    }", 1)},
		"an odd name":     {[]Change{{[]string{"x/y"}, "w"}}, strings.Replace(text, `"z"`, `"w"`, 1)},
		"away":            {[]Change{{[]string{"x/y"}, nil}}, "{\n  // why\n  \"a\": { \"b\": 1, /* c */ \"d\": [ 2 ], }\n}\n"},
		"one after other": {[]Change{{[]string{"a", "b"}, 2}, {[]string{"a", "b"}, 3}}, strings.Replace(text, `"b": 1`, `"b": 3`, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Edit([]byte(text), c.changes...)
			if err != nil || string(got) != c.want {
				t.Errorf("%v: got\n%s\nwant\n%s", err, got, c.want)
			}
		})
	}
	if got, err := Edit([]byte("{}"), Change{[]string{"platforms", "discord", "token"}, "${T}"}); err != nil ||
		RawString(got, "platforms", "discord", "token") != "${T}" {
		t.Errorf("%v: %s", err, got)
	}
	for _, broken := range []string{"", "{", `{"a": 1, "a": `, `{"a": 1}`} {
		if got, err := Edit([]byte(broken), Change{[]string{"a", "b"}, 1}); err == nil {
			t.Errorf("%q became %q", broken, got)
		}
	}
}

func TestSetVariable(t *testing.T) {
	for name, c := range map[string]struct{ text, value, want string }{
		"empty file":       {"", "v", "K=v\n"},
		"last line open":   {"A=1", "v", "A=1\nK=v\n"},
		"in its place":     {"# of K=\nK=\nA=1 # one\n", "v", "# of K=\nK=v\nA=1 # one\n"},
		"exported":         {"export K = 'old'\nAK=1\n", "v", "K=v\nAK=1\n"},
		"twice":            {"K=1\nK=2\n", "v", "K=v\nK=v\n"},
		"as it is":         {" K = v # so\n", "v", " K = v # so\n"},
		"taken out":        {"K=1\n", "", "K=\n"},
		"a dollar":         {"A=$B\n", "a$b#c", "A=$B\nK='a$b#c'\n"},
		"Windows' endings": {"K=1\r\nA=1\r\n", "v", "K=v\nA=1\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := SetVariable([]byte(c.text), "K", c.value)
			if err != nil || string(got) != c.want {
				t.Errorf("%v: got %q, want %q", err, got, c.want)
			}
		})
	}
	for _, c := range [][2]string{{"K=\"two\nlines\"\n", "v"}, {"no line\n", "v"}, {"A=1\x00\n", "v"}, {"", "it's"}} {
		if got, err := SetVariable([]byte(c[0]), "K", c[1]); err == nil {
			t.Errorf("%q became %q", c[0], got)
		} else if strings.Contains(err.Error(), "two") {
			t.Errorf("the error quotes the file: %v", err)
		}
	}
}
