package config

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// checkAny loads whatever text is and fails on what Load must never do.
func checkAny(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path, Options{Env: fakeEnv(map[string]string{"A": "${B}", "B": "b"}), Checks: testChecks})
	if err == nil {
		if err := Print(io.Discard, c); err != nil {
			t.Errorf("loaded, but not printed: %v", err)
		}
		if len(c.ModelChain("")) == 0 {
			t.Error("no model answers")
		}
		return
	}
	faults, ok := errors.AsType[*Faults](err)
	if !ok || len(faults.List) == 0 {
		t.Fatalf("got %v, want faults", err)
	}
	for _, f := range faults.List {
		if f.Line < 1 || f.Column < 1 || f.Reason == "" || f.Remedy == "" || strings.Contains(f.String(), "\n") {
			t.Errorf("%#v is no complete line", f)
		}
	}
}

func FuzzLoad(f *testing.F) {
	archive, err := txtar.ParseFile("testdata/broken.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range archive.Files {
		if strings.HasSuffix(file.Name, ".json") {
			f.Add(file.Data)
		}
	}
	shipped, err := os.ReadFile(filepath.Join("..", "..", "..", "config.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(shipped)
	f.Add([]byte(secretFile))
	path := filepath.Join(f.TempDir(), "config.json")
	f.Fuzz(func(t *testing.T, text []byte) { checkAny(t, path, text) })
}

func FuzzReadEnvFile(f *testing.F) {
	f.Add([]byte("A=1\nexport B='x y' # c\nC=\"a\\nb$A\"\n"))
	f.Add([]byte("A='open\nB=2"))
	f.Add([]byte("=\n"))
	path := filepath.Join(f.TempDir(), ".env")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, line, err := readEnvFile(path); err != nil && line < 1 && len(text) <= maxEnvFile {
			t.Errorf("%v without a line", err)
		}
	})
}

func TestJSONTestSuite(t *testing.T) {
	corpora := os.Getenv("RAVENBOT_CORPORA")
	if corpora == "" {
		t.Skip("RAVENBOT_CORPORA is not set: the documents of JSONTestSuite are left out")
	}
	f, err := os.Open(filepath.Join(corpora, "json", "JSONTestSuite", "test_parsing.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	documents := 0
	path := filepath.Join(t.TempDir(), "config.json")
	for archive := tar.NewReader(unzipped); ; documents++ {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(header.Name), func(t *testing.T) {
			checkAny(t, path, text)
			// Where another host's key may hold any JSON, what is valid must load; a name used twice is a fault of ours.
			within := `{"servers": {"a": {"command": "x", "foreign": ` + string(text) + "}}}"
			checkAny(t, path, []byte(within))
			name := filepath.Base(header.Name)
			if strings.HasPrefix(name, "y_") && !strings.Contains(name, "duplicated_key") {
				if _, err := Load(path, Options{Env: fakeEnv(nil)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if documents < 300 {
		t.Errorf("only %d documents", documents)
	}
}
