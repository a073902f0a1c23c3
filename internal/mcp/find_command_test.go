package mcp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A command is searched in the PATH that its process will have, and a relative one counts from its working folder.
func TestFindCommand(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"first/both", "second/both", "second/only"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "first", "plain"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(root, "first"))
	first, second := filepath.Join(root, "first"), filepath.Join(root, "second")
	both := []string{"HOME=/", "PATH=" + first + string(filepath.ListSeparator) + second, "TERM=dumb"}
	for _, tt := range []struct {
		name, command, dir string
		env                []string
		want, err          string
	}{
		{"first of the PATH", "both", "", both, filepath.Join(first, "both"), ""},
		{"later in the PATH", "only", root, both, filepath.Join(second, "only"), ""},
		{"not executable", "plain", "", both, "", "plain not found: install it, or write its whole path"},
		{"relative folder in the PATH", "both", "", []string{"PATH=."}, "", "both not found"},
		{"no PATH", "docker", "", []string{"HOME=/"}, "", "docker not found: install it, or use a server"},
		{"name like PATH", "both", "", []string{"MYPATH=" + first, "XPATH=" + first}, "", "both not found"},
		{"list of folders that is not the PATH", "both", "", []string{"MANPATH=:" + first + ":" + second}, "", "both not found"},
		{"Python", "python3", "", nil, "", "python3 not found: install Python 3"},
		{"uv", "uvx", "", nil, "", "uvx not found: install uv"},
		{"Node.js", "npm", "", nil, "", "npm not found: install Node.js"},
		{"whole path", filepath.Join(second, "only"), first, nil, filepath.Join(second, "only"), ""},
		{"relative to its folder", "./only", second, nil, filepath.Join(second, "only"), ""},
		{"relative to ours", "./both", "", nil, filepath.Join(first, "both"), ""},
		{"relative and not there", "./only", first, nil, "", "check command, a relative one counts from cwd"},
		{"no such folder", "both", filepath.Join(root, "none"), both, "", "does not exist: create it, or change cwd"},
		{"a file for a folder", "both", filepath.Join(first, "both"), both, "", "does not exist: create it, or change cwd"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := findCommand(tt.command, tt.dir, tt.env)
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("found %q (%v), want %q (%s)", got, err, tt.want, tt.err)
			}
		})
	}
}

// A command line, and a command that only Windows has, is answered with how to write it, without its arguments.
func TestNewStdio_CommandLine(t *testing.T) {
	for _, tt := range []struct {
		command string
		args    []string
		want    string
	}{
		{"npx -y server --key sesame", nil, `start "npx": command takes the program alone: ` +
			`write "command": "npx", and each other word in args`},
		{"/usr/bin/env  npx", []string{"sesame"}, `start "/usr/bin/env": command takes the program alone: ` +
			`write "command": "/usr/bin/env", and each other word in args`},
		{"cmd", []string{"/c", "npx", "-y", "sesame"}, `start "cmd", a program of Windows: ` +
			`write "command": "npx", and the following words in args`},
		{"cmd.exe", []string{"/C", "uvx"}, `start "cmd.exe", a program of Windows: ` +
			`write "command": "uvx", and the following words in args`},
		{"cmd /c npx -y sesame", nil, `start "cmd": command takes the program alone: ` +
			`write "command": "cmd", and each other word in args`},
		{"none", nil, "none not found: install it, or write its whole path as command"},
	} {
		_, err := newStdio(Config{Command: tt.command, Args: tt.args, Env: map[string]string{"PATH": t.TempDir()}},
			&logBuffer{}, nil, nil, nil)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.command, err, tt.want)
		}
	}
	// A program may have a space in its name.
	spaced := filepath.Join(t.TempDir(), "my server")
	if err := os.WriteFile(spaced, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := newStdio(Config{Command: spaced}, &logBuffer{}, nil, nil, nil); err != nil {
		t.Error(err)
	}
}
