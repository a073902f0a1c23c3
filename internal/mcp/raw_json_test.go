package mcp

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"testing"
)

// FuzzRead compares our readers with the standard decoder, which is slower.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{`{"a":1,"A":[{"}":"\\"}], "b" : "\"x\\" , "c":null}`, ` [1, "]", {"a":[]} ,true]`,
		`"tab	"`, `"\u00e9\ud800"`, `{}`, `[]`, `{"a":1,"a":2}`, `{"\u0061":-1.5e3}`,
		"\"\xff\"", `{"a":}`, `[1,]`, `true`, `{"":""}`, ``, ` `, `""`, `"`} {
		f.Add([]byte(seed))
	}
	same := func(a, b json.RawMessage) bool { return bytes.Equal(bytes.TrimSpace(a), bytes.TrimSpace(b)) }
	f.Fuzz(func(t *testing.T, raw []byte) {
		var o map[string]json.RawMessage
		if json.Unmarshal(raw, &o) != nil {
			o = nil
		}
		if got := jsonObject(raw); (got == nil) != (o == nil) || !maps.EqualFunc(got, o, same) {
			t.Errorf("object(%q) = %q, want %q", raw, got, o)
		}
		var l []json.RawMessage
		if json.Unmarshal(raw, &l) != nil {
			l = nil
		}
		if got := jsonList(raw); !slices.EqualFunc(got, l, same) {
			t.Errorf("items(%q) = %q, want %q", raw, got, l)
		}
		var s string
		if json.Unmarshal(raw, &s) != nil {
			s = ""
		}
		if got := jsonString(raw); got != s {
			t.Errorf("text(%q) = %q, want %q", raw, got, s)
		}
	})
}
