package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/text"
	"ravenbot/internal/mcp"
	"ravenbot/internal/news/bundled"
	"ravenbot/internal/news/feed"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/ops/egress"
	"ravenbot/internal/store/seal"
)

// What the daemon needs of this machine and of others, tried as the daemon would: a set-up that passes has to start.

const (
	// probeTimeout bounds the start of one MCP server, and the reading of one feed.
	probeTimeout = 10 * time.Second
	// maxProbes is how many are tried at a time.
	maxProbes = 4
	// newStoreBytes is the room that is tried: about what a new store and its log take.
	newStoreBytes = 128 << 10
)

// diagnoseFolder tries whether a store can be made or written at a path. It leaves nothing behind.
func diagnoseFolder(path string) error {
	if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
		_ = f.Close() // nothing was written
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// The folders that are missing are made in the nearest one that is there.
	dir := filepath.Dir(path)
	for {
		info, err := os.Stat(dir)
		if err == nil && !info.IsDir() {
			return fmt.Errorf("%s is not a folder", dir)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return err
		}
		dir = filepath.Dir(dir)
	}
	name, err := os.MkdirTemp(dir, ".ravenbot-doctor-*") // a folder, since some systems allow files alone to be made
	if err == nil {
		// On a full disk folders and empty files can still be made.
		err = os.WriteFile(filepath.Join(name, "probe"), make([]byte, newStoreBytes), 0o600)
		err = errors.Join(err, os.RemoveAll(name))
	}
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return fmt.Errorf("in the folder %s: %w", dir, path.Err) // the name that was tried says nothing
	}
	return err
}

// diagnoseBeside tries whether the files beside a store can be read that it is opened with. Those that a command has made
// which ran as root cannot.
func diagnoseBeside(cfg *config.Config) error {
	path := cfg.Store.Reveal()
	f, err := os.Open(path + ".initialized")
	if err == nil {
		err = f.Close()
	}
	if (err == nil || errors.Is(err, fs.ErrNotExist)) && cfg.StoreKey == "" {
		_, err = seal.ReadKey(path + ".key")
	}
	if errors.Is(err, fs.ErrNotExist) { // the first run makes it
		return nil
	}
	return err
}

// diagnoseListen tries whether the address of the HTTP server is free, where no daemon of this configuration has it.
func diagnoseListen(ctx context.Context, cfg *config.Config) finding {
	f := finding{Name: "http.listen " + cfg.HTTP.Listen, OK: true}
	if _, err := findOwnDaemon(ctx, cfg); !errors.Is(err, errNoDaemon) {
		return f
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.HTTP.Listen)
	if err != nil {
		f.OK, f.Cause, f.Lost = false, err.Error(), "everything: the bot does not start"
		if other, err := findDaemon(ctx, cfg); err == nil {
			f.Cause = (&foreignError{other.base}).Error()
		}
		f.Fix = "end what holds the port, or choose another http.listen; for a ravenbot that was started with RAVENBOT_STORE " +
			"or RAVENBOT_ADMIN_TOKEN, set them here, too"
		return f
	}
	if err := l.Close(); err != nil {
		f.OK, f.Cause = false, err.Error()
	}
	return f
}

// probe tries things side by side, and returns what was found in their order.
func probe[T any](list []T, try func(T) finding) []finding {
	found := make([]finding, len(list))
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxProbes)
	for i, one := range list {
		wg.Go(func() {
			slots <- struct{}{}
			found[i] = try(one)
			<-slots
		})
	}
	wg.Wait()
	return found
}

// diagnoseConfiguredServer starts or reaches an MCP server as the daemon does, and asks for its tools.
func diagnoseConfiguredServer(ctx context.Context, name string, s config.MCPServer) finding {
	f := finding{Name: "MCP server " + name, Lost: "its tools"}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	tools, err := mcp.Probe(ctx, mcp.FromEntry(name, s), version)
	switch {
	case err == nil:
		f.OK, f.Name = true, fmt.Sprintf("%s, %d tools", f.Name, len(tools))
		f.Notes = noteAlwaysAllowed(s.AlwaysAllow, tools)
		return f
	case s.Command == "" && strings.Contains(err.Error(), "401"):
		// The running bot has, or gets, what it signs in with.
		f.OK, f.Notes = true, []string{"it asks for a sign-in: the page Servers of the running bot has the link"}
		return f
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("it did not answer within %v", probeTimeout)
	}
	f.Cause = strings.TrimPrefix(text.OneLine(err.Error()), f.Name+": ")
	if f.Fix = "start the server, or correct its url"; s.Command != "" {
		f.Fix = "install the program or write its full path as command, and see what it says when it is started by hand"
	}
	return f
}

// diagnoseFeeds reads each feed of the digests once.
func diagnoseFeeds(ctx context.Context, cfg *config.Config) []finding {
	digests := map[string][]string{} // by feed
	for name, d := range cfg.Digests {
		for _, f := range d.Feeds {
			address := f.URL.Reveal()
			digests[address] = append(digests[address], name)
		}
	}
	if len(digests) == 0 {
		return nil
	}
	private := slices.Concat(cfg.Egress.AllowPrivateHosts, cfg.Feeds.AllowPrivateHosts)
	out, err := egress.New(egress.Options{AllowPrivateHosts: private, UserAgent: egress.UserAgent})
	if err != nil {
		return []finding{{Name: "feeds", Cause: err.Error(), Lost: "all digests", Fix: "correct egress.allowPrivateHosts"}}
	}
	fetcher := feed.NewFetcher(out, nil, feed.Options{Bundled: bundled.Feeds()})
	addresses := slices.Sorted(maps.Keys(digests))
	found := probe(addresses, func(address string) finding { return diagnoseFeed(ctx, fetcher, address) })
	for i, address := range addresses {
		names := digests[address]
		slices.Sort(names)
		found[i].Lost = "its items in " + strings.Join(slices.Compact(names), ", ")
	}
	return found
}

// diagnoseFeed reads a feed. Where there is none it names those that the page links.
func diagnoseFeed(ctx context.Context, fetcher *feed.Fetcher, address string) finding {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	f := finding{Name: "feed " + egress.RedactURL(address), OK: true}
	_, err := fetcher.Fetch(ctx, address)
	if err == nil {
		return f
	}
	f.OK, f.Cause = false, "no feed could be read: "+text.OneLine(err.Error())
	f.Fix = "correct its address, or remove it from the digest"
	if links, err := fetcher.Find(ctx, address); err == nil && len(links) > 0 {
		f.Fix = "the page there links " + links[0].URL + ": write that instead"
	}
	return f
}
