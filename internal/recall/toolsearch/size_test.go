package toolsearch

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"ravenbot/internal/core/tool"
)

// listing writes what a model is told of tools.
func listing(t *testing.T, tools []tool.Named) int {
	t.Helper()
	type declared struct {
		Name, Description string
		Parameters        json.RawMessage
	}
	var list []declared
	for _, n := range tools {
		spec := n.Tool.Spec()
		list = append(list, declared{n.Name, spec.Description, spec.Schema})
	}
	raw, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return len(raw)
}

// TestTheFive_AreOneHundredthOfTheListing compares what a model is told where tools
// are found with what it would be told of them all: as many, and as large, as nine
// published servers have together.
func TestTheFive_AreOneHundredthOfTheListing(t *testing.T) {
	const tools, bytes = 143, 275 << 10
	h := &house{}
	for n := range tools {
		property := fmt.Sprintf(`"option%%d":{"type":"string","description":%q}`,
			strings.Repeat("what it is for, at some length; ", 4))
		var properties []string
		for i := 0; len(strings.Join(properties, ",")) < bytes/tools-250; i++ {
			properties = append(properties, fmt.Sprintf(property, i))
		}
		h.add(fmt.Sprintf("server%d", n%9), fmt.Sprintf("do_%d", n), "Does one of many things.",
			`{"type":"object","properties":{`+strings.Join(properties, ",")+`}}`)
	}
	finder := NewFinder(New(), func(string) string { return "" })
	finder.Sync(h.all)
	all := listing(t, h.all)
	few := listing(t, finder.Tools(func() []tool.Named { return h.all })) + len(finder.Prompt())
	share := float64(few) / float64(all)
	t.Logf("%d of %d bytes: %.2f %%", few, all, 100*share)
	if all < bytes*9/10 || share > 0.01 {
		t.Errorf("the five take %d bytes, %.2f %% of the %d of all tools; want 1 %% at most", few, 100*share, all)
	}
}
