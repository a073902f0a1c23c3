package cli

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"

	"ravenbot/internal/ops/config"
)

// isContainer reports whether this process runs in a container of Docker, Podman or Kubernetes.
func isContainer() bool {
	for _, mark := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(mark); err == nil {
			return true
		}
	}
	return os.Getenv("KUBERNETES_SERVICE_HOST") != ""
}

// diagnoseContainer names addresses of this machine that a configuration uses. In a container they lead to the container
// itself, not to the host.
func diagnoseContainer(cfg *config.Config) finding {
	f := finding{Name: "container", OK: true}
	note := func(key, address string) {
		u, err := url.Parse(address)
		if err != nil {
			return
		}
		if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip.IsLoopback() {
			f.Notes = append(f.Notes, fmt.Sprintf("%s names %s, which is this container and not its host: write "+
				"host.docker.internal (on Linux with extra_hosts: host.docker.internal:host-gateway), or the name of the service",
				key, u.Hostname()))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Models)) {
		note("models."+name+".baseURL", cfg.Models[name].BaseURL.Reveal())
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.MCPServers)) {
		if s := cfg.MCPServers[name]; !s.Disabled {
			note("mcpServers."+name+".url", s.URL.Reveal())
		}
	}
	if cfg.UsesPostgres() {
		note("store", cfg.Store.Reveal())
	}
	return f
}
