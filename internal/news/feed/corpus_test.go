package feed

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// corpora is the folder of test data that is kept outside the project.
func corpora(t testing.TB, path string) string {
	t.Helper()
	root := os.Getenv("RAVENBOT_CORPORA")
	if root == "" {
		t.Skip("RAVENBOT_CORPORA is not set: the feed corpora are not at hand")
	}
	return filepath.Join(root, path)
}

// untar reads the plain files of a .tar.gz.
func untar(t testing.TB, path string) map[string][]byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if files[filepath.ToSlash(filepath.Clean(h.Name))], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// eachLine decodes a JSON-lines file.
func eachLine[T any](t testing.TB, path string, yield func(T)) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		var line T
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		yield(line)
	}
}

func TestRealFeeds(t *testing.T) {
	folder := corpora(t, "feeds/real")
	type expected struct {
		File, Outcome, Title string
		Items                int
	}
	eachLine(t, filepath.Join(folder, "expected.jsonl"), func(want expected) {
		data, err := os.ReadFile(filepath.Join(folder, want.File))
		if err != nil {
			t.Fatal(err)
		}
		doc, err := Parse(data, Hint{})
		switch {
		case want.Outcome == "error":
			if err == nil {
				t.Errorf("%s: no error", want.File)
			}
		case err != nil:
			t.Errorf("%s: %v", want.File, err)
		case doc.Feed.Heading() != want.Title || len(doc.Items) != want.Items:
			t.Errorf("%s: %q with %d items, want %q with %d", want.File, doc.Feed.Heading(), len(doc.Items),
				want.Title, want.Items)
		}
	})
}

func TestHostileXMLDoesNoHarm(t *testing.T) {
	for name, data := range untar(t, corpora(t, "xml/fuzz/corpus.tar.gz")) {
		if doc, err := Parse(data, Hint{}); err == nil {
			checkDocument(t, name, doc)
		}
	}
}
