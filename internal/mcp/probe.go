package mcp

import (
	"context"
	"fmt"
	"log/slog"
)

// ConfiguredStatus returns the status of servers that no host runs.
func ConfiguredStatus(servers []Config) []Status {
	list := []Status{}
	for _, c := range servers {
		state := Uninitialized
		if c.Disabled {
			state = Disabled
		}
		list = append(list, Status{
			Name:        c.Name,
			State:       state,
			Description: c.Description,
			Source:      FromConfig,
			Tools:       []ToolInfo{},
		})
	}
	return list
}

// Probe starts or reaches one server, returns its tools, and ends it.
func Probe(ctx context.Context, c Config, version string) ([]ToolInfo, error) {
	host, err := NewHost(Options{Servers: []Config{c}, Version: version, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { _ = host.Run(ctx); close(ended) }()
	defer func() { stop(); <-ended }()
	if err := host.Wait(ctx, c.Name); err != nil {
		return nil, err
	}
	// The end of ctx also ends the host and the attempt, without an error.
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if s, _ := host.Get(c.Name); s.Error != "" {
		return nil, fmt.Errorf("MCP server %s: %s", c.Name, s.Error)
	}
	return host.ToolsOf(c.Name), nil
}
