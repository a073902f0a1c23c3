package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/joho/godotenv"
)

// maxEnvFile is the most that is read of a .env file, in bytes: it holds keys, and finding a malformed line takes a
// time that is the square of its lines.
const maxEnvFile = 64 << 10

// readEnvFile reads NAME=value lines. A dollar sign in a value stays as it is: keys and passwords contain them. The
// error never quotes the file; line is where the first malformed entry starts.
func readEnvFile(path string) (vars map[string]string, line int, err error) {
	text, err := readLimited(path, maxEnvFile)
	if err != nil {
		return nil, 0, plainCause(err)
	}
	// Notepad writes a byte order mark, which would become part of the first name.
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if i := bytes.IndexByte(text, 0); i >= 0 {
		return nil, 1 + bytes.Count(text[:i], []byte("\n")), errors.New("contains a zero byte")
	}
	vars, ok := parseEnv(text)
	if !ok {
		return nil, malformedLine(text), errors.New("not a line of the form NAME=value")
	}
	return vars, 0, nil
}

// parseEnv parses NAME=value lines. It replaces dollar signs by zero bytes, which cannot occur in the text, because
// the parser would expand variables.
func parseEnv(text []byte) (map[string]string, bool) {
	vars, err := godotenv.UnmarshalBytes(bytes.ReplaceAll(text, []byte("$"), []byte{0}))
	if err != nil {
		return nil, false
	}
	for name, value := range vars {
		if name == "" {
			return nil, false
		}
		vars[name] = strings.ReplaceAll(value, "\x00", "$")
	}
	return vars, true
}

// malformedLine returns the line of the entry that parsing fails on: the one after the longest run of whole lines
// that parses.
func malformedLine(text []byte) int {
	lines := bytes.SplitAfter(text, []byte("\n"))
	// From the end: a quoted value may span lines, so a prefix that fails can become valid again.
	for n := len(lines) - 1; n > 0; n-- {
		if _, ok := parseEnv(bytes.Join(lines[:n], nil)); ok {
			return n + 1
		}
	}
	return 1
}

// dotEnv reads the .env file in the decoder's folder. It may be missing, and returns nil with a fault where it is
// malformed.
func (d *decoder) dotEnv() map[string]string {
	vars, line, err := readEnvFile(filepath.Join(d.dir, ".env"))
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return vars
	}
	remedy := "write NAME=value, with single quotes around a value that holds spaces, quotes or #"
	if errors.Is(err, fs.ErrPermission) {
		remedy = "give the user that runs ravenbot the right to read it, or remove it"
	}
	d.appendFault(Fault{File: filepath.Join(filepath.Dir(d.file), ".env"), Line: line, Reason: err.Error(), Remedy: remedy})
	return nil
}

// addEnvFile adds the variables of a server's envFile to its env; env wins.
func (d *decoder) addEnvFile(n *node, s *MCPServer) {
	vars, line, err := readEnvFile(s.EnvFile)
	if err != nil {
		reason := "the file cannot be read: " + err.Error()
		if line > 0 {
			reason = fmt.Sprintf("line %d of the file: %v", line, err)
		}
		d.addFault(n, reason, "create it, or correct the path")
		return
	}
	if s.Env == nil {
		s.Env = make(Env, len(vars))
	}
	for name, value := range vars {
		if _, given := s.Env[name]; !given {
			s.Env[name] = Secret(value)
		}
	}
}
