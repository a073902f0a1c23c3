package mcp

import (
	"cmp"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"ravenbot/internal/ops/config"
)

// ConfiguredServers returns the servers of a configuration, sorted by name.
func ConfiguredServers(c *config.Config) []Config {
	list := make([]Config, 0, len(c.MCPServers))
	for name, e := range c.MCPServers {
		one := FromEntry(name, e)
		one.Hold = c.MCP.Configured == "hold"
		list = append(list, one)
	}
	slices.SortFunc(list, func(x, y Config) int { return cmp.Compare(x.Name, y.Name) })
	return list
}

// FromEntry returns a server of a configuration, with its secrets in clear.
func FromEntry(name string, e config.MCPServer) Config {
	return Config{
		Name:              name,
		Description:       e.Description,
		Runs:              describeEntry(e),
		Command:           e.Command,
		Args:              e.Args.Reveal(),
		Env:               reveal(e.Env),
		Allow:             e.AllowPaths,
		NoNetwork:         e.Network == "none",
		MaxMemory:         int64(e.MaxMemoryMB) << 20,
		Dir:               e.Cwd,
		URL:               e.URL.Reveal(),
		Headers:           reveal(e.Headers),
		Transport:         e.Type,
		PerUser:           e.OAuth.PerUser,
		Protocol:          e.Protocol,
		Timeout:           e.Timeout.Std(),
		Include:           e.IncludeTools,
		Exclude:           e.ExcludeTools,
		Eager:             e.Eager,
		Disabled:          e.Disabled,
		SignIn:            e.OAuth,
		AllowPrivateHosts: e.Egress.AllowPrivateHosts,
	}
}

func describeEntry(e config.MCPServer) string {
	if e.Command == "" {
		return e.URL.String()
	}
	words := []string{e.Command}
	for _, arg := range e.Args {
		words = append(words, arg.String())
	}
	return strings.Join(words, " ")
}

func reveal[M ~map[string]config.Secret](m M) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		out[k] = v.Reveal()
	}
	return out
}

// FileRoots returns the folders of the file tools, which are the roots for MCP servers.
func FileRoots(c *config.Config) []Root {
	var list []Root
	for _, r := range c.Tools.Files.Roots {
		list = append(list, Root{URI: (&url.URL{Scheme: "file", Path: filepath.ToSlash(r.Path)}).String(), Name: r.Name})
	}
	return list
}
