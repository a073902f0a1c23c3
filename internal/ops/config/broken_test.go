package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// testChecks stand in for the packages that know schedules, addresses, bundled feeds and tariffs.
var testChecks = Checks{
	Schedule: func(expr, _ string) error {
		if strings.HasPrefix(expr, "bad") {
			return fmt.Errorf("%q has 4 fields, not 5", expr)
		}
		return nil
	},
	Address: func(address string) error {
		if strings.HasSuffix(address, "/") {
			return fmt.Errorf("the channel of %s is empty", address)
		}
		return nil
	},
	Mailbox: func(address string) error {
		if !strings.Contains(address, "@") {
			return fmt.Errorf("there is no mailbox %s", address)
		}
		return nil
	},
	Bundled: func(name string) error {
		if name == "unknown" {
			return errors.New("there is no bundled feed unknown")
		}
		return nil
	},
	Tariff: func(path string) error {
		if filepath.Base(path) == "bad.json" {
			return errors.New("read tariff bad.json: it has 0 blocks")
		}
		return nil
	},
}

// loadText loads text as config.json in a folder of its own, beside the other files.
func loadText(t testing.TB, text string, env map[string]string, files map[string]string) (*Config, error) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "config.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(path, Options{Env: fakeEnv(env), Checks: testChecks})
}

// TestBrokenConfigurations reads pairs NAME.json, NAME.want of testdata/broken.txtar: a file, and what Load says of it.
func TestBrokenConfigurations(t *testing.T) {
	const archivePath = "testdata/broken.txtar"
	archive, err := txtar.ParseFile(archivePath)
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]string)
	var inputs []txtar.File
	for _, f := range archive.Files {
		if name, ok := strings.CutSuffix(f.Name, ".want"); ok {
			want[name] = string(f.Data)
		} else {
			inputs = append(inputs, f)
		}
	}
	if len(inputs) < 30 {
		t.Fatalf("only %d configurations", len(inputs))
	}
	line := regexp.MustCompile(`^config\.json:\d+: .+ — .+$`)
	archive.Files = nil
	for _, f := range inputs {
		name := strings.TrimSuffix(f.Name, ".json")
		t.Run(name, func(t *testing.T) {
			_, err := loadText(t, string(f.Data), nil, nil)
			faults, ok := errors.AsType[*Faults](err)
			if !ok {
				t.Fatalf("got %v, want faults", err)
			}
			var said strings.Builder
			for _, fault := range faults.List {
				fault.File = filepath.Base(fault.File)
				if !line.MatchString(fault.String()) {
					t.Errorf("%q does not name file, line, reason and remedy", fault)
				}
				fmt.Fprintln(&said, fault)
			}
			if strings.Contains(said.String(), "CANARY") {
				t.Error("a fault shows a secret")
			}
			if diff := cmp.Diff(want[name], said.String()); diff != "" && !*update {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			archive.Files = append(archive.Files, f, txtar.File{Name: name + ".want", Data: []byte(said.String())})
		})
	}
	if *update {
		if err := os.WriteFile(archivePath, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
