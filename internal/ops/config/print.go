package config

import (
	"encoding/json"
	"fmt"
	"io"
)

// Print writes the configuration in effect as JSON, including defaults. It masks secrets, header values, the
// environment of MCP servers and passwords in addresses.
func Print(w io.Writer, c *Config) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(c); err != nil {
		return fmt.Errorf("print configuration: %w", err)
	}
	return nil
}
