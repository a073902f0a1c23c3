package files

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/tool"
)

// desk is a folder with two roots in it, docs to read and notes to write, and a
// secret beside them.
type desk struct {
	t   *testing.T
	dir string
	all map[string]tool.Tool
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, dir: t.TempDir(), all: map[string]tool.Tool{}}
	for name, text := range map[string]string{
		"secret.txt":              "the secret of the house",
		"docs/guide.md":           "# Guide\nRavens cache food.\nThey remember where.\n",
		"docs/birds/raven.md":     "Corvus corax\n",
		"docs/birds/far/away.txt": "a raven, far away\n",
		"docs/empty.txt":          "",
		"docs/photo.png":          "\x89PNG\r\n\x1a\n\x00\x00raven",
		"docs/data.bin":           "text at first\x00raven",
		"docs/odd [1].md":         "a raven in brackets\n",
		"notes/todo.txt":          "feed the raven\r\nsleep\r\n",
	} {
		d.put(name, text)
	}
	for _, one := range Tools([]Root{{Name: "docs", Path: filepath.Join(d.dir, "docs")},
		{Name: "notes", Path: filepath.Join(d.dir, "notes"), Write: true}}, nil) {
		d.all[one.Spec().Name] = one
	}
	return d
}

func (d *desk) put(name, text string) {
	d.t.Helper()
	path := filepath.Join(d.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) get(name string) string {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.dir, name))
	if err != nil {
		d.t.Fatal(err)
	}
	return string(text)
}

func (d *desk) link(to, name string) {
	d.t.Helper()
	if err := os.Symlink(to, filepath.Join(d.dir, name)); err != nil {
		d.t.Fatal(err)
	}
}

// call runs a tool, and sees that no result tells where the roots are.
func (d *desk) call(name string, args any) tool.Result {
	d.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		d.t.Fatal(err)
	}
	res, err := d.all[name].Call(d.t.Context(), raw)
	if err != nil {
		d.t.Fatal(err)
	}
	if strings.Contains(res.Text, d.dir) {
		d.t.Errorf("files_%s %s tells the place: %s", name, raw, res.Text)
	}
	return res
}

type in map[string]any

// says calls a tool that must answer exactly so.
func (d *desk) says(name string, args in, want string) {
	d.t.Helper()
	res := d.call(name, args)
	if diff := cmp.Diff(want, res.Text); diff != "" || res.IsError {
		d.t.Errorf("files_%s %v (failed: %v, -want +got):\n%s", name, args, res.IsError, diff)
	}
}

// refuses calls a tool that must fail with a word.
func (d *desk) refuses(name string, args in, want string) {
	d.t.Helper()
	if res := d.call(name, args); !res.IsError || !strings.Contains(res.Text, want) {
		d.t.Errorf("files_%s %v: %q (failed: %v), want %q", name, args, res.Text, res.IsError, want)
	}
}

func TestReading(t *testing.T) {
	d := newDesk(t)
	d.says("read", in{"path": "docs/guide.md"}, "docs/guide.md, lines 1 to 3, its end:\n\n# Guide\nRavens cache "+
		"food.\nThey remember where.\n")
	d.says("read", in{"path": "docs/./guide.md", "from": 2, "to": 2},
		"docs/guide.md, lines 2 to 2; the file goes on at line 3:\n\nRavens cache food.\n")
	d.says("read", in{"path": "docs/guide.md", "from": 3, "to": 9},
		"docs/guide.md, lines 3 to 3, its end:\n\nThey remember where.\n")
	d.says("read", in{"path": "docs/guide.md", "from": 4}, "docs/guide.md has 3 lines, so there is no line 4.")
	d.says("read", in{"path": "docs/empty.txt"}, "docs/empty.txt is empty.")
	d.refuses("read", in{"path": "docs/guide.md", "from": 3, "to": 2}, "line 2 is before line 3")
	d.refuses("read", in{"path": "docs/none.md"}, "docs/none.md does not exist")
	d.refuses("read", in{"path": "docs/birds"}, "is a folder")
	d.refuses("read", in{"path": "docs/photo.png"}, "is not text but image/png of 15 bytes")
	d.refuses("read", in{"path": "docs/data.bin"}, "is not text but binary data")
}

func TestALargeFileIsReadInParts(t *testing.T) {
	d := newDesk(t)
	line := strings.Repeat("x", 99) + "\n"
	d.put("docs/large.txt", strings.Repeat(line, 2000))
	d.put("docs/long.txt", "short\n"+strings.Repeat("ø", maxShownBytes)+"\nlast\n")
	res := d.call("read", in{"path": "docs/large.txt"})
	if want := "docs/large.txt, lines 1 to 656, the last one cut; 64 KiB are shown at once:"; !strings.HasPrefix(res.Text,
		want) || len(res.Text) > maxShownBytes+200 {
		t.Errorf("began with %.100q and has %d bytes, want %q", res.Text, len(res.Text), want)
	}
	res = d.call("read", in{"path": "docs/large.txt", "from": 1999})
	if want := "docs/large.txt, lines 1999 to 2000, its end:\n\n" + line + line; res.Text != want {
		t.Errorf("the end reads %q", res.Text)
	}
	res = d.call("read", in{"path": "docs/long.txt", "from": 2, "to": 2})
	if !strings.HasPrefix(res.Text, "docs/long.txt, lines 2 to 2, the last one cut") ||
		strings.Contains(res.Text, "\uFFFD") {
		t.Errorf("a long line began with %.100q", res.Text)
	}
	if got := d.call("read", in{"path": "docs/long.txt",
		"from": 3}).Text; got != "docs/long.txt, lines 3 to 3, its end:\n\nlast\n" {
		t.Errorf("behind a long line: %q", got)
	}
}

func TestNothingOutsideTheRootsIsReached(t *testing.T) {
	d := newDesk(t)
	d.link(filepath.Join(d.dir, "secret.txt"), "docs/absolute")
	d.link("../secret.txt", "docs/relative")
	d.link("..", "docs/up")
	d.link("guide.md", "docs/inside")
	d.link("../secret.txt", "notes/out")
	for path, want := range map[string]string{
		"docs/../secret.txt": "goes up", "../secret.txt": "goes up", `docs\..\secret.txt`: "goes up",
		"docs/birds/../../secret.txt":          "goes up",
		filepath.Join(d.dir, "secret.txt")[1:]: "outside of what may be reached: paths begin with one of docs, notes",
		"secret.txt":                           "outside", "": "outside",
		"/etc/passwd": "outside", "docs/absolute": "escapes", "docs/relative": "escapes", "docs/up/secret.txt": "escapes",
		"docs/\x00": "NUL", "docs/" + strings.Repeat("a", maxPathBytes): "longer than",
		"docs/" + strings.Repeat("a", 300): "could not read",
	} {
		d.refuses("read", in{"path": path}, want)
		if res := d.call("search", in{"path": path, "pattern": "secret of"}); strings.Contains(res.Text, "of the house") {
			t.Errorf("a search in %q found %q", path, res.Text)
		}
		if res := d.call("write", in{
			"path": strings.Replace(path, "docs", "notes", 1),
			"text": "x",
		}); strings.Contains(path, "..") && !res.IsError {
			t.Errorf("%q was written: %s", path, res.Text)
		}
	}
	d.says("read", in{"path": "docs/inside", "from": 3}, "docs/inside, lines 3 to 3, its end:\n\nThey remember where.\n")
	d.refuses("write", in{"path": "notes/out", "text": "x"}, "is a link")
	d.refuses("edit", in{"path": "notes/out", "old": "secret", "new": "x"}, "escapes")
	if got := d.get("secret.txt"); got != "the secret of the house" {
		t.Errorf("the file outside holds %q", got)
	}
	if res := d.call("search", in{"pattern": "secret of"}); !strings.Contains(res.Text, "No line matches") {
		t.Errorf("a search went outside: %s", res.Text)
	}
}

// undated takes the dates out of a listing.
func undated(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		if n := strings.LastIndex(line, ", 2"); n > 0 {
			line = line[:n] + ")\n"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "")
}

func TestListing(t *testing.T) {
	d := newDesk(t)
	d.link("guide.md", "docs/link.md")
	for _, c := range []struct {
		args in
		want string
	}{
		{in{}, "docs/\nnotes/\n"},
		{in{"path": "*"}, "docs/\nnotes/\n"},
		{in{"path": "notes"}, "notes/todo.txt (23 bytes)\n"},
		{in{"path": "docs"}, "docs/birds/\ndocs/data.bin (19 bytes)\ndocs/empty.txt (0 bytes)\ndocs/guide.md (48 bytes)\ndocs/link.md (a link)\ndocs/odd [1].md (20 bytes)\ndocs/photo.png (15 bytes)\n"},
		{in{"path": "docs/birds/", "depth": 2}, "docs/birds/far/\ndocs/birds/far/away.txt (18 bytes)\ndocs/birds/raven.md (13 bytes)\n"},
		{in{"path": "docs/**/*.md"}, "docs/birds/raven.md (13 bytes)\ndocs/guide.md (48 bytes)\ndocs/link.md (a link)\ndocs/odd [1].md (20 bytes)\n"},
		{in{"path": "docs/birds/*"}, "docs/birds/far/\ndocs/birds/raven.md (13 bytes)\n"},
		{in{"path": "**/*.txt"}, "docs/birds/far/away.txt (18 bytes)\ndocs/empty.txt (0 bytes)\nnotes/todo.txt (23 bytes)\n"},
		{in{"path": "docs/odd [1].md"}, "docs/odd [1].md (20 bytes)\n"},
		{in{"path": "docs/none/*.md"}, "Nothing is there."},
	} {
		if diff := cmp.Diff(c.want, undated(d.call("list", c.args).Text)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.args, diff)
		}
	}
	d.refuses("list", in{"path": "docs/none"}, "does not exist")
	d.refuses("list", in{"path": "docs/[a"}, "is not a pattern")
	d.refuses("list", in{"path": "docs/*/../../*"}, "goes up")
	d.refuses("list", in{"path": "books/*"}, "matches no root")
}

func TestAListingEnds(t *testing.T) {
	d := newDesk(t)
	for n := range maxListed + 10 {
		d.put(fmt.Sprintf("docs/many/%04d", n), "")
	}
	text := d.call("list", in{"path": "docs/many"}).Text
	if lines := strings.Count(text, "docs/many/"); lines != maxListed ||
		!strings.HasSuffix(text, "Not everything is listed: there are more than 500.") {
		t.Errorf("%d lines, ending %q", lines, text[len(text)-80:])
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	res, err := d.all["list"].Call(ctx, json.RawMessage(`{"path":"docs","depth":9}`))
	if err != nil || !strings.Contains(res.Text, "took longer") {
		t.Errorf("after its time: %q, %v", res.Text, err)
	}
}

func TestSearching(t *testing.T) {
	d := newDesk(t)
	for _, c := range []struct {
		args in
		want string
	}{
		{in{"pattern": "(?i)raven"}, "4 lines match.\n\ndocs/birds/far/away.txt:1: a raven, far away\ndocs/guide.md:2: Ravens cache food.\ndocs/odd [1].md:1: a raven in brackets\nnotes/todo.txt:1: feed the raven"},
		{in{"pattern": "raven", "path": "docs/*.md"}, "1 line matches.\n\ndocs/odd [1].md:1: a raven in brackets"},
		{in{"pattern": "^Corvus \\w+$", "path": "docs/birds/raven.md"}, "1 line matches.\n\ndocs/birds/raven.md:1: Corvus corax"},
		{in{"pattern": "e", "path": "docs/guide.md", "limit": 1}, "1 line matches.\n\ndocs/guide.md:1: # Guide\n\nNot everything was searched: there are more than 1 lines."},
		{in{"pattern": "owl", "path": "docs/birds"}, "No line matches, in 2 text files."},
	} {
		d.says("search", c.args, c.want)
	}
	d.refuses("search", in{"pattern": "(", "path": "docs"}, "cannot be read")
	d.refuses("search", in{"pattern": ""}, "0 bytes")
	d.refuses("search", in{"pattern": strings.Repeat("(a{999}b{999})", 30)}, "too large")
	d.refuses("search", in{"pattern": "x", "path": "docs/none"}, "does not exist")
	d.refuses("search", in{"pattern": "x", "path": "docs/photo.png"}, "image/png")
}

func TestASearchInWhatIsLarge(t *testing.T) {
	d := newDesk(t)
	d.put("docs/long.txt", strings.Repeat("-", 3*chunkBytes)+"needle"+strings.Repeat("-", 500)+"\nneedle\n")
	d.put("docs/huge.txt", "needle"+strings.Repeat("\n", maxFileBytes))
	text := d.call("search", in{"pattern": "needle"}).Text
	want := "2 lines match.\n\ndocs/long.txt:1: needle" + strings.Repeat("-",
		around) + "…\ndocs/long.txt:2: needle\n\nNot everything was searched: docs/huge.txt is larger than 8.0 MiB."
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	res, err := d.all["search"].Call(ctx, json.RawMessage(`{"pattern":"needle"}`))
	if err != nil || !strings.Contains(res.Text, "took longer") {
		t.Errorf("after its time: %q, %v", res.Text, err)
	}
}

func TestWriting(t *testing.T) {
	d := newDesk(t)
	d.says("write", in{"path": "notes/new/list.txt", "text": "one\n"},
		"Written: notes/new/list.txt, a new file of 4 bytes.")
	if err := os.Chmod(filepath.Join(d.dir, "notes/new/list.txt"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.says("write", in{"path": "notes/new/list.txt", "text": "two words\n"},
		"Written: notes/new/list.txt, 10 bytes in the place of 4 bytes.")
	info, err := os.Stat(filepath.Join(d.dir, "notes/new/list.txt"))
	if got := d.get("notes/new/list.txt"); err != nil || got != "two words\n" || info.Mode().Perm() != 0o600 {
		t.Errorf("the file holds %q and has the mode %v (%v)", got, info.Mode(), err)
	}
	d.refuses("write", in{"path": "docs/new.txt", "text": "x"}, "docs may only be read; files may be written below: notes")
	d.refuses("write", in{"path": "notes", "text": "x"}, "is a folder")
	d.refuses("write", in{"path": "notes/new", "text": "x"}, "is a folder")
	d.refuses("write", in{"path": "notes/todo.txt/x", "text": "x"}, "could not")
	d.refuses("write", in{"path": "notes/large", "text": strings.Repeat("x", maxWrittenBytes+1)}, "at most 1.0 MiB")
	left := []string{}
	err = filepath.WalkDir(filepath.Join(d.dir, "notes"), func(path string, e fs.DirEntry, err error) error {
		if !e.IsDir() {
			left = append(left, e.Name())
		}
		return err
	})
	if diff := cmp.Diff([]string{"list.txt", "todo.txt"}, left); diff != "" || err != nil {
		t.Errorf("files in notes, %v (-want +got):\n%s", err, diff)
	}
}

func TestEditing(t *testing.T) {
	d := newDesk(t)
	d.put("notes/plan.txt", "one\ntwo\ntwo and a half\n")
	d.says("edit", in{"path": "notes/plan.txt", "old": "two and", "new": "three and"}, "Edited: notes/plan.txt at line 3.")
	d.says("edit", in{"path": "notes/plan.txt", "old": "one\n", "new": ""}, "Edited: notes/plan.txt at line 1.")
	if got := d.get("notes/plan.txt"); got != "two\nthree and a half\n" {
		t.Errorf("the file holds %q", got)
	}
	d.says("edit", in{"path": "notes/todo.txt", "old": "raven\nsleep", "new": "crow\nrest"},
		"Edited: notes/todo.txt at line 1.")
	if got := d.get("notes/todo.txt"); got != "feed the crow\r\nrest\r\n" {
		t.Errorf("the file with carriage returns holds %q", got)
	}
	d.put("notes/aaa.txt", "aaa")
	d.put("notes/large.txt", strings.Repeat("x", maxWrittenBytes)+"y")
	d.put("notes/photo.png", "\x89PNG\r\n\x1a\n\x00\x00")
	for _, c := range []struct{ path, old, want string }{
		{"notes/plan.txt", "four", "does not hold this piece"}, {"notes/plan.txt", "t", "more than once"}, {"notes/aaa.txt", "aa", "more than once"},
		{"notes/plan.txt", "", "is empty"}, {"notes/none.txt", "a", "does not exist"}, {"docs/guide.md", "Guide", "may only be read"},
		{"notes/large.txt", "y", "larger than 1.0 MiB"}, {"notes/photo.png", "PNG", "image/png"},
	} {
		d.refuses("edit", in{"path": c.path, "old": c.old, "new": "b"}, c.want)
	}
	d.refuses("edit", in{"path": "notes/plan.txt", "old": "half", "new": strings.Repeat("x", maxWrittenBytes)},
		"would be larger")
}

func TestEditsAtTheSameTimeAreAllKept(t *testing.T) {
	d := newDesk(t)
	var text strings.Builder
	for n := range 20 {
		fmt.Fprintf(&text, "line %02d old\n", n)
	}
	d.put("notes/plan.txt", text.String())
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			d.call("edit", in{"path": "notes/plan.txt", "old": fmt.Sprintf("line %02d old", n),
				"new": fmt.Sprintf("line %02d new", n)})
		})
	}
	wg.Wait()
	if diff := cmp.Diff(strings.ReplaceAll(text.String(), "old", "new"), d.get("notes/plan.txt")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWritingIsOffUnlessARootAllowsIt(t *testing.T) {
	if list := Tools(nil, nil); list != nil {
		t.Errorf("without roots there are %d tools", len(list))
	}
	var names []string
	for _, one := range tool.NewRegistry(source(Tools([]Root{{Name: "docs", Path: t.TempDir()}}, nil))).List() {
		names = append(names, one.Name+" "+one.Tool.Spec().Hints.Class())
	}
	if diff := cmp.Diff([]string{"files_list readOnly", "files_read readOnly",
		"files_search readOnly"}, names); diff != "" {
		t.Errorf("tools of a root to be read (-want +got):\n%s", diff)
	}
	for name, one := range newDesk(t).all {
		if want := name == "write" || name == "edit"; (one.Spec().Hints.Class() == "destructive") != want ||
			!json.Valid(one.Spec().Schema) {
			t.Errorf("files_%s is %s", name, one.Spec().Hints.Class())
		}
	}
}

type source []tool.Tool

func (s source) Tools() []tool.Tool { return s }

func TestARootThatIsNotThereIsSaid(t *testing.T) {
	d := &desk{t: t, dir: t.TempDir(), all: map[string]tool.Tool{}}
	for _, one := range Tools([]Root{{Name: "gone", Path: filepath.Join(d.dir, "gone")},
		{Name: "here", Path: d.dir}}, nil) {
		d.all[one.Spec().Name] = one
	}
	d.put("a.txt", "raven\n")
	d.refuses("read", in{"path": "gone/a.txt"}, "gone does not exist")
	d.says("list", in{}, "here/\n\nNot everything is listed: gone does not exist.")
	d.says("search", in{"pattern": "raven"}, "1 line matches.\n\nhere/a.txt:1: raven\n\nNot everything was searched: "+
		"gone does not exist.")
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"docs/**", "docs/a/b", true}, {"docs/**", "docs", true}, {"docs/**/c", "docs/c", true}, {"docs/**/c", "docs/a/b/c", true},
		{"docs/**/c", "docs/a/b/d", false}, {"docs/*/c", "docs/a/b/c", false}, {"docs/?.md", "docs/a.md", true}, {"docs/[ab].md", "docs/c.md", false},
		{"**", "anything/at/all", true}, {"**/a/**/a", "a/b/a", true}, {"docs/a**", "docs/abc", true}, {"docs", "docs/a", false},
	} {
		p, err := parsePattern(c.pattern)
		if err != nil || p.match(c.name) != c.want {
			t.Errorf("%q matches %q: %v (%v), want %v", c.pattern, c.name, !c.want, err, c.want)
		}
	}
}

// FuzzPaths calls every tool with any path: nothing outside the roots is shown or
// changed.
func FuzzPaths(f *testing.F) {
	for _, s := range []string{"docs/guide.md", "notes/../secret.txt", "notes/up/secret.txt", "docs/**/*",
		"notes//todo.txt", "[", "notes/.", "/notes", "notes/a\nb", `notes\..\x`} {
		f.Add(s, "secret")
	}
	f.Fuzz(func(t *testing.T, path, pattern string) {
		d := newDesk(t)
		d.link("..", "notes/up")
		for name, args := range map[string]in{"read": {"path": path}, "list": {"path": path, "depth": 3},
			"search": {"path": path, "pattern": pattern},
			"write":  {"path": path, "text": "secret"}, "edit": {"path": path, "old": pattern, "new": "x"}} {
			res := d.call(name, args)
			if strings.Contains(res.Text, "of the house") || strings.Contains(res.Text, "secret.txt (23 bytes") {
				t.Errorf("files_%s %v went outside: %s", name, args, res.Text)
			}
		}
		entries, err := os.ReadDir(d.dir)
		if err != nil || len(entries) != 3 || d.get("secret.txt") != "the secret of the house" {
			t.Errorf("%q changed what is outside: %v, %v", path, entries, err)
		}
	})
}

// FuzzPattern compares match with a slow one that tries everything.
func FuzzPattern(f *testing.F) {
	f.Add("**/a/*/**/b", "a/a/c/d/b")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		p, err := parsePattern(pattern)
		if err != nil || len(p) > 6 || len(name) > 40 {
			return
		}
		if got, want := p.match(name), slow(p, strings.Split(name, "/")); got != want {
			t.Errorf("%q matches %q: %v, want %v", pattern, name, got, want)
		}
	})
}

func slow(p pattern, elements []string) bool {
	if len(p) == 0 {
		return len(elements) == 0
	}
	if p[0] == "**" {
		return slow(p[1:], elements) || len(elements) > 0 && slow(p, elements[1:])
	}
	if len(elements) == 0 {
		return false
	}
	ok, err := filepath.Match(p[0], elements[0])
	return err == nil && ok && slow(p[1:], elements[1:])
}
