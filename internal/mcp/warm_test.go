package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// BenchmarkWarm measures how to restore 143 tools of nine servers again, of the size
// that the nine published ones have together.
func BenchmarkWarm(b *testing.B) {
	keep := &memoryStore{}
	var o Options
	words := strings.Repeat("Reads a file and says what is in it, as text; lines are numbered. ", 4)
	for s := range 9 {
		o.Servers = append(o.Servers, Config{Name: fmt.Sprint("server", s), Command: "x"})
	}
	o.Store = keep
	h := must(NewHost(o))
	for i, c := range o.Servers {
		var now listing
		for n := range 16 {
			schema := fmt.Sprintf(`{"type":"object","properties":{"a%d":{"type":"string","description":%q},`+
				`"b":{"type":"array","items":{"type":"string","description":%q}},"c":{"enum":["x","y"]}},"required":["b"],"x":%q}`,
				i, words, words, words+words)
			now.Tools = append(now.Tools, toolSpec{Name: fmt.Sprint("tool", n), Description: words,
				Schema: json.RawMessage(schema)})
		}
		s := must(h.server(c.Name))
		s.setListing(now)
		s.saveListing(now)
	}
	for b.Loop() {
		if h := must(NewHost(o)); len(h.Tools()) != 9*16 {
			b.Fatal("not all tools are known")
		}
	}
}
