package bolt

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/chat"
)

// A file is stored as every record is, whatever its size.
func TestEncodeFile_IsEncode(t *testing.T) {
	for _, f := range []chat.File{
		{Name: "large <&>", Type: "text/plain", Handle: json.RawMessage(`{"n":1}`), Data: repeatX(1 << 20), Duration: time.Second},
		{Name: "one byte", Data: []byte("x")},
		{Name: "empty", Data: []byte{}},
		{},
	} {
		r := roomFile{time.Now().UTC(), f}
		v, err := encodeFile(r)
		if err != nil {
			t.Fatal(err)
		}
		writeHeader("", nil, v)
		whole, err := encodeBehind(make([]byte, headerSize), r)
		if err != nil {
			t.Fatal(err)
		}
		writeHeader("", nil, whole)
		var got, want roomFile
		db := &DB{}
		if err := errors.Join(db.decode(nil, v, &got), db.decode(nil, whole, &want)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" || len(v) != len(whole) {
			t.Errorf("%s has %d bytes, want %d:\n%s", f.Name, len(v), len(whole), diff)
		}
		if at, err := fileTime(v); err != nil || !at.Equal(r.At) {
			t.Errorf("%s is of %v (%v), want %v", f.Name, at, err, r.At)
		}
	}
}
