package config

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// Options is what Load needs from outside.
type Options struct {
	// Env looks up a variable of the process's environment, which wins over .env. nil: os.LookupEnv.
	Env func(string) (string, bool)
	// Checks validates values that other packages understand.
	Checks Checks
}

// Checks validates values that other packages understand; a nil check accepts everything. Its errors are shown to the
// operator as reasons.
type Checks struct {
	// Schedule checks a schedule in an existing IANA zone.
	Schedule func(expr, zone string) error
	// NearestZone returns the IANA name that a name of no time zone most likely misspells, or "".
	NearestZone func(name string) string
	// Address checks the address that a digest is posted to.
	Address func(address string) error
	// Bundled checks the NAME of a feed written bundled:NAME.
	Bundled func(name string) error
	// Filter checks a filter of a digest.
	Filter func(text string) error
	// DigestChannel checks whether a digest that is posted to an address may be made of a channel.
	DigestChannel func(channel, post string) error
	// Mailbox checks the address of a mailbox.
	Mailbox func(address string) error
	// QuietHours checks jobs.quietHours, HookTemplate the template of a webhook.
	QuietHours, HookTemplate func(text string) error
	// Tariff checks the file of the billing tools.
	Tariff func(path string) error
	// Tools returns the names of the bot's own tools: as models call them, of their packs, and both with a dot between.
	Tools func() []string
	// Skills returns what is wrong with the skills that a pattern names.
	Skills func(pattern string) []SkillFault
}

// SkillFault is what is wrong with a skill: the file with the problem, and the remedy.
type SkillFault struct{ Problem, Remedy string }

// Load reads the file at path and the .env file beside it. It returns a *Faults when the files could be read and are
// wrong, and another error when config.json cannot be read at all. It reads up to 4 MiB, and the files that ${file:…}
// and envFile name; nothing is written, and no network is used unless a check does.
func Load(path string, opts Options) (*Config, error) {
	text, err := readLimited(path, maxFileBytes)
	if err != nil {
		return nil, fmt.Errorf("read configuration %s: %w", path, plainCause(err))
	}
	return Parse(text, path, opts)
}

// Parse is Load for a text that is, or will be, in the file at path. Relative paths count from its folder, where the
// .env file is read, too. text is not changed.
func Parse(text []byte, path string, opts Options) (*Config, error) {
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("find the folder of %s: %w", path, err)
	}
	d := &decoder{file: path, dir: dir, text: text}
	// .env is read first, so that its faults are reported together with those of the file.
	d.env = envLookup(opts.Env, d.dotEnv())
	c := d.decodeConfig(opts.Checks)
	if len(d.faults) > 0 {
		sortFaults(d.faults)
		return nil, &Faults{d.faults}
	}
	sortFaults(d.warnings)
	c.Warnings = d.warnings
	return c, nil
}

// ParseEntry reads one entry, such as one of mcpServers, that comes from elsewhere but is written as in the file:
// variables and paths mean what they mean there. into points to an MCPServer, an Agent or a Digest. The error is a
// *Faults; the warnings are for whoever sent the entry. It may be called concurrently; c is only read.
func (c *Config) ParseEntry(text []byte, into any) (warnings []Fault, err error) {
	return c.parseEntry(text, into, nil)
}

// ParseAgentEntry reads an agent as ParseEntry does, and checks that the models and MCP servers that it names exist.
// servers are those that are not in the file.
func (c *Config) ParseAgentEntry(text []byte, servers []string) (a Agent, warnings []Fault, err error) {
	known := maps.Clone(c.MCPServers)
	if known == nil {
		known = map[string]MCPServer{}
	}
	for _, name := range servers {
		known[name] = MCPServer{}
	}
	warnings, err = c.parseEntry(
		text,
		&a,
		func(d *decoder, root *node) { checker{d, c, root, Checks{}}.checkAgent(a, known) },
	)
	return a, warnings, err
}

// parseEntry reads an entry. check, if not nil, validates what was read.
func (c *Config) parseEntry(text []byte, into any, check func(*decoder, *node)) (warnings []Fault, err error) {
	d := &decoder{file: "request", dir: c.Dir, text: append(bytes.Clone(text), '\n'), env: c.env}
	// A Config that was not loaded from a file, as in tests.
	if d.env == nil {
		d.env = os.LookupEnv
	}
	if root := d.parseNode(d.text); root != nil && d.expect(root, '{', "an object") {
		// The API sends the entry's name inside the entry; in the file it is the key.
		root.remove("name")
		v := reflect.ValueOf(into).Elem()
		d.setDefaults(v)
		d.decode(root, v, "")
		d.warnForeignKeys(nil)
		if check != nil {
			check(d, root)
		}
	}
	if len(d.faults) > 0 {
		sortFaults(d.faults)
		return nil, &Faults{d.faults}
	}
	sortFaults(d.warnings)
	return d.warnings, nil
}

// envLookup returns a function that looks up a variable in the process's environment first, then in .env.
func envLookup(process func(string) (string, bool), file map[string]string) func(string) (string, bool) {
	if process == nil {
		process = os.LookupEnv
	}
	return func(name string) (string, bool) {
		if value, ok := process(name); ok {
			return value, true
		}
		value, ok := file[name]
		return value, ok
	}
}

// decodeConfig reads the whole file. It returns nil where the text is not a JSON object.
func (d *decoder) decodeConfig(checks Checks) *Config {
	// The parser wants a line break behind a last comment. A byte order mark becomes blanks, so that offsets stay true.
	d.text = append(d.text, '\n')
	if bytes.HasPrefix(d.text, []byte("\xef\xbb\xbf")) {
		d.text = append([]byte("   "), d.text[3:]...)
	}
	root := d.parseNode(d.text)
	if root == nil || !d.expect(root, '{', "an object") {
		return nil
	}
	c := &Config{Path: d.file, Dir: d.dir, env: d.env}
	v := reflect.ValueOf(c).Elem()
	d.setDefaults(v)
	var inputs []member
	// VS Code writes "inputs" beside its servers; pasted files keep it.
	if n := root.remove("inputs"); n != nil {
		inputs = []member{{"inputs", n.offset, n}}
	}
	d.decode(root, v, "")
	d.warnForeignKeys(inputs)
	// The checks come last: they rely on defaults and built-in entries.
	d.addBuiltins(c, root)
	d.check(c, root, checks)
	return c
}

// addBuiltins adds what the file may leave out and other packages rely on: the models offline and default, the agent
// default, and the parts of addresses that go without saying.
func (d *decoder) addBuiltins(c *Config, root *node) {
	if c.Models == nil {
		c.Models = make(map[string]Model)
	}
	// A bot without any model still answers: offline is always there.
	for _, name := range []string{"offline", "default"} {
		if _, ok := c.Models[name]; !ok {
			c.Models[name] = builtinEntry[Model](d, "provider", "offline")
		}
	}
	for name, m := range c.Models {
		n := nodeAt(root, "models", name)
		key := n.get("apiKey")
		// Gemini and Anthropic always need a key. OpenAI's protocol does not (Ollama), so only an apiKey that is
		// written and empty counts as missing.
		m.KeyMissing = m.APIKey == "" && (m.Provider == "gemini" && m.Vertex.Project == "" ||
			m.Provider == "anthropic" || m.Provider == "openai" && key != nil)
		if m.Provider == "openai" && m.BaseURL.value == "" {
			m.BaseURL = Mask("https://api.openai.com/v1")
		}
		c.Models[name] = m
	}
	if c.Agents == nil {
		c.Agents = map[string]Agent{"default": builtinEntry[Agent](d, "model", "default")}
	}
	if u := &c.Platforms.Slack.APIBaseURL; !strings.HasSuffix(u.value, "/") {
		*u = Masked{u.value + "/", u.display + "/"}
	}
}

// builtinEntry returns an entry as if the file held it with one member.
func builtinEntry[T any](d *decoder, name, value string) T {
	var entry T
	v := reflect.ValueOf(&entry).Elem()
	d.setDefaults(v)
	d.decode(&node{kind: '{', members: []member{{name, 0, &node{kind: '"', text: value}}}}, v, "")
	return entry
}
