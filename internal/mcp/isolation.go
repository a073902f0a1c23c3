package mcp

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"ravenbot/internal/ops/config"
)

// homeCredentials are the places in the home folder in which common programs keep credentials.
var homeCredentials = []string{
	".ssh", ".gnupg", ".aws", ".azure", ".kube", ".config/gcloud", ".config/gh", ".docker/config.json", ".git-credentials",
	".netrc", ".password-store", ".pgpass",
}

// protectedPaths returns the paths that processes of servers must not open: the bot's own files, files next to them
// whose names begin in the same way, and the credentials in the home folder.
func protectedPaths(c *config.Config) []string {
	var list []string
	for _, own := range c.OwnFiles() {
		for _, name := range entryNames(filepath.Dir(own)) {
			if strings.HasPrefix(name, filepath.Base(own)) {
				list = append(list, filepath.Join(filepath.Dir(own), name))
			}
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		for _, path := range homeCredentials {
			list = append(list, filepath.Join(home, path))
		}
	}
	return list
}

// Protection returns the value of Options.Protected for a configuration. It is nil if mcp.isolation is off.
func Protection(c *config.Config) func() []string {
	if c.MCP.Isolation == "off" {
		return nil
	}
	return func() []string { return protectedPaths(c) }
}

// guarded are the paths that isolation restricts. They exist, and are absolute without symbolic links.
type guarded struct {
	hidden   []string // it cannot open them
	readOnly []string // it cannot change them
	writable []string // exceptions in folders of readOnly
	isStrict bool     // it can change only writable
}

// OwnFolders returns the value of Options.OwnFolders for a configuration. It is nil unless mcp.isolation is strict.
func OwnFolders(conf *config.Config) func(c Config) []string {
	if conf.MCP.Isolation != "strict" {
		return nil
	}
	return func(c Config) []string {
		list := slices.Concat([]string{"/dev", "/proc"}, c.Allow)
		if c.Dir != conf.Dir { // the folder of all servers without a cwd
			list = append(list, c.Dir)
		}
		for _, arg := range c.Args {
			if !filepath.IsAbs(arg) {
				arg = filepath.Join(c.Dir, arg)
			}
			if info, err := os.Stat(arg); err == nil && info.IsDir() && !isWithin(conf.Dir, arg) {
				list = append(list, arg)
			}
		}
		return list
	}
}

// Guard returns the value of Options.Guard for a configuration. The paths are the bot's program and hooks, the skills
// and files of its agents (paths or patterns), and the programs and folders of other servers.
func Guard(conf func() *config.Config, believed func() []string) func(c Config, others []Config) []string {
	return func(c Config, others []Config) []string {
		cfg := conf()
		list := sharedCaches()
		if own, err := os.Executable(); err == nil {
			list = append(list, own)
		}
		for _, path := range believed() {
			// The folder of a pattern, in which new files could match.
			if i := strings.IndexAny(path, "*?["); i >= 0 {
				path = filepath.Dir(path[:i] + "x")
			}
			list = append(list, path)
		}
		for _, h := range cfg.Tools.Hooks {
			list = append(list, programFiles(h.Command.Reveal(), cfg.Dir)...)
		}
		own := append(programFiles(slices.Concat([]string{c.Command}, c.Args), c.Dir), c.Dir)
		for _, o := range others {
			files := programFiles(slices.Concat([]string{o.Command}, o.Args), o.Dir)
			if o.Dir != cfg.Dir {
				files = append(files, o.Dir)
			}
			for _, file := range files {
				if !slices.ContainsFunc(own, func(mine string) bool { return isWithin(mine, file) }) {
					list = append(list, file)
				}
			}
		}
		// Servers work in these folders.
		home, _ := os.UserHomeDir()
		work := realPaths([]string{cfg.Dir, c.Dir, os.TempDir(), home})
		return slices.DeleteFunc(realPaths(list), func(path string) bool {
			return slices.ContainsFunc(work, func(folder string) bool { return isWithin(folder, path) })
		})
	}
}

// scripts are the extensions of programs that load other files from their folder.
var scripts = []string{".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".sh"}

// programFiles returns the files in a command that runs in a folder: the program and its arguments, and the folders of
// scripts.
func programFiles(words []string, folder string) []string {
	var list []string
	for i, word := range words {
		path := word
		if i == 0 && !strings.ContainsRune(word, filepath.Separator) {
			path, _ = exec.LookPath(word)
		} else if !filepath.IsAbs(path) {
			path = filepath.Join(folder, word)
		}
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if list = append(list, path); slices.Contains(scripts, filepath.Ext(path)) {
			list = append(list, filepath.Dir(path))
		}
	}
	return list
}

// ExposedHooks returns the files of hooks that servers can change.
func ExposedHooks(c *config.Config) (list []string) {
	isIsolated := c.MCP.Isolation != "off" && runtime.GOOS == "linux"
	for _, h := range c.Tools.Hooks {
		for _, path := range programFiles(h.Command.Reveal(), c.Dir) {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil { // a server cannot change it either, or it is a folder
				continue
			}
			_ = f.Close() // nothing was written
			// Servers of root can create files in the folder of the configuration.
			if !isIsolated || filepath.Dir(path) == c.Dir && os.Getuid() == 0 {
				list = append(list, path)
			}
		}
	}
	return list
}

// sharedCaches returns the package folders of npx and uvx that all their callers share. Servers use others.
func sharedCaches() []string {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil
	}
	list := []string{serverCaches()}
	for _, name := range []string{".npm", ".cache/uv", ".local/share/uv"} {
		list = append(list, filepath.Join(home, name))
	}
	return list
}

// serverCaches returns the folder that contains a cache for each server, or "" if the user has no cache folder.
func serverCaches() string {
	folder, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(folder, "ravenbot", "servers")
}

// cacheVariables map the variables for the package folders of npx and uvx to folders in a server's cache.
var cacheVariables = map[string]string{"npm_config_cache": "npm", "UV_CACHE_DIR": "uv", "UV_PYTHON_INSTALL_DIR": "python"}

// makeCache creates the cache of a server. It returns the cache and the variables for it, except for variables of the
// entry.
func makeCache(c Config) (folder string, env []string) {
	if folder = serverCaches(); folder == "" {
		return "", nil
	}
	folder = filepath.Join(folder, url.PathEscape(c.Name))
	if os.MkdirAll(folder, 0o700) != nil {
		return "", nil // programs then report the error
	}
	for name, sub := range cacheVariables {
		if _, ok := c.Env[name]; !ok {
			env = append(env, name+"="+filepath.Join(folder, sub))
		}
	}
	return folder, env
}

// hiddenPaths returns the existing protected paths without symbolic links, except for allowed ones. A protected folder
// that contains an allowed path is replaced by its other entries.
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

func isWithin(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}

func entryNames(folder string) []string {
	entries, _ := os.ReadDir(folder) // a server of the same user cannot read it either
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

func runOnOwnThread(f func()) {
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
		if !isMainThread() {
			f()
			return
		}
		// The kernel treats the first thread as the whole process, so it must stay free. While this goroutine waits on
		// it, another one runs elsewhere.
		defer runtime.UnlockOSThread()
		ended := make(chan struct{})
		go func() { defer close(ended); runtime.LockOSThread(); f() }()
		<-ended
	}()
}

const isolationOff = "can open every file that the bot can: mcp.isolation is off"

// TryIsolation describes which isolation of servers this machine can enforce.
func TryIsolation(c *config.Config) []string {
	protected := Protection(c)
	if protected == nil {
		return []string{isolationOff}
	}
	notes := make(chan []string)
	runOnOwnThread(func() {
		enforced, _ := isolateThread(guarded{hidden: hiddenPaths(protected(), nil)}, false) // fails only without a network
		notes <- enforced
	})
	return <-notes
}

func (s *server) readOnlyPaths() []string {
	if s.o.Guard == nil {
		return nil
	}
	var others []Config
	s.h.mu.Lock()
	for name, o := range s.h.servers {
		if o.c.Command != "" && name != s.c.Name {
			others = append(others, o.c)
		}
	}
	s.h.mu.Unlock()
	return s.o.Guard(s.c, others)
}

// isolationNotes describes the isolation of a server in clauses without a subject; s.mu is held. It is empty if the
// server has not started, or runs elsewhere.
func (s *server) isolationNotes() []string {
	if s.c.Command != "" && s.o.Protected == nil {
		return []string{isolationOff}
	}
	return slices.Clone(s.info.isolation)
}
