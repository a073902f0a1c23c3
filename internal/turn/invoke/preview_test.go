package invoke_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ravenbot/internal/turn/invoke"
)

const resultID = "0123456789abcdef012"

func TestTheHeadOfALargeResultSaysWhatItIs(t *testing.T) {
	var rows []string
	var people []map[string]any
	table := "name,age,town\n"
	for n := range 400 {
		people = append(people, map[string]any{"id": n, "name": fmt.Sprint("person ", n),
			"tags": []string{"a", "b"}, "boss": nil})
		rows = append(rows, fmt.Sprintf("row %d of a long log", n))
		table += fmt.Sprintf("Person %d,%d,\"Oslo, Norway\"\n", n, 20+n%60)
	}
	list, err := json.Marshal(map[string]any{"total": 400, "items": people})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, text string
		want       []string
		not        []string
	}{
		{"json", string(list), []string{"- items: array of 400", "- items[].id: integer (400 times)", "- items[].boss: null",
			"- items[].tags: array of 2 (400 times)",
			"First of items[]:", `{"boss":null,"id":0,"name":"person 0","tags":["a","b"]}`,
			`"name":"person 3"`}, []string{"person 399"}},
		{"text", strings.Join(rows, "\n"), []string{"row 0 of a long log\n", "row 399 of a long log", "are left out"}, []string{"row 200 of"}},
		{"csv", table, []string{"a table of 400 rows below the first; columns: name (text), age (number), town (text)", "name,age,town\nPerson 0,20,", "offset"}, nil},
		{"html", "<!doctype html><title>Ravens</title><nav>menu</nav><script>evil()</script><h1>Food</h1>" +
			strings.Repeat("<p>They cache <b>food</b>.</p>", 300),
			[]string{"# Ravens", "They cache **food**.", `as "markdown"`}, []string{"evil", "menu", "<p>"}},
		{"html that is small without its tags", "<html><body><p>Hello</p>" + strings.Repeat("<script>x()</script>", 300), []string{"Hello", "the main text of an HTML page"}, []string{"x()"}},
		{"broken json", `{"a":` + strings.Repeat("[1,2,", 900), []string{`{"a":[1,2,`, "are left out"}, nil},
		{"deep json", strings.Repeat("[", 5000) + strings.Repeat("]", 5000), []string{"all of it: array of 1"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			const size = 1500
			got := invoke.Head(c.text, resultID, size)
			if len(got) > size || !strings.Contains(got, resultID) {
				t.Errorf("%d bytes: %q", len(got), got)
			}
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("lacks %q:\n%s", want, got)
				}
			}
			for _, not := range c.not {
				if strings.Contains(got, not) {
					t.Errorf("holds %q:\n%s", not, got)
				}
			}
		})
	}
}

// large draws texts of every kind.
func large(t *rapid.T) string {
	n := rapid.IntRange(1, 60).Draw(t, "times")
	words := rapid.StringN(0, 60, -1)
	switch rapid.SampledFrom([]string{"text", "json", "csv", "html", "object"}).Draw(t, "kind") {
	case "json":
		v := rapid.SliceOfN(rapid.MapOf(words, rapid.SampledFrom([]any{1, "två", nil, 2.5, []int{1},
			map[string]any{"": ""}})), n, n).Draw(t, "rows")
		raw, _ := json.Marshal(v)
		return string(raw)
	case "object":
		raw, _ := json.Marshal(rapid.MapOfN(words, words, 0, n).Draw(t, "object"))
		return string(raw)
	case "csv":
		return strings.Repeat(rapid.StringMatching(`[a-zå]{0,40},[0-9]{1,5}\n`).Draw(t, "row"), n)
	case "html":
		return "<html>" + strings.Repeat("<p>"+words.Draw(t, "words"), n)
	}
	return strings.Repeat(words.Draw(t, "words")+"\n", n)
}

func TestAHeadKeepsWithinItsBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, size := large(t), rapid.IntRange(256, 3000).Draw(t, "size")
		got := invoke.Head(text, resultID, size)
		if len(got) > size || utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("%d of %d bytes: %q", len(got), size, got)
		}
		if len(text) > size && !strings.Contains(got, resultID) {
			t.Errorf("does not say how to read on: %q", got)
		}
	})
}

func TestPagesTogetherAreTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, size := large(t), rapid.IntRange(256, 3000).Draw(t, "size")
		var whole strings.Builder
		for offset := 0; ; {
			page := invoke.Page(text, resultID, offset, size)
			if len(page) > size {
				t.Fatalf("a page of %d bytes, want %d at most", len(page), size)
			}
			at := strings.LastIndex(page, "\n[bytes ")
			if len(text)-offset <= size {
				whole.WriteString(page)
				break
			}
			whole.WriteString(page[:at])
			offset += at
		}
		if diff := cmp.Diff(text, whole.String()); diff != "" {
			t.Error(diff)
		}
	})
}

func FuzzHead(f *testing.F) {
	f.Add(`[{"a":1},{"a":"x"}]`, 300)
	f.Add("a,b\n1,2\n3,4\n", 256)
	f.Add("<html><p>x", 256)
	f.Fuzz(func(t *testing.T, text string, size int) {
		size = 256 + max(size, 0)%4096
		if got := invoke.Head(strings.Repeat(text, 40), resultID, size); len(got) > size {
			t.Errorf("%d of %d bytes", len(got), size)
		}
	})
}
