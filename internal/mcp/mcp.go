// Package mcp is the host of MCP servers: it starts or connects to each configured or added server, keeps it connected,
// and offers its tools.
//
// It promises that a server cannot hurt the bot or another server. Each server has a supervisor, which connects in the
// background, checks the server regularly, and restarts it with growing delays. Every request has a deadline, every
// message and log a size limit. Processes get a short list of harmless environment variables, are ended with all their
// descendants, and are always reaped. A lost call is repeated only if the tool declares that repeating is harmless.
// Changing the set of servers affects only the changed servers, and no holder of a lease on them (Lease).
//
// The description of a tool is pinned when it is first seen. A changed tool is quarantined until somebody approves it,
// hidden characters are removed before a model sees them, and no tool can take the name of another server's tool.
// Servers may ask people and models only on behalf of the caller of a running call.
//
// Tool schemas stay as the server wrote them. Callers validate arguments before a call; package policy decides who may
// call which tool. Results are untrusted text: their size is limited here, and the code that shows them makes them safe
// to show.
package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"ravenbot/internal/ops/config"
	"ravenbot/internal/store"
)

// Transports by name, as in Config and Status.
const (
	Stdio = "stdio"
	HTTP  = "http" // Streamable HTTP
	SSE   = "sse"  // the older HTTP+SSE
)

// Config is one server: a command to start, or a URL to reach.
type Config struct {
	Name        string // unique; tools are named after it
	Description string // for people

	Command string            // the program; looked for in PATH, or relative to Dir
	Args    []string          // passed unchanged; no shell reads them
	Env     map[string]string // added to the few variables that every server gets
	Allow   []string          // protected paths that it may open
	// NoNetwork starts its process without a network. If that cannot be enforced, the process does not start.
	NoNetwork bool
	MaxMemory int64  // bytes of all its processes, on Linux; 0: not limited
	Dir       string // working directory; "": the bot's

	URL       string            // http or https
	Headers   map[string]string // only for the origin of URL
	Transport string            // Stdio, HTTP or SSE; "": by Command or URL, HTTP before SSE
	PerUser   bool              // each user signs in separately: see SignIns
	User      string            // set by the host: the user of this connection; "": the operator
	Protocol  string            // the only version to speak, as "2025-06-18"; "": any

	Timeout  time.Duration // of one call; 0: 30 s
	Include  []string      // names of tools to offer, with *; empty: all
	Exclude  []string      // names of tools not to offer
	Eager    bool          // connect at the start, even if Store has the tools
	Disabled bool          // never connect
	Hold     bool          // its tools wait for Approve when they are first seen
	Runs     string        // its command line or address for people, with secrets masked

	SignIn config.ServerOAuth // how the bot signs in if the server requires it
	// AllowPrivateHosts are private hosts and networks that a sign-in may reach.
	AllowPrivateHosts []string
}

// Schemas checks JSON against JSON Schema. It must be safe for concurrent use, and for untrusted schemas and values.
type Schemas interface {
	// Check returns an object that matches a schema, repaired if necessary, or an error for the sender.
	Check(schema, object json.RawMessage) (json.RawMessage, error)
	// Fits returns an error if a value does not match a schema.
	Fits(schema, value json.RawMessage) error
}

// Options are what NewHost needs.
type Options struct {
	Servers []Config

	// HealthInterval is the time between regular checks, which list the tools; 0: 60 s.
	HealthInterval time.Duration
	// StatusTTL is the age at which reading a status triggers a check; 0: 300 s.
	StatusTTL time.Duration
	// StartTimeout bounds the start of a server, and listing its tools; 0: 120 s.
	StartTimeout time.Duration

	// Store keeps facts about servers across restarts, under kind/server: "tools", so that a server starts only at its
	// first call, and "pins", the tools as first seen or approved. JSON null deletes. Several processes may share a
	// store: pins are read again before they are written. If Store is nil, nothing is kept, and all servers connect at
	// the start.
	Store store.Blobs
	// StartAfter delays the start of servers until it is closed; tools in Store are listed at once. It may be nil.
	StartAfter <-chan struct{}
	// Ask puts a server's question to the person on whose behalf it is called. ctx carries the tool.Caller and ends
	// with the call. It may take 15 minutes. After an error the server gets no answer. If Ask is nil, servers cannot
	// ask.
	Ask func(ctx context.Context, q Question) (Answer, error)
	// Sample answers a server with a model; ctx is as for Ask. After an error the request is refused. If Sample is nil,
	// servers cannot use models.
	Sample func(ctx context.Context, s SamplingRequest) (SamplingResult, error)
	Roots  []Root // nil: servers get no roots
	// Schemas checks answers to servers and structured results. If it is nil, nothing is checked.
	Schemas Schemas

	// IsReserved reports whether a name belongs to a tool of the bot itself. It must not call the Host. It may be nil.
	IsReserved func(name string) bool
	Version    string // of the bot, for servers
	Log        *slog.Logger
	Now        func() time.Time // nil: time.Now

	SignIns SignIns // nil: servers get only the configured headers

	// Protected returns the paths that processes of servers must not open, such as the store, its keys and the
	// configuration, at each start. If it is nil, servers are not isolated.
	Protected func() []string
	// Guard returns the paths that a server's process must not change, at each start. It may be nil.
	Guard func(c Config, others []Config) []string
	// OwnFolders returns the only paths that a server's process may change, in addition to its cache. If that cannot be
	// enforced, the server does not start. It may be nil.
	OwnFolders func(c Config) []string

	Watcher Watcher // may be nil

	// Only tests set these; 0: the defaults.
	silence       time.Duration // see defaultSilence
	reconnectWait time.Duration // how long a call waits for a lost server that is about to reconnect
}

// Watcher ends the processes of servers if the bot is killed.
type Watcher interface {
	// Watch is called with the id of each process group. The function that it returns is called before the system can
	// reuse the id. It must not block.
	Watch(group int) (done func())
}

func withDefaults(o Options) Options {
	o.HealthInterval = cmp.Or(o.HealthInterval, 60*time.Second)
	o.StatusTTL = cmp.Or(o.StatusTTL, 300*time.Second)
	o.StartTimeout = cmp.Or(o.StartTimeout, 120*time.Second)
	o.silence = cmp.Or(o.silence, defaultSilence)
	o.reconnectWait = cmp.Or(o.reconnectWait, defaultReconnectWait)
	o.Version = cmp.Or(o.Version, "dev")
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

const maxServerName = 100 // bytes

// check returns an error for the operator if an entry is invalid. A disabled entry needs only a valid name. The command
// is looked up at the start.
func check(c Config) error {
	switch {
	case c.Name == "":
		return errors.New("it has no name")
	case len(c.Name) > maxServerName, strings.ContainsFunc(c.Name, unicode.IsControl):
		return fmt.Errorf("its name is longer than %d bytes, or holds control characters", maxServerName)
	case c.Disabled: // may be unfinished
		return nil
	case (c.Command == "") == (c.URL == ""):
		return errors.New("give either a command to start or a url to reach")
	case !slices.Contains([]string{"", Stdio, HTTP, SSE}, c.Transport):
		return fmt.Errorf("unknown transport %q; known are stdio, http and sse", c.Transport)
	case c.Transport != "" && (c.Transport == Stdio) != (c.Command != ""):
		return fmt.Errorf("transport %q does not match: stdio needs a command, http and sse need a url", c.Transport)
	}
	if c.PerUser && c.URL == "" {
		return errors.New("users cannot sign in to a process for themselves: perUser needs a url")
	}
	if err := checkProtocol(c.Protocol); c.URL == "" || err != nil {
		return err
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("its url is not an http or https address")
	}
	return nil
}
