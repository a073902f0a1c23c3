package cli

import (
	"bytes"
	"os"
	"testing"
)

func TestIsTerminal_DeviceBehindAWriter(t *testing.T) {
	device, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	pipe, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	defer in.Close()
	for what, c := range map[string]struct {
		stream any
		want   bool
	}{
		"a device":                 {device, true},
		"a device behind a writer": {printableWriter{device}, true},
		"a pipe":                   {in, false},
		"a pipe behind a writer":   {printableWriter{in}, false},
		"memory":                   {&bytes.Buffer{}, false},
	} {
		if got := isTerminal(c.stream); got != c.want {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
}
