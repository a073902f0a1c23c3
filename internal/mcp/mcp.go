// Package mcp is the host of MCP servers: it starts or connects to each configured server and each one added at run
// time, keeps it connected, and offers its tools.
//
// It promises that a server cannot hurt the bot or another server. Each server has its own supervisor, which connects
// in the background, checks regularly whether the server is alive, and restarts it with growing delays when it is not.
// Every request has a deadline, every message and every log a size limit. Processes get a short list of harmless
// environment variables, are ended together with everything they started, and are always reaped. A call is sent once:
// after a lost connection it is repeated only if the tool declares that repeating is harmless. Changing the set of
// servers affects only those that changed, and not who holds a lease on them (Lease).
//
// The description of a tool is pinned when it is first seen. A tool that changes is quarantined until somebody approves
// it, hidden characters are removed before a model sees them, and no tool can take the name of another server's tool.
// Servers may ask people and models only on behalf of the caller of a running call.
//
// Tool schemas are kept as the server wrote them. Callers validate arguments before a call; package policy decides who
// may call what. Results are untrusted text: their size is limited here, whoever shows them makes them safe to show.
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
	Allow   []string          // paths that it may open although they are protected
	// NoNetwork starts its process without a network, or not at all where that cannot be enforced.
	NoNetwork bool
	MaxMemory int64  // bytes that its processes may use together, on Linux; 0: not limited
	Dir       string // working directory; "": the bot's

	URL       string            // http or https
	Headers   map[string]string // sent only to the origin of URL
	Transport string            // Stdio, HTTP or SSE; "": by Command or URL, HTTP before SSE
	PerUser   bool              // each user signs in separately: see SignIns
	User      string            // set by the host: the user of this connection; "": shared, or the operator's
	Protocol  string            // the only version to speak, as "2025-06-18"; "": what the server prefers

	Timeout  time.Duration // of one call; 0: 30 s
	Include  []string      // names of tools to offer, * matches anything; empty: all
	Exclude  []string      // names of tools not to offer
	Eager    bool          // connect when the host starts, even if the tools are known from Store
	Disabled bool          // never connect
	Hold     bool          // its tools wait for Approve when they are first seen
	Runs     string        // its command line or address for people, with secrets masked

	SignIn config.ServerOAuth // how the bot signs in where the server requires it
	// AllowPrivateHosts are private hosts and networks that a sign-in may reach.
	AllowPrivateHosts []string
}

// Schemas checks JSON against JSON Schema. It must be safe for concurrent use and for
// schemas and values from untrusted servers.
type Schemas interface {
	// Check returns an object that satisfies a schema, repaired if necessary, or an error that says what is wrong.
	Check(schema, object json.RawMessage) (json.RawMessage, error)
	// Fits returns an error that says what is wrong with a value; it repairs nothing.
	Fits(schema, value json.RawMessage) error
}

// Options are what NewHost needs.
type Options struct {
	Servers []Config

	// HealthInterval is how often a connected server is asked for its tools,
	// which also shows that it is alive; 0: 60 s.
	HealthInterval time.Duration
	// StatusTTL is the age at which reading a status triggers a check; 0: 300 s.
	StatusTTL time.Duration
	// StartTimeout is how long a server may take to start and list its tools; 0: 120 s.
	StartTimeout time.Duration

	// Store keeps what is known of servers over restarts, under kind/server: "tools", so that a server need not be
	// started before its first call, and "pins", the tools as they were first seen or approved. The JSON null deletes.
	// Processes that share a store see what the others saved: pins are read again before they are written. nil: nothing
	// is kept, and every server is connected when the host starts.
	Store store.Blobs
	// StartAfter delays the start of servers until it is closed; tools known from Store
	// are listed at once. nil: servers start with the host.
	StartAfter <-chan struct{}
	// Ask puts a server's question to the person on whose behalf it is called: ctx carries the tool.Caller and ends
	// with the call. It may take 15 minutes; on an error the server is told that there is no answer. nil: elicitation
	// is not announced to servers.
	Ask func(ctx context.Context, q Question) (Answer, error)
	// Sample has a model answer a server, with a ctx as for Ask; on an error the server
	// is refused. nil: sampling is not announced to servers.
	Sample func(ctx context.Context, s SamplingRequest) (SamplingResult, error)
	Roots  []Root // nil: roots are not announced to servers
	// Schemas checks answers to servers, and structured results from them. nil: nothing is checked here.
	Schemas Schemas

	// IsReserved reports whether a name belongs to a tool of the bot itself. It must not
	// call the Host. nil: no name does.
	IsReserved func(name string) bool
	Version    string // our version, as servers are told
	Log        *slog.Logger
	Now        func() time.Time // nil: time.Now

	SignIns SignIns // nil: servers get only the configured headers

	// Protected returns the paths that processes of servers must not open, such as the store, its
	// keys and the configuration; it is called at each start of one. nil: servers are not isolated.
	Protected func() []string
	// Guard returns the paths that the process of a server must not change, next to other servers; it is called like Protected.
	// nil: there are none.
	Guard func(c Config, others []Config) []string
	// OwnFolders returns the only paths that the process of a server can write to, next to its cache. A server is not started
	// where that cannot be enforced. nil: it can write wherever it is not kept from it.
	OwnFolders func(c Config) []string

	Watcher Watcher // nil: nobody is told of the processes of servers

	// Set by tests alone; 0: the defaults.
	silence       time.Duration // see defaultSilence
	reconnectWait time.Duration // how long a call waits for a lost server that is about to be connected again
}

// Watcher is told of the processes of servers, to end them should the bot be killed.
type Watcher interface {
	// Watch is called with the id of every process group that is started, and returns a
	// function to be called before the system can reuse that id. It must not block.
	Watch(group int) (done func())
}

// withDefaults returns options with the defaults for those that are zero.
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

// check returns what is wrong with an entry, for the operator. A disabled entry needs only a valid
// name. Whether a command exists is found out when it is started.
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
		return fmt.Errorf("transport %q does not go with what is given: stdio needs a command, http and sse a url",
			c.Transport)
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
