package mcp

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"ravenbot/internal/config"
)

// homeCredentials are where common programs keep credentials in the home folder.
var homeCredentials = []string{
	".ssh", ".gnupg", ".aws", ".azure", ".kube", ".config/gcloud", ".config/gh", ".docker/config.json", ".git-credentials",
	".netrc", ".password-store", ".pgpass",
}

// protectedPaths returns what processes of servers must not open: the bot's own files, also those beside them whose
// names begin alike, and the credentials in the home folder.
func protectedPaths(c *config.Config) []string {
	var list []string
	for _, own := range c.OwnFiles() {
		beside, err := filepath.Glob(globLiteral(own) + "*")
		if err != nil {
			beside = []string{own}
		}
		list = append(list, beside...)
	}
	if home, err := os.UserHomeDir(); err == nil {
		for _, path := range homeCredentials {
			list = append(list, filepath.Join(home, path))
		}
	}
	return list
}

// Protection returns what Options.Protected is by configuration; nil where mcp.isolation is off.
func Protection(c *config.Config) func() []string {
	if c.MCP.Isolation == "off" {
		return nil
	}
	return func() []string { return protectedPaths(c) }
}

// globLiteral returns a pattern of filepath.Glob that matches a path alone.
func globLiteral(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// hiddenPaths returns the existing protected paths without symbolic links, and without those that the entry allows:
// of a protected folder with an allowed path in it, the other entries.
func hiddenPaths(protected, allowed []string) []string {
	allowed = realPaths(allowed)
	var hidden []string
	var hide func(path string)
	hide = func(path string) {
		switch {
		case slices.ContainsFunc(allowed, func(a string) bool { return isWithin(path, a) }):
		case slices.ContainsFunc(allowed, func(a string) bool { return isWithin(a, path) }):
			for _, name := range entryNames(path) {
				hide(filepath.Join(path, name))
			}
		case !slices.Contains(hidden, path):
			hidden = append(hidden, path)
		}
	}
	for _, path := range realPaths(protected) {
		hide(path)
	}
	return hidden
}

// realPaths returns the paths that exist, absolute and without symbolic links.
func realPaths(list []string) []string {
	var found []string
	for _, path := range list {
		if absolute, err := filepath.Abs(path); err == nil {
			if path, err := filepath.EvalSymlinks(absolute); err == nil {
				found = append(found, path)
			}
		}
	}
	return found
}

// isWithin reports whether a path is a folder or lies below it.
func isWithin(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}

// entryNames returns the names in a folder; none where it cannot be read.
func entryNames(folder string) []string {
	entries, _ := os.ReadDir(folder) // what cannot be read is not opened by a server of the same user either
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// runOnOwnThread runs a function on a thread that ends with it.
func runOnOwnThread(f func()) {
	go func() {
		runtime.LockOSThread() // never unlocked: that ends the thread with the goroutine
		if !isMainThread() {
			f()
			return
		}
		// The kernel takes the first thread for the whole process: isolated, it would count as one of
		// the server's. While this goroutine waits on it, another one runs elsewhere.
		defer runtime.UnlockOSThread()
		ended := make(chan struct{})
		go func() { defer close(ended); runtime.LockOSThread(); f() }()
		<-ended
	}()
}

// isolationOff is what is said of servers that are not isolated.
const isolationOff = "can open every file that the bot can: mcp.isolation is off"

// TryIsolation returns what would keep the process of a server from the bot on this machine, and what would not, in
// words.
func TryIsolation(c *config.Config) []string {
	protected := Protection(c)
	if protected == nil {
		return []string{isolationOff}
	}
	notes := make(chan []string)
	runOnOwnThread(func() {
		enforced, _ := isolateThread(hiddenPaths(protected(), nil), false) // fails only without a network
		notes <- enforced
	})
	return <-notes
}

// isolationNotes returns what keeps a server from the bot and what does not, in words; s.mu is held. It is empty for
// one that was not started yet, or runs elsewhere. Its elements are whole clauses without a
// subject, for people to read.
func (s *server) isolationNotes() []string {
	if s.c.Command != "" && s.o.Protected == nil {
		return []string{isolationOff}
	}
	return slices.Clone(s.info.isolation)
}
