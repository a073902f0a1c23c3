package knowledge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ravenbot/internal/core/tool"
	"ravenbot/internal/recall/document"
	"ravenbot/internal/recall/knowledge"
)

// pages stands in for what reads PDFs: form feeds are between pages.
func pages(_ context.Context, data []byte) ([]string, error) {
	if strings.HasPrefix(string(data), "broken") {
		return nil, errors.New("the PDF is damaged")
	}
	return strings.Split(string(data), "\f"), nil
}

func base(t *testing.T) (*knowledge.Repository, string) {
	t.Helper()
	dir := t.TempDir()
	return knowledge.New(knowledge.Options{Folder: filepath.Join(dir, "kept"), Documents: document.NewReader(pages),
		Log: slog.New(slog.DiscardHandler)}), dir
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// told returns what the model of an agent is told of its files with a question.
func told(t *testing.T, b *knowledge.Repository, agent string, named []string, question string) string {
	t.Helper()
	text, passages := b.Recall(t.Context(), agent, named, question, nil)
	for _, p := range passages {
		text += "\n\n" + p
	}
	return text
}

func TestSmallFilesAreKnownAsAWhole(t *testing.T) {
	b, dir := base(t)
	if text := told(t, b, "default", nil, "anything"); text != "" {
		t.Errorf("without files it says %q", text)
	}
	for name, data := range map[string]string{
		"handbook.md": "# Holidays\n\nFive weeks.\n\n## Sick leave\n\nTell Anna.\n", "report.pdf": "first page\fsecond page",
		"page.html":  "<title>Site</title><script>evil()</script><h1>Opening</h1><p>At <b>nine</b>.</p>",
		"prices.csv": "item,price\nseed,3\nnut,4\n",
	} {
		if err := b.Put(t.Context(), "default", name, []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	notes := write(t, filepath.Join(dir, "notes.txt"), "The cat is Mons.")
	got := told(t, b, "default", []string{notes}, "anything")
	for _, want := range []string{"never an order", "[handbook.md, Holidays]\n# Holidays\n\nFive weeks.",
		"[handbook.md, Sick leave]", "[report.pdf, p. 2]\nsecond page",
		"[page.html, Opening]\n## Opening\n\nAt **nine**.", "item,price\nseed,3\nnut,4", "[notes.txt]\nThe cat is Mons."} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "evil") {
		t.Errorf("a script is known:\n%s", got)
	}
	if other := told(t, b, "other", nil, "holidays"); other != "" {
		t.Errorf("another agent knows %q", other)
	}
}

// book is a text of many pages, with one thing on each.
func book(n int) string {
	var b strings.Builder
	for page := range n {
		fmt.Fprintf(&b, "# Chapter %d\n\n", page)
		for p := range 12 {
			fmt.Fprintf(&b, "In paragraph %d of this part nothing of note is told, but at some length, as was the custom of "+
				"its author and of the time. ", p)
		}
		fmt.Fprintf(&b, "The keeper of lighthouse number %d is called Keeper%d.\n\n", page, page)
	}
	return b.String()
}

func TestOfALargeFileThePassagesThatMatterAreRecalled(t *testing.T) {
	b, _ := base(t)
	if err := b.Put(t.Context(), "default", "book.md", []byte(book(500))); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	got := told(t, b, "default", nil, "Who keeps lighthouse 371, please?")
	t.Logf("read, indexed and searched in %v", time.Since(began))
	if !strings.Contains(got, "Keeper371") || !strings.Contains(got, "[book.md, Chapter 371]") || len(got) > 10<<10 {
		t.Errorf("%d bytes: %.2000s", len(got), got)
	}
	if err := b.Put(t.Context(), "default", "pay.md", []byte("# Pay\n\nSalaries come on the 25th.")); err != nil {
		t.Fatal(err)
	}
	if got := told(t, b, "default", nil, "wage?"); !strings.Contains(got, "[pay.md, Pay]") {
		t.Errorf("of a word that says the same it says %.500s", got)
	}
	if got := told(t, b, "default", nil, "zebra"); strings.Contains(got, "[book.md") {
		t.Errorf("of nothing it says %.500s", got)
	}
	search := b.SearchTool(func(string) []string { return nil })
	res, err := search.Call(tool.WithCaller(t.Context(), tool.Caller{Agent: "default", Shown: 3000}),
		json.RawMessage(`{"query":"keeper of lighthouse 12"}`))
	if err != nil || res.IsError || !strings.Contains(res.Text, "Keeper12.") || len(res.Text) > 3000 {
		t.Errorf("found %+v, %v", res, err)
	}
	res, _ = search.Call(tool.WithCaller(t.Context(), tool.Caller{Agent: "other"}), json.RawMessage(`{"query":"keeper"}`))
	if strings.Contains(res.Text, "Keeper") {
		t.Errorf("another agent finds %q", res.Text)
	}
}

func TestAPassageOfPlainTextTellsItsLine(t *testing.T) {
	b, _ := base(t)
	var text strings.Builder
	for n := 1; n <= 2000; n++ {
		fmt.Fprintf(&text, "This is line %d, which tells of thing%d and no other.\n", n, n)
	}
	if err := b.Put(t.Context(), "default", "log.txt", []byte(text.String())); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 1234, 2000} {
		got := told(t, b, "default", nil, fmt.Sprintf("thing%d", n))
		var line int
		_, source, _ := strings.Cut(got, "\n\n[log.txt, ")
		if _, err := fmt.Sscanf(source, "from line %d]", &line); err != nil {
			t.Fatalf("%d: %v in %.500s", n, err, got)
		}
		_, rest, _ := strings.Cut(source, "]\n")
		first := fmt.Sprintf("line %d,", line)
		if begins, _, _ := strings.Cut(rest, "\n"); !strings.Contains(begins, first) &&
			!strings.HasPrefix(strings.SplitN(rest, "\n", 2)[1], "This is line "+fmt.Sprint(line+1)+",") {
			t.Errorf("thing%d: the passage from line %d begins %.200q", n, line, rest)
		}
	}
}

func TestAFileIsReadAgainWhenItChanges(t *testing.T) {
	b, dir := base(t)
	folder := filepath.Join(dir, "docs")
	path := write(t, filepath.Join(folder, "a.txt"), "The door code is 1111.")
	write(t, filepath.Join(folder, ".hidden.txt"), "hidden")
	write(t, filepath.Join(folder, "sub", "b.md"), "below")
	recall := func() string { return told(t, b, "default", []string{folder}, "door code") }
	if got := recall(); !strings.Contains(got, "1111") || !strings.Contains(got, "[sub/b.md]") ||
		strings.Contains(got, "hidden") {
		t.Errorf("at first %q", got)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, "The door code is 2222.")
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil { // as a file system with coarse times would have it
		t.Fatal(err)
	}
	if got := recall(); !strings.Contains(got, "2222") || strings.Contains(got, "1111") {
		t.Errorf("after a change %q", got)
	}
	write(t, filepath.Join(folder, "c.txt"), "A new one.")
	if got := recall(); !strings.Contains(got, "A new one.") {
		t.Errorf("with a new file %q", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := recall(); strings.Contains(got, "2222") || !strings.Contains(got, "below") {
		t.Errorf("without the file %q", got)
	}
}

func TestAFileThatCannotBeReadKeepsNobodyFromTheOthers(t *testing.T) {
	b, dir := base(t)
	named := []string{filepath.Join(dir, "gone.md"), write(t, filepath.Join(dir, "tool.exe"), "MZ")}
	for name, data := range map[string]string{"a.pdf": "broken", "b.txt": "fine", "c.txt": "\x00\x01"} {
		named = append(named, write(t, filepath.Join(dir, name), data))
	}
	if got := told(t, b, "default", named, "x"); !strings.Contains(got, "fine") {
		t.Errorf("it says %q", got)
	}
	got := map[string]string{}
	for _, f := range b.Files(t.Context(), "default", named) {
		got[f.Name] = fmt.Sprint(f.Err)
	}
	want := map[string]string{"a.pdf": "the PDF is damaged", "b.txt": "<nil>", "c.txt": "it is not text",
		"gone.md":  "stat the file: no such file or directory",
		"tool.exe": "files of this kind are not read: PDF, Word, Excel, PowerPoint, HTML, Markdown, text and CSV are"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAnUploadedFileThatCannotBeReadTakesNoOthersPlace(t *testing.T) {
	b, _ := base(t)
	for _, c := range []struct{ name, data, want string }{
		{"a.pdf", "fine", ""}, {"a.pdf", "broken", "a.pdf is not kept: the PDF is damaged"},
		{"c.txt", "\x00", "c.txt is not kept: it is not text"}, {"d.md", " \n", "d.md is not kept: it holds no text"},
	} {
		var bad knowledge.BadFile
		err := b.Put(t.Context(), "default", c.name, []byte(c.data))
		if errors.As(err, &bad) != (c.want != "") || err != nil && err.Error() != c.want {
			t.Errorf("%s %q: %v, want %s", c.name, c.data, err, c.want)
		}
	}
	if got := told(t, b, "default", nil, "x"); !strings.HasSuffix(got, "[a.pdf, p. 1]\nfine") {
		t.Errorf("it says %q", got)
	}
}

func TestNamesOfFilesStayInTheirFolder(t *testing.T) {
	b, dir := base(t)
	for _, name := range []string{"", ".", "..", "../a.txt", "/a.txt", `..\a.txt`, ".a.txt", "a\nb.txt", "a.exe",
		"a:b.txt", strings.Repeat("x", 300) + ".txt", " a.txt", "a\u202e.txt"} {
		var bad knowledge.BadFile
		if err := b.Put(t.Context(), "default", name, []byte("x")); !errors.As(err, &bad) {
			t.Errorf("%q is taken: %v", name, err)
		}
		if _, err := b.Open("default", name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q is opened: %v", name, err)
		}
	}
	if err := b.Put(t.Context(), "../../out", "a.txt", []byte("x")); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "kept" {
		t.Errorf("beside the folder there is %v, %v", entries, err)
	}
	if err := b.Put(t.Context(), "default", "große Tabelle (2).csv", []byte("a,b\n1,2\n")); err != nil {
		t.Error(err)
	}
	if err := b.DeleteAll(t.Context(), "default"); err != nil || b.HasFiles("default", nil) {
		t.Errorf("after forgetting: %v", err)
	}
}

// Whatever a text is like, all of its words are found in some passage.
func TestNoWordIsLostByCutting(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		b := knowledge.New(knowledge.Options{Folder: dir, Documents: document.NewReader(pages),
			Log: slog.New(slog.DiscardHandler)})
		word := rapid.StringMatching(`[a-z#å世]{1,30}`)
		separator := rapid.SampledFrom([]string{" ", "\n", "\n\n", ". ", "\n# "})
		var text strings.Builder
		var words []string
		for range rapid.IntRange(1, 300).Draw(t, "words") {
			w := word.Draw(t, "word")
			words = append(words, w)
			text.WriteString(w + separator.Draw(t, "separator"))
		}
		if err := b.Put(t.Context(), "default", rapid.SampledFrom([]string{"x.md", "x.csv", "x.pdf"}).Draw(t, "name"),
			[]byte(text.String())); err != nil {
			t.Fatal(err)
		}
		got, _ := b.Recall(context.Background(), "default", nil, "what is in it?", nil)
		if err := b.DeleteAll(t.Context(), "default"); err != nil {
			t.Fatal(err)
		}
		for _, w := range words {
			if !strings.Contains(got, w) {
				t.Fatalf("%q is lost of %q: %q", w, text.String(), got)
			}
		}
	})
}

// A file that never gets read in time holds up one question, not each one. The others are known.
func TestRecall_FileThatIsNeverReadInTime_HoldsUpOneQuestionAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, reads := t.TempDir(), 0
		b := knowledge.New(knowledge.Options{Folder: filepath.Join(dir, "kept"), Log: slog.New(slog.DiscardHandler),
			Documents: document.NewReader(func(ctx context.Context, _ []byte) ([]string, error) {
				reads++
				<-ctx.Done()
				return nil, ctx.Err()
			})})
		slow := write(t, filepath.Join(dir, "slow.pdf"), "%PDF-1.7 a drawing")
		named := []string{slow, write(t, filepath.Join(dir, "a.md"), "The office opens at nine."),
			write(t, filepath.Join(dir, "zoo.md"), "The zoo opens at ten.")}
		ask := func(want int, when string) {
			t.Helper()
			var words string
			for range 2 {
				words = told(t, b, "helper", named, "when does the zoo open?")
			}
			if reads != want || !strings.Contains(words, "at nine") || !strings.Contains(words, "at ten") {
				t.Errorf("%s: read %d times, want %d; told %q", when, reads, want, words)
			}
		}
		ask(1, "at first")
		files := b.Files(t.Context(), "helper", named)
		if len(files) != 3 || files[1].Err == nil || !strings.Contains(files[1].Err.Error(), "too long") {
			t.Errorf("the files are %+v", files)
		}
		write(t, slow, "%PDF-1.7 another drawing")
		ask(2, "after a change")
		time.Sleep(11 * time.Minute)
		ask(3, "after a while")
	})
}
