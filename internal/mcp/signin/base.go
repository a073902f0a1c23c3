package signin

import (
	"net"
	"strings"

	"ravenbot/internal/ops/config"
)

// BaseURL returns where browsers find the bot when they come back from a sign-in.
func BaseURL(c *config.Config) string {
	if url := c.HTTP.PublicURL.Reveal(); url != "" {
		return strings.TrimRight(url, "/")
	}
	host, port, err := net.SplitHostPort(c.HTTP.Listen)
	if ip := net.ParseIP(host); err != nil || host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}
